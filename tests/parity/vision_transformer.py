"""Vision transformers in plain torch.nn, with torchvision's names, shapes and order of parameters."""
from collections import OrderedDict

import torch
from torch import nn

NETWORKS = {  # patch, layers, heads, width, hidden
    "vit-b-16": (16, 12, 12, 768, 3072),
    "vit-b-32": (32, 12, 12, 768, 3072),
    "vit-l-16": (16, 24, 16, 1024, 4096),
    "vit-tiny-patch4-32": (4, 12, 3, 192, 768),
}


class EncoderLayer(nn.Module):
    def __init__(self, heads, width, hidden):
        super().__init__()
        self.ln_1 = nn.LayerNorm(width, eps=1e-6)
        self.self_attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.ln_2 = nn.LayerNorm(width, eps=1e-6)
        self.mlp = nn.Sequential(
            nn.Linear(width, hidden), nn.GELU(), nn.Dropout(0), nn.Linear(hidden, width), nn.Dropout(0))

    def forward(self, x):
        y = self.ln_1(x)
        x = x + self.self_attention(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.ln_2(x))


class Encoder(nn.Module):
    def __init__(self, tokens, layers, heads, width, hidden):
        super().__init__()
        self.pos_embedding = nn.Parameter(torch.empty(1, tokens, width).normal_(std=0.02))
        self.layers = nn.Sequential(OrderedDict(
            (f"encoder_layer_{i}", EncoderLayer(heads, width, hidden)) for i in range(layers)))
        self.ln = nn.LayerNorm(width, eps=1e-6)

    def forward(self, x):
        return self.ln(self.layers(x + self.pos_embedding))


class VisionTransformer(nn.Module):
    def __init__(self, classes, side, patch, layers, heads, width, hidden):
        super().__init__()
        self.class_token = nn.Parameter(torch.zeros(1, 1, width))
        self.conv_proj = nn.Conv2d(3, width, patch, patch)
        self.encoder = Encoder(1 + (side // patch) ** 2, layers, heads, width, hidden)
        self.heads = nn.Sequential(OrderedDict(head=nn.Linear(width, classes)))

    def forward(self, x):
        x = self.conv_proj(x).flatten(2).permute(0, 2, 1)
        x = torch.cat([self.class_token.expand(len(x), -1, -1), x], 1)
        return self.heads(self.encoder(x)[:, 0])

"""Swin transformers in plain torch.nn, with torchvision's names, shapes and order of parameters."""
import math

import torch
import torch.nn.functional as F
from torch import nn

from convnext import Permute
from efficientnet import StochasticDepth

NETWORKS = {  # channels, heads, window, blocks of each stage, drop, v2
    "swin-t": (96, 3, 7, (2, 2, 6, 2), 0.2, False),
    "swin-s": (96, 3, 7, (2, 2, 18, 2), 0.3, False),
    "swin-b": (128, 4, 7, (2, 2, 18, 2), 0.5, False),
    "swin-v2-t": (96, 3, 8, (2, 2, 6, 2), 0.2, True),
}


def windows_of(x, side):
    """(N, H, W, ...) -> (N, windows, side^2, ...)"""
    n, h, w, *rest = x.shape
    x = x.view(n, h // side, side, w // side, side, *rest).transpose(2, 3)
    return x.reshape(n, h * w // side**2, side**2, *rest)


def image_of(x, h, w, side):
    """(N, windows, side^2, C) -> (N, h, w, C)"""
    n, channels = len(x), x.shape[-1]
    x = x.view(n, h // side, w // side, side, side, channels).transpose(2, 3)
    return x.reshape(n, h, w, channels)


def mask_of(h, w, side, shifts):
    """-100 for two pixels of a window that lie on different sides of the image's edge."""
    sides = []
    for size, shift in zip((h, w), shifts):
        at = torch.arange(size)
        sides.append((at >= size - side).int() + (at >= size - shift).int() if shift else 0 * at)
    label = windows_of((3 * sides[0][:, None] + sides[1])[None], side)[0]
    return -100.0 * (label[:, :, None] != label[:, None, :])


class Attention(nn.Module):
    def __init__(self, channels, heads, side, shift, v2):
        super().__init__()
        self.heads, self.side, self.shift, self.v2 = heads, side, shift, v2
        distances = torch.arange(1 - side, side)
        if v2:
            self.logit_scale = nn.Parameter(torch.full((heads, 1, 1), math.log(10)))
            table = torch.stack(torch.meshgrid(distances, distances, indexing="ij"), -1)[None]
            table = table.float() / (side - 1) * 8
            self.register_buffer("relative_coords_table", table.sign() * (table.abs() + 1).log2() / 3)
        else:
            self.relative_position_bias_table = nn.Parameter(torch.zeros((2 * side - 1) ** 2, heads))
            self.relative_position_bias_table.data.normal_(std=0.02)
        row, column = torch.arange(side**2) // side, torch.arange(side**2) % side
        down, right = (at[:, None] - at + side - 1 for at in (row, column))
        self.register_buffer("relative_position_index", (down * (2 * side - 1) + right).flatten())
        self.qkv = nn.Linear(channels, 3 * channels)
        self.proj = nn.Linear(channels, channels)
        if v2:
            self.cpb_mlp = nn.Sequential(
                nn.Linear(2, 512), nn.ReLU(), nn.Linear(512, heads, bias=False))

    def bias(self):
        table = self.cpb_mlp(self.relative_coords_table).view(-1, self.heads) if self.v2 \
            else self.relative_position_bias_table
        bias = table[self.relative_position_index].view(self.side**2, self.side**2, -1).permute(2, 0, 1)
        return 16 * bias.sigmoid() if self.v2 else bias

    def scores(self, q, k):
        if not self.v2:
            return q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
        cosines = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)
        return cosines * self.logit_scale.clamp(max=math.log(100)).exp()

    def forward(self, x):
        n, rows, columns, channels = x.shape
        side = self.side
        x = F.pad(x, (0, 0, 0, -columns % side, 0, -rows % side))
        h, w = x.shape[1:3]
        shifts = [self.shift if size > side else 0 for size in (h, w)]
        x = windows_of(x.roll([-shift for shift in shifts], (1, 2)), side)
        bias = self.qkv.bias
        if self.v2:
            bias = torch.cat([bias[:channels], torch.zeros_like(bias[:channels]), bias[2 * channels:]])
        x = F.linear(x, self.qkv.weight, bias)
        q, k, v = x.unflatten(-1, (3, self.heads, -1)).permute(3, 0, 1, 4, 2, 5)
        scores = self.scores(q, k) + self.bias()
        if any(shifts):
            scores = scores + mask_of(h, w, side, shifts).to(x)[:, None]
        x = (scores.softmax(-1) @ v).transpose(2, 3).flatten(3)
        x = image_of(self.proj(x), h, w, side).roll(shifts, (1, 2))
        return x[:, :rows, :columns]


class Block(nn.Module):
    def __init__(self, channels, heads, side, shift, drop, v2):
        super().__init__()
        self.v2 = v2
        self.norm1 = nn.LayerNorm(channels)
        self.attn = Attention(channels, heads, side, shift, v2)
        self.stochastic_depth = StochasticDepth(drop)
        self.norm2 = nn.LayerNorm(channels)
        self.mlp = nn.Sequential(
            nn.Linear(channels, 4 * channels), nn.GELU(), nn.Dropout(0),
            nn.Linear(4 * channels, channels), nn.Dropout(0))

    def forward(self, x):
        for norm, branch in (self.norm1, self.attn), (self.norm2, self.mlp):
            x = x + self.stochastic_depth(norm(branch(x)) if self.v2 else branch(norm(x)))
        return x


class Merge(nn.Module):
    def __init__(self, channels, v2):
        super().__init__()
        self.v2 = v2
        self.reduction = nn.Linear(4 * channels, 2 * channels, bias=False)
        self.norm = nn.LayerNorm((2 if v2 else 4) * channels)

    def forward(self, x):
        x = F.pad(x, (0, 0, 0, x.shape[2] % 2, 0, x.shape[1] % 2))
        x = torch.cat([x[:, i::2, j::2] for j in (0, 1) for i in (0, 1)], -1)
        return self.norm(self.reduction(x)) if self.v2 else self.reduction(self.norm(x))


class Swin(nn.Module):
    def __init__(self, classes, channels, heads, side, blocks, drop, v2):
        super().__init__()
        layers = [nn.Sequential(
            nn.Conv2d(3, channels, 4, 4), Permute(0, 2, 3, 1), nn.LayerNorm(channels))]
        count = 0
        for stage, depth in enumerate(blocks):
            if stage:
                layers.append(Merge(channels, v2))
                channels, heads = 2 * channels, 2 * heads
            layers.append(nn.Sequential(*(
                Block(channels, heads, side, i % 2 * (side // 2), drop * (count + i) / (sum(blocks) - 1), v2)
                for i in range(depth))))
            count += depth
        self.features = nn.Sequential(*layers)
        self.norm = nn.LayerNorm(channels)
        self.head = nn.Linear(channels, classes)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, std=0.02)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)

    def forward(self, x):
        return self.head(self.norm(self.features(x)).mean((1, 2)))

"""ConvNeXt-T in plain torch.nn, with torchvision's names, shapes and order of parameters."""
import torch
from torch import nn

from efficientnet import StochasticDepth


class PixelNorm(nn.LayerNorm):
    """Of the channels of each pixel."""

    def __init__(self, channels):
        super().__init__(channels, eps=1e-6)

    def forward(self, x):
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class Permute(nn.Module):
    def __init__(self, *dims):
        super().__init__()
        self.dims = dims

    def forward(self, x):
        return x.permute(self.dims)


class Block(nn.Module):
    def __init__(self, channels, drop):
        super().__init__()
        self.block = nn.Sequential(
            nn.Conv2d(channels, channels, 7, padding=3, groups=channels), Permute(0, 2, 3, 1),
            nn.LayerNorm(channels, eps=1e-6), nn.Linear(channels, 4 * channels), nn.GELU(),
            nn.Linear(4 * channels, channels), Permute(0, 3, 1, 2))
        self.layer_scale = nn.Parameter(torch.full((channels, 1, 1), 1e-6))
        self.stochastic_depth = StochasticDepth(drop)

    def forward(self, x):
        return x + self.stochastic_depth(self.layer_scale * self.block(x))


class ConvNeXtTiny(nn.Module):
    def __init__(self, classes):
        super().__init__()
        layers, count, inputs = [], 0, 3
        for channels, blocks in (96, 3), (192, 3), (384, 9), (768, 3):
            if layers:
                layers.append(nn.Sequential(PixelNorm(inputs), nn.Conv2d(inputs, channels, 2, 2)))
            else:
                layers.append(nn.Sequential(nn.Conv2d(inputs, channels, 4, 4), PixelNorm(channels)))
            layers.append(nn.Sequential(*(Block(channels, 0.1 * (count + i) / 17) for i in range(blocks))))
            inputs, count = channels, count + blocks
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(PixelNorm(inputs), nn.Flatten(), nn.Linear(inputs, classes))

    def forward(self, x):
        return self.classifier(self.features(x).mean((2, 3), keepdim=True))

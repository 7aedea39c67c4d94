"""The networks of airbench in plain torch.nn, with yoke's names and order of draws.

After Jordan, "94% on CIFAR-10 in 3.29 Seconds on a Single GPU" (2024).
"""
import torch
import torch.nn.functional as F
from torch import nn


def start(layer):
    """The first filters, one for each input channel, as the identity; a bias of 0."""
    with torch.no_grad():
        nn.init.dirac_(layer.weight[:layer.weight.size(1)])
        if layer.bias is not None:
            layer.bias.zero_()
    return layer


def conv(inputs, outputs):
    return start(nn.Conv2d(inputs, outputs, 3, padding=1, bias=False))


def norm(channels):
    layer = nn.BatchNorm2d(channels, eps=1e-12, momentum=0.4)
    layer.weight.requires_grad = False
    return layer


class Group(nn.Module):
    def __init__(self, inputs, outputs, depth):
        super().__init__()
        self.conv1, self.norm1 = conv(inputs, outputs), norm(outputs)
        self.conv2, self.norm2 = conv(outputs, outputs), norm(outputs)
        if depth == 3:
            self.conv3, self.norm3 = conv(outputs, outputs), norm(outputs)

    def forward(self, x):
        x = short_cut = F.gelu(self.norm1(F.max_pool2d(self.conv1(x), 2)))
        x = F.gelu(self.norm2(self.conv2(x)))
        return F.gelu(self.norm3(self.conv3(x)) + short_cut) if hasattr(self, "conv3") else x


class Airbench(nn.Module):
    def __init__(self, classes, widths, depth):
        super().__init__()
        self.whiten = start(nn.Conv2d(3, 24, 2))
        self.whiten.weight.requires_grad = False
        groups = [Group(*pair, depth) for pair in zip((24, *widths), widths)]
        self.layers = nn.Sequential(nn.GELU(), *groups, nn.MaxPool2d(3))
        self.head = nn.Linear(widths[-1], classes, bias=False)

    def forward(self, x):
        return self.head(self.layers(self.whiten(x)).flatten(1)) / 9


NETWORKS = {"airbench94": ((64, 256, 256), 2), "airbench96": ((128, 384, 512), 3)}

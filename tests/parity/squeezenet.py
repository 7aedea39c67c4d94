"""SqueezeNets in plain torch.nn: torchvision's names, shapes, order of parameters and of draws."""
import torch
from torch import nn

NETWORKS = {  # channels and sides of the first filters, and what the parts are: pooling or fire modules
    "squeezenet1-0": (96, 7, "pfffpffffpf"),
    "squeezenet1-1": (64, 3, "pffpffpffff"),
}
FIRES = (16, 64), (16, 64), (32, 128), (32, 128), (48, 192), (48, 192), (64, 256), (64, 256)


class Fire(nn.Module):
    def __init__(self, inputs, squeezed, expanded):
        super().__init__()
        self.squeeze = nn.Conv2d(inputs, squeezed, 1)
        self.expand1x1 = nn.Conv2d(squeezed, expanded, 1)
        self.expand3x3 = nn.Conv2d(squeezed, expanded, 3, padding=1)

    def forward(self, x):
        x = self.squeeze(x).relu()
        return torch.cat([self.expand1x1(x), self.expand3x3(x)], 1).relu()


class SqueezeNet(nn.Module):
    def __init__(self, classes, width, kernel, parts):
        super().__init__()
        layers, fires = [nn.Conv2d(3, width, kernel, 2), nn.ReLU()], iter(FIRES)
        for part in parts:
            if part == "p":
                layers.append(nn.MaxPool2d(3, 2, ceil_mode=True))
            else:
                squeezed, expanded = next(fires)
                layers.append(Fire(width, squeezed, expanded))
                width = 2 * expanded
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(nn.Dropout(), nn.Conv2d(width, classes, 1), nn.ReLU())
        for module in self.modules():
            if module is self.classifier[1]:
                nn.init.normal_(module.weight, std=0.01)
            elif isinstance(module, nn.Conv2d):
                nn.init.kaiming_uniform_(module.weight)
            if isinstance(module, nn.Conv2d):
                nn.init.zeros_(module.bias)

    def forward(self, x):
        return self.classifier(self.features(x)).mean((2, 3))

"""DenseNet-121 in plain torch.nn: torchvision's names, shapes, order of parameters and of draws."""
from collections import OrderedDict

import torch
from torch import nn


def norm_relu_conv(suffix, inputs, outputs, kernel):
    return [("norm" + suffix, nn.BatchNorm2d(inputs)), ("relu" + suffix, nn.ReLU()),
            ("conv" + suffix, nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2, bias=False))]


class DenseLayer(nn.Sequential):
    def __init__(self, inputs):
        super().__init__(OrderedDict(norm_relu_conv("1", inputs, 128, 1) + norm_relu_conv("2", 128, 32, 3)))

    def forward(self, x):
        return torch.cat([x, super().forward(x)], 1)


class DenseNet121(nn.Module):
    def __init__(self, classes):
        super().__init__()
        layers = [("conv0", nn.Conv2d(3, 64, 7, 2, 3, bias=False)), ("norm0", nn.BatchNorm2d(64)),
                  ("relu0", nn.ReLU()), ("pool0", nn.MaxPool2d(3, 2, 1))]
        channels = 64
        for number, count in enumerate((6, 12, 24, 16), 1):
            block = [(f"denselayer{i + 1}", DenseLayer(channels + 32 * i)) for i in range(count)]
            layers.append((f"denseblock{number}", nn.Sequential(OrderedDict(block))))
            channels += 32 * count
            if number < 4:
                transition = norm_relu_conv("", channels, channels // 2, 1) + [("pool", nn.AvgPool2d(2))]
                layers.append((f"transition{number}", nn.Sequential(OrderedDict(transition))))
                channels //= 2
        layers.append(("norm5", nn.BatchNorm2d(channels)))
        self.features = nn.Sequential(OrderedDict(layers))
        self.classifier = nn.Linear(channels, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight)
        nn.init.zeros_(self.classifier.bias)

    def forward(self, x):
        return self.classifier(self.features(x).relu().mean((2, 3)))

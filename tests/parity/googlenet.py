"""GoogLeNet in plain torch.nn: torchvision's names, shapes, order of parameters and of draws."""
import torch
from torch import nn

WIDTHS = {
    "3a": (64, 96, 128, 16, 32, 32), "3b": (128, 128, 192, 32, 96, 64),
    "4a": (192, 96, 208, 16, 48, 64), "4b": (160, 112, 224, 24, 64, 64), "4c": (128, 128, 256, 24, 64, 64),
    "4d": (112, 144, 288, 32, 64, 64), "4e": (256, 160, 320, 32, 128, 128),
    "5a": (256, 160, 320, 32, 128, 128), "5b": (384, 192, 384, 48, 128, 128),
}
POOLED = {"3a": 3, "4a": 3, "5a": 2}  # windows before this module


class Conv(nn.Module):
    def __init__(self, inputs, outputs, kernel, stride=1):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)
        self.bn = nn.BatchNorm2d(outputs, eps=0.001)

    def forward(self, x):
        return self.bn(self.conv(x)).relu()


class Inception(nn.Module):
    def __init__(self, inputs, one, reduced2, two, reduced3, three, four):
        super().__init__()
        self.branch1 = Conv(inputs, one, 1)
        self.branch2 = nn.Sequential(Conv(inputs, reduced2, 1), Conv(reduced2, two, 3))
        self.branch3 = nn.Sequential(Conv(inputs, reduced3, 1), Conv(reduced3, three, 3))
        self.branch4 = nn.Sequential(nn.MaxPool2d(3, 1, 1), Conv(inputs, four, 1))

    def forward(self, x):
        return torch.cat([self.branch1(x), self.branch2(x), self.branch3(x), self.branch4(x)], 1)


class GoogLeNet(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.conv1, self.conv2, self.conv3 = Conv(3, 64, 7, 2), Conv(64, 64, 1), Conv(64, 192, 3)
        channels = 192
        for name, widths in WIDTHS.items():
            setattr(self, f"inception{name}", Inception(channels, *widths))
            channels = widths[0] + widths[2] + widths[4] + widths[5]
        self.dropout = nn.Dropout(0.2)
        self.fc = nn.Linear(channels, classes)
        for module in self.modules():
            if isinstance(module, (nn.Conv2d, nn.Linear)):  # trunc_normal_ cuts nothing off at 200 deviations
                nn.init.normal_(module.weight, std=0.01)

    def forward(self, x):
        x = nn.functional.max_pool2d(self.conv1(x), 3, 2, ceil_mode=True)
        x = self.conv3(self.conv2(x))
        for name in WIDTHS:
            if name in POOLED:
                x = nn.functional.max_pool2d(x, POOLED[name], 2, ceil_mode=True)
            x = getattr(self, f"inception{name}")(x)
        return self.fc(self.dropout(x.mean((2, 3))))

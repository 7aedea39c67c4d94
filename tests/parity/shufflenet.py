"""ShuffleNetV2 in plain torch.nn: torchvision's names, shapes, order of parameters and of draws."""
import torch
from torch import nn

NETWORKS = {"shufflenet-v2-x0-5": (48, 96, 192), "shufflenet-v2-x1-0": (116, 232, 464)}


def depthwise(channels, stride):
    return [nn.Conv2d(channels, channels, 3, stride, 1, groups=channels, bias=False), nn.BatchNorm2d(channels)]


def pointwise(inputs, outputs):
    return [nn.Conv2d(inputs, outputs, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()]


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        half, self.stride = outputs // 2, stride
        self.branch1 = nn.Sequential(*(depthwise(inputs, 2) + pointwise(inputs, half) if stride > 1 else []))
        self.branch2 = nn.Sequential(*pointwise(inputs if stride > 1 else half, half),
                                     *depthwise(half, stride), *pointwise(half, half))

    def forward(self, x):
        a, b = (x, x) if self.stride > 1 else x.chunk(2, 1)
        a, b = self.branch1(a), self.branch2(b)
        return torch.stack([a, b], 2).flatten(1, 2)


class ShuffleNet(nn.Module):
    def __init__(self, classes, channels, last=1024):
        super().__init__()
        self.conv1 = nn.Sequential(nn.Conv2d(3, 24, 3, 2, 1, bias=False), nn.BatchNorm2d(24), nn.ReLU())
        self.maxpool, inputs = nn.MaxPool2d(3, 2, 1), 24
        for name, outputs, count in zip(("stage2", "stage3", "stage4"), channels, (4, 8, 4)):
            blocks = [Block(inputs, outputs, 2)] + [Block(outputs, outputs, 1) for _ in range(count - 1)]
            setattr(self, name, nn.Sequential(*blocks))
            inputs = outputs
        self.conv5 = nn.Sequential(*pointwise(inputs, last))
        self.fc = nn.Linear(last, classes)

    def forward(self, x):
        x = self.stage4(self.stage3(self.stage2(self.maxpool(self.conv1(x)))))
        return self.fc(self.conv5(x).mean((2, 3)))

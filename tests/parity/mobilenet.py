"""MobileNetV2 in plain torch.nn, with torchvision's names, shapes and order of parameters."""
from torch import nn


def conv_norm_relu6(inputs, outputs, kernel, stride=1, groups=1):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs), nn.ReLU6(),
    )


class InvertedResidual(nn.Module):
    def __init__(self, inputs, outputs, stride, expansion):
        super().__init__()
        hidden = inputs * expansion
        self.short_cut = stride == 1 and inputs == outputs
        self.conv = nn.Sequential(
            *([conv_norm_relu6(inputs, hidden, 1)] if expansion > 1 else []),
            conv_norm_relu6(hidden, hidden, 3, stride, hidden),
            nn.Conv2d(hidden, outputs, 1, bias=False), nn.BatchNorm2d(outputs),
        )

    def forward(self, x):
        return x + self.conv(x) if self.short_cut else self.conv(x)


class MobileNetV2(nn.Module):
    def __init__(self, classes):
        super().__init__()
        layers, inputs = [conv_norm_relu6(3, 32, 3, 2)], 32
        for expansion, outputs, count, stride in [
            (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
            (6, 160, 3, 2), (6, 320, 1, 1),
        ]:
            for i in range(count):
                layers.append(InvertedResidual(inputs, outputs, stride if i == 0 else 1, expansion))
                inputs = outputs
        layers.append(conv_norm_relu6(inputs, 1280, 1))
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(1280, classes))

    def forward(self, x):
        return self.classifier(self.features(x).mean((2, 3)))

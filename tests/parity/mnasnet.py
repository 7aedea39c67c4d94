"""MNASNet in plain torch.nn: torchvision's names, shapes, order of parameters and of draws."""
from torch import nn

NETWORKS = {"mnasnet0-5": (16, 8, 16, 24, 40, 48, 96, 160), "mnasnet1-0": (32, 16, 24, 40, 80, 96, 192, 320)}
STAGES = [  # kernel, stride, widening, blocks
    (3, 2, 3, 3), (5, 2, 3, 3), (5, 2, 6, 3), (3, 1, 6, 2), (5, 2, 6, 4), (3, 1, 6, 1)]


def conv_norm(inputs, outputs, kernel, stride=1, groups=1):
    return [nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
            nn.BatchNorm2d(outputs, momentum=1 - 0.9997)]


def separable(inputs, outputs, kernel, stride):
    return conv_norm(inputs, inputs, kernel, stride, inputs) + [nn.ReLU()] + conv_norm(inputs, outputs, 1)


class Block(nn.Module):
    def __init__(self, inputs, outputs, kernel, stride, widening):
        super().__init__()
        widened, self.short_cut = inputs * widening, stride == 1 and inputs == outputs
        self.layers = nn.Sequential(*conv_norm(inputs, widened, 1), nn.ReLU(),
                                    *separable(widened, outputs, kernel, stride))

    def forward(self, x):
        return x + self.layers(x) if self.short_cut else self.layers(x)


class MNASNet(nn.Module):
    def __init__(self, classes, widths):
        super().__init__()
        layers = conv_norm(3, widths[0], 3, 2) + [nn.ReLU()] + separable(widths[0], widths[1], 3, 1)
        for (kernel, stride, widening, count), inputs, outputs in zip(STAGES, widths[1:], widths[2:]):
            blocks = [Block(inputs, outputs, kernel, stride, widening)]
            blocks += [Block(outputs, outputs, kernel, 1, widening) for _ in range(count - 1)]
            layers.append(nn.Sequential(*blocks))
        self.layers = nn.Sequential(*layers, *conv_norm(widths[-1], 1280, 1), nn.ReLU())
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(1280, classes))
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        nn.init.kaiming_uniform_(self.classifier[1].weight, mode="fan_out", nonlinearity="sigmoid")
        nn.init.zeros_(self.classifier[1].bias)

    def forward(self, x):
        return self.classifier(self.layers(x).mean((2, 3)))

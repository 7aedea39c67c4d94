"""EfficientNet-B0 in plain torch.nn: torchvision's names, shapes, order of parameters and of draws."""
import torch
from torch import nn

from mobilenet import Block, SqueezeExcitation, conv_norm, draw_convolutions

STAGES = [  # widening, kernel, stride, channels, blocks
    (1, 3, 1, 16, 1), (6, 3, 2, 24, 2), (6, 5, 2, 40, 2), (6, 3, 2, 80, 3), (6, 5, 1, 112, 3),
    (6, 5, 2, 192, 4), (6, 3, 1, 320, 1)]


class StochasticDepth(nn.Module):
    def __init__(self, p):
        super().__init__()
        self.p = p

    def forward(self, x):
        if not self.training or self.p == 0:
            return x
        kept = torch.rand(len(x), *[1] * (x.ndim - 1)) >= self.p
        return x * kept / (1 - self.p)


class DroppedBlock(Block):
    def __init__(self, drop, *arguments):
        super().__init__(*arguments)
        self.stochastic_depth = StochasticDepth(drop)

    def forward(self, x):
        return x + self.stochastic_depth(self.block(x)) if self.short_cut else self.block(x)


class EfficientNetB0(nn.Module):
    def __init__(self, classes):
        super().__init__()
        layers, inputs = [conv_norm(3, 32, 3, 2, activation=nn.SiLU)], 32
        count, all_blocks = 0, sum(stage[-1] for stage in STAGES)
        for widening, kernel, stride, outputs, blocks in STAGES:
            stage = []
            for i in range(blocks):
                widened = widening * inputs
                excitation = SqueezeExcitation(widened, inputs // 4, nn.SiLU, nn.Sigmoid)
                stage.append(DroppedBlock(0.2 * count / all_blocks, inputs, kernel, widened, outputs,
                                          stride if i == 0 else 1, nn.SiLU, excitation))
                inputs, count = outputs, count + 1
            layers.append(nn.Sequential(*stage))
        layers.append(conv_norm(inputs, 4 * inputs, 1, activation=nn.SiLU))
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(4 * inputs, classes))
        draw_convolutions(self)
        bound = classes ** -0.5
        nn.init.uniform_(self.classifier[1].weight, -bound, bound)
        nn.init.zeros_(self.classifier[1].bias)

    def forward(self, x):
        return self.classifier(self.features(x).mean((2, 3)))

"""EfficientNets in plain torch.nn: torchvision's names, shapes, order of parameters and of draws."""
import torch
from torch import nn

from mobilenet import Block, SqueezeExcitation, conv_norm, draw_convolutions

NETWORKS = {  # stem, last channels, eps, and stages: fused, widening, kernel, stride, channels, blocks
    "efficientnet-b0": (32, 1280, 1e-5, [
        (False, 1, 3, 1, 16, 1), (False, 6, 3, 2, 24, 2), (False, 6, 5, 2, 40, 2),
        (False, 6, 3, 2, 80, 3), (False, 6, 5, 1, 112, 3), (False, 6, 5, 2, 192, 4),
        (False, 6, 3, 1, 320, 1)]),
    "efficientnet-v2-s": (24, 1280, 1e-3, [
        (True, 1, 3, 1, 24, 2), (True, 4, 3, 2, 48, 4), (True, 4, 3, 2, 64, 4),
        (False, 4, 3, 2, 128, 6), (False, 6, 3, 1, 160, 9), (False, 6, 3, 2, 256, 15)]),
}


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


class FusedBlock(nn.Module):
    def __init__(self, drop, inputs, kernel, widened, outputs, stride, norm):
        super().__init__()
        self.short_cut, self.stochastic_depth = stride == 1 and inputs == outputs, StochasticDepth(drop)
        self.block = nn.Sequential(
            conv_norm(inputs, widened, kernel, stride, activation=nn.SiLU, norm=norm),
            *([conv_norm(widened, outputs, 1, norm=norm)] if widened != inputs else []))

    def forward(self, x):
        return x + self.stochastic_depth(self.block(x)) if self.short_cut else self.block(x)


class EfficientNet(nn.Module):
    def __init__(self, classes, inputs, last, eps, stages):
        super().__init__()

        def norm(channels):
            return nn.BatchNorm2d(channels, eps=eps)

        layers = [conv_norm(3, inputs, 3, 2, activation=nn.SiLU, norm=norm)]
        count, all_blocks = 0, sum(stage[-1] for stage in stages)
        for fused, widening, kernel, stride, outputs, blocks in stages:
            stage = []
            for i in range(blocks):
                drop, widened, step = 0.2 * count / all_blocks, widening * inputs, stride if i == 0 else 1
                if fused:
                    stage.append(FusedBlock(drop, inputs, kernel, widened, outputs, step, norm))
                else:
                    excitation = SqueezeExcitation(widened, inputs // 4, nn.SiLU, nn.Sigmoid)
                    stage.append(DroppedBlock(drop, inputs, kernel, widened, outputs, step, nn.SiLU,
                                              excitation, norm))
                inputs, count = outputs, count + 1
            layers.append(nn.Sequential(*stage))
        layers.append(conv_norm(inputs, last, 1, activation=nn.SiLU, norm=norm))
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(last, classes))
        draw_convolutions(self)
        bound = classes ** -0.5
        nn.init.uniform_(self.classifier[1].weight, -bound, bound)
        nn.init.zeros_(self.classifier[1].bias)

    def forward(self, x):
        return self.classifier(self.features(x).mean((2, 3)))

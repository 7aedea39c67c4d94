"""RegNets in plain torch.nn: torchvision's names, shapes, order of parameters and of draws."""
from collections import OrderedDict

from torch import nn

from mobilenet import SqueezeExcitation, conv_norm

NETWORKS = {  # channels and blocks of the stages, width of groups, squeeze and excitation
    "regnet-y-400mf": ([48, 104, 208, 440], [1, 3, 6, 6], 8, True),
    "regnet-x-400mf": ([32, 64, 160, 400], [1, 2, 7, 12], 16, False),
}


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride, group_width, excites):
        super().__init__()
        self.proj = None
        if stride > 1 or inputs != outputs:
            self.proj = conv_norm(inputs, outputs, 1, stride)
        groups = outputs // min(group_width, outputs)
        layers = [("a", conv_norm(inputs, outputs, 1, activation=nn.ReLU)),
                  ("b", conv_norm(outputs, outputs, 3, stride, groups, nn.ReLU))]
        if excites:
            layers.append(("se", SqueezeExcitation(outputs, inputs // 4, nn.ReLU, nn.Sigmoid)))
        self.f = nn.Sequential(OrderedDict(layers + [("c", conv_norm(outputs, outputs, 1))]))

    def forward(self, x):
        return ((self.proj(x) if self.proj else x) + self.f(x)).relu()


class RegNet(nn.Module):
    def __init__(self, classes, channels, blocks, group_width, excites):
        super().__init__()
        self.stem, inputs, stages = conv_norm(3, 32, 3, 2, activation=nn.ReLU), 32, OrderedDict()
        for number, (outputs, count) in enumerate(zip(channels, blocks), 1):
            stage = OrderedDict()
            for i in range(count):
                stage[f"block{number}-{i}"] = Block(inputs, outputs, 1 if i else 2, group_width, excites)
                inputs = outputs
            stages[f"block{number}"] = nn.Sequential(stage)
        self.trunk_output = nn.Sequential(stages)
        self.fc = nn.Linear(inputs, classes)
        for module in self.modules():  # the biases of squeeze and excitation stay as they are
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        nn.init.normal_(self.fc.weight, 0, 0.01)
        nn.init.zeros_(self.fc.bias)

    def forward(self, x):
        return self.fc(self.trunk_output(self.stem(x)).mean((2, 3)))

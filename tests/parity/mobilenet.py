"""MobileNets in plain torch.nn: torchvision's names, shapes, order of parameters and of draws."""
from torch import nn

NETWORKS = {  # kernel, widened channels, channels, squeeze and excitation, activation, stride
    "mobilenet-v3-large": (1280, [
        (3, 16, 16, 0, nn.ReLU, 1), (3, 64, 24, 0, nn.ReLU, 2), (3, 72, 24, 0, nn.ReLU, 1),
        (5, 72, 40, 24, nn.ReLU, 2), (5, 120, 40, 32, nn.ReLU, 1), (5, 120, 40, 32, nn.ReLU, 1),
        (3, 240, 80, 0, nn.Hardswish, 2), (3, 200, 80, 0, nn.Hardswish, 1),
        (3, 184, 80, 0, nn.Hardswish, 1), (3, 184, 80, 0, nn.Hardswish, 1),
        (3, 480, 112, 120, nn.Hardswish, 1), (3, 672, 112, 168, nn.Hardswish, 1),
        (5, 672, 160, 168, nn.Hardswish, 2), (5, 960, 160, 240, nn.Hardswish, 1),
        (5, 960, 160, 240, nn.Hardswish, 1)]),
    "mobilenet-v3-small": (1024, [
        (3, 16, 16, 8, nn.ReLU, 2), (3, 72, 24, 0, nn.ReLU, 2), (3, 88, 24, 0, nn.ReLU, 1),
        (5, 96, 40, 24, nn.Hardswish, 2), (5, 240, 40, 64, nn.Hardswish, 1),
        (5, 240, 40, 64, nn.Hardswish, 1), (5, 120, 48, 32, nn.Hardswish, 1),
        (5, 144, 48, 40, nn.Hardswish, 1), (5, 288, 96, 72, nn.Hardswish, 2),
        (5, 576, 96, 144, nn.Hardswish, 1), (5, 576, 96, 144, nn.Hardswish, 1)]),
}


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


def conv_norm(inputs, outputs, kernel, stride=1, groups=1, activation=None, norm=nn.BatchNorm2d):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
        norm(outputs), *([activation()] if activation else []),
    )


class HardSigmoid(nn.Module):
    """nn.Hardsigmoid multiplies gradients by 1 / 6 as float32 has it, in f64, too."""

    def forward(self, x):
        return nn.functional.relu6(x + 3) / 6


class SqueezeExcitation(nn.Module):
    def __init__(self, channels, squeezed, activation, scale_activation):
        super().__init__()
        self.fc1 = nn.Conv2d(channels, squeezed, 1)
        self.fc2 = nn.Conv2d(squeezed, channels, 1)
        self.activation, self.scale_activation = activation(), scale_activation()

    def forward(self, x):
        scale = self.fc2(self.activation(self.fc1(x.mean((2, 3), keepdim=True))))
        return self.scale_activation(scale) * x


class Block(nn.Module):
    """An inverted residual with squeeze and excitation."""

    def __init__(self, inputs, kernel, widened, outputs, stride, activation, excitation=None, norm=nn.BatchNorm2d):
        super().__init__()
        self.short_cut = stride == 1 and inputs == outputs
        self.block = nn.Sequential(
            *([conv_norm(inputs, widened, 1, activation=activation, norm=norm)] if widened != inputs else []),
            conv_norm(widened, widened, kernel, stride, widened, activation, norm),
            *([excitation] if excitation else []),
            conv_norm(widened, outputs, 1, norm=norm),
        )

    def forward(self, x):
        return x + self.block(x) if self.short_cut else self.block(x)


def draw_convolutions(model):
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out")
            if module.bias is not None:
                nn.init.zeros_(module.bias)


class MobileNetV3(nn.Module):
    def __init__(self, classes, width, blocks):
        super().__init__()

        def norm(channels):
            return nn.BatchNorm2d(channels, eps=1e-3, momentum=0.01)

        layers, inputs = [conv_norm(3, 16, 3, 2, activation=nn.Hardswish, norm=norm)], 16
        for kernel, widened, outputs, squeezed, activation, stride in blocks:
            excitation = SqueezeExcitation(widened, squeezed, nn.ReLU, HardSigmoid) if squeezed else None
            layers.append(Block(inputs, kernel, widened, outputs, stride, activation, excitation, norm))
            inputs = outputs
        layers.append(conv_norm(inputs, 6 * inputs, 1, activation=nn.Hardswish, norm=norm))
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(
            nn.Linear(6 * inputs, width), nn.Hardswish(), nn.Dropout(0.2), nn.Linear(width, classes))
        draw_convolutions(self)
        for linear in self.classifier[0], self.classifier[3]:
            nn.init.normal_(linear.weight, 0, 0.01)
            nn.init.zeros_(linear.bias)

    def forward(self, x):
        return self.classifier(self.features(x).mean((2, 3)))

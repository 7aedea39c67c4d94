"""ResNets in plain torch.nn: torchvision's names, shapes, order of parameters and order of draws.

network(NAME) is the PyTorch model of a yoke architecture. With the same torch.manual_seed its first
weights are torchvision's to the bit, so torchvision itself need not be installed.
"""
import torch
import torch.nn.functional as F
from torch import nn

import airbench
import alexnet
import convnext
import densenet
import efficientnet
import googlenet
import mnasnet
import mobilenet
import regnet
import shufflenet
import squeezenet
import swin
import vgg
import vision_transformer


def conv(inputs, outputs, kernel, stride=1, groups=1):
    return nn.Conv2d(
        inputs, outputs, kernel, stride, padding=kernel // 2, groups=groups, bias=False
    )


class BasicBlock(nn.Module):
    expansion = 1

    def __init__(self, inputs, width, stride, downsample):
        super().__init__()
        self.conv1 = conv(inputs, width, 3, stride)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = conv(width, width, 3)
        self.bn2 = nn.BatchNorm2d(width)
        self.downsample = downsample

    def forward(self, x):
        short_cut = self.downsample(x) if self.downsample else x
        x = self.relu(self.bn1(self.conv1(x)))
        return self.relu(self.bn2(self.conv2(x)) + short_cut)


class Bottleneck(nn.Module):
    expansion, widening, groups = 4, 1, 1

    def __init__(self, inputs, width, stride, downsample):
        super().__init__()
        inner, outputs = width * self.widening, width * self.expansion
        self.conv1 = conv(inputs, inner, 1)
        self.bn1 = nn.BatchNorm2d(inner)
        self.conv2 = conv(inner, inner, 3, stride, self.groups)
        self.bn2 = nn.BatchNorm2d(inner)
        self.conv3 = conv(inner, outputs, 1)
        self.bn3 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = downsample

    def forward(self, x):
        short_cut = self.downsample(x) if self.downsample else x
        x = self.relu(self.bn1(self.conv1(x)))
        x = self.relu(self.bn2(self.conv2(x)))
        return self.relu(self.bn3(self.conv3(x)) + short_cut)


class ResNeXtBottleneck(Bottleneck):
    widening, groups = 2, 32


class WideBottleneck(Bottleneck):
    widening = 2


class ResNet(nn.Module):
    def __init__(self, block, blocks, classes, small_images=False):
        super().__init__()
        self.conv1 = conv(3, 64, 3) if small_images else conv(3, 64, 7, stride=2)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.Identity() if small_images else nn.MaxPool2d(3, stride=2, padding=1)
        self.inputs = 64
        self.layer1 = self.stage(block, 64, blocks[0], 1)
        self.layer2 = self.stage(block, 128, blocks[1], 2)
        self.layer3 = self.stage(block, 256, blocks[2], 2)
        self.layer4 = self.stage(block, 512, blocks[3], 2)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(512 * block.expansion, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def stage(self, block, width, count, stride):
        layers = []
        for index in range(count):
            outputs, step = width * block.expansion, stride if index == 0 else 1
            downsample = None  # made before its block: the order of draws
            if step != 1 or self.inputs != outputs:
                downsample = nn.Sequential(
                    conv(self.inputs, outputs, 1, step), nn.BatchNorm2d(outputs)
                )
            layers.append(block(self.inputs, width, step, downsample))
            self.inputs = outputs
        return nn.Sequential(*layers)

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(torch.flatten(self.avgpool(x), 1))


class ConvNormReLU(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.conv = conv(inputs, outputs, 3, 1)
        self.bn = nn.BatchNorm2d(outputs)

    def forward(self, x):
        return F.relu(self.bn(self.conv(x)))


class ResNet9(nn.Module):
    """David Page's ResNet-9 at half its width, with a global average before the last layer."""

    def __init__(self, classes, width=32):
        super().__init__()
        self.prep = ConvNormReLU(3, width)
        self.layer1 = ConvNormReLU(width, 2 * width)
        self.residual1 = self.residual(2 * width)
        self.layer2 = ConvNormReLU(2 * width, 4 * width)
        self.layer3 = ConvNormReLU(4 * width, 8 * width)
        self.residual3 = self.residual(8 * width)
        self.fc = nn.Linear(8 * width, classes)

    def residual(self, channels):
        return nn.Sequential(ConvNormReLU(channels, channels), ConvNormReLU(channels, channels))

    def forward(self, x):
        x = F.max_pool2d(self.layer1(self.prep(x)), 2)
        x = x + self.residual1(x)
        x = F.max_pool2d(self.layer2(x), 2)
        x = F.max_pool2d(self.layer3(x), 2)
        x = x + self.residual3(x)
        return 0.125 * self.fc(x.mean((2, 3)))


def network(name, classes=10, side=32):
    """The PyTorch model of yoke's architecture NAME; resnet18 has the stem of the CIFAR papers.

    Only vision transformers are made for images of one size."""
    if name in vision_transformer.NETWORKS:
        return vision_transformer.VisionTransformer(classes, side, *vision_transformer.NETWORKS[name])
    if name in swin.NETWORKS:
        return swin.Swin(classes, *swin.NETWORKS[name])
    if name == "resnet9":
        return ResNet9(classes)
    if name in airbench.NETWORKS:
        return airbench.Airbench(classes, *airbench.NETWORKS[name])
    if name == "alexnet":
        return alexnet.AlexNet(classes)
    if name == "mobilenet-v2":
        return mobilenet.MobileNetV2(classes)
    if name == "densenet121":
        return densenet.DenseNet121(classes)
    if name == "convnext-tiny":
        return convnext.ConvNeXtTiny(classes)
    if name in efficientnet.NETWORKS:
        return efficientnet.EfficientNet(classes, *efficientnet.NETWORKS[name])
    if name in mnasnet.NETWORKS:
        return mnasnet.MNASNet(classes, mnasnet.NETWORKS[name])
    if name in shufflenet.NETWORKS:
        return shufflenet.ShuffleNet(classes, shufflenet.NETWORKS[name])
    if name in regnet.NETWORKS:
        return regnet.RegNet(classes, *regnet.NETWORKS[name])
    if name in squeezenet.NETWORKS:
        return squeezenet.SqueezeNet(classes, *squeezenet.NETWORKS[name])
    if name == "googlenet":
        return googlenet.GoogLeNet(classes)
    if name in mobilenet.NETWORKS:
        return mobilenet.MobileNetV3(classes, *mobilenet.NETWORKS[name])
    if name == "vgg16-bn":
        return vgg.VGG16(classes)
    block, blocks = {
        "resnet18-cifar": (BasicBlock, [2, 2, 2, 2]),
        "resnet18": (BasicBlock, [2, 2, 2, 2]),
        "resnet34": (BasicBlock, [3, 4, 6, 3]),
        "resnet50": (Bottleneck, [3, 4, 6, 3]),
        "resnet101": (Bottleneck, [3, 4, 23, 3]),
        "resnet152": (Bottleneck, [3, 8, 36, 3]),
        "wide-resnet50-2": (WideBottleneck, [3, 4, 6, 3]),
        "resnext50-32x4d": (ResNeXtBottleneck, [3, 4, 6, 3]),
    }[name]
    return ResNet(block, blocks, classes, small_images=name == "resnet18-cifar")

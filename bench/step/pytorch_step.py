#!/usr/bin/env python3
"""The peer of step.c: PyTorch's full training step, channels_last. The runner sets malloc's tunables.

usage: pytorch_step.py ARCH IMAGE_SIZE BATCH_PER_RANK off|bf16 THREADS STEPS eager|compile [RANKS]
"""
import json, os, resource, statistics, sys, time
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torchvision
from torch import nn


class ConvNormReLU(nn.Sequential):
    def __init__(self, inputs, outputs, *more):
        super().__init__(nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(), *more)


class Residual(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.layers = nn.Sequential(ConvNormReLU(channels, channels), ConvNormReLU(channels, channels))

    def forward(self, x):
        return x + self.layers(x)


class ResNet9(nn.Module):
    """yoke's resnet9: David Page's network at half of its width, with a global average at its end."""

    def __init__(self, classes, width=32):
        super().__init__()
        self.layers = nn.Sequential(
            ConvNormReLU(3, width), ConvNormReLU(width, 2 * width, nn.MaxPool2d(2)), Residual(2 * width),
            ConvNormReLU(2 * width, 4 * width, nn.MaxPool2d(2)), ConvNormReLU(4 * width, 8 * width, nn.MaxPool2d(2)),
            Residual(8 * width), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8 * width, classes))

    def forward(self, x):
        return self.layers(x) / 8


def create_network(arch, image_size, classes=10):
    if arch == "resnet9":
        return ResNet9(classes)
    if arch == "vit-tiny-patch4-32":
        return torchvision.models.VisionTransformer(
            image_size=image_size, patch_size=4, num_layers=12, num_heads=3, hidden_dim=192, mlp_dim=768,
            num_classes=classes)
    if arch.startswith("vit-"):
        return getattr(torchvision.models, arch.replace("-", "_"))(num_classes=classes, image_size=image_size)
    if arch != "resnet18-cifar":
        return getattr(torchvision.models, arch.replace("-", "_"))(num_classes=classes)
    net = torchvision.models.resnet18(num_classes=classes)
    net.conv1 = nn.Conv2d(3, 64, 3, 1, 1, bias=False)
    net.maxpool = nn.Identity()
    return net


def worker(rank, arch, image_size, batch, amp, threads, steps, mode, ranks):
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    net = create_network(arch, image_size).to(memory_format=torch.channels_last)
    if ranks > 1:
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29533")
        os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[rank % os.cpu_count()]})
        dist.init_process_group("gloo", rank=rank, world_size=ranks)
        net = nn.parallel.DistributedDataParallel(net)
    optimizer = torch.optim.SGD(net.parameters(), 0.01, momentum=0.9, weight_decay=5e-4)
    x = (torch.rand(batch, 3, image_size, image_size) * 4 - 2).to(memory_format=torch.channels_last)
    y = torch.randint(10, (batch,))

    def loss_of(images, labels):
        with torch.autocast("cpu", torch.bfloat16, enabled=amp == "bf16"):
            logits = net(images)
        return nn.functional.cross_entropy(logits.float(), labels)

    if mode == "compile":
        loss_of = torch.compile(loss_of)
    seconds = []
    for i in range(-2, steps):
        start = time.perf_counter()
        loss = loss_of(x, y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if i >= 0:
            seconds.append(time.perf_counter() - start)
    step = statistics.median(seconds)
    if rank == 0:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps({"images_per_s": round(batch * ranks / step, 1), "step_ms": round(1e3 * step, 1),
                          "peak_mb": round(peak), "loss": round(loss.item(), 4)}), flush=True)


def main():
    arch, image_size, batch, amp, threads, steps, mode = sys.argv[1:8]
    ranks = int(sys.argv[8]) if len(sys.argv) > 8 else 1
    settings = (arch, int(image_size), int(batch), amp, int(threads), int(steps), mode, ranks)
    if ranks == 1:
        worker(0, *settings)
    else:
        mp.spawn(worker, settings, nprocs=ranks)


if __name__ == "__main__":
    main()

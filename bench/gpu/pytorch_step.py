#!/usr/bin/env python3
"""The peer of `yoke bench step --device cuda`: PyTorch's full training step, channels_last, fused SGD.

usage: pytorch_step.py ARCH BATCH SIZE off|bf16|fp16 eager|compile|reduce-overhead STEPS
"""
import json, statistics, sys, time
import torch
import torchvision
from torch import nn


def network(arch):
    if arch != "resnet18-cifar":
        return getattr(torchvision.models, arch.replace("-", "_"))(num_classes=1000)
    net = torchvision.models.resnet18(num_classes=10)
    net.conv1 = nn.Conv2d(3, 64, 3, 1, 1, bias=False)
    net.maxpool = nn.Identity()
    return net


def main():
    arch, batch, size, amp, mode, steps = sys.argv[1:]
    batch, size, steps = int(batch), int(size), int(steps)
    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = True
    net = network(arch).cuda().to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(net.parameters(), 0.01, momentum=0.9, weight_decay=5e-4, fused=True)
    scaler = torch.amp.GradScaler("cuda", enabled=amp == "fp16")
    dtype = torch.float16 if amp == "fp16" else torch.bfloat16
    x = (torch.rand(batch, 3, size, size, device="cuda") * 4 - 2).to(memory_format=torch.channels_last)
    y = torch.randint(10, (batch,), device="cuda")

    def loss_of(images, labels):
        with torch.autocast("cuda", dtype, enabled=amp != "off"):
            return nn.functional.cross_entropy(net(images).float(), labels)

    if mode != "eager":
        loss_of = torch.compile(loss_of, mode=None if mode == "compile" else mode)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(x, y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss

    begin = time.perf_counter()
    for _ in range(5):
        loss = step()
    torch.cuda.synchronize()
    start = time.perf_counter() - begin
    seconds, block = [], 5  # the host enters several steps ahead, as in training
    for _ in range(max(steps // block, 1)):
        begin = time.perf_counter()
        for _ in range(block):
            loss = step()
        torch.cuda.synchronize()
        seconds.append((time.perf_counter() - begin) / block)
    median = statistics.median(seconds)
    print(json.dumps({"images_per_s": round(batch / median, 1), "step_ms": round(1e3 * median, 3),
                      "start_s": round(start, 1), "peak_mb": torch.cuda.max_memory_allocated() >> 20,
                      "loss": round(loss.item(), 4), "torch": torch.__version__}), flush=True)


if __name__ == "__main__":
    main()

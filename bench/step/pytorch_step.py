#!/usr/bin/env python3
"""The peer of step.c: PyTorch's full training step, channels_last. The runner sets malloc's tunables.

usage: pytorch_step.py BATCH_PER_RANK off|bf16 THREADS STEPS [RANKS]
"""
import json, os, resource, statistics, sys, time
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torchvision.models import resnet18


def worker(rank, batch, amp, threads, steps, ranks):
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    net = resnet18(num_classes=10)
    net.conv1 = nn.Conv2d(3, 64, 3, 1, 1, bias=False)
    net.maxpool = nn.Identity()
    net = net.to(memory_format=torch.channels_last)
    if ranks > 1:
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29533")
        os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[rank % os.cpu_count()]})
        dist.init_process_group("gloo", rank=rank, world_size=ranks)
        net = nn.parallel.DistributedDataParallel(net)
    optimizer = torch.optim.SGD(net.parameters(), 0.01, momentum=0.9, weight_decay=5e-4)
    x = (torch.rand(batch, 3, 32, 32) * 4 - 2).to(memory_format=torch.channels_last)
    y = torch.randint(10, (batch,))
    autocast = torch.autocast("cpu", torch.bfloat16, enabled=amp == "bf16")
    seconds = []
    for i in range(-2, steps):
        start = time.perf_counter()
        with autocast:
            logits = net(x)
        loss = nn.functional.cross_entropy(logits.float(), y)
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


if __name__ == "__main__":
    batch, amp, threads, steps = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    ranks = int(sys.argv[5]) if len(sys.argv) > 5 else 1
    if ranks == 1:
        worker(0, batch, amp, threads, steps, 1)
    else:
        mp.spawn(worker, (batch, amp, threads, steps, ranks), nprocs=ranks)

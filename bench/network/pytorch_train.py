#!/usr/bin/env python3
"""The peer of train.c: PyTorch DDP over gloo, ResNet-18 with the CIFAR stem, channels_last.

usage: pytorch_train.py BATCH_PER_RANK PAIRS_OF_STEPS THREADS none|fp16|powersgd

Its place comes from the environment, as torchrun sets it. Every second step exchanges no gradients (no_sync); all ranks
begin a step together. Rank 0 prints the seconds of both kinds of steps, its own and the slowest rank's, and the
processor time that it has taken for them. The runner sets malloc's tunables.
"""
import contextlib, json, os, sys, time
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torchvision.models import resnet18

WARM_UP = 3  # pairs; PowerSGD begins in the third

def network():
    net = resnet18(num_classes=10)
    net.conv1 = nn.Conv2d(3, 64, 3, 1, 1, bias=False)
    net.maxpool = nn.Identity()
    return net.to(memory_format=torch.channels_last)


def distribute(net, hook):
    dist.init_process_group("gloo")
    net = nn.parallel.DistributedDataParallel(net)
    if hook == "fp16":
        net.register_comm_hook(None, default_hooks.fp16_compress_hook)
    elif hook == "powersgd":
        state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=1, start_powerSGD_iter=2)
        net.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    return net


def run_step(net, optimizer, x, y, exchange):
    dist.barrier()
    start, processor = time.perf_counter(), time.process_time()
    with contextlib.nullcontext() if exchange else net.no_sync():
        loss = nn.functional.cross_entropy(net(x), y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
    optimizer.step()
    step, processor = time.perf_counter() - start, time.process_time() - processor
    slowest = torch.tensor([step], dtype=torch.float64)
    dist.all_reduce(slowest, dist.ReduceOp.MAX)
    return step, slowest.item(), processor


def run_pair(*training):
    together, apart = run_step(*training, True), run_step(*training, False)
    return {"step_s": together[0], "apart_s": apart[0], "slowest_step_s": together[1], "slowest_apart_s": apart[1],
            "processor_s": together[2], "processor_apart_s": apart[2]}


def main():
    batch, pairs, threads, hook = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    net = distribute(network(), hook)
    optimizer = torch.optim.SGD(net.parameters(), 0.01, momentum=0.9, weight_decay=5e-4)
    x = (torch.rand(batch, 3, 32, 32) * 4 - 2).to(memory_format=torch.channels_last)
    y = torch.randint(10, (batch,))
    found = [run_pair(net, optimizer, x, y) for _ in range(WARM_UP + pairs)]
    if dist.get_rank() == 0:
        print(json.dumps(found[WARM_UP:]), flush=True)
    dist.barrier()  # nobody leaves while others still read
    os._exit(0)  # Python's own exit is sometimes aborted by threads that gloo has left


main()

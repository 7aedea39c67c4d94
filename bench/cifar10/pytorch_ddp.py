#!/usr/bin/env python3
"""The peer of `yoke train`: ResNet-18 (CIFAR stem) on CIFAR-10 with PyTorch DDP over gloo, one thread a rank.

Same recipe: SGD 0.1, momentum 0.9, weight decay 5e-4, random crop with padding 4, horizontal flip, the same normalisation, batch
split over the ranks, batch norm statistics per rank, rank 0's buffers evaluated. Prints one line an epoch. Run it with
  GLIBC_TUNABLES=glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=8589934592:glibc.malloc.trim_threshold=17179869184
"""
import argparse, os, pathlib, time
import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data.distributed import DistributedSampler
from torchvision.models import resnet18

MEAN = torch.tensor([0.4914, 0.4822, 0.4465]).view(1, 3, 1, 1)
STD = torch.tensor([0.2023, 0.1994, 0.2010]).view(1, 3, 1, 1)


def read(folder, names):
    rows = np.concatenate([np.fromfile(folder / f"{n}.bin", np.uint8).reshape(-1, 3073) for n in names])
    return torch.from_numpy(rows[:, 1:].reshape(-1, 3, 32, 32).copy()), torch.from_numpy(rows[:, 0].astype(np.int64))


def cifar_resnet18():
    net = resnet18(num_classes=10)
    net.conv1 = nn.Conv2d(3, 64, 3, 1, 1, bias=False)
    net.maxpool = nn.Identity()
    nn.init.kaiming_normal_(net.conv1.weight, mode="fan_out", nonlinearity="relu")
    return net


def normalise(pixels):
    return (pixels.float() / 255 - MEAN) / STD


def augment(pixels, generator):
    n = len(pixels)
    padded = nn.functional.pad(pixels, (4, 4, 4, 4))
    y, x = torch.randint(9, (2, n), generator=generator)
    flip = torch.rand(n, generator=generator) < 0.5
    rows = y.view(n, 1, 1, 1) + torch.arange(32).view(1, 1, 32, 1)
    columns = torch.arange(32).expand(n, 32)
    columns = torch.where(flip.view(n, 1), 31 - columns, columns)
    columns = x.view(n, 1, 1, 1) + columns.view(n, 1, 1, 32)
    return padded[torch.arange(n).view(n, 1, 1, 1), torch.arange(3).view(1, 3, 1, 1), rows, columns]


def worker(rank, args):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(args.port))
    dist.init_process_group("gloo", rank=rank, world_size=args.nproc)
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    folder = pathlib.Path(args.data) / "cifar-10-batches-bin"
    train_x, train_y = read(folder, [f"data_batch_{i}" for i in range(1, 6)])
    test_x, test_y = read(folder, ["test_batch"])
    model = DistributedDataParallel(cifar_resnet18().to(memory_format=torch.channels_last))
    optimizer = torch.optim.SGD(model.parameters(), args.lr, momentum=0.9, weight_decay=5e-4)
    sampler = DistributedSampler(train_x, args.nproc, rank, shuffle=True, seed=args.seed)
    generator = torch.Generator().manual_seed(args.seed * 1000 + rank)
    amp = torch.autocast("cpu", torch.bfloat16, enabled=args.amp == "bf16")
    share = args.batch_size // args.nproc
    for epoch in range(args.epochs):
        start, losses = time.time(), []
        sampler.set_epoch(epoch)
        order = torch.tensor(list(sampler))
        model.train()
        for step, batch in enumerate(order.split(share)):
            if args.max_steps and step == args.max_steps:
                break
            x = normalise(augment(train_x[batch], generator)).to(memory_format=torch.channels_last)
            with amp:
                logits = model(x)
            loss = nn.functional.cross_entropy(logits.float(), train_y[batch])
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        seconds = time.time() - start
        model.eval()
        counts = torch.zeros(2, dtype=torch.float64)
        with torch.no_grad(), amp:
            for i in range(rank * 250, len(test_x), args.nproc * 250):
                logits = model.module(normalise(test_x[i:i + 250]).to(memory_format=torch.channels_last)).float()
                counts[0] += (logits.argmax(1) == test_y[i:i + 250]).sum()
                counts[1] += nn.functional.cross_entropy(logits, test_y[i:i + 250], reduction="sum")
        dist.all_reduce(counts)
        if rank == 0:
            print(f"pytorch {args.amp} seed {args.seed} epoch {epoch + 1}: train loss {np.mean(losses):.4f}, val loss "
                  f"{counts[1] / len(test_x):.4f}, val accuracy {counts[0] / len(test_x):.4f}, {seconds:.1f} s", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="folder that holds cifar-10-batches-bin")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=128, help="over all ranks")
    parser.add_argument("--nproc", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--amp", choices=["off", "bf16"], default="off")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--max-steps", type=int, default=0)
    parser.add_argument("--port", type=int, default=29511)
    mp.spawn(worker, (parser.parse_args(),), nprocs=parser.parse_args().nproc)

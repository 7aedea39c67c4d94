"""PyTorch's side of test_pytorch_ddp.c: 2 ranks of DistributedDataParallel over gloo.

Usage: ddp.py FOLDER [FILE.svg]. FOLDER has weights.pth and rank0.pth, rank1.pth: each step's batch,
its samples' indices and the loss. Exits with 77 when PyTorch is missing.

The losses are the mean over the ranks. Every step multiplies the differences of the weights, which
begin as rounding; how fast, PyTorch shows in channels_last, which adds in another order, and in
f64.
"""
import sys

try:
    import torch
    import torch.distributed as dist
    import torch.multiprocessing as mp
    import torch.nn.functional as F
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel
    from torch.utils.data.distributed import DistributedSampler
except ImportError as error:
    print("skipped:", error)
    sys.exit(77)

import resnet

WORLD, IMAGES, SEED = 2, 960, 3
FIRST, BOUND = 10, 1e-3  # of the first so many steps, relative
LATER = 0.05  # of all steps, or twice PyTorch's own difference
RUNS = {
    "PyTorch": (torch.float32, torch.contiguous_format),
    "PyTorch in channels_last": (torch.float32, torch.channels_last),
    "PyTorch in f64": (torch.float64, torch.contiguous_format),
}


class Small(nn.Module):
    """The network of the C side."""

    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = resnet.conv(3, 16, 3, 2), nn.BatchNorm2d(16)
        self.layer1 = resnet.BasicBlock(16, 16, 1, None)
        self.layer2 = resnet.BasicBlock(16, 32, 2, self.short_cut(16, 32))
        self.layer3 = resnet.BasicBlock(32, 64, 2, self.short_cut(32, 64))
        self.fc = nn.Linear(64, 10)

    @staticmethod
    def short_cut(inputs, outputs):
        return nn.Sequential(resnet.conv(inputs, outputs, 1, 2), nn.BatchNorm2d(outputs))

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        x = self.layer3(self.layer2(self.layer1(x)))
        return self.fc(x.mean((2, 3)))


def train(rank, folder, dtype, memory_format):
    model = Small().to(dtype=dtype, memory_format=memory_format)
    if rank == 0:  # the others get them from rank 0
        model.load_state_dict(torch.load(f"{folder}/weights.pth", weights_only=True))
    model = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, weight_decay=5e-4)
    losses = []
    for step in torch.load(f"{folder}/rank{rank}.pth"):
        images = step["images"].to(dtype=dtype, memory_format=memory_format)
        loss = F.cross_entropy(model(images), step["labels"].long())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return torch.tensor(losses, dtype=torch.float64)


def worker(rank, folder):
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=WORLD
    )
    curves = {}
    for name, settings in RUNS.items():
        losses = train(rank, folder, *settings)
        dist.all_reduce(losses)
        curves[name] = losses / WORLD
    if rank == 0:
        torch.save(curves, f"{folder}/curves.pth")
    dist.destroy_process_group()


def check_order(ranks):
    """The batches are those of DistributedSampler, epoch by epoch."""
    for rank, steps in enumerate(ranks):
        sampler = DistributedSampler(range(IMAGES), WORLD, rank, shuffle=True, seed=SEED)
        seen = torch.cat([step["indices"] for step in steps]).tolist()
        expected = []
        for epoch in range(len(seen) // len(sampler) + 1):
            sampler.set_epoch(epoch)
            expected += list(sampler)
        assert seen == expected[: len(seen)], f"rank {rank}: another order than PyTorch's"


def compare(words, a, b):
    """The largest relative difference of the first steps, and of all; printed and returned."""
    distance = (a - b).abs() / b.abs()
    first, last = distance[:FIRST].max().item(), distance.max().item()
    print(f"  {words}: {first:.1e} in the first {FIRST} steps, {last:.1e} in all, "
          f"at step {distance.argmax().item() + 1}")
    return first, last


def plot(curves, path):
    """The curves over one another, as SVG."""
    width, height, margin = 720, 400, 50
    top = max(curve.max().item() for curve in curves.values())
    bottom = min(curve.min().item() for curve in curves.values())

    def at(loss):
        return height - margin - (loss - bottom) / (top - bottom) * (height - 2 * margin)

    colours = ["#d62728", "#1f77b4", "#2ca02c", "#7f7f7f"]
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
             'font-family="sans-serif" font-size="12">',
             f'<rect width="{width}" height="{height}" fill="white"/>']
    for tick in [bottom + (top - bottom) * i / 4 for i in range(5)]:
        y = at(tick)
        lines.append(f'<path d="M{margin} {y:.1f}H{width - margin}" stroke="#ddd"/>'
                     f'<text x="{margin - 8}" y="{y + 4:.1f}" text-anchor="end">{tick:.2f}</text>')
    for index, (name, curve) in enumerate(curves.items()):
        points = " ".join(
            f"{margin + i / (len(curve) - 1) * (width - 2 * margin):.1f},{at(loss):.1f}"
            for i, loss in enumerate(curve.tolist()))
        dash = "" if index == 0 else f' stroke-dasharray="{2 + 3 * index} 4"'
        lines.append(f'<polyline points="{points}" fill="none" stroke="{colours[index]}"{dash}/>'
                     f'<text x="{width - margin}" y="{margin + 16 * index - 20}" text-anchor="end" '
                     f'fill="{colours[index]}">{name}</text>')
    lines.append(f'<text x="{width / 2}" y="{height - 15}" text-anchor="middle">'
                 f"training loss, {len(curve)} steps, {WORLD} ranks</text></svg>")
    with open(path, "w") as file:
        file.write("\n".join(lines) + "\n")


def main(folder, picture=None):
    ranks = [torch.load(f"{folder}/rank{rank}.pth") for rank in range(WORLD)]
    check_order(ranks)
    mp.spawn(worker, (folder,), nprocs=WORLD)
    losses = torch.tensor([[s["loss"] for s in steps] for steps in ranks], dtype=torch.float64)
    curves = {"yoke": losses.mean(0), **torch.load(f"{folder}/curves.pth")}
    theirs, exact = curves["PyTorch"], curves["PyTorch in f64"]
    print(f"{len(theirs)} steps on {WORLD} ranks, loss {theirs[0]:.3f} to {theirs[-1]:.3f}: "
          "relative differences")
    first, last = compare("yoke from PyTorch", curves["yoke"], theirs)
    other = curves["PyTorch in channels_last"]
    own = compare("PyTorch in channels_last from PyTorch", other, theirs)
    compare("yoke from f64", curves["yoke"], exact)
    compare("PyTorch from f64", theirs, exact)
    if picture:
        plot(curves, picture)
    return 0 if first <= max(BOUND, 2 * own[0]) and last <= max(LATER, 2 * own[1]) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

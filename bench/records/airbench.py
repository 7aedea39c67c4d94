#!/usr/bin/env python3
"""The peer of the recipes airbench94 and airbench94-muon: the same training in PyTorch, on the same files.

Written after Jordan, "94% on CIFAR-10 in 3.29 Seconds on a Single GPU" (2024). Prints one line of JSON an epoch and one at the
end: {"epoch": 1, "accuracy": 0.5, "seconds": 60.0}, {"tta_accuracy": 0.6, "seconds": 600.0}. Seconds are those since the first
step and include evaluations. bench/records/run sets the malloc tunables it should run with.
"""
import argparse, json, math, pathlib, time
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

MEAN = torch.tensor([0.4914, 0.4822, 0.4465]).view(1, 3, 1, 1)
STD = torch.tensor([0.2470, 0.2435, 0.2616]).view(1, 3, 1, 1)
WHITEN_IMAGES, WHITEN_EPS = 5000, 5e-4


# ---- data -------------------------------------------------------------------------------------


def read(folder, names):
    folder = folder / "cifar-10-batches-bin" if (folder / "cifar-10-batches-bin").is_dir() else folder
    rows = np.concatenate([np.fromfile(folder / f"{n}.bin", np.uint8).reshape(-1, 3073) for n in names])
    pixels = torch.from_numpy(rows[:, 1:].reshape(-1, 3, 32, 32).copy())
    return (pixels.float() / 255 - MEAN) / STD, torch.from_numpy(rows[:, 0].astype(np.int64))


class Batches:
    """Random flips once, then all images flipped in odd epochs; a crop of each image with reflected edges."""

    def __init__(self, images, batch_size, translate):
        flip = torch.rand(len(images)) < 0.5
        self.images = torch.where(flip.view(-1, 1, 1, 1), images.flip(-1), images)
        self.padded = F.pad(self.images, (translate,) * 4, "reflect")
        self.batch_size, self.translate = batch_size, translate

    def __len__(self):
        return len(self.images) // self.batch_size

    def epoch(self, labels, number):
        offsets = torch.randint(2 * self.translate + 1, (2, len(self.images)))
        order = torch.randperm(len(self.images))
        across = torch.arange(32)
        for step in range(len(self)):
            rows = order[step * self.batch_size:(step + 1) * self.batch_size]
            y = offsets[0, rows].view(-1, 1, 1, 1) + across.view(1, 1, 32, 1)
            x = offsets[1, rows].view(-1, 1, 1, 1) + across.view(1, 1, 1, 32)
            images = self.padded[rows.view(-1, 1, 1, 1), torch.arange(3).view(1, 3, 1, 1), y, x]
            yield images.flip(-1) if number % 2 else images, labels[rows]


# ---- network ----------------------------------------------------------------------------------


def conv(inputs, outputs):
    layer = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
    nn.init.dirac_(layer.weight.data[:inputs])
    return layer


def norm(channels):
    layer = nn.BatchNorm2d(channels, eps=1e-12, momentum=0.4)
    layer.weight.requires_grad = False
    return layer


class Group(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.conv1, self.norm1 = conv(inputs, outputs), norm(outputs)
        self.conv2, self.norm2 = conv(outputs, outputs), norm(outputs)

    def forward(self, x):
        x = F.gelu(self.norm1(F.max_pool2d(self.conv1(x), 2)))
        return F.gelu(self.norm2(self.conv2(x)))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.whiten = nn.Conv2d(3, 24, 2)
        self.whiten.weight.requires_grad = False
        nn.init.zeros_(self.whiten.bias)
        self.layers = nn.Sequential(nn.GELU(), Group(24, 64), Group(64, 256), Group(256, 256), nn.MaxPool2d(3))
        self.head = nn.Linear(256, 10, bias=False)

    def forward(self, x, train_bias=True):
        bias = self.whiten.bias if train_bias else self.whiten.bias.detach()
        x = self.layers(F.conv2d(x, self.whiten.weight, bias))
        return self.head(x.flatten(1)) / 9

    @torch.no_grad()
    def init_whiten(self, images):
        patches = images.double().unfold(2, 2, 1).unfold(3, 2, 1).permute(0, 2, 3, 1, 4, 5).reshape(-1, 12)
        values, vectors = torch.linalg.eigh(patches.T @ patches / len(patches))
        filters = (vectors / (values + WHITEN_EPS).sqrt()).T.flip(0).reshape(12, 3, 2, 2)
        self.whiten.weight.copy_(torch.cat([filters, -filters]).float())


# ---- optimizers -------------------------------------------------------------------------------


def orthogonalise(gradient, steps=3):
    """Newton-Schulz: the nearest matrix whose singular values are about 1."""
    x = gradient / (gradient.norm() + 1e-7)
    tall = x.size(0) > x.size(1)
    x = x.T if tall else x
    for _ in range(steps):
        a = x @ x.T
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    return x.T if tall else x


class Muon(torch.optim.Optimizer):
    def __init__(self, parameters, lr, momentum):
        super().__init__(parameters, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                buffer = self.state[p].setdefault("momentum_buffer", torch.zeros_like(p))
                buffer.mul_(group["momentum"]).add_(p.grad)
                update = p.grad.add(buffer, alpha=group["momentum"]).reshape(len(p), -1)
                p.mul_(len(p) ** 0.5 / p.norm())
                p.add_(orthogonalise(update).view(p.shape), alpha=-group["lr"])


class Lookahead:
    def __init__(self, net):
        self.net = net
        self.slow = {name: value.clone() for name, value in net.state_dict().items()}

    @torch.no_grad()
    def update(self, decay):
        for name, value in self.net.state_dict().items():
            if value.is_floating_point():
                self.slow[name].lerp_(value, 1 - decay)
                value.copy_(self.slow[name])


def triangle(step, steps, start, end, peak):
    top = int(peak * steps)
    if step < top:
        return start + (1 - start) * step / top
    return 1 + (end - 1) * (step - top) / (steps - top)


class Sgd:
    """airbench94: Nesterov SGD on all, with Lookahead."""

    batch_size, epochs = 1024, 9.9

    def __init__(self, net, steps, steps_per_epoch):
        scale = 1024 * (1 + 1 / (1 - 0.85))
        lr, decay = 11.5 / scale, 0.0153 * self.batch_size / scale
        norms = [p for name, p in net.named_parameters() if "norm" in name and p.requires_grad]
        rest = [p for name, p in net.named_parameters() if "norm" not in name and p.requires_grad]
        self.optimizer = torch.optim.SGD(
            [{"params": norms, "lr": 64 * lr, "weight_decay": decay / (64 * lr)},
             {"params": rest, "lr": lr, "weight_decay": decay / lr}], momentum=0.85, nesterov=True)
        self.rates = [group["lr"] for group in self.optimizer.param_groups]
        self.lookahead, self.steps = Lookahead(net), steps

    def set_rates(self, rates, decay):
        """Of the batch norms and of the rest, for batches of another size."""
        self.rates = rates
        for group, rate in zip(self.optimizer.param_groups, rates):
            group["weight_decay"] = decay / rate

    def step(self, step):
        for group, rate in zip(self.optimizer.param_groups, self.rates):
            group["lr"] = rate * triangle(step, self.steps, 0.2, 0.07, 0.23)
        self.optimizer.step()
        if (step + 1) % 5 == 0:
            self.lookahead.update(0.95 ** 5 * ((step + 1) / self.steps) ** 3)
        if step + 1 == self.steps:
            self.lookahead.update(1.0)


class WithMuon:
    """airbench94_muon: Muon on the filters, SGD on the rest."""

    batch_size, epochs = 2000, 8

    def __init__(self, net, steps, steps_per_epoch):
        decay, scale = 2e-6 * self.batch_size, (9 / 256) ** 2  # of the head's rate, whose scale is 1/9
        filters = [p for p in net.parameters() if p.ndim == 4 and p.requires_grad]
        norms = [p for name, p in net.named_parameters() if "norm" in name and p.requires_grad]
        groups = [(net.whiten.bias, 0.053), (norms, 0.053), (net.head.weight, 0.67 * scale)]
        self.sgd = torch.optim.SGD(
            [{"params": p, "lr": lr, "weight_decay": decay / lr} for p, lr in groups], momentum=0.85, nesterov=True)
        self.muon = Muon(filters, 0.24, 0.6)
        self.groups = [(group, group["lr"]) for group in self.sgd.param_groups + self.muon.param_groups]
        self.steps = steps

    def set_rates(self, rates, decay):
        """Of the whitening bias, the batch norms and the head, for batches of another size."""
        self.groups[:3] = [(group, rate) for (group, _), rate in zip(self.groups, rates)]
        for group, rate in self.groups[:3]:
            group["weight_decay"] = decay / rate

    def step(self, step):
        for group, rate in self.groups:
            group["lr"] = rate * (1 - step / self.steps)
        self.sgd.step()
        self.muon.step()


# ---- the run ----------------------------------------------------------------------------------


def views(images):
    padded = F.pad(images, (1,) * 4, "reflect")
    moved = [padded[:, :, 0:32, 0:32], padded[:, :, 2:34, 2:34]]
    return [(images, 0.25), (images.flip(-1), 0.25)] + [
        (view, 0.125) for image in moved for view in (image, image.flip(-1))]


@torch.no_grad()
def accuracy(net, images, labels, autocast, tta):
    net.eval()
    correct = 0
    for part, wanted in zip(images.split(1000), labels.split(1000)):
        with autocast():
            logits = sum(weight * net(view.contiguous(memory_format=torch.channels_last)).float()
                         for view, weight in (views(part) if tta else [(part, 1.0)]))
        correct += (logits.argmax(1) == wanted).sum().item()
    net.train()
    return correct / len(labels)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--recipe", choices=["airbench94", "airbench94-muon"], default="airbench94")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--amp", choices=["off", "bf16"], default="off")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--max-steps", type=int, default=1 << 30)
    args = parser.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    train, labels = read(args.data, [f"data_batch_{i}" for i in range(1, 6)])
    test, test_labels = read(args.data, ["test_batch"])
    kind = Sgd if args.recipe == "airbench94" else WithMuon
    net = Net().to(memory_format=torch.channels_last)
    net.init_whiten(train[:WHITEN_IMAGES])
    batches = Batches(train, kind.batch_size, 2)
    steps = math.ceil(kind.epochs * len(batches))
    update, whiten_steps = kind(net, steps, len(batches)), 3 * len(batches)
    autocast = lambda: torch.autocast("cpu", torch.bfloat16, args.amp == "bf16")
    begin, step = time.monotonic(), 0
    for epoch in range(math.ceil(kind.epochs)):
        for images, wanted in batches.epoch(labels, epoch):
            with autocast():
                logits = net(images.contiguous(memory_format=torch.channels_last), step < whiten_steps)
            loss = F.cross_entropy(logits.float(), wanted, label_smoothing=0.2, reduction="sum")
            net.zero_grad(set_to_none=True)
            loss.backward()
            update.step(step)
            step += 1
            if step >= min(steps, args.max_steps):
                break
        row = {"epoch": epoch + 1, "loss": loss.item() / len(wanted),
               "accuracy": accuracy(net, test, test_labels, autocast, False), "seconds": time.monotonic() - begin}
        print(json.dumps(row), flush=True)
        if step >= args.max_steps:
            return
    tta = accuracy(net, test, test_labels, autocast, True)
    print(json.dumps({"tta_accuracy": tta, "seconds": time.monotonic() - begin}))


if __name__ == "__main__":
    main()

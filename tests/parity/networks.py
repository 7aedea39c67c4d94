"""PyTorch's side of test_pytorch_networks.c: trains as yoke did, and compares.

Usage: networks.py ARCHITECTURE DTYPE LR WEIGHTS RESULTS. Exits with 77 when PyTorch is missing.

At random weights a ResNet magnifies rounding on its way down, a relu whose input is nearly 0 may
then pass or not, and gradients show it. So what a distance is worth shows beside two others:
PyTorch's from itself in channels_last, whose sums run in another order, and everybody's from f64.
Where PyTorch is farther from itself or from f64 than a bound asks, as in ResNet-50, twice that is
the bound. In f64 nothing of this is left, and the bound is 1e-7. Where a gradient is zero but for
rounding, as that of a shift which the next norm removes, its distance is judged beside all of them.
"""
import sys

try:
    import torch
    import torch.nn.functional as F
except ImportError as error:
    print("skipped:", error)
    sys.exit(77)

import resnet

torch.set_num_threads(1)
BOUNDS = (1e-5, 1e-2, 1e-4)  # of the loss, each gradient, statistics after 10 steps
EXACT = 1e-7  # of all of them in f64
LEAST = 1e-6  # share of all gradients below which a tensor's are taken for zero


def train(name, weights, steps, lr, dtype=torch.float32, memory_format=torch.contiguous_format,
          evaluation=False):
    """Losses, first gradients and last buffers, as the C side trains."""
    model = resnet.network(name, side=steps[0]["images"].shape[-1])
    model.to(dtype=dtype, memory_format=memory_format)
    model.load_state_dict(torch.load(weights, weights_only=True))
    model.train(not evaluation)
    for module in model.modules():
        if type(module).__name__ in ("Dropout", "StochasticDepth"):
            module.p = 0  # as the C side does: its draws are not PyTorch's
    settings = {"lr": lr, "momentum": 0.9, "weight_decay": 5e-4}
    optimizer = torch.optim.SGD(model.parameters(), **settings)
    losses, gradients = [], None
    for step in steps:
        optimizer.zero_grad()
        images = step["images"].to(dtype=dtype, memory_format=memory_format)
        loss = F.cross_entropy(model(images), step["labels"].long())
        loss.backward()
        losses.append(loss.item())
        if gradients is None:
            gradients = {name: torch.zeros_like(p) if p.grad is None else p.grad.clone()
                         for name, p in model.named_parameters()}
        optimizer.step()
    return {"losses": losses, "gradients": gradients, "buffers": dict(model.named_buffers())}


def relative_l2(a, b, least=0):
    distance, norm = (a.double() - b.double()).norm(), b.double().norm().clamp(min=least)
    return (distance / norm if norm > 0 else distance).item()  # 0 where both are frozen


def joined(tensors):
    return torch.cat([tensor.flatten() for tensor in tensors.values()])


def farthest_gradient(a, b):
    """The largest distance of tensors by name, and the name."""
    assert list(a) == list(b), "names or their order differ"
    least = LEAST * joined(b).double().norm()
    return max((relative_l2(a[name], b[name], least), name) for name in b)


def farthest_statistics(a, b):
    """A mean's distance is relative to the largest standard deviation, a variance's to itself."""
    assert list(a) == list(b), "names or their order differ"
    distances = [(0.0, "there are none")]
    for name in b:
        scale = b[name]
        if name.endswith("running_mean"):
            scale = b[name.replace("running_mean", "running_var")].sqrt()
        distances.append((((a[name] - b[name]).abs().max() / scale.max()).item(), name))
    return max(distances)


def compare(words, a, b):
    """How far training a is from training b; printed and returned."""
    loss = abs(a["losses"][0] - b["losses"][0]) / abs(b["losses"][0])
    gradient, where = farthest_gradient(a["gradients"], b["gradients"])
    together = relative_l2(joined(a["gradients"]), joined(b["gradients"]))
    print(f"  {words}: loss {loss:.1e}, a gradient {gradient:.1e} ({where}), all {together:.1e}")
    statistics, count = 0.0, len(a["losses"])
    if len(b["losses"]) == count:
        statistics, where = farthest_statistics(a["buffers"], b["buffers"])
        last = abs(a["losses"][-1] - b["losses"][-1]) / abs(b["losses"][-1])
        print(f"    step {count}: statistics {statistics:.1e} ({where}), loss {last:.1e}")
    return loss, gradient, statistics


def main(name, dtype, lr, mode, weights, path):
    results = torch.load(path)
    steps, dtype, lr = results["steps"], getattr(torch, dtype), float(lr)
    ours = {**results, "losses": [step["loss"] for step in steps]}
    evaluation = {"evaluation": mode == "evaluation"}
    theirs = train(name, weights, steps, lr, dtype, **evaluation)
    print(f"{name}, {str(dtype)[6:]}, images {tuple(steps[0]['images'].shape)}: relative distances")
    found = compare("yoke from PyTorch", ours, theirs)
    if dtype == torch.float64:
        return 0 if max(found) <= EXACT else 1
    other = train(name, weights, steps[:1], lr, memory_format=torch.channels_last, **evaluation)
    exact = train(name, weights, steps[:1], lr, torch.float64, **evaluation)
    own = compare("PyTorch in channels_last from PyTorch", other, theirs)
    compare("yoke from f64", ours, exact)
    off = compare("PyTorch from f64", theirs, exact)
    fine = [a <= max(b, 2 * c, 2 * d) for a, b, c, d in zip(found, BOUNDS, own, off)]
    return 0 if all(fine) else 1


sys.exit(main(*sys.argv[1:]))

"""PyTorch's own GradScaler on a CPU: the scales and the skipped steps for planted infinities.

PyTorch 2.3 and later have one for the CPU. Before, torch.cuda.amp.GradScaler keeps its two kernels
for CUDA alone: here they are given to the dispatcher for the CPU, as
ATen/native/cuda/AmpKernels.cu defines them; every line of Python above them is PyTorch's.

usage: scaler.py FILE | state CHECKPOINT
FILE begins with INIT_SCALE GROWTH_FACTOR BACKOFF_FACTOR GROWTH_INTERVAL KINDS, where KINDS has a
letter a step: '.' for finite gradients, 'i' with an infinity, 'm' minus infinity, 'n' NaN. A line a
step follows, with the step's scale, whether it was skipped and the weight after it; then the
scaler's state. `state` lets PyTorch's scaler take up that of yoke's CHECKPOINT, skip a step, and
writes its own in place of it.
"""
import math
import sys

try:
    import torch
    from torch.cuda.amp import grad_scaler
except ImportError as error:
    print(error)
    sys.exit(77)

SIZE = 1000


def update_scale(scale, tracker, found_inf, growth, backoff, interval):
    if found_inf.item():
        scale.fill_(float(scale.double() * backoff))
        tracker.fill_(0)
        return scale
    successful = int(tracker) + 1
    if successful == interval:
        grown = (scale.double() * growth).float()
        if math.isfinite(grown.item()):
            scale.copy_(grown)
        successful = 0
    tracker.fill_(successful)
    return scale


def check_and_unscale(grads, found_inf, inverse):
    for grad in grads:
        if not torch.isfinite(grad).all():
            found_inf.fill_(1.0)
        grad.mul_(inverse)


def scaler_before_2_3(**options):
    library = torch.library.Library("aten", "IMPL")
    library.impl("_amp_update_scale_", update_scale, "CPU")
    library.impl("_amp_foreach_non_finite_check_and_unscale_", check_and_unscale, "CPU")
    grad_scaler.amp_definitely_not_available = lambda: False

    def replicate(self, tensor):
        self.master = tensor
        self._per_device_tensors = {}

    grad_scaler._MultiDeviceReplicator.__init__ = replicate
    return grad_scaler.GradScaler(**options), library


def scaler_on_cpu(**options):
    """A GradScaler, and what must live as long."""
    own = hasattr(torch.amp, "GradScaler")
    scaler, library = (torch.amp.GradScaler("cpu", **options), None) if own else scaler_before_2_3(**options)
    scaler._lazy_init_scale_growth_tracker(torch.device("cpu"))
    return scaler, library


def torch_says(init, growth, backoff, interval, kinds):
    """A line a step, then the scaler's state_dict."""
    scaler, library = scaler_on_cpu(init_scale=float(init), growth_factor=float(growth),
                                    backoff_factor=float(backoff), growth_interval=int(interval))
    assert scaler.is_enabled()
    weight = torch.nn.Parameter(torch.ones(SIZE))
    optimizer = torch.optim.SGD([weight], lr=0.01)
    planted = {"i": math.inf, "m": -math.inf, "n": math.nan}
    lines = []
    for step, kind in enumerate(kinds):
        scale = scaler.get_scale()
        weight.grad = torch.full((SIZE,), 0.25) * scaler._scale
        if kind != ".":
            weight.grad[step * 37 % SIZE] = planted[kind]
        before = weight[0].item()
        scaler.step(optimizer)
        scaler.update()
        skipped = weight[0].item() == before
        lines.append("%.9g %d %.9g" % (scale, skipped, weight[0].item()))
    state = scaler.state_dict()
    lines.append("%.9g %.9g %.9g %d %d" % (
        state["scale"], state["growth_factor"], state["backoff_factor"], state["growth_interval"],
        state["_growth_tracker"]))
    del library
    return lines


def take_up(path):
    checkpoint = torch.load(path)
    scaler, library = scaler_on_cpu()
    scaler.load_state_dict(checkpoint["scaler"])
    assert scaler.state_dict() == checkpoint["scaler"], (scaler.state_dict(), checkpoint["scaler"])
    weight = torch.nn.Parameter(torch.ones(SIZE))
    weight.grad = torch.full((SIZE,), math.inf)
    scaler.step(torch.optim.SGD([weight], lr=0.01))
    scaler.update()
    checkpoint["scaler"] = scaler.state_dict()
    torch.save(checkpoint, path)
    print("PyTorch %s took it up and left %s" % (torch.__version__, scaler.state_dict()))
    del library


def main():
    if sys.argv[1] == "state":
        take_up(sys.argv[2])
        return
    ours = open(sys.argv[1]).read().splitlines()
    theirs = torch_says(*ours[0].split())
    for step, (mine, judge) in enumerate(zip(ours[1:], theirs)):
        if mine != judge:
            print("step %d: yoke \"%s\", PyTorch \"%s\"" % (step, mine, judge))
            sys.exit(1)
    if len(ours) - 1 != len(theirs):
        print("yoke has %d lines, PyTorch %d" % (len(ours) - 1, len(theirs)))
        sys.exit(1)
    steps = [line.split() for line in theirs[:-1]]
    scales = [step[0] for at, step in enumerate(steps) if at == 0 or steps[at - 1][0] != step[0]]
    print("%d steps, %d skipped; scales %s; state_dict %s" % (
        len(steps), sum(int(skipped) for _, skipped, _ in steps), " ".join(scales), theirs[-1]))
    print("yoke and PyTorch %s agree to the digit" % torch.__version__)


main()

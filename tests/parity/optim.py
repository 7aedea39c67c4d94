"""PyTorch's side of test_pytorch_optim.c: optimizers and schedules, 200 steps on a small model.

Usage: optim.py FOLDER. Writes init.pth, for every case of CASES its CASE.pth with the model after the
last step (and its average), rates.txt: "CASE STEP RATE MOMENTUM" in hexadecimal, and doubles.txt: the
parameters of each optimizer after 30 steps in f64. Exits with 77 when PyTorch is missing.
"""
import inspect
import math
import sys
import warnings

try:
    import torch
except ImportError as error:
    print("skipped:", error)
    sys.exit(77)
from torch import nn
from torch.optim import lr_scheduler as schedules
from torch.optim.swa_utils import AveragedModel

warnings.simplefilter("ignore")
folder = sys.argv[1]
STEPS, BATCH, FEATURES, CLASSES = 200, 32, 8, 5


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(FEATURES, 16), nn.Linear(16, CLASSES)

    def forward(self, x):
        return self.fc2(nn.functional.gelu(self.fc1(x)))


def batch(step):
    """The numbers that the C side makes up too."""
    x = [math.sin(0.37 * i * (1 + step % 7) + step) for i in range(BATCH * FEATURES)]
    labels = [(step + 3 * n + n * n) % CLASSES for n in range(BATCH)]
    return torch.tensor(x, dtype=torch.float64).float().view(BATCH, FEATURES), torch.tensor(labels)


def norms_apart(model):
    """weight_decay 0 for all vectors, in a group of their own."""
    decayed = [p for p in model.parameters() if p.ndim > 1]
    return [{"params": decayed}, {"params": [p for p in model.parameters() if p.ndim <= 1],
                                  "weight_decay": 0}]


def last_layer_slow(model):
    rest = [p for name, p in model.named_parameters() if not name.startswith("fc2.")]
    return [{"params": rest}, {"params": model.fc2.parameters(), "lr": 0.005}]


def everything(model):
    return model.parameters()


SGD, Adam, AdamW = torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW
NAdam, RAdam, Adamax = torch.optim.NAdam, torch.optim.RAdam, torch.optim.Adamax
Adagrad, Adadelta, RMSprop = torch.optim.Adagrad, torch.optim.Adadelta, torch.optim.RMSprop


def warm(optimizer, steps, schedule):
    return schedules.SequentialLR(
        optimizer, [schedules.LinearLR(optimizer, 1 / 3, total_iters=steps), schedule], [steps])


# name: groups, optimizer, its settings, schedule (stepped after every step), clipping, averaging
CASES = {
    "sgd": (everything, SGD, {"lr": 0.05}),
    "momentum": (everything, SGD, {"lr": 0.02, "momentum": 0.9}),
    "decay": (everything, SGD, {"lr": 0.02, "momentum": 0.9, "weight_decay": 5e-3}),
    "dampening": (everything, SGD, {"lr": 0.05, "momentum": 0.9, "dampening": 0.5}),
    "nesterov": (everything, SGD,
                 {"lr": 0.02, "momentum": 0.9, "weight_decay": 5e-4, "nesterov": True}),
    "adam": (everything, Adam, {"lr": 0.002, "betas": (0.85, 0.99), "eps": 1e-6,
                                "weight_decay": 1e-3}),
    "adamw": (everything, AdamW, {"lr": 0.002, "weight_decay": 0.05}),
    "amsgrad": (everything, Adam, {"lr": 0.002, "betas": (0.85, 0.9), "eps": 1e-6,
                                   "weight_decay": 1e-3, "amsgrad": True}),
    "amsgrad_adamw": (norms_apart, AdamW, {"lr": 0.002, "betas": (0.9, 0.95), "weight_decay": 0.05,
                                           "amsgrad": True}),
    "nadam": (everything, NAdam, {"lr": 0.002}),
    "nadam_decay": (norms_apart, NAdam, {"lr": 0.002, "betas": (0.8, 0.95), "eps": 1e-6, "weight_decay": 1e-2,
                                         "momentum_decay": 0.1}),
    "nadam_shrink": (everything, NAdam, {"lr": 0.002, "weight_decay": 0.05, "decoupled_weight_decay": True}),
    "radam": (everything, RAdam, {"lr": 0.002}),
    "radam_decay": (norms_apart, RAdam, {"lr": 0.002, "betas": (0.85, 0.97), "eps": 1e-6, "weight_decay": 1e-2}),
    "radam_shrink": (last_layer_slow, RAdam, {"lr": 0.002, "weight_decay": 0.05, "decoupled_weight_decay": True}),
    "adamax": (everything, Adamax, {"lr": 0.004}),
    "adamax_decay": (norms_apart, Adamax, {"lr": 0.004, "betas": (0.8, 0.9), "eps": 1e-3, "weight_decay": 1e-2}),
    "adagrad": (everything, Adagrad, {"lr": 0.02}),
    "adagrad_from": (norms_apart, Adagrad, {"lr": 0.02, "lr_decay": 0.01, "eps": 1e-6, "weight_decay": 1e-2,
                                            "initial_accumulator_value": 0.1}),
    "adadelta": (everything, Adadelta, {}),
    "adadelta_decay": (norms_apart, Adadelta, {"lr": 0.5, "rho": 0.8, "eps": 1e-4, "weight_decay": 1e-2}),
    "rmsprop": (everything, RMSprop, {"lr": 5e-4, "eps": 1e-4}),
    "rmsprop_decay": (norms_apart, RMSprop, {"lr": 0.002, "alpha": 0.9, "eps": 0.0316,
                                             "weight_decay": 1e-2, "momentum": 0.9}),
    "rmsprop_centered": (last_layer_slow, RMSprop, {"lr": 0.002, "alpha": 0.95, "eps": 1e-4,
                                                    "centered": True}),
    "rmsprop_both": (everything, RMSprop, {"lr": 5e-4, "alpha": 0.95, "eps": 1e-3,
                                           "weight_decay": 1e-3, "momentum": 0.8, "centered": True}),
    "norms_apart": (norms_apart, SGD, {"lr": 0.02, "momentum": 0.9, "weight_decay": 0.01}),
    "last_slow": (last_layer_slow, SGD, {"lr": 0.02, "momentum": 0.9}),
    "step": (everything, SGD, {"lr": 0.05}, lambda o: schedules.StepLR(o, 40, 0.5)),
    "multistep": (last_layer_slow, SGD, {"lr": 0.05},
                  lambda o: schedules.MultiStepLR(o, [50, 120])),
    "cosine": (everything, SGD, {"lr": 0.05},
               lambda o: schedules.CosineAnnealingLR(o, 160, 0.001)),
    "warm_cosine": (norms_apart, AdamW, {"lr": 0.004, "weight_decay": 0.05},
                    lambda o: warm(o, 20, schedules.CosineAnnealingLR(o, 180))),
    "restarts": (last_layer_slow, SGD, {"lr": 0.05},
                 lambda o: schedules.CosineAnnealingWarmRestarts(o, 30, eta_min=0.001)),
    "growing_restarts": (everything, SGD, {"lr": 0.05},
                         lambda o: schedules.CosineAnnealingWarmRestarts(o, 10, 2)),
    "warm_restarts": (everything, SGD, {"lr": 0.05},
                      lambda o: warm(o, 20, schedules.CosineAnnealingWarmRestarts(o, 15, 3))),
    "polynomial": (last_layer_slow, SGD, {"lr": 0.05},
                   lambda o: schedules.PolynomialLR(o, 180, 0.9)),
    "exponential": (last_layer_slow, SGD, {"lr": 0.05},
                    lambda o: schedules.ExponentialLR(o, 0.97)),
    "warm_step": (everything, SGD, {"lr": 0.05},
                  lambda o: warm(o, 30, schedules.StepLR(o, 60))),
    "onecycle": (everything, SGD, {"lr": 0.05, "momentum": 0.9},
                 lambda o: schedules.OneCycleLR(o, 0.05, total_steps=STEPS)),
    "onecycle_adam": (everything, Adam, {"lr": 0.004},
                      lambda o: schedules.OneCycleLR(o, 0.004, total_steps=STEPS, pct_start=0.4,
                                                     three_phase=True, anneal_strategy="linear")),
    "onecycle_rmsprop": (everything, RMSprop, {"lr": 0.002, "eps": 1e-3, "momentum": 0.9},
                         lambda o: schedules.OneCycleLR(o, 0.002, total_steps=STEPS)),
    "cyclic": (everything, SGD, {"lr": 0.05, "momentum": 0.9},
               lambda o: schedules.CyclicLR(o, 0.005, 0.05, 30, 20, base_momentum=0.85, max_momentum=0.95)),
    "cyclic_halved": (everything, SGD, {"lr": 0.05, "momentum": 0.9},
                      lambda o: schedules.CyclicLR(o, 0.001, 0.05, 25, mode="triangular2", base_momentum=0.85,
                                                   max_momentum=0.95)),
    "cyclic_range": (everything, Adam, {"lr": 0.004},
                     lambda o: schedules.CyclicLR(o, 0.0005, 0.004, 15, 25, mode="exp_range", gamma=0.99,
                                                  cycle_momentum=False)),
    "constant_warm": (last_layer_slow, SGD, {"lr": 0.05},
                      lambda o: schedules.SequentialLR(o, [schedules.ConstantLR(o, 0.25, 30),
                                                           schedules.StepLR(o, 60)], [30])),
    "clip": (everything, SGD, {"lr": 0.05, "momentum": 0.9}, None, 0.3),
    "ema": (everything, SGD, {"lr": 0.05}, None, None, 0.95),
}


def decoupled(kind):
    """The same optimizer with decoupled weight decay, for a PyTorch that does not have it."""
    class Decoupled(kind):
        @torch.no_grad()
        def step(self):
            decays = [group["weight_decay"] for group in self.param_groups]
            for group in self.param_groups:
                for parameter in group["params"]:
                    parameter.mul_(1 - group["lr"] * group["weight_decay"])
                group["weight_decay"] = 0
            super().step()
            for group, decay in zip(self.param_groups, decays):
                group["weight_decay"] = decay
    return Decoupled


def make_optimizer(kind, parameters, settings):
    """As PyTorch 2 does it. PyTorch 1 does not decouple the decay of NAdam and RAdam, and the loop of
    its NAdam that is not foreach's multiplies with mu twice."""
    settings = dict(settings)
    if kind is NAdam and torch.__version__ < "2":
        settings["foreach"] = True
    if "decoupled_weight_decay" not in inspect.signature(kind).parameters:
        kind = decoupled(kind) if settings.pop("decoupled_weight_decay", False) else kind
    return kind(parameters, **settings)


def train(name, groups, kind, settings, schedule=None, clip=None, decay=None):
    model = Small()
    model.load_state_dict(init)
    optimizer = make_optimizer(kind, groups(model), settings)
    scheduler = schedule(optimizer) if schedule else None
    average = decay and AveragedModel(
        model, avg_fn=lambda mean, value, n: mean + (1 - decay) * (value - mean))
    for step in range(STEPS):
        for number, group in enumerate(optimizer.param_groups):
            second = group["betas"][0] if "betas" in group else group.get("momentum", group.get("lr_decay", group.get("rho")))
            rates.write(f"{name} {step} {number} {group['lr'].hex()} {float(second).hex()}\n")
        x, labels = batch(step)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), labels).backward()
        if clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        if scheduler:
            scheduler.step()
        if average:
            average.update_parameters(model)
    torch.save((average.module if average else model).state_dict(), f"{folder}/{name}.pth")


def step_doubles(name, groups, kind, settings):
    """Gradients and first values are what the C side makes up too."""
    model = nn.Linear(3, 2).double()
    numbers = [0.5 * (i + 1) * (-1 if i % 2 else 1) for i in range(6)]
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.tensor(numbers[:parameter.numel()]).view_as(parameter))
    optimizer = make_optimizer(kind, groups(model), settings)
    for step in range(1, 31):
        for p, parameter in enumerate(model.parameters()):
            grad = [0.3 * math.sin(1.3 * step + i + 10 * p) for i in range(parameter.numel())]
            parameter.grad = torch.tensor(grad, dtype=torch.float64).view_as(parameter)
        optimizer.step()
    values = [value.item().hex() for parameter in model.parameters() for value in parameter.flatten()]
    doubles.write(f"{name} {' '.join(values)}\n")


torch.manual_seed(0)
init = Small().state_dict()
torch.save(init, f"{folder}/init.pth")
with open(f"{folder}/rates.txt", "w") as rates:
    for case, row in CASES.items():
        train(case, *row)
with open(f"{folder}/doubles.txt", "w") as doubles:
    for case, row in CASES.items():
        if len(row) == 3 and row[0] is not last_layer_slow:
            step_doubles(case, *row)

#!/usr/bin/env python3
"""The peer of operators.c: the same operators in PyTorch.

usage: pytorch_operators.py THREADS

Reads lines of a FORM and a problem as in operators.c, and prints the ms of a run. Forms of an operator are the layouts of
images, contiguous and channels_last, and of an optimizer for_loop, foreach and fused. The gradient is what
torch.autograd.grad takes.
"""
import statistics, sys, time
import torch
from torch.nn import functional as F

WARM_UP_S, MEASURED_S, LEAST_RUNS = 0.015, 0.025, 5  # as in operators.c
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
FORMS = {"contiguous": torch.contiguous_format, "channels_last": torch.channels_last}
TENSORS = 16


def draw(shape, form, dtype=torch.float32):
    x = (torch.rand(shape) * 2 - 1).to(dtype)
    return x.contiguous(memory_format=FORMS[form]) if x.dim() == 4 else x


def draw_labels(shape):
    count = torch.Size([shape[0], *shape[2:]]).numel()
    return (torch.arange(count) * 7 % shape[1]).reshape(shape[0], *shape[2:])


def attention_of(heads, is_causal):
    """Of queries, keys and values side by side."""
    known = hasattr(F, "scaled_dot_product_attention")
    attend = F.scaled_dot_product_attention if known else lambda *all: F._scaled_dot_product_attention(*all[:5], False, all[5])[0]

    def call(x):
        parts = (part.unflatten(-1, (heads, -1)).transpose(1, 2) for part in x.chunk(3, -1))
        return attend(*parts, None, 0.0, is_causal).transpose(1, 2).flatten(2)
    return call


def forward_of(name, form, dtype, shape, other):
    """The inputs that have gradients, and a function of them."""
    x = draw(shape, form, dtype)
    if name in ("add", "subtract", "multiply", "divide", "concat"):
        call = {"add": torch.add, "subtract": torch.sub, "multiply": torch.mul, "divide": torch.div,
                "concat": lambda a, b: torch.cat([a, b], 1)}[name]
        return [x, draw(other, form, dtype)], call
    if name == "layer_norm":
        return [x, torch.ones(other), torch.zeros(other)], lambda x, weight, bias: F.layer_norm(x, other, weight, bias)
    if name == "rms_norm":
        return [x, torch.ones(other)], lambda x, weight: F.rms_norm(x, other, weight, 1e-5)
    if name == "rotary":  # as Hugging Face's Llama does it, with ready tables
        width = shape[2] // other[0]
        angles = torch.outer(torch.arange(shape[1]).float(), 10000.0 ** (-torch.arange(0, width, 2).float() / width))
        cos, sin = (f(torch.cat([angles, angles], -1)).to(dtype) for f in (torch.cos, torch.sin))

        def turn(x):
            heads = x.unflatten(-1, (other[0], width)).transpose(1, 2)
            first, second = heads.chunk(2, -1)
            return (heads * cos + torch.cat([-second, first], -1) * sin).transpose(1, 2).flatten(2)

        return [x], turn
    if name.startswith("attention"):
        return [x], attention_of(other[0], name.endswith("causal"))
    if name == "matmul":
        return [x, draw(other, form, dtype)], torch.matmul
    if name == "matmul_turned":
        return [x, draw(other, form, dtype)], lambda q, k: torch.matmul(q, k.transpose(-1, -2))
    if name == "group_norm":
        channels = shape[1]
        return ([x, torch.ones(channels), torch.zeros(channels)],
                lambda x, weight, bias: F.group_norm(x, other[0], weight, bias))
    if name == "batch_norm":
        channels = shape[1]
        return ([x, torch.ones(channels), torch.zeros(channels)],
                lambda x, weight, bias: F.batch_norm(x, torch.zeros(channels), torch.ones(channels), weight, bias, True))
    if name.startswith("cross_entropy"):
        labels = draw_labels(shape)
        if name.endswith("soft"):
            labels = draw(shape, form)
        weight = torch.ones(shape[1]) if name.endswith("weighted") else None
        smoothing = 0.1 if name.endswith("smoothed") else 0.0
        return [x], lambda x: F.cross_entropy(x, labels, weight, label_smoothing=smoothing)
    if name.startswith("bce"):
        target = draw(shape, form)
        weight = torch.ones(shape[1], *[1] * (len(shape) - 2)) if name.endswith("weighted") else None
        return [x], lambda x: F.binary_cross_entropy_with_logits(x, target, pos_weight=weight)
    if name.endswith("_loss"):
        return [x, draw(shape, form)], getattr(F, name)
    if name in ("to_plain", "to_blocked"):
        ways = [torch.channels_last, torch.contiguous_format]
        before, after = ways if name == "to_plain" else ways[::-1]
        return [x.contiguous(memory_format=before)], lambda x: x.contiguous(memory_format=after)
    call = {"scale": lambda x: x * 0.5, "dropout": lambda x: F.dropout(x, 0.5), "softmax": lambda x: F.softmax(x, -1),
            "exp": torch.exp, "log": torch.log, "abs": torch.abs, "square": lambda x: x**2,
            "clamp": lambda x: torch.clamp(x, -0.5, 0.5), "add_scalar": lambda x: x + 0.5,
            "cast": lambda x: x.to(torch.bfloat16)}
    return [x], call.get(name) or getattr(F, name)


def pass_of(name, form, shape):
    """A pass over all parameters."""
    count = torch.Size(shape).numel() // TENSORS
    parameters = [torch.rand(count).requires_grad_() for _ in range(TENSORS)]
    for parameter in parameters:
        parameter.grad = torch.rand(count)
    how = {} if form == "for_loop" else {form: True}
    if name == "clip_grad_norm":
        norm = 0.999 * float(torch.nn.utils.get_total_norm([p.grad for p in parameters]))
        return lambda: torch.nn.utils.clip_grad_norm_(parameters, norm, foreach=form == "foreach")
    if name == "ema":
        averages = [torch.rand(count) for _ in range(TENSORS)]
        if form == "foreach":
            return lambda: torch._foreach_lerp_(averages, parameters, 1e-3)
        return lambda: [average.lerp_(value, 1e-3) for average, value in zip(averages, parameters)]
    if name == "sgd":
        return torch.optim.SGD(parameters, 1e-3, momentum=0.9, weight_decay=1e-4, **how).step
    return torch.optim.Adam(parameters, 1e-3, weight_decay=1e-4, **how).step


def prepare(form, name, dtype, way, shape, other):
    """A function that runs the problem once."""
    shape, other = ([int(size) for size in text.split("x")] for text in (shape, other))
    if name in ("sgd", "adam", "ema", "clip_grad_norm"):
        run = pass_of(name, form, shape)
        return torch.no_grad()(run) if name == "ema" else run
    inputs, call = forward_of(name, form, DTYPES[dtype], shape, other)
    if way == "forward":
        return torch.no_grad()(lambda: call(*inputs))
    for x in inputs:
        x.requires_grad_()
    y = call(*inputs)
    dy = torch.ones_like(y) if y.dim() == 0 else draw(y.shape, form, y.dtype)
    return lambda: torch.autograd.grad(y, inputs, dy, retain_graph=True)


def repeat(run, seconds):
    """Repeats runs for so many seconds; the median of their ms."""
    begin = now = time.perf_counter()
    ms = []
    while len(ms) < LEAST_RUNS or now < begin + seconds:
        start = now
        run()
        now = time.perf_counter()
        ms.append(1e3 * (now - start))
    return statistics.median(ms)


def main():
    torch.set_num_threads(int(sys.argv[1]))
    prepared, problem = {}, None
    for line in sys.stdin:
        form, *words = line.split()
        if words != problem:
            prepared, problem = {}, words
        if form not in prepared:
            prepared[form] = prepare(form, *words)
        repeat(prepared[form], WARM_UP_S)
        print(f"{repeat(prepared[form], MEASURED_S):.5f}", flush=True)


main()

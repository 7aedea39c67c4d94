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

WARM_UP_S, MEASURED_S, LEAST_RUNS = 0.015, 0.025, 3  # as in operators.c
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
FORMS = {"contiguous": torch.contiguous_format, "channels_last": torch.channels_last}
TENSORS = 16


def draw(shape, form, dtype=torch.float32):
    x = (torch.rand(shape) * 2 - 1).to(dtype)
    return x.contiguous(memory_format=FORMS[form]) if x.dim() == 4 else x


def draw_labels(shape):
    count = torch.Size([shape[0], *shape[2:]]).numel()
    return (torch.arange(count) * 7 % shape[1]).reshape(shape[0], *shape[2:])


def heads_of(x, heads):
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def attention_of(name, heads, kv_heads):
    """Of queries, keys and values: side by side in one tensor, or apart."""
    is_causal, p = name.endswith("causal"), 0.1 if name.endswith("dropout") else 0.0
    shared = {"enable_gqa": True} if kv_heads != heads else {}

    def call(x, *others):
        if others:
            parts = (x, *others)
        else:
            width = x.shape[-1] // (heads + 2 * kv_heads)
            parts = x.split((heads * width, kv_heads * width, kv_heads * width), -1)
        q, k, v = (heads_of(part, count) for part, count in zip(parts, (heads, kv_heads, kv_heads)))
        return F.scaled_dot_product_attention(q, k, v, None, p, is_causal, **shared).transpose(1, 2).flatten(2)
    return call


def convolution_of(name, x, other, dtype):
    """The weights of a convolution, and its function."""
    channels = x.shape[1]
    if name == "conv1d":  # in PyTorch, of (N, C, T)
        weight = draw([other[0], channels, other[1]], None, dtype)
        return [x.squeeze(2), weight], F.conv1d
    filters, side, stride, padding = other
    if name == "conv_transpose2d":
        weight, bias = draw([channels, filters, side, side], "channels_last", dtype), torch.zeros(filters, dtype=dtype)
        return [x, weight, bias], lambda x, weight, bias: F.conv_transpose2d(x, weight, bias, stride, padding)
    groups = channels if name == "conv2d_depthwise" else 1
    weight = draw([filters, channels // groups, side, side], "channels_last", dtype)
    return [x, weight], lambda x, weight: F.conv2d(x, weight, None, stride, padding, 1, groups)


def pool_of(name, other):
    if name == "max_pool2d":
        return lambda x: F.max_pool2d(x, *other)
    if name == "avg_pool2d":
        return lambda x: F.avg_pool2d(x, *other)
    return lambda x: F.adaptive_avg_pool2d(x, 1 if name == "global_avg_pool2d" else other)


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
    if name == "attention_cross":
        keys = [shape[0], other[1], shape[2]]
        return [x, draw(keys, form, dtype), draw(keys, form, dtype)], attention_of(name, other[0], other[0])
    if name.startswith("attention"):
        return [x], attention_of(name, other[0], other[-1])
    if name.startswith("conv"):
        return convolution_of(name, x, other, dtype)
    if name == "max_pool1d":  # in PyTorch, of (N, C, T)
        return [x.squeeze(2)], lambda x: F.max_pool1d(x, *other)
    if "pool2d" in name:
        return [x], pool_of(name, other)
    if name.startswith("interpolate"):
        return [x], lambda x: F.interpolate(x, other, mode=name.split("_")[1])
    if name == "linear":
        weight, bias = draw([other[0], shape[-1]], form, dtype), torch.zeros(other[0], dtype=dtype)
        return [x, weight, bias], F.linear
    if name == "embedding":
        indices = (torch.arange(x.numel()) * 7 % other[0]).reshape(shape)
        return [draw(other, form)], lambda weight: F.embedding(indices, weight)
    if name == "take_along_dim":
        count = torch.Size(other).numel()
        index = (torch.arange(count) * 7 % shape[1]).reshape(shape[0], -1, *[1] * (x.dim() - 2))
        return [x], lambda x: x.take_along_dim(index, 1)
    if name == "permute":
        return [x], lambda x: x.permute(other).contiguous()
    if name == "slice":
        return [x], lambda x: x.narrow(*other).contiguous()
    if name == "pad":
        dim, before, after = other
        return [x], lambda x: F.pad(x, [0, 0] * (x.dim() - 1 - dim) + [before, after])
    if name == "amax":
        return [x], lambda x: x.amax(other[0], keepdim=True)
    if name == "sum":
        return [x], lambda x: x.sum(other[0], keepdim=True)
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
            "log_softmax": lambda x: F.log_softmax(x, -1),
            "mean_all": torch.mean, "sqrt": torch.sqrt, "randn_like": torch.randn_like, "exp": torch.exp, "sin": torch.sin, "cos": torch.cos, "log": torch.log, "abs": torch.abs, "square": lambda x: x**2,
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


def recurrent_of(name, dtype, way, shape, other):
    """A recurrent layer that is trained."""
    layer = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU}[name](shape[2], *other, batch_first=True).to(dtype)
    x, parameters = draw(shape, None, dtype), list(layer.parameters())
    if way == "forward":
        return lambda: layer(x)
    y = layer(x)[0]
    dy = torch.ones_like(y)
    return lambda: torch.autograd.grad(y, parameters, dy, retain_graph=True)


def prepare(form, name, dtype, way, shape, other):
    """A function that runs the problem once."""
    shape, other = ([int(size) for size in text.split("x")] for text in (shape, other))
    if name in ("sgd", "adam", "ema", "clip_grad_norm"):
        run = pass_of(name, form, shape)
        return torch.no_grad()(run) if name == "ema" else run
    if name in ("lstm", "gru"):
        return recurrent_of(name, DTYPES[dtype], way, shape, other)
    inputs, call = forward_of(name, form, DTYPES[dtype], shape, other)
    if way == "forward":
        return torch.no_grad()(lambda: call(*inputs))
    for x in inputs:
        x.requires_grad_()
    y = call(*inputs)
    dy = torch.ones_like(y) if y.dim() == 0 else draw(y.shape, form, y.dtype)

    def gradients():
        return torch.autograd.grad(y, inputs, dy, retain_graph=True)

    if name == "permute":  # whose gradient is a view, which moves nothing until something reads it
        return lambda: gradients()[0].contiguous()
    return gradients


def repeat(run, seconds):
    """Repeats runs for so many seconds; the median of their ms, for one thread of its processor."""
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    begin = now = clock()
    ms = []
    while len(ms) < LEAST_RUNS or now < begin + seconds:
        start = now
        run()
        now = clock()
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

"""PyTorch's side of operator_compare.c: does what yoke did, and compares.

Usage: operators.py OPERATOR TOLERANCE DEVICE FILE [DEVICE FILE]. Exits with 77 when PyTorch is
missing. The files hold the same cases, run on different devices.

Of every tensor (output, gradients, running statistics) the largest difference from PyTorch's f32 is
taken relative to the largest number of PyTorch's, and must be within the tolerance. Both are also
compared with PyTorch in f64 on the same numbers, to tell whose rounding a difference is.
"""
import math
import sys

try:
    import torch
    import torch.nn.functional as F
except ImportError as error:
    print("skipped:", error)
    sys.exit(77)

torch.set_num_threads(1)


def dropout(x, attrs, training, out):
    """The generators differ, so the mask is taken from yoke's output; check_dropout judges it."""
    if not training:
        return F.dropout(x, attrs["p"], training=False)
    return x * ((out != 0) | (x == 0)) / (1 - attrs["p"])


def mix64(x):
    """SplitMix64's finaliser, in int64."""
    x = x - 0x61C8864680B583EB
    x = (x ^ (x >> 30 & 0x3FFFFFFFF)) * -0x40A7B892E31B1A47
    x = (x ^ (x >> 27 & 0x1FFFFFFFFF)) * -0x6B2FB644ECCEEE15
    return x ^ (x >> 31 & 0x1FFFFFFFF)


def kept(attrs, shape):
    """What graph/dropout.h keeps, with the seed and the step of operator_case.c."""
    seed, step, salt = torch.tensor([5, 6, attrs["salt"]])
    elements = torch.arange(shape.numel()).reshape(shape)
    draws = mix64(mix64(mix64(seed) ^ step) ^ (mix64(salt) + elements)) >> 11 & (1 << 53) - 1
    return draws >= math.ceil(attrs["p"] * 2**53)


def batch_norm(tensors, attrs, training):
    if training and tensors["num_batches_tracked"] is not None:
        tensors["num_batches_tracked"] += 1
    return F.batch_norm(
        tensors["x"], tensors["running_mean"], tensors["running_var"], tensors["weight"],
        tensors["bias"], training, attrs["momentum"], attrs["eps"],
    )


def attention(t, attrs, training):
    """Heads lie side by side, and so do queries, keys and values where there are no keys."""
    heads, kv_heads = int(attrs["heads"]), int(attrs["kv_heads"])
    counts = heads, kv_heads, kv_heads
    if "k" in t:
        parts = t["x"], t["k"], t["v"]
    else:
        parts = t["x"].split([t["x"].shape[-1] // sum(counts) * count for count in counts], -1)
    q, k, v = (part.unflatten(-1, (count, -1)).transpose(1, 2) for count, part in zip(counts, parts))
    k, v = (part.repeat_interleave(heads // kv_heads, 1) for part in (k, v))
    p, mask = attrs["p"] if training else 0, t.get("mask")
    if attrs["causal"] and mask is not None:
        hidden = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).triu(1)
        mask = (mask + torch.zeros(hidden.shape)).masked_fill(hidden, -torch.inf).to(q.dtype)
    causal = bool(attrs["causal"]) and mask is None
    if p == 0 and torch.__version__ >= (2, 5):
        y = F.scaled_dot_product_attention(q, k, v, mask, is_causal=causal, scale=attrs["alpha"])
    else:
        scores = attrs["alpha"] * q @ k.transpose(2, 3)
        if causal:
            mask = torch.ones_like(scores, dtype=torch.bool).triu(1)
            scores = scores.masked_fill(mask, -torch.inf)
        elif mask is not None:
            scores = scores + mask
        hidden = (scores == -torch.inf).all(-1, True)
        shares = F.softmax(scores.masked_fill(hidden, 0), -1) * ~hidden
        y = (shares * kept(attrs, shares.shape) / (1 - p) if p else shares) @ v
    return y.transpose(1, 2).flatten(2)


def rotate_half(x):
    first, second = x.chunk(2, -1)
    return torch.cat([-second, first], -1)


def rotary(x, attrs):
    """As Hugging Face's Llama turns halves, and Meta's neighbours, which are complex numbers."""
    dims, positions = int(attrs["rotary"]), torch.arange(x.shape[1]) + attrs["first"]
    frequencies = 1.0 / attrs["alpha"] ** (torch.arange(0, dims, 2).float() / dims)
    angles = torch.outer(positions.float(), frequencies)
    heads = x.unflatten(-1, (int(attrs["heads"]), -1)).transpose(1, 2)
    turned, rest = heads[..., :dims], heads[..., dims:]
    if attrs["interleaved"]:
        factors = torch.polar(torch.ones_like(angles, dtype=x.dtype), angles.to(x.dtype))
        pairs = torch.view_as_complex(turned.unflatten(-1, (-1, 2)).contiguous())
        turned = torch.view_as_real(pairs * factors).flatten(-2)
    else:
        twice = torch.cat([angles, angles], -1).to(x.dtype)
        turned = turned * twice.cos() + rotate_half(turned) * twice.sin()
    return torch.cat([turned, rest], -1).transpose(1, 2).flatten(2)


def interpolate(x, attrs):
    size = int(attrs["rows"]), int(attrs["columns"])
    if not attrs["bilinear"]:
        return F.interpolate(x, size)
    return F.interpolate(x, size, mode="bilinear", align_corners=bool(attrs["align_corners"]))


def matmul(a, b, attrs):
    """The matrices of all heads are rows of their sample."""
    a, b = (x.unflatten(1, (int(attrs["heads"]), -1)) for x in (a, b))
    a = a.transpose(2, 3) if attrs["transpose_a"] else a
    b = b.transpose(2, 3) if attrs["transpose_b"] else b
    return torch.matmul(a, b).flatten(1, 2)


def compute(operator, t, attrs, training, out):
    """t: the inputs by name."""
    window = (attrs["kernel"], attrs["stride"], attrs["padding"])
    if operator == "conv2d":
        step = (attrs["stride"], attrs["padding"], attrs["dilation"], attrs["groups"])
        return F.conv2d(t["x"], t["weight"], t.get("bias"), *step)
    if operator == "conv_transpose2d":
        step = [attrs[n] for n in "stride padding output_padding groups dilation".split()]
        return F.conv_transpose2d(t["x"], t["weight"], t.get("bias"), *step)
    if operator == "linear":
        return F.linear(t["x"], t["weight"], t.get("bias"))
    if operator == "batch_norm":
        return batch_norm(t, attrs, training)
    if operator == "dropout":
        return dropout(t["x"], attrs, training, out)
    if operator == "cross_entropy":
        how = {"label_smoothing": attrs["label_smoothing"], "ignore_index": attrs["ignore_index"]}
        how["weight"] = t.get("class_weight")
        labels = t["labels"] if t["labels"].is_floating_point() else t["labels"].long()
        if attrs["classes_last"]:
            classes = t["x"].shape[-1]
            shape = (-1, classes) if labels.is_floating_point() else (-1,)
            return F.cross_entropy(
                t["x"].reshape(-1, classes), labels.reshape(shape), reduction=reduction(attrs), **how)
        return F.cross_entropy(t["x"], labels, reduction=reduction(attrs), **how)
    return {
        "relu": lambda: F.relu(t["x"]),
        "mse_loss": lambda: F.mse_loss(t["x"], t["other"], reduction=reduction(attrs)),
        "smooth_l1_loss": lambda: F.smooth_l1_loss(
            t["x"], t["other"], reduction=reduction(attrs), beta=attrs["beta"]),
        "binary_cross_entropy_with_logits": lambda: F.binary_cross_entropy_with_logits(
            t["x"], t["target"], reduction=reduction(attrs), pos_weight=weights(t)),
        "gelu": lambda: F.gelu(t["x"]),
        "relu6": lambda: F.relu6(t["x"]),
        "sigmoid": lambda: torch.sigmoid(t["x"]),
        "silu": lambda: F.silu(t["x"]),
        "multiply": lambda: t["x"] * t["other"],
        "concat": lambda: torch.cat(list(t.values()), attrs["dim"]),
        "scaled_dot_product_attention": lambda: attention(t, attrs, training),
        "embedding": lambda: F.embedding(t["x"].long(), t["weight"]),
        "softmax": lambda: F.softmax(t["x"], -1),
        "log_softmax": lambda: F.log_softmax(t["x"], -1),
        "layer_norm": lambda: F.layer_norm(t["x"], t["weight"].shape, t["weight"], t["bias"], attrs["eps"]),
        "rotary_embedding": lambda: rotary(t["x"], attrs),
        "rms_norm": lambda: rms_norm(t["x"], t["weight"], attrs["eps"]),
        "group_norm": lambda: torch.group_norm(
            t["x"], attrs["groups"], t.get("weight"), t.get("bias"), attrs["eps"]),
        "matmul": lambda: matmul(t["x"], t["other"], attrs),
        "hardswish": lambda: F.hardswish(t["x"]),
        "tanh": lambda: torch.tanh(t["x"]),
        "leaky_relu": lambda: F.leaky_relu(t["x"], attrs["alpha"]),
        "elu": lambda: F.elu(t["x"], attrs["alpha"]),
        "sin": lambda: torch.sin(t["x"]),
        "cos": lambda: torch.cos(t["x"]),
        "sum": lambda: t["x"].sum(attrs["dim"], keepdim=True),
        "amax": lambda: t["x"].amax(attrs["dim"], keepdim=True),
        "amin": lambda: t["x"].amin(attrs["dim"], keepdim=True),
        "reduce_loss": lambda: getattr(t["above"], reduction(attrs))(),
        "exp": lambda: torch.exp(t["x"]),
        "log": lambda: torch.log(*t.values()),
        "abs": lambda: torch.abs(t["x"]),
        "pow": lambda: torch.pow(*t.values(), attrs["alpha"]),
        "clamp": lambda: torch.clamp(t["x"], attrs["alpha"], attrs["beta"]),
        "subtract": lambda: torch.sub(*t.values()),
        "divide": lambda: torch.div(*t.values()),
        "maximum": lambda: torch.maximum(*t.values()),
        "minimum": lambda: torch.minimum(*t.values()),
        "greater": lambda: torch.greater(*t.values()).to(t["x"]),
        "greater_equal": lambda: torch.greater_equal(*t.values()).to(t["x"]),
        "masked_fill": lambda: torch.where(
            t["other"] != 0, *(t["x"], attrs["alpha"])[:: 1 if attrs["beta"] else -1]),
        "add_scalar": lambda: t["x"] + attrs["alpha"],
        "add": lambda: t["x"] + t["other"],
        "scale": lambda: t["x"] * attrs["alpha"],
        "permute": lambda: t["x"].permute(attrs["dims"][: t["x"].ndim]),
        "slice": lambda: t["x"].narrow(attrs["dim"], attrs["first"], attrs["count"]),
        "pad": lambda: F.pad(t["x"], [0, 0] * (t["x"].ndim - 1 - attrs["dim"]) + around(t["x"], attrs)),
        "reshape": lambda: t["x"].reshape(out.shape),
        "flatten": lambda: torch.flatten(t["x"], 1),
        "max_pool2d": lambda: F.max_pool2d(t["x"], *window, ceil_mode=bool(attrs["ceil_mode"])),
        "avg_pool2d": lambda: F.avg_pool2d(t["x"], *window, bool(attrs["ceil_mode"]),
                                           bool(attrs["count_include_pad"])),
        "interpolate": lambda: interpolate(t["x"], attrs),
        "adaptive_avg_pool2d": lambda: F.adaptive_avg_pool2d(t["x"], out.shape[2:]),
        "global_avg_pool2d": lambda: F.adaptive_avg_pool2d(t["x"], 1),
    }[operator]()


def rms_norm(x, weight, eps):
    """F.rms_norm, which PyTorch has from 2.4 on."""
    if hasattr(F, "rms_norm"):
        return F.rms_norm(x, weight.shape, weight, eps)
    return x * torch.rsqrt(x.square().mean(tuple(range(-weight.ndim, 0)), keepdim=True) + eps) * weight


def around(x, attrs):
    """How many zeros there are before and after x."""
    return [attrs["first"], attrs["count"] - attrs["first"] - x.shape[attrs["dim"]]]


def weights(t):
    """One for each channel, in PyTorch's shape."""
    if "pos_weight" not in t:
        return None
    return t["pos_weight"].reshape([-1] + [1] * (t["x"].ndim - 2))


def reduction(attrs):
    return "sum" if attrs["sum"] else "mean"


def run(operator, case, dtype):
    """Forward and backward in dtype; tensors by name."""
    inputs = {k: v.to(dtype) if v.is_floating_point() else v.clone() for k, v in case["in"].items()}
    for name in case["din"]:
        inputs[name] = inputs[name].detach().clone().requires_grad_()
    for name in case["after"]:
        inputs[name] = inputs[name].clone()
    out = compute(operator, inputs, case["attrs"], bool(case["training"]), case["out"])
    if out.requires_grad:  # comparisons have no gradient
        out.backward(case["dout"].to(dtype))
    result = {"output": out.detach()}
    result.update({f"gradient of {name}": inputs[name].grad for name in case["din"]})
    result.update({name: inputs[name] for name in case["after"]})
    return result


def ours(case):
    result = {"output": case["out"]}
    result.update({f"gradient of {name}": value for name, value in case["din"].items()})
    result.update(case["after"])
    return result


def distance_of_each(a, b):
    """Largest relative difference of a normal number; infinities, signs of them and NaN must agree."""
    a, b = a.double(), b.double()
    odd = ~(torch.isfinite(a) & torch.isfinite(b))
    if not torch.allclose(a[odd], b[odd], equal_nan=True):
        return float("inf")
    return ((a - b).abs() / (b.abs() + 1e-38))[~odd].max().item() if not odd.all() else 0


def distance(a, b):
    """Largest difference over the largest number."""
    a, b = a.double(), b.double()
    if a.shape != b.shape or not torch.isfinite(a).all():
        return float("inf")
    difference, largest = (a - b).abs().max().item(), b.abs().max().item()
    return difference / largest if largest > 0 else difference


def describe(case):
    shapes = ", ".join(f"{k} {tuple(v.shape)}" for k, v in case["in"].items() if v.ndim > 0)
    attrs = ", ".join(f"{k} {v}" for k, v in case["attrs"].items() if v not in (0, 1, [0] * 4))
    return f"{shapes}{', ' if attrs else ''}{attrs}{'' if case['training'] else ', evaluation'}"


def check_dropout(cases):
    """As many zeros as there should be, within 5 standard deviations, in each case and in all."""
    excess = variance = 0
    for case in cases:
        p, x, out = case["attrs"]["p"], case["in"]["x"], case["out"]
        if not case["training"]:
            continue
        zeros, expected, spread = (out == 0).sum().item(), p * x.numel(), x.numel() * p * (1 - p)
        assert abs(zeros - expected) <= 5 * spread**0.5, f"{zeros} zeros of {x.numel()}, p {p}"
        excess, variance = excess + zeros - expected, variance + spread
    print(f"    zeros: {excess / variance**0.5:+.2f} standard deviations from what p says")
    assert abs(excess) <= 5 * variance**0.5


def judge(operator, device, tolerance, cases, single, double):
    """Prints how far yoke's cases are from PyTorch's two."""
    worst, where, exact_ours, exact_theirs = 0.0, "", 0.0, 0.0
    for case, narrow, wide in zip(cases, single, double):
        mine = ours(case)
        assert list(mine) == list(narrow), (list(mine), list(narrow))
        for name, value in mine.items():
            found = (distance_of_each if case["special"] else distance)(value, narrow[name])
            if found > worst:
                worst, where = found, f", {name} of {describe(case)}"
            exact_ours = max(exact_ours, distance(value, wide[name]))
            exact_theirs = max(exact_theirs, distance(narrow[name], wide[name]))
    print(f"{operator} on {device}, {len(cases)} cases: {worst:.1e} from PyTorch{where}")
    print(f"    from f64: yoke {exact_ours:.1e}, PyTorch {exact_theirs:.1e}")
    if operator == "dropout":
        check_dropout(cases)
    return worst <= tolerance


def main(operator, tolerance, *files):
    fine, single = True, None
    for device, path in zip(files[0::2], files[1::2]):
        cases = torch.load(path)
        if single is None or operator == "dropout":  # whose mask is the device's
            single = [run(operator, case, torch.float32) for case in cases]
            double = [run(operator, case, torch.float64) for case in cases]
        fine &= judge(operator, device, float(tolerance), cases, single, double)
    return 0 if fine else 1


sys.exit(main(*sys.argv[1:]))

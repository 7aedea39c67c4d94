"""PyTorch's side of test_pytorch_graphs.c: runs the same graphs in f64, and compares.

Usage: graphs.py GRAPHS NUMBERS. Exits with 77 when PyTorch is missing. The numbers are of each
graph its parameters, and then of each step, the last of which is in evaluation: the inputs, the
loss, the gradients of all parameters, and the buffers.
"""
import sys

try:
    import torch
    import torch.nn.functional as F
except ImportError as error:
    print("skipped:", error)
    sys.exit(77)

torch.set_num_threads(1)
torch.set_default_dtype(torch.float64)

ATTRIBUTES = """evaluates kernel column_kernel stride column_stride padding column_padding dilation
column_dilation groups rows columns dim first count output_padding column_output_padding
ceil_mode count_include_pad heads kv_heads rotary causal transpose_a transpose_b interleaved
bilinear align_corners reverse alpha beta eps ndim""".split()
FUNCTIONS = {
    "relu": F.relu, "relu6": F.relu6, "gelu": F.gelu, "sigmoid": torch.sigmoid, "silu": F.silu,
    "hardswish": F.hardswish, "tanh": torch.tanh, "mse_loss": F.mse_loss,
    "binary_cross_entropy_with_logits": F.binary_cross_entropy_with_logits, "add": torch.add,
    "subtract": torch.sub, "multiply": torch.mul, "divide": torch.div, "linear": F.linear,
    "maximum": torch.maximum, "minimum": torch.minimum, "reduce_loss": torch.mean, "exp": torch.exp, "log": torch.log, "abs": torch.abs,
    "sin": torch.sin, "cos": torch.cos,
}


class Graph:
    def __init__(self, seed, *sizes):
        self.seed, self.sizes = seed, [int(size) for size in sizes]  # batches of its steps
        self.leaves, self.nodes, self.loss = {}, {}, None
        self.further = {}  # outputs of nodes besides the first: of which, and its number

    def of(self, kind):
        return [i for i, leaf in self.leaves.items() if leaf["kind"] == kind]

    def compute(self, i, values, training):
        """The value with this number, and first those that it needs."""
        if i < 0:
            return None
        node, output = self.further.get(i, (i, 0))
        if node not in values:
            operator, a, inputs = self.nodes[node]
            operands = [self.compute(j, values, training) for j in inputs]
            values[node] = run(operator, a, operands, training)
        found = values[node]
        return found[output] if isinstance(found, tuple) else found


def matmul(a, *sides):
    """Of matrices that lie below each other, those of heads."""
    left, right = (x.unflatten(-2, (a["heads"], -1)) for x in sides)
    left = left.transpose(-1, -2) if a["transpose_a"] else left
    right = right.transpose(-1, -2) if a["transpose_b"] else right
    return (left @ right).flatten(-3, -2)


def attention(a, q, k, v, mask):
    heads, kv_heads = a["heads"], a["kv_heads"]
    if k is None:
        size = q.shape[-1] // (heads + 2 * kv_heads)
        q, k, v = q.split([heads * size, kv_heads * size, kv_heads * size], -1)
    q = q.unflatten(-1, (heads, -1)).transpose(1, 2)
    k, v = (x.unflatten(-1, (kv_heads, -1)).transpose(1, 2).repeat_interleave(heads // kv_heads, 1)
            for x in (k, v))
    scores = q @ k.transpose(-1, -2) * a["alpha"]
    if a["causal"]:
        scores = scores.masked_fill(~torch.ones(scores.shape[-2:], dtype=bool).tril(), -torch.inf)
    if mask is not None:
        scores = scores + mask.detach()
    hidden = (scores == -torch.inf).all(-1, keepdim=True)  # queries that see nothing
    weights = scores.masked_fill(hidden, 0).softmax(-1).masked_fill(hidden, 0)
    return (weights @ v).transpose(1, 2).flatten(2)


def lstm_step(gates, h, c, weight, bias):
    i, f, g, o = (gates + F.linear(h, weight, bias)).chunk(4)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def gru_step(gates, h, c, weight, bias):
    r, z, n = (*gates.chunk(3),)
    hidden_r, hidden_z, hidden_n = F.linear(h, weight, bias).chunk(3)
    n = (n + (r + hidden_r).sigmoid() * hidden_n).tanh()
    z = (z + hidden_z).sigmoid()
    return (1 - z) * n + z * h, c


def recurrent(a, step, gates, weight, bias, lengths, h0=None, c0=None):
    """y, h_n and c_n: sequences of any length, one by one."""
    zeros, found = gates.new_zeros(weight.shape[1]), []
    for n in range(len(gates)):
        h, c = (zeros if s is None else s[n] for s in (h0, c0))
        y = [zeros] * gates.shape[1]
        times = range(gates.shape[1] if lengths is None else int(lengths[n]))
        for t in reversed(times) if a["reverse"] else times:
            h, c = step(gates[n, t], h, c, weight, bias)
            y[t] = h
        found.append((torch.stack(y), h, c))
    return tuple(torch.stack(part) for part in zip(*found))


def rotary_embedding(a, x):
    heads = x.unflatten(-1, (a["heads"], -1))
    part, rest = heads[..., : a["rotary"]], heads[..., a["rotary"] :]
    half = a["rotary"] // 2
    exponent = torch.arange(half, dtype=torch.float32) / half  # as Hugging Face's Llama rounds them
    position = a["first"] + torch.arange(x.shape[1], dtype=torch.float32)
    angles = torch.outer(position, 1 / a["alpha"] ** exponent).unsqueeze(1).double()
    pairs = part.unflatten(-1, (half, 2)) if a["interleaved"] else \
        part.unflatten(-1, (2, half)).transpose(-1, -2)
    one, other = pairs.unbind(-1)
    pairs = torch.stack([one * angles.cos() - other * angles.sin(),
                         one * angles.sin() + other * angles.cos()], -1)
    part = (pairs if a["interleaved"] else pairs.transpose(-1, -2)).flatten(-2)
    return torch.cat([part, rest], -1).flatten(2)


def pad(a, x):
    sizes = [0] * (2 * (x.ndim - a["dim"]))
    sizes[-2:] = a["first"], a["count"] - x.shape[a["dim"]] - a["first"]
    return F.pad(x, sizes)


def interpolate(a, x):
    size = a["rows"], a["columns"]
    if not a["bilinear"]:
        return F.interpolate(x, size)
    return F.interpolate(x, size, mode="bilinear", align_corners=bool(a["align_corners"]))


def compare_sides(a, b, equal):
    return (a > b).to(a) + equal * (a == b)


def cross_entropy(x, labels):
    return F.cross_entropy(x.flatten(0, -2), labels.long().flatten())


def run(operator, a, t, training):
    training = training and not a["evaluates"]
    def pair(name):
        return a[name], a["column_" + name]
    window = pair("kernel"), pair("stride"), pair("padding")
    step = pair("stride"), pair("padding")
    if operator in FUNCTIONS:
        return FUNCTIONS[operator](*t)
    return {
        "conv2d": lambda: F.conv2d(*t, *step, pair("dilation"), a["groups"]),
        "batch_norm": lambda: F.batch_norm(t[0], t[3], t[4], t[1], t[2], training, eps=a["eps"]),
        "conv_transpose2d": lambda: F.conv_transpose2d(*t, *step, pair("output_padding"), a["groups"],
                                                       pair("dilation")),
        "cross_entropy": lambda: cross_entropy(t[0], t[1]),
        "matmul": lambda: matmul(a, *t),
        "scaled_dot_product_attention": lambda: attention(a, *t[:4]),
        "lstm": lambda: recurrent(a, lstm_step, *t),
        "gru": lambda: recurrent(a, gru_step, *t),
        "rotary_embedding": lambda: rotary_embedding(a, t[0]),
        "permute": lambda: t[0].permute(a["dims"]),
        "reshape": lambda: t[0].reshape(len(t[0]), *a["dims"][1:]),
        "pad": lambda: pad(a, t[0]),
        "sum": lambda: t[0].sum(a["dim"]),
        "amax": lambda: t[0].amax(a["dim"]),
        "amin": lambda: t[0].amin(a["dim"]),
        "embedding": lambda: F.embedding(t[0].long(), t[1]),
        "concat": lambda: torch.cat([x for x in t if x is not None], a["dim"]),
        "slice": lambda: t[0].narrow(a["dim"], a["first"], a["count"]),
        "softmax": lambda: F.softmax(t[0], -1),
        "log_softmax": lambda: F.log_softmax(t[0], -1),
        "layer_norm": lambda: F.layer_norm(t[0], t[1].shape, t[1], t[2], a["eps"]),
        "rms_norm": lambda: t[0] * torch.rsqrt(t[0].square().mean(-1, keepdim=True) + a["eps"]) * t[1],
        "group_norm": lambda: torch.group_norm(t[0], a["groups"], t[1], t[2], a["eps"]),
        "scale": lambda: t[0] * a["alpha"],
        "dropout": lambda: F.dropout(t[0], 0.5, training),
        "add_scalar": lambda: t[0] + a["alpha"],
        "pow": lambda: t[0] ** a["alpha"],
        "compare": lambda: compare_sides(*t, a["alpha"]),
        "masked_fill": lambda: t[0].masked_fill((t[1] != 0) == (a["beta"] == 0), a["alpha"]),
        "clamp": lambda: torch.clamp(t[0], a["alpha"], a["beta"]),
        "detach": lambda: t[0].detach(),
        "elu": lambda: torch.where(t[0] > 0, t[0], a["alpha"] * torch.expm1(t[0].clamp(max=0))),
        "leaky_relu": lambda: F.leaky_relu(t[0], a["alpha"]),
        "flatten": lambda: torch.flatten(t[0], 1),
        "max_pool2d": lambda: F.max_pool2d(t[0], *window, ceil_mode=bool(a["ceil_mode"])),
        "avg_pool2d": lambda: F.avg_pool2d(t[0], *window, bool(a["ceil_mode"]),
                                           bool(a["count_include_pad"])),
        "global_avg_pool2d": lambda: F.adaptive_avg_pool2d(t[0], 1),
        "interpolate": lambda: interpolate(a, t[0]),
        "adaptive_avg_pool2d": lambda: F.adaptive_avg_pool2d(t[0], (a["rows"], a["columns"])),
    }[operator]()


def read_graphs(path):
    graphs = []
    for line in open(path):
        word, *rest = line.split()
        if word == "graph":
            graphs.append(Graph(*rest))
        elif word == "node":
            attributes = {n: float(x) if n in ("alpha", "beta", "eps") else int(x)
                          for n, x in zip(ATTRIBUTES, rest[2:])}
            dims_and_inputs = [int(i) for i in rest[2 + len(ATTRIBUTES):]]
            ndim = attributes["ndim"]
            attributes["dims"], inputs = dims_and_inputs[:ndim], dims_and_inputs[ndim:]
            graphs[-1].nodes[int(rest[0])] = (rest[1], attributes, inputs)
        elif word == "output":
            graphs[-1].further[int(rest[0])] = int(rest[1]), int(rest[2])
        elif word == "loss":
            graphs[-1].loss = int(rest[0])
        else:
            graphs[-1].leaves[int(rest[0])] = {"kind": word, "dims": [int(d) for d in rest[2:]]}
    return graphs


class Numbers:
    def __init__(self, path):
        self.all = torch.frombuffer(bytearray(open(path, "rb").read()), dtype=torch.float64)
        self.at = 0

    def take(self, dims):
        count = torch.Size(dims).numel()
        self.at += count
        return self.all[self.at - count : self.at].reshape(dims)


def distance(a, b, least=0):
    """Relative; to `least` where there is all but nothing, as where terms of a gradient cancel."""
    return (a - b).norm().item() / max(b.norm().item(), least, 1e-6)


def compare(graph, numbers):
    """The largest distance, and what it is of."""
    leaves = graph.leaves
    parameters = {i: numbers.take(leaves[i]["dims"]).clone().requires_grad_()
                  for i in graph.of("parameter")}
    ones = {node[2][4] for node in graph.nodes.values() if node[0] == "batch_norm"}
    buffers = {i: (torch.ones if i in ones else torch.zeros)(leaves[i]["dims"])
               for i in graph.of("buffer")}
    worst = (0, "")
    for step, size in enumerate(graph.sizes):
        values = {**parameters, **buffers}
        for i in graph.of("input"):
            values[i] = numbers.take([size, *leaves[i]["dims"][1:]])
        loss = graph.compute(graph.loss, values, step + 1 < len(graph.sizes))
        found = [None] * len(parameters)
        if loss.requires_grad:
            found = torch.autograd.grad(loss, list(parameters.values()), allow_unused=True)
        worst = max(worst, (distance(numbers.take([]), loss.detach()), "the loss"))
        least = 1e-3 * max([gradient.norm().item() for gradient in found if gradient is not None] + [0])
        for (i, parameter), gradient in zip(parameters.items(), found):
            gradient = torch.zeros_like(parameter) if gradient is None else gradient
            mine = numbers.take(leaves[i]["dims"])
            worst = max(worst, (distance(mine, gradient, least), f"the gradient of value {i}"))
        for i, buffer in buffers.items():
            mine = numbers.take(leaves[i]["dims"])
            worst = max(worst, (distance(mine, buffer), f"buffer {i}"))
    return worst


def main(graphs, numbers):
    graphs, numbers, worst = read_graphs(graphs), Numbers(numbers), (0, "", None)
    for graph in graphs:
        worst = max(worst, (*compare(graph, numbers), graph.seed), key=lambda found: found[0])
    assert numbers.at == len(numbers.all), (numbers.at, len(numbers.all))
    print(f"{len(graphs)} graphs: {worst[0]:.1e} from PyTorch in {worst[1]} of graph {worst[2]}")
    return 0 if worst[0] <= 1e-9 else 1


sys.exit(main(*sys.argv[1:]))

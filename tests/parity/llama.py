"""PyTorch's side of test_pytorch_llama.c: a Llama whose modules have the names of Hugging Face's.

Usage: llama.py PATH DTYPE TIED KEY_VALUE_HEADS TOLERANCE. Exits with 77 when PyTorch is missing. PATH.names has the
names and shapes of yoke's parameters, PATH.numbers their values and gradients, the logits and, as a
float64, the loss. PyTorch computes in float64, from the same numbers. Each difference must be within
the tolerance of the largest number of a tensor.
"""
import sys

try:
    import torch
    from torch import nn
    from torch.nn import functional as F
except ImportError as error:
    print("skipped:", error)
    sys.exit(77)

torch.set_num_threads(1)
SAMPLES, TOKENS, WORDS, WIDTH, INNER, LAYERS, HEADS, EPS, THETA = 3, 11, 23, 24, 40, 2, 4, 1e-5, 10000


def linear(inputs, outputs):
    return nn.Linear(inputs, outputs, bias=False)


class RMSNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.square().mean(-1, keepdim=True) + EPS))


def rotate(x):
    """Of heads (N, heads, T, width), by angles in float32 as Hugging Face's."""
    width = x.shape[-1]
    exponents = (torch.arange(0, width, 2).float() / width).double()
    angles = torch.outer(torch.arange(x.shape[2]).float(), 1 / (THETA ** exponents).float())
    angles = torch.cat([angles, angles], -1).double()
    first, second = x.chunk(2, -1)
    return x * angles.cos().to(x.dtype) + torch.cat([-second, first], -1) * angles.sin().to(x.dtype)


class Attention(nn.Module):
    def __init__(self, kv_heads):
        super().__init__()
        self.q_proj, self.o_proj = linear(WIDTH, WIDTH), linear(WIDTH, WIDTH)
        self.k_proj, self.v_proj = (linear(WIDTH, WIDTH // HEADS * kv_heads) for _ in range(2))

    def forward(self, x):
        projections = self.q_proj, self.k_proj, self.v_proj
        heads = [p(x).unflatten(-1, (-1, WIDTH // HEADS)).transpose(1, 2) for p in projections]
        q, k, v = rotate(heads[0]), rotate(heads[1]), heads[2]
        k, v = (heads.repeat_interleave(HEADS // heads.shape[1], 1) for heads in (k, v))
        scores = q @ k.transpose(2, 3) / q.shape[-1] ** 0.5
        hidden = torch.ones(scores.shape[2:], dtype=torch.bool).triu(1)
        y = scores.masked_fill(hidden, -torch.inf).softmax(-1) @ v
        return self.o_proj(y.transpose(1, 2).flatten(2))


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate_proj, self.up_proj = linear(WIDTH, INNER), linear(WIDTH, INNER)
        self.down_proj = linear(INNER, WIDTH)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, kv_heads):
        super().__init__()
        self.self_attn, self.mlp = Attention(kv_heads), MLP()
        self.input_layernorm, self.post_attention_layernorm = RMSNorm(), RMSNorm()

    def forward(self, x):
        x = x + self.self_attn(self.input_layernorm(x))
        return x + self.mlp(self.post_attention_layernorm(x))


class Decoder(nn.Module):
    def __init__(self, kv_heads):
        super().__init__()
        self.embed_tokens = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleList(Layer(kv_heads) for _ in range(LAYERS))
        self.norm = RMSNorm()

    def forward(self, tokens):
        x = self.embed_tokens(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)


class Llama(nn.Module):
    def __init__(self, tied, kv_heads):
        super().__init__()
        self.model, self.lm_head = Decoder(kv_heads), linear(WIDTH, WORDS)
        if tied:
            self.lm_head.weight = self.model.embed_tokens.weight

    def forward(self, tokens):
        return self.lm_head(self.model(tokens))


def compute(net, values):
    """The logits, the loss and the gradients with these values of parameters."""
    parameters = dict(net.named_parameters())  # a tied weight once
    assert set(values) == set(parameters), set(values) ^ set(parameters)
    with torch.no_grad():
        for name, parameter in parameters.items():
            assert parameter.shape == values[name].shape, name
            parameter.copy_(values[name])
    i = torch.arange(SAMPLES * TOKENS)
    tokens, labels = (i * i * 7 % WORDS).reshape(SAMPLES, TOKENS), (i * 5 + 3) % WORDS
    logits = net(tokens)
    loss = F.cross_entropy(logits.reshape(-1, WORDS), labels)
    loss.backward()
    return {"logits": logits.detach(), "loss": loss.detach(), **{n: p.grad for n, p in parameters.items()}}


def distance(a, b):
    return ((a - b).abs().max() / b.abs().max()).item()


def main(path, dtype, tied, kv_heads, tolerance):
    dtype, tolerance = getattr(torch, dtype), float(tolerance)
    names = [line.split() for line in open(f"{path}.names")]
    data = bytearray(open(f"{path}.numbers", "rb").read())
    numbers, at = torch.frombuffer(data[:-8], dtype=dtype), 0
    loss = torch.frombuffer(data[-8:], dtype=torch.float64)[0]

    def take(*dims):
        nonlocal at
        at += torch.Size(dims).numel()
        return numbers[at - torch.Size(dims).numel() : at].reshape(dims)

    values, gradients = {}, {}
    for name, *dims in names:
        values[name] = take(*map(int, dims))
        gradients[name] = take(*map(int, dims))
    logits = take(SAMPLES, TOKENS, WORDS)
    assert at == len(numbers), (at, len(numbers))

    wide, same = (compute(Llama(tied == "1", int(kv_heads)).to(t), values) for t in (torch.float64, dtype))
    ours = {"logits": logits, "loss": loss, **gradients}
    far, theirs = ({name: distance(given[name], wide[name]) for name in wide} for given in (ours, same))
    worst = max(far, key=far.get)
    print(f"{dtype}: {far[worst]:.1e} from float64 in {worst}, PyTorch {max(theirs.values()):.1e}")
    return 0 if far[worst] <= tolerance else 1


sys.exit(main(*sys.argv[1:]))

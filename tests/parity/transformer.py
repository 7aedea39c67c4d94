"""PyTorch's side of test_pytorch_transformer.c.

Usage: transformer.py start KIND FOLDER    writes start.pth, a state_dict
       transformer.py judge KIND FOLDER DEVICE...
Exits with 77 when PyTorch is missing.

The file of a device, numbers.DEVICE, holds x, the memory, the padding of both, and yoke's output, as
float32. stepped.DEVICE.pth is the state_dict after a step of SGD with a rate of 1: the gradients are
what has been subtracted.
"""
import inspect
import sys

try:
    import torch
    from torch import nn
    from torch.nn import functional as F
except ImportError as error:
    print("skipped:", error)
    sys.exit(77)

torch.set_num_threads(1)
SAMPLES, TOKENS, KEYS, WIDTH, HEADS, HIDDEN = 3, 6, 5, 8, 2, 12
BOUND = 3e-6


def hide_later(tokens):
    return torch.full((tokens, tokens), -torch.inf).triu(1)


class Attention(nn.Module):
    def __init__(self, width_of_keys, width_of_values):
        super().__init__()
        self.attn = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True, kdim=width_of_keys,
                                          vdim=width_of_values)

    def forward(self, x, memory, padding, memory_padding):
        k, v = memory[..., :self.attn.kdim], memory[..., :self.attn.vdim]
        return self.attn(x, k, v, key_padding_mask=memory_padding, need_weights=False)[0]


class SelfAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.attn = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True, bias=False)

    def forward(self, x, memory, padding, memory_padding):
        return self.attn(x, x, x, need_weights=False, attn_mask=hide_later(TOKENS))[0]


class Encoder(nn.Module):
    def __init__(self, norm_first):
        super().__init__()
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, HIDDEN, 0.0, F.gelu, batch_first=True,
                                           norm_first=norm_first)
        # The fast path of evaluation fills padding with zeros; PyTorch 1.13 warns of nested tensors.
        keep = {"enable_nested_tensor": False}
        self.encoder = nn.TransformerEncoder(layer, 2, nn.LayerNorm(WIDTH) if norm_first else None,
                                             **keep)

    def forward(self, x, memory, padding, memory_padding):
        return self.encoder(x, src_key_padding_mask=padding)


class Seq2Seq(nn.Module):
    """nn.Transformer, whose stacks both end with a norm."""

    def __init__(self):
        super().__init__()
        self.transformer = nn.Transformer(WIDTH, HEADS, 2, 2, HIDDEN, 0.0, batch_first=True)

    def forward(self, x, memory, padding, memory_padding):
        return self.transformer(memory, x, tgt_mask=hide_later(TOKENS),
                                src_key_padding_mask=memory_padding,
                                tgt_key_padding_mask=padding,
                                memory_key_padding_mask=memory_padding)


NETS = {
    "self_attention": SelfAttention,
    "cross_attention": lambda: Attention(WIDTH, WIDTH),
    "widths": lambda: Attention(7, 4),
    "encoder": lambda: Encoder(False),
    "encoder_norm_first": lambda: Encoder(True),
    "transformer": Seq2Seq,
}


def draw(net):
    """Values with which no bias and no gain is neutral, and layers differ."""
    for parameter in net.parameters():
        with torch.no_grad():
            parameter.copy_(0.5 * torch.randn(parameter.shape) + (parameter.dim() < 2))


def numbers_of(path):
    shapes = [(SAMPLES, TOKENS, WIDTH), (SAMPLES, KEYS, WIDTH), (SAMPLES, TOKENS), (SAMPLES, KEYS),
              (SAMPLES, TOKENS, WIDTH)]
    numbers = torch.frombuffer(bytearray(open(path, "rb").read()), dtype=torch.float32)
    parts = numbers.split([torch.Size(shape).numel() for shape in shapes])
    return [part.reshape(shape) for part, shape in zip(parts, shapes)]


def judge(net, folder, device):
    net.load_state_dict(torch.load(f"{folder}/start.pth", weights_only=True))
    net.zero_grad()
    x, memory, padding, memory_padding, theirs = numbers_of(f"{folder}/numbers.{device}")
    ours = net(x, memory, padding.bool(), memory_padding.bool())
    counts = 1 - padding[..., None]
    ((ours * counts) ** 2).mean().backward()
    assert ((ours - theirs) * counts).abs().max() < BOUND, (ours - theirs).abs().max()
    after = torch.load(f"{folder}/stepped.{device}.pth", weights_only=True)
    assert list(after) == list(net.state_dict()), (list(after), list(net.state_dict()))
    for name, parameter in net.named_parameters():
        far = (after[name] - (parameter - parameter.grad)).abs().max().item()
        assert far < BOUND, (name, far)
        assert parameter.grad.abs().max() > 10 * BOUND, (name, parameter.grad.abs().max())
    net.load_state_dict(after)


if __name__ == "__main__":
    what, kind, folder = sys.argv[1:4]
    torch.manual_seed(3)
    net = NETS[kind]()
    if what == "start":
        draw(net)
        torch.save(net.state_dict(), f"{folder}/start.pth")
    for device in sys.argv[4:]:
        judge(net, folder, device)

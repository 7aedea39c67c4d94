"""PyTorch's side of test_pytorch_recurrent.c.

Usage: recurrent.py start KIND LAYERS DIRECTIONS FOLDER    writes start.pth, a state_dict
       recurrent.py judge KIND LAYERS DIRECTIONS FOLDER SIZES LENGTHS DEVICE...
LENGTHS: those of the sequences, or "all" where each has all steps.
Exits with 77 when PyTorch is missing.

The file of a device, numbers.DEVICE, holds x, what the first states are computed from, and yoke's
outputs and last states, as float32. stepped.DEVICE.pth is the state_dict after a step of SGD with a
rate of 1: the gradients are what has been subtracted.
"""
import sys

try:
    import torch
    from torch import nn
    from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
except ImportError as error:
    print("skipped:", error)
    sys.exit(77)

torch.set_num_threads(1)
BOUND = 2e-6


class Net(nn.Module):
    """A recurrent layer whose first states are linear functions of features."""

    def __init__(self, kind, layers, directions, inputs=5, size=4, features=3):
        super().__init__()
        self.states, self.size = layers * directions, size
        self.h0 = nn.Linear(features, self.states * size)
        if kind.startswith("lstm"):
            self.c0 = nn.Linear(features, self.states * size)
        if kind.endswith("_cell"):
            self.rnn = (nn.LSTMCell if kind == "lstm_cell" else nn.GRUCell)(inputs, size)
            return
        layer = nn.LSTM if kind == "lstm" else nn.GRU
        self.rnn = layer(inputs, size, layers, batch_first=True, bidirectional=directions == 2)

    def state(self, layer, features):
        return layer(features).reshape(-1, self.states, self.size).transpose(0, 1).contiguous()

    def steps(self, x, features):
        """Of a cell."""
        outputs, state = [], self.h0(features)
        if isinstance(self.rnn, nn.LSTMCell):
            state = state, self.c0(features)
        for t in range(x.shape[1]):
            state = self.rnn(x[:, t], state)
            last = state if isinstance(state, tuple) else (state,)
            outputs.append(last[0])
        return torch.cat([*outputs, *last], 1)

    def forward(self, x, features, lengths=None):
        if isinstance(self.rnn, nn.RNNCellBase):
            return self.steps(x, features)
        first = self.state(self.h0, features)
        if isinstance(self.rnn, nn.LSTM):
            first = (first, self.state(self.c0, features))
        if lengths:
            packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
            y, last = self.rnn(packed, first)
            y, _ = pad_packed_sequence(y, batch_first=True, total_length=x.shape[1])
        else:
            y, last = self.rnn(x, first)
        last = last if isinstance(last, tuple) else (last,)
        return torch.cat([y.flatten(1)] + [s.transpose(0, 1).flatten(1) for s in last], 1)


def numbers_of(path, *shapes):
    numbers = torch.frombuffer(bytearray(open(path, "rb").read()), dtype=torch.float32)
    parts = numbers.split([torch.Size(shape).numel() for shape in shapes])
    return [part.reshape(shape) for part, shape in zip(parts, shapes)]


def judge(net, folder, sizes, lengths, device):
    net.load_state_dict(torch.load(f"{folder}/start.pth", weights_only=True))
    net.zero_grad()
    samples, steps, inputs, features = map(int, sizes.split(","))
    shapes = [(samples, steps, inputs), (samples, features), (samples, -1)]
    with torch.no_grad():
        shapes[2] = net(torch.zeros(shapes[0]), torch.zeros(shapes[1])).shape
    x, given, theirs = numbers_of(f"{folder}/numbers.{device}", *shapes)
    ours = net(x, given, lengths)
    (ours ** 2).mean().backward()
    assert (ours - theirs).abs().max() < BOUND, (ours - theirs).abs().max()
    after = torch.load(f"{folder}/stepped.{device}.pth", weights_only=True)
    assert list(after) == list(net.state_dict()), (list(after), list(net.state_dict()))
    for name, parameter in net.named_parameters():
        far = (after[name] - (parameter - parameter.grad)).abs().max().item()
        assert far < BOUND, (name, far)
        assert parameter.grad.abs().max() > 100 * BOUND, name
    net.load_state_dict(after)


if __name__ == "__main__":
    what, kind, layers, directions, folder = sys.argv[1:6]
    torch.manual_seed(3)
    net = Net(kind, int(layers), int(directions))
    if what == "start":
        torch.save(net.state_dict(), f"{folder}/start.pth")
    for device in sys.argv[8:]:
        lengths = None if sys.argv[7] == "all" else [int(n) for n in sys.argv[7].split(",")]
        judge(net, folder, sys.argv[6], lengths, device)

"""PyTorch's side of test_pytorch_functional.c.

Usage: functional.py start FOLDER             writes start.pth: x, other and weight
       functional.py judge FOLDER DEVICE...   compares NAME.DEVICE and NAME.DEVICE.pth
Exits with 77 when PyTorch is missing.
"""
import sys

try:
    import torch
    import torch.nn.functional as F
except ImportError as error:
    print("skipped:", error)
    sys.exit(77)

torch.set_num_threads(1)
NUMBERS = torch.tensor([3, 0, 5, 5, 1, 1, 4, 2, 0, 5, 3, 3])


def rows_of(x):
    return x.reshape(-1, 5)


def signs_of(x):
    return 2 * (x[:, 0] > 0).float() - 1


FUNCTIONS = {
    "selu": lambda x, other, weight: F.selu(x),
    "softplus": lambda x, other, weight: F.softplus(x),
    "log_softplus": lambda x, other, weight: F.softplus(x).log(),
    "logsigmoid": lambda x, other, weight: F.logsigmoid(x),
    "mish": lambda x, other, weight: F.mish(x),
    "hardsigmoid": lambda x, other, weight: F.hardsigmoid(x),
    "prelu": lambda x, other, weight: F.prelu(x, weight),
    "glu": lambda x, other, weight: F.glu(x, 1),
    "unsqueeze": lambda x, other, weight: x.unsqueeze(-1),
    "squeeze": lambda x, other, weight: x[:, :, 3],
    "transpose": lambda x, other, weight: x.transpose(1, -1),
    "select": lambda x, other, weight: x[:, -2],
    "roll": lambda x, other, weight: torch.cat([x.roll(2, 1), x.roll(-13, -1), x.roll(6, 1)], 1),
    "pixel_shuffle": lambda x, other, weight: F.pixel_shuffle(x[:, :, :4].reshape(4, 8, 3, 1), 2),
    "pixel_unshuffle": lambda x, other, weight: F.pixel_unshuffle(x[:, :, :4].reshape(4, 2, 6, 2), 2),
    "stack": lambda x, other, weight: torch.stack([x, other, x], 2),
    "normalize": lambda x, other, weight: F.normalize(x, dim=1),
    "cosine_similarity": lambda x, other, weight: F.cosine_similarity(x, other, -1),
    "logsumexp": lambda x, other, weight: x.logsumexp(1),
    "where": lambda x, other, weight: torch.where(x < other, x, 2 * other),
    "equal": lambda x, other, weight: (x == other).float() + torch.minimum(x, other),
    "pad_reflect": lambda x, other, weight: F.pad(x.unsqueeze(0), (0, 4, 5, 2), "reflect")[0],
    "pad_replicate": lambda x, other, weight: F.pad(x.unsqueeze(0), (1, 0, 7, 2), "replicate")[0],
    "pad_circular": lambda x, other, weight: F.pad(x.unsqueeze(0), (2, 5, 6, 1), "circular")[0],
    "pad2d_reflect": lambda x, other, weight: F.pad(
        x[:, :, :4].reshape(4, 2, 3, 4), (2, 2, 2, 2), "reflect"
    ),
    "conv1d": lambda x, other, weight: F.conv1d(0.02 * x, other.reshape(8, 3, 5), None, 2, 4, 1, 2),
    "conv_transpose1d": lambda x, other, weight: F.conv_transpose1d(
        0.02 * x, other.reshape(6, 4, 5), None, 3, 2, 1, 2, 2
    ),
    "max_pool1d": lambda x, other, weight: F.max_pool1d(x, 3, 2, 1),
    "avg_pool1d": lambda x, other, weight: F.avg_pool1d(x, 3, 1, 1),
    "take_along_dim": lambda x, other, weight: torch.take_along_dim(x, NUMBERS.reshape(4, 3, 1), 1),
    "take_one": lambda x, other, weight: x[range(4), NUMBERS[:4]],
    "index_select": lambda x, other, weight: x.index_select(1, NUMBERS),
    "pairwise_distance": lambda x, other, weight: F.pairwise_distance(x, other),
    "triplet_margin_loss": lambda x, other, weight: F.triplet_margin_loss(
        rows_of(x), rows_of(other), rows_of(x.roll(1, 1)), 2
    ),
    "cosine_embedding_loss": lambda x, other, weight: F.cosine_embedding_loss(
        rows_of(x), rows_of(other), signs_of(rows_of(x)), 0.1, reduction="sum"
    ),
    "margin_ranking_loss": lambda x, other, weight: F.margin_ranking_loss(
        x, other, signs_of(x).unsqueeze(1), 0.5
    ),
}


def start():
    """Zeros, equal numbers, a row of zeros, and numbers where functions become straight lines."""
    torch.manual_seed(5)
    x, other = 2 * torch.randn(2, 4, 6, 5)
    x[0, 0] = torch.tensor([0, 25, -25, 50, -50.0])
    x[1, :, 2] = 0
    other[2] = x[2]
    return {"x": x, "other": other, "weight": torch.randn(6)}


def judge(name, folder, device):
    t = {k: v.requires_grad_() for k, v in start().items()}
    y = FUNCTIONS[name](**t)
    ((y ** 2).mean() + (t["other"].sum() + t["weight"].sum()) / 2).backward()
    raw = bytearray(open(f"{folder}/{name}.{device}", "rb").read())
    ours = torch.frombuffer(raw, dtype=torch.float32).reshape(y.shape)
    far = ((ours - y).abs() / (1 + y.abs())).max().item()
    assert far < 1e-6, (name, device, far)
    after = torch.load(f"{folder}/{name}.{device}.pth", weights_only=True)
    for k, v in t.items():
        far = (after[k] - (v - v.grad)).abs().max().item()
        assert far < 4e-6, (name, device, k, far)


if __name__ == "__main__":
    what, folder, *devices = sys.argv[1:]
    if what == "start":
        torch.save(start(), f"{folder}/start.pth")
    for device in devices:
        for name in FUNCTIONS:
            judge(name, folder, device)

"""PyTorch's side of test_pytorch_update_bn.c: statistics of batch norms for given weights.

Usage: update_bn.py FOLDER. FOLDER has before.pth, with the weights, and after.pth, with yoke's
statistics for them. Exits with 77 when PyTorch is missing.
"""
import math
import sys

try:
    import torch
except ImportError as error:
    print("skipped:", error)
    sys.exit(77)
from torch import nn
from torch.optim.swa_utils import update_bn

folder = sys.argv[1]
SAMPLES, BATCH, CHANNELS, SIDE = 29, 8, 3, 6
BOUND = 1e-5  # relative to the largest number of a buffer; means of conv1 are close to 0


class Small(nn.Module):
    """The network of the C side."""

    def __init__(self):
        super().__init__()
        self.bn0 = nn.BatchNorm2d(CHANNELS)
        self.conv1, self.bn1 = nn.Conv2d(CHANNELS, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.fc1, self.bn2 = nn.Linear(8 * SIDE * SIDE, 16), nn.BatchNorm1d(16)
        self.fc2 = nn.Linear(16, 4)

    def forward(self, x):
        x = torch.relu(self.bn1(self.conv1(self.bn0(x))))
        return self.fc2(torch.relu(self.bn2(self.fc1(x.flatten(1)))))


def sample(index):
    """The numbers that the C side makes up too."""
    count = CHANNELS * SIDE * SIDE
    return [math.sin(0.37 * (index * count + i)) + 0.1 * index for i in range(count)]


images = torch.tensor([sample(i) for i in range(SAMPLES)], dtype=torch.float64).float()
batches = images.view(SAMPLES, CHANNELS, SIDE, SIDE).split(BATCH)
model = Small()
model.load_state_dict(torch.load(f"{folder}/before.pth", weights_only=True))
model.eval()
update_bn(batches, model)
found = torch.load(f"{folder}/after.pth", weights_only=True)
good = True
for name, expected in model.state_dict().items():
    difference = (found[name] - expected).abs().max().item() / max(expected.abs().max().item(), 1e-9)
    good &= difference <= BOUND
    if "running" in name or "num_" in name:
        print(f"{name}: {difference:.1e}")
sys.exit(0 if good else 1)

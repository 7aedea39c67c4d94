"""PyTorch's side of test_pytorch_init.c: the first weights of a network.

Usage: init.py FILE ARCH SEED. Writes the state_dict after torch.manual_seed(SEED) to FILE. ARCH
"functions" is a network that the functions of torch.nn.init have filled. Exits with 77 when PyTorch
is missing.
"""
import sys

try:
    import torch
except ImportError as error:
    print("skipped:", error)
    sys.exit(77)
from resnet import network
from torch import nn


@torch.no_grad()
def trunc_normal_(tensor, mean, std, a, b):
    """PyTorch 2.15's, where much of the distribution is between a and b; earlier ones differ."""
    result = tensor.normal_(mean, std)
    while True:
        outside = (result < a) | (result > b)
        if not outside.any():
            break
        result = torch.where(outside, torch.empty_like(result).normal_(mean, std), result)
    tensor.copy_(result)


def functions():
    """Each function once, the network's layers in the order of the C program's."""
    net = nn.Sequential(nn.Conv2d(3, 20, 3), *(nn.Linear(20, 20) for _ in range(8)))
    net.apply(lambda m: nn.init.normal_(m.weight, std=0.02) if isinstance(m, nn.Linear) else None)
    weight = [layer.weight for layer in net]
    nn.init.kaiming_normal_(weight[0], mode="fan_out", nonlinearity="relu")
    nn.init.uniform_(weight[1], -0.1, 0.3)
    nn.init.normal_(weight[2], 0.5, 2)
    trunc_normal_(weight[3], 0, 1, -1, 1.5)
    nn.init.xavier_uniform_(weight[4], nn.init.calculate_gain("tanh"))
    nn.init.orthogonal_(weight[5], 2)
    nn.init.xavier_normal_(weight[6])
    nn.init.kaiming_uniform_(weight[7], nonlinearity="relu")
    nn.init.kaiming_normal_(weight[8], 0.2, mode="fan_out")
    for layer in net:
        nn.init.normal_(layer.bias, 1, 0.5)
    nn.init.constant_(net[4].bias, 0.1)
    return net


path, name, seed = sys.argv[1:]
torch.manual_seed(int(seed))
torch.save((functions() if name == "functions" else network(name)).state_dict(), path)

"""PyTorch's side of test_pytorch_init.c: the first weights of a network.

Usage: init.py FILE ARCH SEED. Writes the state_dict after torch.manual_seed(SEED) to FILE.
Exits with 77 when PyTorch is missing.
"""
import sys

try:
    import torch
except ImportError as error:
    print("skipped:", error)
    sys.exit(77)
from resnet import network

path, name, seed = sys.argv[1:]
torch.manual_seed(int(seed))
torch.save(network(name).state_dict(), path)

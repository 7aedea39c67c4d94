"""PyTorch's side of test_pytorch_examples.c: the network of the ModelArts tutorial, with a checkpoint
of ours, validated on the same files.

Usage: modelarts.py FOLDER CHECKPOINT WIDTH LOSS ACCURACY
Exits with 77 when PyTorch is missing, with 1 when loss or accuracy differ from ours.
"""
import os
import pickle
import sys

try:
    import torch
    from torch import nn
except ImportError as error:
    print("skipped:", error)
    sys.exit(77)


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.residual_function = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, padding=1, bias=False),
            nn.BatchNorm2d(outputs))
        self.shortcut = nn.Sequential()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        return torch.relu(self.residual_function(x) + self.shortcut(x))


class ResNet(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv1 = nn.Sequential(nn.Conv2d(3, width, 3, padding=1, bias=False),
                                   nn.BatchNorm2d(width), nn.ReLU())
        inputs = width
        for stage in range(4):
            outputs = width << stage
            setattr(self, f"conv{stage + 2}", nn.Sequential(
                Block(inputs, outputs, 2 if stage else 1), Block(outputs, outputs, 1)))
            inputs = outputs
        self.dense_layer = nn.Linear(inputs, 10)

    def forward(self, x):
        for name in ("conv1", "conv2", "conv3", "conv4", "conv5"):
            x = getattr(self, name)(x)
        return self.dense_layer(x.mean((2, 3)))


def check(folder, checkpoint, width, loss, accuracy):
    model = ResNet(int(width))
    model.load_state_dict(torch.load(checkpoint, weights_only=True), strict=True)
    model.eval()
    with open(os.path.join(folder, "cifar-10-batches-py", "test_batch"), "rb") as file:
        batch = pickle.load(file, encoding="bytes")
    images = torch.from_numpy(batch[b"data"]).reshape(-1, 3, 32, 32).float() / 255
    labels = torch.tensor(batch[b"labels"])
    with torch.no_grad():
        logits = model(images)
    ours = nn.functional.cross_entropy(logits, labels).item()
    right = (logits.argmax(1) == labels).double().mean().item()
    print(f"validation loss {float(loss):.4f}, PyTorch's {ours:.6f}; "
          f"accuracy {float(accuracy):.4f}, PyTorch's {right:.4f}")
    if abs(ours - float(loss)) > 1e-4 * max(1, ours) or abs(right - float(accuracy)) > 1e-4:
        sys.exit(1)


if __name__ == "__main__":
    check(*sys.argv[1:])

"""How many pictures per second one worker of torch's DataLoader prepares with torchvision and Pillow.

usage: pytorch_loader.py FOLDER EPOCHS

Prints one line of JSON: pictures per second, and pictures per second of processor time of the process and its
worker, after an epoch of warming up.
"""
import json, os, sys, time
import torch
from torchvision import datasets, transforms


def processor_seconds():
    """Of this process and its worker, which has not ended yet."""
    children = open(f"/proc/self/task/{os.getpid()}/children").read().split()
    ticks = 0
    for process in [os.getpid(), *children]:
        fields = open(f"/proc/{process}/stat").read().rsplit(")", 1)[1].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def main():
    torch.set_num_threads(1)
    steps = transforms.Compose([
        transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip(), transforms.ToTensor(),
        transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))])
    loader = torch.utils.data.DataLoader(datasets.ImageFolder(sys.argv[1], steps), batch_size=64, shuffle=True,
                                         num_workers=1, persistent_workers=True)
    count = 0
    for epoch in range(-1, int(sys.argv[2])):
        if epoch == 0:
            wall, cpu, count = time.perf_counter(), processor_seconds(), 0
        for images, _ in loader:
            count += len(images)
    print(json.dumps({"wall": count / (time.perf_counter() - wall), "cpu": count / (processor_seconds() - cpu)}))


main()

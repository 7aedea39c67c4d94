#!/usr/bin/env python3
"""The peer of freeze.c: the same steps in PyTorch, channels_last. A frozen backbone is in evaluation mode.

usage: pytorch_freeze.py trained|frozen BATCH STEPS
"""
import json, statistics, sys, time
import torch
from torchvision.models import resnet50

frozen, batch, steps = sys.argv[1] == "frozen", int(sys.argv[2]), int(sys.argv[3])
torch.set_num_threads(1)
net = resnet50(num_classes=5).to(memory_format=torch.channels_last)
if frozen:
    net.requires_grad_(False).eval()
    net.fc.requires_grad_(True)
optimizer = torch.optim.SGD([p for p in net.parameters() if p.requires_grad], 0.01, momentum=0.9)
x = (torch.rand(batch, 3, 224, 224) * 4 - 2).to(memory_format=torch.channels_last)
y = torch.zeros(batch, dtype=torch.long)
seconds = []
for i in range(-1, steps):
    start = time.process_time()
    loss = torch.nn.functional.cross_entropy(net(x), y)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    if i >= 0:
        seconds.append(time.process_time() - start)
print(json.dumps({"step_ms": round(1e3 * statistics.median(seconds), 1)}))

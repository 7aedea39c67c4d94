"""PyTorch's side of test_fine_tuning.c.

usage: fine_tuning.py start WEIGHTS    writes torchvision's ResNet-50 with drawn weights
       fine_tuning.py judge WEIGHTS TUNED CLASSES IMAGES LOGITS

judge loads what yoke has trained from WEIGHTS into torchvision's network with a head of CLASSES, compares
its logits with yoke's on the same images, and finds everything but the head unchanged.
"""
import sys

try:
    import numpy
    import torch
    from torchvision.models import resnet50
except ImportError as error:
    print("skipped:", error)
    sys.exit(77)

torch.set_num_threads(1)


def start(weights):
    torch.manual_seed(3)
    network = resnet50(num_classes=20)
    for name, value in network.named_buffers():  # as if it had been trained
        if value.is_floating_point():
            value += 0.1 * torch.rand(value.shape)
    torch.save(network.state_dict(), weights)


def judge(weights, tuned, classes, images, logits):
    before, after = torch.load(weights), torch.load(tuned)
    network = resnet50(num_classes=int(classes))
    network.load_state_dict(after)  # every name and shape
    for name, value in before.items():
        if not name.startswith("fc."):
            assert torch.equal(value, after[name]), f"{name} has changed"
    x = torch.from_numpy(numpy.fromfile(images, numpy.float32)).reshape(-1, 3, 224, 224)
    ours = torch.from_numpy(numpy.fromfile(logits, numpy.float32)).reshape(len(x), -1)
    with torch.no_grad():
        theirs = network.eval()(x)
    distance, largest = (ours - theirs).abs().max().item(), theirs.abs().max().item()
    print(f"logits up to {largest:.3g}, distance {distance:.1e}")
    assert distance <= 1e-4 * max(1, largest)


{"start": start, "judge": judge}[sys.argv[1]](*sys.argv[2:])

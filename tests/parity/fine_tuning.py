"""PyTorch's side of test_fine_tuning.c.

usage: fine_tuning.py start WEIGHTS CLASSES    writes torchvision's ResNet-50 with drawn weights
       fine_tuning.py logits WEIGHTS CLASSES IMAGES LOGITS
       fine_tuning.py frozen WEIGHTS TUNED

logits loads weights into torchvision's network and compares its logits with yoke's on the same images. frozen
finds everything but the head as it was before yoke has trained.
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


def start(weights, classes):
    torch.manual_seed(3)
    network = resnet50(num_classes=int(classes))
    for norm in network.modules():  # statistics that keep activations at their scale, as training leaves them
        if isinstance(norm, torch.nn.BatchNorm2d):
            norm.momentum = 1
    with torch.no_grad():
        network.train()(torch.randn(4, 3, 224, 224))
        network.fc.weight *= 0.1
    torch.save(network.state_dict(), weights)


def logits(weights, classes, images, computed):
    network = resnet50(num_classes=int(classes))
    network.load_state_dict(torch.load(weights))  # every name and shape
    x = torch.from_numpy(numpy.fromfile(images, numpy.float32)).reshape(-1, 3, 224, 224)
    ours = torch.from_numpy(numpy.fromfile(computed, numpy.float32)).reshape(len(x), -1)
    with torch.no_grad():
        theirs = network.eval()(x)
    distance, largest = (ours - theirs).abs().max().item(), theirs.abs().max().item()
    print(f"logits up to {largest:.3g}, distance {distance:.1e}")
    assert largest > 0.5 and distance <= 1e-4


def frozen(weights, tuned):
    before, after = torch.load(weights), torch.load(tuned)
    for name, value in before.items():
        if not name.startswith("fc."):
            assert torch.equal(value, after[name]), f"{name} has changed"


{"start": start, "logits": logits, "frozen": frozen}[sys.argv[1]](*sys.argv[2:])

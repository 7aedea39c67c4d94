"""PyTorch's side of test_pytorch_files.c: opens yoke's files, trains on, and writes files for yoke.

Usage: pytorch_files.py COMMAND FOLDER [ARGUMENT]. Exits with 77 when PyTorch is missing.
"""
import math
import sys
import zipfile

try:
    import torch
    import torchvision
except ImportError as error:
    print("skipped:", error)
    sys.exit(77)


def load(path):
    return torch.load(path, weights_only=True)


def load_checkpoint(path):
    """PyTorch 1's weights_only knows no floats, and an optimizer's settings are floats."""
    return load(path) if torch.__version__ >= "2" else torch.load(path)


def network(name):
    """The torchvision model of a yoke architecture, 10 classes."""
    model = torchvision.models.__dict__[name.split("-")[0]](num_classes=10)
    if name == "resnet18":  # the CIFAR stem
        model.conv1 = torch.nn.Conv2d(3, 64, 3, padding=1, bias=False)
        torch.nn.init.kaiming_normal_(model.conv1.weight, mode="fan_out", nonlinearity="relu")
        model.maxpool = torch.nn.Identity()
    return model


def small():
    """The small model of the C side."""
    model = torch.nn.Module()
    model.conv = torch.nn.Conv2d(3, 4, 3, bias=False)
    model.bn = torch.nn.BatchNorm2d(4)
    model.fc = torch.nn.Linear(4, 10)
    return model


def state_dict(folder, name):
    """A state_dict fits torchvision's model, in its order, with its first values' statistics."""
    loaded, model = load(f"{folder}/{name}.pth"), network(name)
    expected = model.state_dict()
    assert list(loaded) == list(expected), "names or their order differ"
    for key, value in expected.items():
        assert loaded[key].shape == value.shape and loaded[key].dtype == value.dtype, key
        if value.ndim == 4:
            ratio = (loaded[key].std() / value.std()).item()
            assert abs(ratio - 1) < 0.1, f"{key}: its deviation is {ratio} times torchvision's"
        elif key != "fc.weight" and key != "fc.bias":
            assert torch.equal(loaded[key], value), key
    model.load_state_dict(loaded, strict=True)


def gradient(parameter, index, step):
    """The gradient that the C side makes up too."""
    values = [0.1 * math.sin(0.37 * i + step + 3 * index) for i in range(parameter.numel())]
    return torch.tensor(values, dtype=torch.float64).to(parameter.dtype).view_as(parameter)


def train_on(folder, name):
    """20 more steps from yoke's checkpoint, saved as PyTorch saves."""
    checkpoint, model = load_checkpoint(f"{folder}/{name}.pth"), small()
    model.load_state_dict(checkpoint["model"], strict=True)
    optimizer = {
        "sgd": torch.optim.SGD,
        "adam": torch.optim.Adam,
        "adamw": torch.optim.AdamW,
    }[checkpoint["yoke"]["optimizer"]](model.parameters(), lr=1e9)
    optimizer.load_state_dict(checkpoint["optimizer"])
    first = checkpoint["yoke"]["optimizer_steps"]
    for step in range(first, first + 20):
        for index, parameter in enumerate(model.parameters()):
            parameter.grad = gradient(parameter, index, step)
        optimizer.step()
    torch.save(
        {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "note": "not yoke's"},
        f"{folder}/{name}.torch.pth",
    )


def odd_files(folder):
    """The same numbers several ways: plain.pth, and files that yoke must read as the same."""
    torch.manual_seed(7)
    plain = {key: value.clone() for key, value in small().state_dict().items()}
    for key, value in plain.items():  # numbers that every dtype holds
        if value.dtype == torch.float32:
            plain[key] = torch.randint(-8, 8, value.shape).float() / 4
        else:
            plain[key] = torch.tensor(42)
    torch.save(plain, f"{folder}/plain.pth")
    torch.save({f"module.{k}": v for k, v in plain.items()}, f"{folder}/module.pth")
    torch.save({"epoch": 3, "state_dict": plain, "args": ["x", {"y": 1.5}]}, f"{folder}/nested.pth")

    for dtype in (torch.float64, torch.float16, torch.bfloat16):
        cast = {k: v.to(dtype) if v.is_floating_point() else v.int() for k, v in plain.items()}
        torch.save(cast, f"{folder}/{str(dtype).split('.')[1]}.pth")

    views = dict(plain)
    views["fc.weight"] = plain["fc.weight"].t().contiguous().t()
    views["conv.weight"] = plain["conv.weight"].to(memory_format=torch.channels_last)
    shared = torch.cat([torch.zeros(5), plain["bn.weight"], plain["bn.bias"]])
    views["bn.weight"], views["bn.bias"] = shared[5:9], shared[9:13]
    views["fc.bias"] = torch.nn.Parameter(plain["fc.bias"])
    assert not views["fc.weight"].is_contiguous()
    torch.save(views, f"{folder}/views.pth")

    with zipfile.ZipFile(f"{folder}/plain.pth") as stored:
        with zipfile.ZipFile(f"{folder}/deflated.pth", "w", zipfile.ZIP_DEFLATED) as deflated:
            for name in stored.namelist():
                deflated.writestr(name, stored.read(name))


{"state_dict": state_dict, "train_on": train_on, "odd_files": odd_files}[sys.argv[1]](*sys.argv[2:])

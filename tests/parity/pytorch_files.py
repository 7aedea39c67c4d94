"""PyTorch's side of test_pytorch_files.c: opens yoke's files, trains on, and writes files for yoke.

Usage: pytorch_files.py COMMAND FOLDER [ARGUMENT]. Exits with 77 when PyTorch is missing.
"""
import collections
import json
import math
import struct
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


def network(name, side=224):
    """The torchvision model of a yoke architecture, 10 classes; side is that of images for which a
    vision transformer is made."""
    if name == "vit-tiny-patch4-32":  # with its sizes
        return torchvision.models.VisionTransformer(
            image_size=side, patch_size=4, num_layers=12, num_heads=3, hidden_dim=192, mlp_dim=768,
            num_classes=10)
    if name.startswith("vit-"):
        return torchvision.models.__dict__[name.replace("-", "_")](num_classes=10, image_size=side)
    options = {"aux_logits": False, "init_weights": True} if name == "googlenet" else {}
    model = torchvision.models.__dict__[name.replace("-cifar", "").replace("-", "_")](num_classes=10, **options)
    if name == "resnet18-cifar":  # the CIFAR stem
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


def load_into(model, tensors):
    """load_state_dict. safetensors has no versions of modules, which torchvision's MNASNet asks for."""
    if not hasattr(tensors, "_metadata"):
        tensors = collections.OrderedDict(tensors)
        tensors._metadata = model.state_dict()._metadata
    model.load_state_dict(tensors, strict=True)


def check_metadata(ours, theirs):
    """The versions of all modules with tensors, in the same order; yoke knows no others."""
    names = [name for name in theirs._metadata
             if not name or any(key.startswith(name + ".") for key in theirs)]
    expected = [(name, theirs._metadata[name]) for name in names]
    assert list(ours._metadata.items()) == expected, f"{ours._metadata}\nexpected {expected}"


def state_dict(folder, name):
    """A state_dict fits torchvision's model, in its order, with its first values' statistics."""
    torch.manual_seed(0)  # trunc_normal_ makes one of 2^24 numbers -2, which is 100 deviations
    loaded, model = load(f"{folder}/{name}.pth"), network(name)
    expected = model.state_dict()
    constants = {key for key, value in model.named_buffers() if value.max() > value.min()}
    assert list(loaded) == list(expected), "names or their order differ"
    check_metadata(loaded, expected)
    for key, value in expected.items():
        assert loaded[key].shape == value.shape and loaded[key].dtype == value.dtype, key
        if key in constants:
            assert torch.allclose(loaded[key].double(), value.double(), rtol=1e-6, atol=1e-7), key
        elif value.numel() < 100 and value.max() > value.min():  # too few for a deviation
            assert loaded[key].max() > loaded[key].min(), key
        elif value.max() > value.min():
            ratio = (loaded[key].std() / value.std()).item()
            assert abs(ratio - 1) < 0.1 + 2 / value.numel() ** 0.5, f"{key}: its deviation is {ratio} times torchvision's"
        else:
            assert torch.equal(loaded[key], value), key
    load_into(model, loaded)


def gradient(parameter, index, step):
    """The gradient that the C side makes up too."""
    values = [0.1 * math.sin(0.37 * i + step + 3 * index) for i in range(parameter.numel())]
    return torch.tensor(values, dtype=torch.float64).to(parameter.dtype).view_as(parameter)


def train_on(folder, name):
    """20 more steps from yoke's checkpoint, saved as PyTorch saves."""
    checkpoint, model = load_checkpoint(f"{folder}/{name}.pth"), small()
    check_metadata(checkpoint["model"], model.state_dict())
    model.load_state_dict(checkpoint["model"], strict=True)
    optimizer = {
        "sgd": torch.optim.SGD,
        "adam": torch.optim.Adam,
        "adamw": torch.optim.AdamW,
        "nadam": torch.optim.NAdam,
        "radam": torch.optim.RAdam,
        "adamax": torch.optim.Adamax,
        "adadelta": torch.optim.Adadelta,
        "adagrad": torch.optim.Adagrad,
        "rmsprop": torch.optim.RMSprop,
    }[checkpoint["yoke"]["optimizer"]](model.parameters(), lr=1e9)
    optimizer.load_state_dict(checkpoint["optimizer"])
    if torch.__version__ < "2" and isinstance(optimizer, torch.optim.NAdam):
        optimizer.param_groups[0]["foreach"] = True  # the other loop multiplies with mu twice there
    first = checkpoint["yoke"]["optimizer_steps"]
    for step in range(first, first + 20):
        for index, parameter in enumerate(model.parameters()):
            parameter.grad = gradient(parameter, index, step)
        optimizer.step()
    torch.save(
        {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "note": "not yoke's"},
        f"{folder}/{name}.torch.pth",
    )


def conv1d(folder):
    """Each optimizer's checkpoint of a Conv1d after 3 steps, OPTIMIZER.pth, and its weights after 5 more."""
    for name, kind, settings in (("sgd", torch.optim.SGD, {"momentum": 0.9}), ("adam", torch.optim.Adam, {})):
        torch.manual_seed(3)
        model = torch.nn.Module()
        model.conv = torch.nn.Conv1d(2, 3, 5)
        optimizer = kind(model.parameters(), lr=0.01, **settings)
        for step in range(8):
            if step == 3:
                torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, f"{folder}/{name}.pth")
            for index, parameter in enumerate(model.parameters()):
                parameter.grad = gradient(parameter, index, step)
            optimizer.step()
        torch.save(model.state_dict(), f"{folder}/{name}_after.pth")


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
    for protocol in 3, 4, 5:
        torch.save(plain, f"{folder}/protocol_{protocol}.pth", pickle_protocol=protocol)
    wrapped_files(folder, plain)

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


def wrapped_files(folder, plain):
    """Names as torch.compile, FSDP and activation checkpointing leave them, and FSDP's tensors."""
    inner = {"conv": "_orig_mod", "bn": "_checkpoint_wrapped_module", "fc": "_fsdp_wrapped_module"}
    part = {k.replace(".", f".{inner[k.split('.')[0]]}.", 1): v for k, v in plain.items()}
    torch.save(part, f"{folder}/part.pth")
    torch.save({f"_fsdp_wrapped_module._orig_mod.{k}": v for k, v in plain.items()}, f"{folder}/whole.pth")
    gathered = {key: value.clone() for key, value in plain.items()}
    for value in gathered.values():
        value._has_been_cloned = True  # as FSDP marks what it has gathered
    torch.save(gathered, f"{folder}/gathered.pth")


class DTensor(torch.Tensor):
    """Pickled like PyTorch's class of this name, which this version may not have."""


def every_dtype(folder):
    """Whole numbers as every dtype that holds them, small.pth (signed) and bits.pth (0 and 1)."""
    torch.manual_seed(8)
    shapes = {key: value.shape for key, value in small().state_dict().items()}
    signed = {key: torch.randint(-8, 8, shape) for key, shape in shapes.items()}
    bits = {key: torch.randint(0, 2, shape) for key, shape in shapes.items()}
    for name, values, dtypes in (
            ("signed", signed, "float32 float64 float16 bfloat16 int64 int32 int16 int8"),
            ("bits", bits, "float32 uint8 bool uint16 uint32 uint64")):
        for dtype in filter(lambda dtype: hasattr(torch, dtype), dtypes.split()):
            cast = {key: value.to(getattr(torch, dtype)) for key, value in values.items()}
            torch.save(cast, f"{folder}/{name}-{dtype}.pth")
    refused = {key: value.float() for key, value in signed.items()}
    torch.save(refused, f"{folder}/legacy.pth", _use_new_zipfile_serialization=False)
    torch.save({**refused, "fc.bias": refused["fc.bias"].to(torch.complex64)}, f"{folder}/complex.pth")
    torch.save({**refused, "fc.bias": refused["fc.bias"].to_sparse()}, f"{folder}/sparse.pth")
    sharded = {key: value.as_subclass(DTensor) for key, value in refused.items()}
    torch.save(sharded, f"{folder}/sharded.pth")
    torch.save({"_flat_param": torch.zeros(99)}, f"{folder}/flat.pth")
    torch.save(torch.zeros(3), f"{folder}/__0_0.distcp")
    torch.jit.save(torch.jit.script(torch.nn.Linear(2, 2)), f"{folder}/script.pth")
    module = torch.nn.Linear(2, 2)
    torch.save(module, f"{folder}/module.pth")
    torch.save({"epoch": 1, "model": module}, f"{folder}/checkpoint_of_module.pth")
    torch.save(torch.optim.SGD(module.parameters(), 0.1).state_dict(), f"{folder}/optimizer.pth")


def odd_checkpoints(folder):
    """What people put beside a model, all.pth; and optimizers that yoke's are not."""
    import argparse
    import numpy
    import pathlib
    model = small()
    for name, options in (("all", {}), ("maximize", {"maximize": True})):
        optimizer = torch.optim.Adam(model.parameters(), lr=0.5, **options)
        for parameter in model.parameters():
            parameter.grad = torch.zeros_like(parameter)
        optimizer.step()
        torch.save({
            "epoch": 3, "net": model.state_dict(), "optimizer": optimizer.state_dict(),
            "args": argparse.Namespace(out=pathlib.Path("/x")), "best": numpy.float64(0.5),
            "history": collections.defaultdict(list), "classes": {"a", "b"}, "cpu": torch.get_rng_state(),
            "numpy": numpy.random.default_rng(0).bit_generator.state, "raw": b"bytes", "c": 1 + 2j,
        }, f"{folder}/{name}.pth")
    optimizer = torch.optim.Adam(model.parameters(), lr=0.5)
    optimizer.step()
    state = optimizer.state_dict()  # of Adam(DistributedDataParallel(model).named_parameters())
    state["param_groups"][0]["param_names"] = [f"module.{name}" for name, _ in model.named_parameters()]
    torch.save({"model": model.state_dict(), "optimizer": state}, f"{folder}/wrapped_names.pth")
    rate = torch.tensor(0.25, dtype=torch.float64)  # as compiled optimizers need it
    optimizer = torch.optim.Adam(model.parameters(), lr=0.5)
    optimizer.param_groups[0].update(lr=rate, initial_lr=2 * rate)
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, f"{folder}/tensor_lr.pth")
    for kind in torch.optim.AdamW, torch.optim.NAdam, torch.optim.RAdam, torch.optim.Adamax:
        optimizer = kind(model.parameters(), lr=0.5)
        for parameter in model.parameters():
            parameter.grad = torch.ones_like(parameter)
        optimizer.step()
        state = optimizer.state_dict()
        if kind is torch.optim.AdamW:  # before PyTorch 2.7 it does not say so
            state["param_groups"][0].setdefault("decoupled_weight_decay", True)
        torch.save({"model": model.state_dict(), "optimizer": state}, f"{folder}/{kind.__name__.lower()}.pth")


# ---- safetensors: the package where it is installed, else as its format is described

DTYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16,
          "I64": torch.int64, "I32": torch.int32, "I16": torch.int16, "I8": torch.int8,
          "U8": torch.uint8, "BOOL": torch.bool}


def read_safetensors(path):
    with open(path, "rb") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        text, data = file.read(size), file.read()
    assert size <= 100_000_000 and size % 8 == 0 and text[:1] == b"{"
    header = json.loads(text, object_pairs_hook=lambda pairs: pairs)
    assert len({name for name, _ in header}) == len(header), "a name twice"
    header, end, tensors = dict(header), 0, {}
    assert dict(header.pop("__metadata__")) == {"format": "pt"}
    for name, info in sorted(header.items(), key=lambda item: dict(item[1])["data_offsets"]):
        info = dict(info)
        begin, stop = info["data_offsets"]
        dtype = DTYPES[info["dtype"]]
        assert begin == end and begin % torch.tensor([], dtype=dtype).element_size() == 0, name
        tensor = torch.frombuffer(bytearray(data[begin:stop]) or bytearray(8), dtype=dtype)
        tensors[name] = tensor.view(info["shape"])
        end = stop
    assert end == len(data)
    return tensors


def write_safetensors(tensors, path):
    header, data = {}, b""
    for name, value in tensors.items():
        content = value.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() \
            if value.dim() else struct.pack("<q", value.item())
        dtype = next(key for key, known in DTYPES.items() if known == value.dtype)
        header[name] = {"dtype": dtype, "shape": list(value.shape),
                        "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


try:
    from safetensors.torch import load_file as read_safetensors, save_file as write_safetensors  # noqa: F811
except ImportError:
    pass


# ---- logits

def images(side):
    """The images that the C side makes up too."""
    count = 4 * 3 * side * side
    return torch.sin(0.7 * torch.arange(count, dtype=torch.float64)).float().view(4, 3, side, side)


def run(name, tensors, side):
    model = network(name, side).eval()
    load_into(model, tensors)
    with torch.no_grad():
        return model(images(side))


def compare(what, ours, theirs):
    difference = ((ours - theirs).abs().max() / theirs.abs().max()).item()
    print(f"{what}: largest difference of a logit {difference:.1e} of the largest logit")
    assert difference < 1e-4, what


def tell_images_apart(name, model, side):
    """A vision transformer starts with a head of zeros, and looks at all patches alike; the blocks
    of a ConvNeXt, the weights of a Swin and the filters of GoogLeNet start with next to nothing; a
    SqueezeNet ends with relu."""
    with torch.no_grad():
        if name.startswith("vit-"):
            torch.nn.init.normal_(model.heads.head.weight, std=0.02)
            for layer in model.encoder.layers:
                layer.self_attention.in_proj_weight *= 4
        if name.startswith(("convnext-", "swin-")) or name == "googlenet":
            for key, value in model.named_parameters():
                grows = value.ndim > 1 and not key.endswith("logit_scale")
                value *= 1e6 if key.endswith("layer_scale") else 5 if grows else 1
        if name.startswith("squeezenet"):
            head = model.classifier[1]
            head.weight *= 50
            head.bias.copy_(1 - head.weight.flatten(1) @ model.features(images(side)).mean((0, 2, 3)))


def logits(folder, name, side):
    """PyTorch's logits of yoke's files beside those that yoke wrote; then files for yoke."""
    side = int(side)
    with open(f"{folder}/{name}.logits", "rb") as file:
        ours = torch.frombuffer(bytearray(file.read()), dtype=torch.float32).view(4, 10)
    compare(f"{name}.pth in PyTorch", ours, run(name, load(f"{folder}/{name}.pth"), side))
    compare(f"{name}.safetensors in PyTorch", ours,
            run(name, read_safetensors(f"{folder}/{name}.safetensors"), side))

    torch.manual_seed(5)
    model = network(name, side)
    tell_images_apart(name, model, side)
    for norm in model.modules():
        if isinstance(norm, torch.nn.BatchNorm2d):
            norm.momentum = 1  # those of these images, so that they reach the logits
    rate = 1e-5 if name.startswith(("squeezenet", "swin-")) else 1e-3  # a step moves all their logits alike
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
    torch.nn.functional.cross_entropy(model(images(side)), torch.arange(4)).backward()
    optimizer.step()  # statistics and an optimizer's state worth saving
    tensors = model.state_dict()
    half = {key: value.half() if value.is_floating_point() else value for key, value in tensors.items()}
    torch.save(tensors, f"{folder}/fresh.pth")
    torch.save(half, f"{folder}/half.pth")
    torch.save({"epoch": 1, "model_state_dict": tensors, "optimizer_state_dict": optimizer.state_dict()},
               f"{folder}/optimizer.pth")
    torch.save({f"module.{key}": value for key, value in tensors.items()}, f"{folder}/module.pth")
    write_safetensors(tensors, f"{folder}/theirs.safetensors")
    for kind, values in (("fresh", tensors), ("half", {k: v.to(tensors[k].dtype) for k, v in half.items()})):
        theirs = run(name, values, side)
        assert (theirs - theirs[0]).abs().max() > 0.1 * theirs.abs().max(), "the logits tell no images apart"
        with open(f"{folder}/{kind}.logits", "wb") as file:
            file.write(theirs.numpy().tobytes())


commands = {"state_dict": state_dict, "conv1d": conv1d, "train_on": train_on, "odd_files": odd_files,
            "every_dtype": every_dtype, "odd_checkpoints": odd_checkpoints, "logits": logits}
commands[sys.argv[1]](*sys.argv[2:])

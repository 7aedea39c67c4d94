"""Writes the inputs that the fuzz targets start from into tests/fuzz/corpus. Needs Python alone.

What a run of the fuzzer has found lies beside them, under names of its own.
"""
import gzip
import io
import json
import os
import pickle
import struct
import sys
import tarfile
import types
import zipfile
from collections import OrderedDict

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "corpus")


def write(target, name, data):
    folder = os.path.join(HERE, target)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name), "wb") as file:
        file.write(data)


# Stand-ins for PyTorch's and numpy's names, so that neither need be there.
def module(name, *classes, **functions):
    made = types.ModuleType(name)
    for one in classes:
        setattr(made, one, type(one, (), {"__module__": name}))
    for key, function in functions.items():
        function.__module__, function.__qualname__, function.__name__ = name, key, key
        setattr(made, key, function)
    sys.modules[name] = made
    return made


def rebuild_tensor(*arguments):
    return arguments


def rebuild_tensor_v3(*arguments):
    return arguments


def rebuild_parameter(*arguments):
    return arguments


def reconstruct(*arguments):
    return arguments


def frombuffer(*arguments):
    return arguments


torch = module("torch", "FloatStorage", "LongStorage", "HalfStorage", "DoubleStorage", "uint16")
torch_storage = module("torch.storage", "UntypedStorage")
module("torch._utils", _rebuild_tensor_v2=rebuild_tensor, _rebuild_tensor_v3=rebuild_tensor_v3,
       _rebuild_parameter=rebuild_parameter)
module("numpy.core")
module("numpy.core.multiarray", _reconstruct=reconstruct)
numpy = module("numpy", "ndarray", "dtype")


class Storage:
    def __init__(self, kind, key, count):
        self.id = ("storage", getattr(torch, kind + "Storage"), key, "cpu", count)


class Tensor:
    """Tensor over storage "0" (4 bytes) or "1" (24 bytes) of fuzz_pth.c's archive."""

    def __init__(self, shape, strides, offset=0, kind="Float", key="1", count=6):
        self.arguments = (Storage(kind, key, count), offset, shape, strides, False, OrderedDict())

    def __reduce__(self):
        return rebuild_tensor, self.arguments


class Parameter(Tensor):
    def __reduce__(self):
        return rebuild_parameter, (Tensor(*self.arguments[2:4]), True, OrderedDict())


class Unsigned(Tensor):
    """Of uint16, which has no class of storages."""

    def __reduce__(self):
        storage = Storage("Float", "1", 24)
        storage.id = ("storage", torch_storage.UntypedStorage, "1", "cpu", 24)
        return rebuild_tensor_v3, (storage, *self.arguments[1:], torch.uint16)


class Pickler(pickle.Pickler):
    def persistent_id(self, value):
        return value.id if isinstance(value, Storage) else None


def pickled(value, protocol=2):
    out = io.BytesIO()
    Pickler(out, protocol).dump(value)
    return out.getvalue()


def state_dict(prefix="", kind="Float", count=6):
    one = Tensor((1,), (1,), 0, kind, "1", count)
    return OrderedDict({
        prefix + "bn.weight": one,
        prefix + "bn.bias": Tensor((1,), (1,), 0, "Float", "0", 1),
        prefix + "bn.running_mean": Tensor((1,), (1,), 1, kind, "1", count),
        prefix + "bn.running_var": one,
        prefix + "bn.num_batches_tracked": Tensor((), (), 0, "Long", "1", 3),
        prefix + "fc.weight": Tensor((2, 1), (1, 2), 1, kind, "1", count),
        prefix + "fc.bias": Parameter((2,), (1,)),
    })


def optimizer(slots, settings, with_step, numbers=()):
    shapes = [(1,), (1,), (2, 1), (2,)]
    state = {}
    for index, shape in enumerate(shapes):
        strides = (1, 1)[: len(shape)]
        state[index] = {name: Tensor(shape, strides) for name in slots}
        if with_step:
            state[index]["step"] = Tensor((), (), 0, "Float", "0", 1)
        for name in numbers:
            state[index][name] = Tensor((), (), 0, "Float", "0", 1)
    group = dict(settings, maximize=False, foreach=None, params=[0, 1, 2, 3])
    return {"state": state, "param_groups": [group]}


SGD = optimizer(["momentum_buffer"], {
    "lr": 0.1, "momentum": 0.9, "dampening": 0.0, "weight_decay": 0.0, "nesterov": True}, False)
ADAM = optimizer(["exp_avg", "exp_avg_sq"], {
    "lr": 0.1, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.0, "amsgrad": False}, True)
AMSGRAD = optimizer(["exp_avg", "exp_avg_sq", "max_exp_avg_sq"], {
    "lr": 0.1, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.0, "amsgrad": True}, True)
NADAM = optimizer(["exp_avg", "exp_avg_sq"], {
    "lr": 0.1, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.0, "momentum_decay": 4e-3,
    "decoupled_weight_decay": False}, True, ["mu_product"])
RADAM = optimizer(["exp_avg", "exp_avg_sq"], {
    "lr": 0.1, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.0,
    "decoupled_weight_decay": True}, True)
ADAMAX = optimizer(["exp_avg", "exp_inf"], {
    "lr": 0.1, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.0}, True)
ADAGRAD = optimizer(["sum"], {
    "lr": 0.1, "lr_decay": 0, "eps": 1e-10, "weight_decay": 0, "initial_accumulator_value": 0.5}, True)
ADADELTA = optimizer(["square_avg", "acc_delta"], {
    "lr": 1.0, "rho": 0.9, "eps": 1e-6, "weight_decay": 0}, True)
RMSPROP = optimizer(["square_avg", "grad_avg"], {
    "lr": 0.1, "momentum": 0, "alpha": 0.99, "eps": 1e-8, "centered": True, "weight_decay": 0}, True)
YOKE = {"version": 1, "arch": "mlp", "epoch": 1, "step": 7, "epoch_batch": 2, "batch_size": 128,
        "world_size": 2, "seed": -1, "lr": 0.1, "val_accuracy": 0.5, "optimizer": "sgd",
        "optimizer_steps": 7}
POWERSGD = {"name": "powersgd", "factors": Tensor((4,), (1,)), "errors": [Tensor((6,), (1,))],
            "warm": Tensor((1,), (1,), 0, "Float", "0", 1)}
PICKLES = {
    "state_dict": state_dict(),
    "module": state_dict("module."),
    "half": state_dict("", "Half", 12),
    "double": state_dict("", "Double", 3),
    "sgd": {"model": state_dict(), "optimizer": SGD, "yoke": YOKE},
    "adam": {"epoch": 3, "state_dict": state_dict(), "optimizer": ADAM, "args": ["x", {"y": 1.5}]},
    "amsgrad": {"model": state_dict(), "optimizer": AMSGRAD},
    "nadam": {"model": state_dict(), "optimizer": NADAM},
    "radam": {"model": state_dict(), "optimizer": RADAM},
    "adamax": {"model": state_dict(), "optimizer": ADAMAX},
    "adagrad": {"model": state_dict(), "optimizer": ADAGRAD},
    "adadelta": {"model": state_dict(), "optimizer": ADADELTA},
    "rmsprop": {"model": state_dict(), "optimizer": RMSPROP},
    "powersgd": {"model": state_dict(), "comm_hook": POWERSGD},
    "unsigned": OrderedDict(state_dict(), **{"fc.bias": Unsigned((2,), (1,), 3)}),
}
for name, value in PICKLES.items():
    write("pth", name, pickled(value))
    write("pickle", name, pickled(value))
write("pickle", "sets", pickled({"a": {1, 2}, "b": frozenset([3]), "c": set()}, 4))


# ---- archives and safetensors

INFO = json.dumps({"format": 1, "arch": "small", "classes": 2, "class_names": ["a", "b"],
                   "mean": [0.5], "std": [0.25]})


def archive(pickle_bytes, compression):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as made:
        for name, data in (("a/data.pkl", pickle_bytes), ("a/byteorder", b"little"),
                           ("a/data/0", bytes(4)), ("a/data/1", bytes(24)), ("a/version", b"3\n"),
                           ("a/extra/yoke.json", INFO.encode())):
            made.writestr(zipfile.ZipInfo(name), data, compression)
    return out.getvalue()


def safetensors(tensors, metadata=None):
    header, data = ({"__metadata__": metadata} if metadata else {}), b""
    for name, (dtype, shape, content) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


for target in "zip", "tensors":
    write(target, "stored", archive(pickled(state_dict()), zipfile.ZIP_STORED))
    write(target, "deflated", archive(pickled(PICKLES["sgd"]), zipfile.ZIP_DEFLATED))
write("zip", "empty", archive(b"", zipfile.ZIP_STORED)[-22:])
half = struct.pack("<e", 1.5)
write("tensors", "safetensors", safetensors({
    "bn.num_batches_tracked": ("I64", [], struct.pack("<q", 3)),
    "bn.weight": ("F32", [1], bytes(4)), "bn.bias": ("F32", [1], bytes(4)),
    "bn.running_mean": ("F16", [1], half), "bn.running_var": ("BF16", [1], half),
    "fc.weight": ("F64", [2, 1], bytes(16)), "fc.bias": ("U8", [2], bytes(2))}, {"format": "pt"}))
write("tensors", "safetensors_info", safetensors({"a": ("F32", [1], bytes(4))},
                                                 {"format": "pt", "yoke": INFO}))
write("tensors", "safetensors_float8", safetensors({
    "a": ("F8_E4M3", [2], bytes(2)), "b": ("C64", [1], bytes(8)), "c": ("F32", [1], bytes(4))}))
write("tensors", "safetensors_empty", safetensors({"a": ("F32", [0, 3], b"")}))
write("tensors", "legacy", pickle.dumps(0x1950A86A20F9469CFC6C, protocol=2))

# ---- CIFAR-10: one row in each version


class Array:
    def __init__(self, rows):
        self.rows = rows

    def __reduce__(self):
        state = (1, (self.rows, 3072), Byte(), False, Text(bytes(3072 * self.rows)))
        return reconstruct, (numpy.ndarray, (0,), Text(b"b")), state


class Byte:
    def __reduce__(self):
        return numpy.dtype, (Text(b"u1"), 0, 1), (3, Text(b"|"), None, None, None, -1, -1, 0)


class Text(bytes):
    """Python 2's str, which Python 3 does not pickle any more."""


class Python2(pickle._Pickler):
    dispatch = pickle._Pickler.dispatch.copy()

    def save_text(self, value):
        size = len(value)
        self.write(b"U" + bytes([size]) if size < 256 else b"T" + struct.pack("<i", size))
        self.write(bytes(value))

    dispatch[Text] = save_text

    def persistent_id(self, value):
        return None


for rows in 0, 1:
    out = io.BytesIO()
    Python2(out, protocol=2).dump({Text(b"batch_label"): Text(b"a"), Text(b"labels"): [3] * rows,
                                   Text(b"data"): Array(rows), Text(b"filenames"): [Text(b"f")]})
    write("cifar_python", f"rows_{rows}", out.getvalue())
    write("cifar_binary", f"rows_{rows}", bytes([3] + [7] * 3072) * rows)


class Byte3:
    def __reduce__(self):
        return numpy.dtype, ("u1", False, True), (3, "|", None, None, None, -1, -1, 0)


class Array3:
    """An array as Python 3 writes it; Python 3 has no opcode for its bytes in protocol 2."""
    def __reduce_ex__(self, protocol):
        pixels = bytes(range(256)) * 12
        if protocol >= 5:
            return frombuffer, (bytearray(pixels), Byte3(), (1, 3072), "C")
        return reconstruct, (numpy.ndarray, (0,), b"b"), (1, (1, 3072), Byte3(), False, pixels)


module("numpy.core.numeric", _frombuffer=frombuffer)
for protocol in 2, 3, 4, 5:
    write("cifar_python", f"python3_{protocol}",
          pickle.dumps({b"labels": [3], b"data": Array3(), b"filenames": [b"f"]}, protocol))
write("cifar_binary", "bad_label", bytes([10] + [7] * 3072))

# ---- the archive that CIFAR-10 comes in


def tar(*names):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as made:
        for name in names:
            member = tarfile.TarInfo(name)
            member.size = 9
            made.addfile(member, io.BytesIO(b"not a row"))
    return out.getvalue()


write("tar", "python", tar("cifar-10-batches-py/data_batch_1", "cifar-10-batches-py/test_batch")[:3072])
write("tar", "binary", gzip.compress(tar("./cifar-10-batches-bin/test_batch.bin"), mtime=0))
write("tar", "outside", gzip.compress(tar("cifar-10-batches-py/../../x"), mtime=0))

# ---- arrays and shards

idx = struct.pack(">BBBBIII", 0, 0, 8, 3, 1, 4, 5) + bytes(range(20))
write("idx", "plain", idx)
write("idx", "gzip", gzip.compress(idx, mtime=0))
write("idx", "torn", gzip.compress(idx, mtime=0)[:30])
write("idx", "large", struct.pack(">BBBBIII", 0, 0, 8, 3, 1 << 20, 1 << 10, 5))


def npy(version, kind, shape, data, order="False"):
    text = f"{{'descr': '{kind}', 'fortran_order': {order}, 'shape': {shape}, }}\n".encode()
    return (b"\x93NUMPY" + bytes([version, 0])
            + struct.pack("<H" if version == 1 else "<I", len(text)) + text + data)


write("npy", "grey", npy(1, "|u1", "(2, 3, 4)", bytes(24)))
write("npy", "channels_last", npy(2, "|u1", "(2, 2, 2, 3)", bytes(24)))
write("npy", "floats", npy(1, "<f4", "(3, 2)", bytes(24)))
write("npy", "fortran", npy(1, "<f4", "(3, 2)", bytes(24), "True"))
write("npy", "large", npy(1, "<f8", "(2147483647, 2147483647, 2147483647)", b""))


def shard(form, *names):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as made:
        for name in names:
            content = b"3" if name.endswith("cls") else b"\xff\xd8\xff"
            member = tarfile.TarInfo(name)
            member.size = len(content)
            made.addfile(member, io.BytesIO(content))
    return out.getvalue()[:4096 + 1024]


write("shards", "ustar", shard(tarfile.USTAR_FORMAT, "a.jpg", "a.cls", "d/b.cls"))
write("shards", "gnu", shard(tarfile.GNU_FORMAT, "n" * 120 + ".jpg", "n" * 120 + ".cls"))
write("shards", "pax", shard(tarfile.PAX_FORMAT, "n" * 120 + ".jpg", "a.cls"))

pixels = bytes(range(12))
header = struct.pack("<8sIIQIIQQQQ", b"YOKEPACK", 1, 0, 1, 2, 3, 4108, 4132, 4, 0)
entry = struct.pack("<QIiII", 4096, 12, 1, 2, 2)
write("pack", "pixels", header.ljust(4096, b"\0") + pixels + entry + b"a\0b\0")
write("pack", "torn", header)

# ---- JSON

entries = [{"file": f"checkpoint-{n}.pth", "epoch": n, "step": n * 391, "bytes": 4096,
            "sha256": "0123456789abcdef" * 4, "saved_at": 1.7e9} for n in (1, 2, 3)]
write("manifest", "two", json.dumps({"version": 1, "checkpoints": entries[:2]}).encode())
write("manifest", "saving", json.dumps({"version": 1, "checkpoints": entries[:2],
                                        "saving": entries[2]}).encode())
write("manifest", "empty", b'{"version":1,"checkpoints":[]}')
write("metrics", "steps", b"".join(
    b'{"epoch": 1, "step": %d, "loss": 2.3, "lr": 0.1, "data_s": null}\n' % n for n in range(1, 6)))
write("metrics", "typed", b'{"type": "header", "format": 1, "step": 0, "time": "2026-03-01T12:00:00.250Z"}\n'
      + b"".join(b'{"type": "step", "epoch": 1, "step": %d, "loss": 2.3, "time": "x"}\n' % n for n in range(1, 6))
      + b'{"type": "epoch", "epoch": 1, "step": 5, "val_loss": 2.2, "time": "x"}\n')
write("metrics", "torn", b'{"epoch": 1, "step": 1}\n{"epoch": 1, "st')

# ---- requests to the store (src/comm/store/wire.h); the first byte: already admitted


def frame(code, key=b"", value=b"", number=0):
    return struct.pack("<IIIIq", code, len(key), len(value), 0, number) + key + value


SET, GET, ADD, CHECK, WAIT, COMPARE_SET, DELETE, LIST, WILL, LEAVE = range(1, 11)
write("store", "requests", b"\0" + frame(SET, b"a", b"one") + frame(GET, b"a") + frame(ADD, b"n", number=3)
      + frame(CHECK, b"a") + frame(COMPARE_SET, b"a", b"onetwo", 3) + frame(COMPARE_SET, b"b", b"new", -1)
      + frame(LIST) + frame(DELETE, b"a") + frame(LIST, b"n"))
write("store", "waits", b"\0" + frame(GET, b"no", number=1000) + frame(WAIT, b"no") + frame(ADD, b"a", number=-1))
write("store", "will", b"\0" + frame(WILL, b"gone/1", b"pid 1") + frame(WILL, b"gone/2") + frame(LIST, b"gone"))
write("store", "leave", b"\0" + frame(WILL, b"gone/1", b"pid 1") + frame(LEAVE) + frame(SET, b"a"))
write("store", "bad_sizes", b"\0" + struct.pack("<IIIIq", SET, 1 << 10, 1 << 20, 0, 0) + b"key")
write("store", "zero_in_key", b"\0" + frame(SET, b"a\0b", b"value"))
write("store", "stranger", b"\1" + struct.pack("<II", 0x74536B79, 2) + bytes(64) + frame(SET, b"a"))

# ---- lists of transforms

for number, text in enumerate((
        "", "RandomCrop(32,padding=4),RandomHorizontalFlip,Normalize(cifar10)",
        "RandomResizedCrop((96,128),scale=(0.5,1),ratio=(0.75,1.33),interpolation=bicubic),RandomHorizontalFlip(p=0.3),"
        "ColorJitter(0.4,0.4,0.4,0.1),RandAugment(2,9),ToTensor,Normalize((0.5,0.5,0.5),0.25),"
        "RandomErasing(0.25,value=random),MixUp(0.2),CutMix(1)",
        "Resize(256),CenterCrop(224),Grayscale(3),RandomGrayscale,RandomVerticalFlip,Normalize(imagenet),OneHot",
        "Resize(256", "RandomCrop(32,padding=-1)", "CenterCrop(1e99)", "Normalize(nothing)", "Normalize,Resize(3)")):
    write("transforms", f"list_{number}", text.encode())
header = struct.pack("<8sIIQIIQQQQ", b"YOKEPACK", 1, 0, 1, 2, 3, 4108, 4132, 4, 4136)
places = struct.pack("<QQ", 4152, 4159)
write("pack", "named", header.ljust(4096, b"\0") + pixels + entry + b"a\0b\0" + places + b"b/x.png")

"""Writes CIFAR-100 and Fashion-MNIST as they are published, with few drawn pictures, for test_official_data.c.

usage: official_data.py FOLDER

FOLDER gets cifar-100-python.tar.gz, the four files of Fashion-MNIST, and `settings` for a shell, which names them as
what yoke downloads.
"""
import gzip
import hashlib
import os
import struct
import sys
import tarfile

try:
    import numpy as np
except ImportError as missing:
    print(missing)
    sys.exit(77)
from python2 import Python2


def drawn(rng, labels, patterns):
    """A picture of each label: its class's pattern with some noise."""
    noisy = patterns[labels] + rng.normal(0, 20, (len(labels), *patterns.shape[1:]))
    return np.clip(noisy, 0, 255).astype(np.uint8)


def write_cifar100(folder, rng):
    patterns = rng.uniform(0, 255, (100, 3072))
    os.makedirs(f"{folder}/cifar-100-python")
    for name, rows in ("train", 1000), ("test", 200):
        labels = np.arange(rows) % 100
        batch = {"filenames": [f"{i}.png" for i in range(rows)], "batch_label": name, "fine_labels": labels.tolist(),
                 "coarse_labels": (labels // 5).tolist(), "data": drawn(rng, labels, patterns)}
        with open(f"{folder}/cifar-100-python/{name}", "wb") as file:
            Python2(file, protocol=2).dump(batch)
    with open(f"{folder}/cifar-100-python/meta", "wb") as file:
        Python2(file, protocol=2).dump({"fine_label_names": [], "coarse_label_names": []})
    with tarfile.open(f"{folder}/cifar-100-python.tar.gz", "w:gz") as archive:
        archive.add(f"{folder}/cifar-100-python", "cifar-100-python")


def write_fashion_mnist(folder, rng):
    patterns = rng.uniform(0, 255, (10, 28, 28))
    for name, rows in ("train", 1000), ("t10k", 200):
        labels = (np.arange(rows) % 10).astype(np.uint8)
        for what, array in (("images-idx3", drawn(rng, labels, patterns)), ("labels-idx1", labels)):
            with gzip.open(f"{folder}/{name}-{what}-ubyte.gz", "wb") as file:
                file.write(struct.pack(">HBB", 0, 8, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape))
                file.write(array.tobytes())


def md5(path):
    with open(path, "rb") as file:
        return hashlib.md5(file.read()).hexdigest()


def main():
    folder = os.path.abspath(sys.argv[1])
    rng = np.random.default_rng(0)
    write_cifar100(folder, rng)
    write_fashion_mnist(folder, rng)
    files = [f"{folder}/{name}-{what}-ubyte.gz" for name in ("train", "t10k") for what in ("images-idx3", "labels-idx1")]
    with open(f"{folder}/settings", "w") as file:
        file.write(f"""export XDG_CACHE_HOME={folder}/cache
export YOKE_CIFAR100_URL=file://{folder}/cifar-100-python.tar.gz
export YOKE_CIFAR100_MD5={md5(f"{folder}/cifar-100-python.tar.gz")}
export YOKE_FASHION_MNIST_URL=file://{folder}/
export YOKE_FASHION_MNIST_MD5={",".join(md5(path) for path in files)}
""")


main()

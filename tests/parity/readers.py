"""Writes data sets as their own tools do, for test_reader_files.c: CIFAR-100's pickles, NumPy arrays.

usage: readers.py FOLDER
"""
import os
import pickle
import sys

try:
    import numpy as np
except ImportError as missing:
    print(missing)
    sys.exit(77)
from python2 import Python2


folder = sys.argv[1]
os.makedirs(os.path.join(folder, "cifar-100-python"))
for name, rows in ("train", 3), ("test", 1):
    batch = {"filenames": [f"{i}.png" for i in range(rows)], "batch_label": name,
             "fine_labels": [97 + i for i in range(rows)], "coarse_labels": [19] * rows,
             "data": np.arange(rows * 3072, dtype=np.uint32).reshape(rows, 3072).astype(np.uint8)}
    with open(os.path.join(folder, "cifar-100-python", name), "wb") as file:
        Python2(file, protocol=2).dump(batch)

# The same, loaded by Python 3 and dumped again, with texts and with bytes as keys.
for protocol in 2, 3, 4, 5:
    for encoding in "latin1", "bytes":
        again = os.path.join(folder, f"{encoding}-{protocol}")
        os.makedirs(again)
        for name in "train", "test":
            with open(os.path.join(folder, "cifar-100-python", name), "rb") as file:
                batch = pickle.load(file, encoding=encoding)
            with open(os.path.join(again, name), "wb") as file:
                pickle.dump(batch, file, protocol)

np.save(os.path.join(folder, "train_images.npy"), np.arange(2 * 4 * 5 * 3, dtype=np.uint8).reshape(2, 4, 5, 3))
np.save(os.path.join(folder, "train_labels.npy"), np.array([3, 1]))

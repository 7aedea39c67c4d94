"""Pickles as Python 2 wrote them, in which CIFAR is published."""
import pickle
import struct


class Python2(pickle._Pickler):
    """Writes bytes as Python 2 did."""
    dispatch = dict(pickle._Pickler.dispatch)

    def save_bytes(self, data):
        self.write(b"T" + struct.pack("<i", len(data)) + data)

    dispatch[bytes] = save_bytes

"""Writes pictures and what Pillow's convert("RGB") makes of them, for test_pillow.c.

usage: pictures.py CORPUS FOLDER: for each picture of CORPUS/{jpeg,png,webp} that Pillow reads, and
for some larger ones, writes FOLDER/NAME (the file) and FOLDER/NAME.rgb (width, height, pixels).
"""
import io
import os
import struct
import sys

try:
    import numpy as np
    from PIL import Image
except ImportError as missing:
    print(missing)
    sys.exit(77)

corpus, folder = sys.argv[1:]
count = 0


def keep(name, data):
    global count
    try:
        image = Image.open(io.BytesIO(data)).convert("RGB")
    except Exception:  # one of the damaged ones
        return
    with open(os.path.join(folder, name), "wb") as file:
        file.write(data)
    with open(os.path.join(folder, name + ".rgb"), "wb") as file:
        file.write(struct.pack("<ii", *image.size) + image.tobytes())
    count += 1


for kind in "jpeg", "png", "webp":
    for name in sorted(os.listdir(os.path.join(corpus, kind))):
        if name != "animated":
            with open(os.path.join(corpus, kind, name), "rb") as file:
                keep(f"{kind}-{name}", file.read())

rng = np.random.default_rng(0)
for i in range(12):
    width, height = rng.integers(60, 400, 2)
    small = rng.integers(0, 256, (height // 8 + 1, width // 8 + 1, 3), np.uint8)
    image = Image.fromarray(small).resize((width, height), Image.BICUBIC)
    out = io.BytesIO()
    image.save(out, ("JPEG", "PNG", "WEBP")[i % 3], quality=int(rng.integers(40, 98)))
    keep(f"large-{i}", out.getvalue())
print(count, "pictures")

"""Draws a folder of pictures of five classes, and packs them into WebDataset shards, too.

usage: own_pictures.py FOLDER TRAIN VAL SIDE

Writes FOLDER/pictures/{train,val}/CLASS/N.jpg, TRAIN and VAL pictures in all, of 64 to SIDE pixels
a side, and FOLDER/{train-0,train-1,val}.tar. A class is a shape; place, size, turn, colours, noise
and JPEG quality are random, so that only the shape tells classes apart.
"""
import io
import math
import os
import random
import sys
import tarfile

try:
    from PIL import Image, ImageDraw
except ImportError as missing:
    print(missing)
    sys.exit(77)

CLASSES = ["cross", "disc", "ring", "stripes", "triangle"]


def color(draw, low, high):
    return tuple(draw.randint(low, high) for _ in range(3))


def polygon(center, radius, angles, turn):
    return [(center[0] + radius * math.cos(turn + a), center[1] + radius * math.sin(turn + a))
            for a in angles]


def box(center, radius):
    return [center[0] - radius, center[1] - radius, center[0] + radius, center[1] + radius]


def draw_shape(pen, name, center, radius, turn, ink, paper):
    if name == "disc":
        pen.ellipse(box(center, radius), fill=ink)
    elif name == "ring":
        pen.ellipse(box(center, radius), fill=ink)
        pen.ellipse(box(center, radius * 0.55), fill=paper)
    elif name == "triangle":
        pen.polygon(polygon(center, radius, [0, 2 * math.pi / 3, 4 * math.pi / 3], turn), fill=ink)
    elif name == "cross":
        for quarter in 0, math.pi / 2:
            pen.polygon(polygon(center, radius, [-0.3, 0.3, math.pi - 0.3, math.pi + 0.3],
                                turn + quarter), fill=ink)
    else:
        for shift in -0.8, 0, 0.8:
            middle = (center[0] - shift * radius * math.sin(turn),
                      center[1] + shift * radius * math.cos(turn))
            pen.polygon(polygon(middle, radius, [-0.2, 0.2, math.pi - 0.2, math.pi + 0.2], turn),
                        fill=ink)


def picture(draw, name, most):
    width, height = draw.randint(64, most), draw.randint(64, most)
    if max(width, height) > 1.6 * min(width, height):
        height = width
    paper, ink = color(draw, 150, 255), color(draw, 0, 90)
    if draw.random() < 0.5:
        paper, ink = ink, paper
    image = Image.new("RGB", (width, height), paper)
    side = min(width, height)
    radius = side * draw.uniform(0.3, 0.4)
    center = (width / 2 + side * draw.uniform(-0.08, 0.08),
              height / 2 + side * draw.uniform(-0.08, 0.08))
    draw_shape(ImageDraw.Draw(image), name, center, radius, draw.uniform(0, 2 * math.pi), ink,
               paper)
    noise = Image.effect_noise((width, height), draw.uniform(5, 40)).convert("RGB")
    data = io.BytesIO()
    Image.blend(image, noise, 0.15).save(data, "JPEG", quality=draw.randint(60, 95))
    return data.getvalue()


def add_file(archive, name, data):
    entry = tarfile.TarInfo(name)
    entry.size = len(data)
    archive.addfile(entry, io.BytesIO(data))


def write_split(folder, split, count, most, seed, shards):
    draw = random.Random(seed)
    archives = [tarfile.open(os.path.join(folder, shard), "w") for shard in shards]
    for i in range(count):
        # In the folder's order: class by class. The first shard has the first half.
        label, number = divmod(i, count // len(CLASSES))
        name = CLASSES[label]
        path = os.path.join(folder, "pictures", split, name)
        os.makedirs(path, exist_ok=True)
        data = picture(draw, name, most)
        with open(os.path.join(path, f"{number:04}.jpg"), "wb") as file:
            file.write(data)
        archive = archives[i * len(archives) // count]
        add_file(archive, f"{name}-{number:04}.jpg", data)
        add_file(archive, f"{name}-{number:04}.cls", str(label).encode())
    for archive in archives:
        archive.close()


folder, train, val, side = sys.argv[1], *map(int, sys.argv[2:])
write_split(folder, "train", train, side, 1, ["train-0.tar", "train-1.tar"])
write_split(folder, "val", val, side, 2, ["val.tar"])

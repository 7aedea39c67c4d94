"""Whole lists of transforms, as yoke's loader applied them, against torchvision's: test_pytorch_pipelines.c.

usage: pipelines.py draw FOLDER    draws pictures/a/*.png and large/a/*.jpg
       pipelines.py judge FILE     FILE: a line for each sample (list, epoch, index, picture, seed, dims), then its floats

What yoke draws depends on (seed, epoch, index) alone, so it is drawn here again; torchvision's own functions then do
the steps. Pixels must be equal bit for bit; where a JPEG was decoded at a fraction of its size, the noise must be small.
"""
import math
import os
import sys

try:
    import numpy as np
    import torch
    from PIL import Image
    from torchvision.transforms import InterpolationMode
    from torchvision.transforms import functional as F
    from torchvision.transforms.autoaugment import RandAugment, _apply_op
except ImportError as missing:
    print(missing)
    sys.exit(77)

ALL = 2 ** 64 - 1
NUMBERS = {"imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)), "none": (0, 1)}


def mix(x):
    x = (x + 0x9E3779B97F4A7C15) & ALL
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & ALL
    x = (x ^ x >> 27) * 0x94D049BB133111EB & ALL
    return x ^ x >> 31


class Draws:
    """The random numbers of one step for one sample (src/data/transforms/draws.h)."""
    def __init__(self, word, step):
        self.state = mix(word ^ mix(step + 1))

    def word(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) & ALL
        return mix(self.state)

    def within(self, low, high):
        return low + (high - low) * ((self.word() >> 11) * 2.0 ** -53)

    def below(self, count):
        return (self.word() >> 32) * count >> 32


def resized_crop(image, size, draws):
    width, height = image.size
    for _ in range(10):
        target = width * height * draws.within(0.08, 1)
        aspect = math.exp(draws.within(math.log(3 / 4), math.log(4 / 3)))
        w, h = round(math.sqrt(target * aspect)), round(math.sqrt(target / aspect))
        if 1 <= w <= width and 1 <= h <= height:
            top, left = draws.below(height - h + 1), draws.below(width - w + 1)
            return F.resized_crop(image, top, left, h, w, [size, size])
    raise SystemExit("a picture of unusual proportions")


def padded_crop(image, size, word):
    image = F.pad(image, 4)
    offsets = image.size[0] - size + 1, image.size[1] - size + 1
    return F.crop(image, (word >> 32) % offsets[1], (word & 0xFFFFFFFF) // 2 % offsets[0], size, size)


SEEN = set()


def rand_augment(image, magnitude, draws):
    space = RandAugment()._augmentation_space(31, (image.size[1], image.size[0]))  # height, width; also of old versions
    for _ in range(2):
        name = list(space)[draws.below(len(space))]
        magnitudes, signed = space[name]
        strength = float(magnitudes[magnitude]) if magnitudes.ndim > 0 else 0.0
        if signed and draws.below(2):
            strength = -strength
        image = _apply_op(image, name, strength, InterpolationMode.NEAREST, None)
        SEEN.add((name, magnitude))
    return image


def transform(steps, image, word):
    """Steps as yoke writes them; those of presets and RandAugment."""
    for number, step in enumerate(steps):
        name, argument = step.rstrip(")").split("(") if "(" in step else (step, "")
        draws = Draws(word, number)
        if name == "RandomResizedCrop":
            image = resized_crop(image, int(argument), draws)
        elif name == "RandomCrop":
            image = padded_crop(image, int(argument.split(",")[0]), word)
        elif name == "RandomHorizontalFlip":
            image = F.hflip(image) if word & 1 else image
        elif name == "Resize":
            image = F.resize(image, int(argument))
        elif name == "CenterCrop":
            image = F.center_crop(image, int(argument))
        elif name == "RandAugment":
            image = rand_augment(image, int(argument.split(",")[1]), draws)
    tensor = F.to_tensor(image)
    return F.normalize(tensor, *NUMBERS["imagenet"]) if steps[-1] == "Normalize(imagenet)" else tensor


def judge(path):
    samples = wrong = 0
    worst = {"Resize(175)": math.inf, "": math.inf}  # 175: decoded at just the size that is needed
    with open(path, "rb") as file:
        for line in file:
            text, seed, epoch, index, picture, *dims = line.decode().rstrip("\n").split("\t")
            dims = [int(d) for d in dims]
            ours = np.frombuffer(file.read(4 * math.prod(dims)), np.float32).reshape(dims)
            word = mix(mix(mix(int(seed)) ^ int(epoch)) ^ int(index))
            steps = text.replace("),", ");").replace("Flip,", "Flip;").split(";")
            theirs = transform(steps, Image.open(picture).convert("RGB"), word).numpy()
            samples += 1
            if picture.endswith(".jpg"):
                kind = next(kind for kind in worst if text.startswith(kind))
                worst[kind] = min(worst[kind], -10 * math.log10(np.mean((ours - theirs) ** 2) + 1e-12))
            elif not np.array_equal(ours, theirs):
                wrong += 1
                if wrong <= 5:
                    print(f"{text}, {picture}, epoch {epoch}: up to {np.abs(ours - theirs).max()}")
    print(f"{samples} samples, {wrong} differ, {len(SEEN)} operations with their magnitudes; reduced JPEG: {min(worst.values()):.1f} dB")
    return wrong > 0 or len(SEEN) < 14 * 31 or worst[""] < 40 or worst["Resize(175)"] < 30


def scene(rng, width, height):
    """Noise of all scales, with less of the small ones, as in photographs."""
    total = np.zeros((height, width, 3))
    for scale in 2, 4, 8, 16, 32, 64, 128:
        small = rng.normal(size=(height // scale + 2, width // scale + 2, 3)) * scale ** 0.9
        planes = [Image.fromarray(small[..., c].astype(np.float32)).resize((width, height), Image.BICUBIC) for c in range(3)]
        total += np.stack([np.asarray(plane) for plane in planes], -1)
    return np.clip(128 + 50 * total / total.std(), 0, 255).astype(np.uint8)


def draw(folder):
    rng = np.random.default_rng(0)
    for kind in "small", "pictures", "large":
        os.makedirs(f"{folder}/{kind}/a")
    for i in range(12):
        Image.fromarray(scene(rng, 32, 32)).save(f"{folder}/small/a/{i:02}.png")
        width, height = (int(n) for n in rng.integers(70, 160, 2))
        Image.fromarray(scene(rng, width, height)).save(f"{folder}/pictures/a/{i:02}.png")
    for i in range(4):
        Image.fromarray(scene(rng, 900, 700)).save(f"{folder}/large/a/{i}.jpg", quality=92)


if sys.argv[1] == "draw":
    draw(sys.argv[2])
else:
    sys.exit(judge(sys.argv[2]))

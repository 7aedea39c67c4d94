"""Compares pictures that yoke has changed with Pillow's and torchvision's: test_pytorch_image.c."""
import sys

try:
    import numpy as np
    import PIL.Image
    import torchvision.transforms.functional as F
except ImportError as error:
    print(error)
    sys.exit(77)

from PIL.Image import Resampling, Transform, Transpose


def resize(image, left, top, width, height, full_width, full_height, x, y, interpolation, size):
    method = [Resampling.NEAREST, Resampling.BILINEAR, Resampling.BICUBIC][int(interpolation)]
    box = (left, top, left + width, top + height)
    full = image.resize((int(full_width), int(full_height)), method, box=box)
    return full.crop((int(x), int(y), int(x) + size[0], int(y) + size[1]))


def flip(image, mirrored, upside_down):
    image = image.transpose(Transpose.FLIP_LEFT_RIGHT) if mirrored else image
    return image.transpose(Transpose.FLIP_TOP_BOTTOM) if upside_down else image


JUDGES = {
    "resize": lambda image, size, *numbers: resize(image, *numbers, size),
    "crop": lambda image, size, left, top, width, height: F.crop(
        image, int(top), int(left), int(height), int(width)),
    "flip": lambda image, size, *numbers: flip(image, *numbers),
    "rotate": lambda image, size, degrees: F.rotate(image, degrees),
    "affine": lambda image, size, *matrix: image.transform(
        image.size, Transform.AFFINE, matrix, Resampling.NEAREST),
    "brightness": lambda image, size, factor: F.adjust_brightness(image, factor),
    "contrast": lambda image, size, factor: F.adjust_contrast(image, factor),
    "saturation": lambda image, size, factor: F.adjust_saturation(image, factor),
    "hue": lambda image, size, factor: F.adjust_hue(image, factor),
    "sharpness": lambda image, size, factor: F.adjust_sharpness(image, factor),
    "grey": lambda image, size, _: F.to_grayscale(image, len(image.getbands())),
    "one_channel": lambda image, size, _: F.to_grayscale(image, 1),
    "posterize": lambda image, size, bits: F.posterize(image, int(bits)),
    "solarize": lambda image, size, threshold: F.solarize(image, threshold),
    "autocontrast": lambda image, size, _: F.autocontrast(image),
    "equalize": lambda image, size, _: F.equalize(image),
}


def read_picture(file, width, height, channels):
    pixels = np.frombuffer(file.read(width * height * channels), np.uint8)
    return pixels.reshape((height, width) if channels == 1 else (height, width, channels))


def main():
    cases = wrong = 0
    with open(sys.argv[1], "rb") as file:
        for line in file:
            name, *numbers = line.decode().split()
            size, numbers = [int(n) for n in numbers[:6]], [float(n) for n in numbers[6:]]
            before, after = read_picture(file, *size[:3]), read_picture(file, *size[3:])
            expected = np.asarray(JUDGES[name](PIL.Image.fromarray(before), size[3:5], *numbers))
            cases += 1
            if expected.shape != after.shape or not np.array_equal(expected, after):
                wrong += 1
                if wrong <= 10:
                    gap = "another shape" if expected.shape != after.shape else (
                        f"{np.count_nonzero(expected != after)} bytes differ, by up to "
                        f"{np.abs(expected.astype(int) - after).max()}")
                    print(f"{name} {size} {numbers}: {gap}")
    print(f"{cases} cases, {wrong} differ")
    return wrong > 0 or cases == 0


sys.exit(main())

"""Draws pictures with the statistics of photographs: noise of all scales with less of the small ones, and edges.

usage: draw.py FOLDER COUNT [WIDTH HEIGHT]
"""
import os, sys
import numpy as np
from PIL import Image


def clouds(rng, height, width):
    """Noise whose power falls with the square of the frequency, as in photographs; mean 0, deviation 1."""
    fy, fx = np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width)[None]
    frequency = np.sqrt(fx ** 2 + fy ** 2)
    frequency[0, 0] = 1
    noise = np.fft.irfft2(np.fft.rfft2(rng.normal(size=(height, width))) / frequency, (height, width))
    return (noise - noise.mean()) / noise.std()


def picture(rng, height, width):
    light, texture, *colour = (clouds(rng, height, width) for _ in range(5))
    y, x = np.mgrid[:height, :width]
    for _ in range(12):  # things in front of each other
        a, b = rng.uniform(10, width / 3, 2)
        inside = ((x - rng.uniform(0, width)) / a) ** 2 + ((y - rng.uniform(0, height)) / b) ** 2 < 1
        light[inside] = 0.6 * np.roll(texture, rng.integers(width))[inside] + rng.normal()
    planes = [128 + 45 * light + 15 * c + rng.normal(0, 2, light.shape) for c in colour]
    return np.clip(np.stack(planes, -1), 0, 255).astype(np.uint8)


def main():
    folder, count = sys.argv[1], int(sys.argv[2])
    width, height = (int(n) for n in sys.argv[3:5]) if len(sys.argv) > 3 else (500, 375)
    rng = np.random.default_rng(0)
    for i in range(count):
        Image.fromarray(picture(rng, height, width)).save(os.path.join(folder, f"{i:04}.jpg"), quality=92)


main()

"""Writes the pictures that the targets jpeg, png and webp start from into tests/fuzz/corpus.

They cover every kind of pixels and of compression that the formats have. Needs Pillow and numpy.
"""
import io
import os
import struct
import zlib

import numpy as np
from PIL import Image

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "corpus")


def drawing(width, height, channels, seed=0):
    """Something smooth with edges and a little noise, (height, width, channels) of uint8."""
    y, x = np.mgrid[0:height, 0:width]
    planes = [127 + 80 * np.sin(x / (5 + c)) * np.cos(y / (7 - c)) + 40 * ((x + 2 * y) // 9 % 2)
              for c in range(channels)]
    noise = np.random.default_rng(seed).normal(0, 4, (height, width, channels))
    return np.clip(np.stack(planes, -1) + noise, 0, 255).astype(np.uint8)


def write(target, name, data):
    os.makedirs(os.path.join(HERE, target), exist_ok=True)
    with open(os.path.join(HERE, target, name), "wb") as file:
        file.write(data)


def encoded(image, kind, **options):
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def image(mode, width=45, height=35):
    channels = {"L": 1, "LA": 2, "RGB": 3, "RGBA": 4, "CMYK": 4}[mode]
    pixels = drawing(width, height, channels)
    return Image.fromarray(pixels[..., 0] if channels == 1 else pixels, mode)


# ---- JPEG

for sampling, name in enumerate(("444", "422", "420")):
    write("jpeg", f"rgb_{name}", encoded(image("RGB"), "JPEG", quality=80, subsampling=sampling))
    write("jpeg", f"progressive_{name}",
          encoded(image("RGB"), "JPEG", quality=70, subsampling=sampling, progressive=True))
write("jpeg", "grey", encoded(image("L"), "JPEG"))
write("jpeg", "grey_progressive", encoded(image("L"), "JPEG", progressive=True))
write("jpeg", "cmyk", encoded(image("CMYK"), "JPEG"))
write("jpeg", "small", encoded(image("RGB", 1, 1), "JPEG"))
exif = Image.Exif()
exif[0x0112] = 6  # turned by 90 degrees, which is ignored
write("jpeg", "turned", encoded(image("RGB"), "JPEG", exif=exif))
write("jpeg", "torn", encoded(image("RGB"), "JPEG")[:900])

# ---- PNG

for mode in "L", "LA", "RGB", "RGBA":
    write("png", mode.lower(), encoded(image(mode), "PNG"))
for bits in 1, 2, 4, 8:
    palette = image("RGB").quantize(1 << bits)
    write("png", f"palette_{bits}", encoded(palette, "PNG", bits=bits))
write("png", "palette_transparent", encoded(palette, "PNG", transparency=3))
write("png", "grey_1", encoded(image("L").convert("1"), "PNG"))
write("png", "torn", encoded(image("RGB"), "PNG")[:1500])


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(depth, color, rows, width, height, interlaced=0, more=b""):
    """A PNG whose rows are packed already, each after its filter's number."""
    header = struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, interlaced)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + more
            + chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b""))


def rows_of(pixels):
    return b"".join(b"\0" + np.ascontiguousarray(row).tobytes() for row in pixels)


def deep(channels):
    return drawing(24, 18, channels).astype(">u2") * 257 - 100


grey, rgb, rgba = deep(1)[..., 0], deep(3), deep(4)
write("png", "grey_16", png(16, 0, rows_of(grey), 24, 18))
write("png", "grey_16_dark", png(16, 0, rows_of((grey // 200).astype(">u2")), 24, 18))
write("png", "rgb_16", png(16, 2, rows_of(rgb), 24, 18))
write("png", "rgba_16", png(16, 6, rows_of(rgba), 24, 18))
write("png", "la_16", png(16, 4, rows_of(deep(2)), 24, 18))
for bits in 2, 4:
    levels = drawing(40, 18, 1)[..., 0] >> (8 - bits)
    packed = sum(levels[:, i::8 // bits] << (8 - bits * (i + 1)) for i in range(8 // bits))
    write("png", f"grey_{bits}", png(bits, 0, rows_of(packed.astype(np.uint8)), 40, 18))
write("png", "rgb_key", png(8, 2, rows_of(drawing(24, 18, 3)), 24, 18,
                            more=chunk(b"tRNS", struct.pack(">HHH", 1, 2, 3))))
small = drawing(21, 19, 3)
passes = [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)]
write("png", "interlaced", png(8, 2, b"".join(rows_of(small[y::dy, x::dx]) for y, x, dy, dx in passes),
                               21, 19, interlaced=1))
write("png", "bomb", png(1, 0, bytes(9), 60000, 60000))
for kind in b"tEXt", b"sPLT":
    write("png", f"long_{kind.decode()}", png(1, 0, bytes(2), 8, 1, more=struct.pack(">I", 0x7fffffff) + kind))

# ---- WebP

for mode in "RGB", "RGBA":
    write("webp", f"lossy_{mode.lower()}", encoded(image(mode), "WEBP", quality=80))
    write("webp", f"lossless_{mode.lower()}", encoded(image(mode), "WEBP", lossless=True))
write("webp", "torn", encoded(image("RGB"), "WEBP")[:300])
write("webp", "animated", encoded(image("RGB"), "WEBP", save_all=True, append_images=[image("RGB").rotate(90)]))

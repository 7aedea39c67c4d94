/*
 * Pictures in memory: rows of bytes with interleaved channels, as decoders write and Pillow keeps
 * them: RGB, one channel of grey, or whatever a data set has. A picture either owns its memory,
 * which grows as needed and is reused from sample to sample, or looks at memory that belongs to
 * someone else. Planes are the other layout, that of tensors; they never own their memory.
 */
#ifndef YKI_PICTURE_H
#define YKI_PICTURE_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* The longest side: that of JPEG. With the most channels, every offset in a row fits an int. */
#define YKI_PICTURE_SIDE_MAX     65535
#define YKI_PICTURE_CHANNELS_MAX 1024

typedef struct yki_picture_size {
    int width, height, channels;
} yki_picture_size;

/* Columns left to left + width, rows top to top + height. */
typedef struct yki_box {
    int left, top, width, height;
} yki_box;

typedef struct yki_picture {
    uint8_t *pixels; /* (height, width, channels) */
    int width, height, channels;
    size_t stride;   /* bytes from one row to the next */
    size_t capacity; /* bytes of pixels that the picture owns; 0 if it owns none */
} yki_picture;

/*
 * Gives the picture this size in memory of its own, which is kept if it is large enough. What the
 * pixels are afterwards is undefined. Start from a picture of zeros.
 */
yk_status yki_picture_reserve(yki_picture *picture, int width, int height, int channels);
/* Frees what the picture owns. */
void yki_picture_free(yki_picture *picture);

/* Pixels with one plane for each channel. */
typedef struct yki_planes {
    const uint8_t *pixels;
    int width, height, channels;
    size_t stride; /* bytes from one row to the next */
    size_t plane;  /* bytes from one channel to the next */
} yki_planes;

/* Planes (channels, height, width) without gaps. */
yki_planes yki_planes_of(const uint8_t *pixels, yki_picture_size size);
/* The part that lies in box, without copying. The box must lie within the planes. */
yki_planes yki_planes_part(const yki_planes *planes, yki_box box);

/* Copies planes into the picture, which gets their size. */
yk_status yki_picture_interleave(yki_picture *picture, const yki_planes *planes);
/* Copies a picture to planes (channels, height, width). */
void yki_picture_to_planes(const yki_picture *picture, uint8_t *planes);

/* The part of a picture that lies in box, without copying. The box must lie within the picture. */
static inline yki_picture yki_picture_part(const yki_picture *picture, yki_box box)
{
    return (yki_picture){picture->pixels + (size_t)box.top * picture->stride +
                             (size_t)box.left * (size_t)picture->channels,
                         box.width,
                         box.height,
                         picture->channels,
                         picture->stride,
                         0};
}

static inline uint8_t *yki_picture_row(const yki_picture *picture, int y)
{
    return picture->pixels + (size_t)y * picture->stride;
}

#endif

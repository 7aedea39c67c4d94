/*
 * What a network reads, made of pictures of bytes in one pass: a window of each picture, perhaps
 * mirrored, then a number for each byte. The host draws the windows (data/deferral.h), and its own
 * transforms give the same bits.
 */
#ifndef YKI_DEVICE_PICTURES_H
#define YKI_DEVICE_PICTURES_H

#include "device/memory.h"
#include "image/reflected.h"

/* The numbers of a channel: of each byte, and of what RandomErasing has erased. */
enum { YKI_PICTURE_CHANNELS = 3, YKI_PICTURE_ERASED = 256, YKI_PICTURE_NUMBERS };

/* How one sample is made. */
typedef struct yki_picture_draw {
    int64_t source;                /* the number of its picture */
    int32_t top, left;             /* where the window begins in it; it may reach beyond */
    int32_t mirrored, upside_down; /* 0 or 1: how the window is seen */
    /* What is erased of the sample; nothing where the bottom is not below the top. */
    int32_t erased_top, erased_left, erased_bottom, erased_right;
} yki_picture_draw;

/* How each sample of a batch is mixed with the one before it, the first with the last. */
typedef struct yki_picture_mix {
    double share; /* of the sample itself; 1: nothing is mixed */
    int32_t cut;  /* 0: all of both are added up; 1: a box is the other's */
    int32_t top, left, bottom, right;
} yki_picture_mix;

/* All pointers are to the device's memory. */
typedef struct yki_pictures_args {
    const uint8_t *pictures;       /* (count) pictures */
    const yki_picture_draw *draws; /* (batch) */
    const yki_picture_mix *mix;    /* or NULL */
    const void *numbers;           /* (YKI_PICTURE_CHANNELS, YKI_PICTURE_NUMBERS) of dtype */
    void *out;                     /* (batch, channels, out_height, out_width) of dtype */
    yki_stream *stream;
    int64_t count, batch;
    yk_dtype dtype; /* YK_F32 or YK_F64 */
    int32_t channels, height, width, out_height, out_width;
    int32_t
        interleaved;  /* pictures are (height, width, channels), else (channels, height, width) */
    int32_t reflects; /* beyond its edges a picture is mirrored; otherwise its bytes there are 0 */
} yki_pictures_args;

/* Which of a channel's numbers is at (y, x) of a sample. */
YKI_HOST_DEVICE int yki_picture_number(const yki_pictures_args *a, int64_t sample, int channel,
                                       int y, int x)
{
    const yki_picture_draw *draw = &a->draws[sample];
    if (y >= draw->erased_top && y < draw->erased_bottom && x >= draw->erased_left &&
        x < draw->erased_right)
        return YKI_PICTURE_ERASED;
    int row = draw->top + (draw->upside_down ? a->out_height - 1 - y : y);
    int column = draw->left + (draw->mirrored ? a->out_width - 1 - x : x);
    if (a->reflects) {
        row = yki_reflected(row, a->height);
        column = yki_reflected(column, a->width);
    } else if (row < 0 || row >= a->height || column < 0 || column >= a->width) {
        return 0;
    }
    int64_t plane = (int64_t)a->height * a->width, pixel = (int64_t)row * a->width + column;
    int64_t at = a->interleaved ? pixel * a->channels + channel : channel * plane + pixel;
    return a->pictures[draw->source * plane * a->channels + at];
}

/* Whether (y, x) of every sample is the other's. */
YKI_HOST_DEVICE int yki_picture_is_cut(const yki_picture_mix *mix, int y, int x)
{
    return y >= mix->top && y < mix->bottom && x >= mix->left && x < mix->right;
}

#endif

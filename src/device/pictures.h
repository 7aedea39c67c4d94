/*
 * What a network reads, made of pictures of bytes in one pass: a window of each picture, perhaps
 * mirrored, then a number for each byte, and boxes that are erased. The host draws windows and
 * boxes (data/loader/deferral.h), and its own transforms give the same bits.
 */
#ifndef YKI_DEVICE_PICTURES_H
#define YKI_DEVICE_PICTURES_H

#include "base/normal.h"
#include "device/memory.h"
#include "image/reflected.h"

/* The numbers of a channel: of each byte. */
enum { YKI_PICTURE_CHANNELS = 3, YKI_PICTURE_NUMBERS = 256 };

/* How one sample is made. */
typedef struct yki_picture_draw {
    int64_t source;                /* the number of its picture */
    int32_t top, left;             /* where the window begins in it; it may reach beyond */
    int32_t mirrored, upside_down; /* 0 or 1: how the window is seen */
} yki_picture_draw;

/* What a step RandomErasing writes: (value - mean) / std, where value may be noise. */
typedef struct yki_picture_erasing {
    double value;
    int32_t random; /* 0 or 1: normal numbers instead of value */
    double mean[YKI_PICTURE_CHANNELS], std[YKI_PICTURE_CHANNELS]; /* further channels: the first */
} yki_picture_erasing;

/* Where it does so in a sample; nowhere if the bottom is not below the top. */
typedef struct yki_picture_box {
    int32_t top, left, bottom, right;
    uint64_t noise; /* the state of the words that noise is made of, row by row */
} yki_picture_box;

/* How each sample of a batch is mixed with the one before it. */
typedef struct yki_picture_mix {
    double share; /* of the sample itself; 1: nothing is mixed */
    int32_t cut;  /* 0: all of both are added up; 1: a box is the other's */
    int32_t top, left, bottom, right;
} yki_picture_mix;

/* All pointers are to the device's memory. If samples are mixed, there is one draw more, and its
 * boxes: the sample before the first. */
typedef struct yki_pictures_args {
    const uint8_t *pictures;             /* (count) pictures */
    const yki_picture_draw *draws;       /* (batch) */
    const yki_picture_mix *mix;          /* or NULL */
    const void *numbers;                 /* (YKI_PICTURE_CHANNELS, YKI_PICTURE_NUMBERS) of dtype */
    const yki_picture_erasing *erasings; /* (erasing_count), in order */
    const yki_picture_box *boxes;        /* (batch, erasing_count) */
    void *out;                           /* (batch, channels, out_height, out_width) of dtype */
    yki_stream *stream;
    int64_t count, batch;
    yk_dtype dtype; /* YK_F32 or YK_F64 */
    int32_t channels, height, width, out_height, out_width, erasing_count;
    int32_t
        interleaved;  /* pictures are (height, width, channels), else (channels, height, width) */
    int32_t reflects; /* beyond its edges a picture is mirrored; otherwise its bytes there are 0 */
} yki_pictures_args;

/* What is erased at (y, x) of a channel, within the box. */
YKI_HOST_DEVICE double yki_picture_erased(const yki_picture_erasing *erasing,
                                          const yki_picture_box *box, int channel, int y, int x)
{
    int64_t row = (int64_t)channel * (box->bottom - box->top) + y - box->top;
    int64_t index = row * (box->right - box->left) + x - box->left;
    double value = erasing->random ? yki_normal_at(box->noise, (uint64_t)index) : erasing->value;
    int c = channel < YKI_PICTURE_CHANNELS ? channel : 0;
    return (value - erasing->mean[c]) / erasing->std[c];
}

/* Whether a sample is erased at (y, x), and what the last erasing there writes. */
YKI_HOST_DEVICE bool yki_picture_is_erased(const yki_pictures_args *a, int64_t sample, int channel,
                                           int y, int x, double *number)
{
    const yki_picture_box *boxes = a->boxes + sample * a->erasing_count;
    for (int i = a->erasing_count - 1; i >= 0; i--)
        if (y >= boxes[i].top && y < boxes[i].bottom && x >= boxes[i].left && x < boxes[i].right) {
            *number = yki_picture_erased(&a->erasings[i], &boxes[i], channel, y, x);
            return true;
        }
    return false;
}

/* The byte that a sample's window shows at (y, x). */
YKI_HOST_DEVICE int yki_picture_byte(const yki_pictures_args *a, int64_t sample, int channel, int y,
                                     int x)
{
    const yki_picture_draw *draw = &a->draws[sample];
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

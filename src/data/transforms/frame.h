/*
 * A picture on its way through the steps. Crops, one resize and flips are only noted down until a
 * step needs pixels: an encoded picture is then decoded only where it is needed and at no larger a
 * size, what is resized is computed only within the crop, and planes are interleaved only there. A
 * part of planes that no step has changed stays as it is.
 */
#ifndef YKI_FRAME_H
#define YKI_FRAME_H

#include <stdbool.h>

#include "image/decode.h"
#include "image/geometry.h"
#include "image/resize.h"

/* Memory of one worker, kept from one picture to the next; start from zeros. */
typedef struct yki_frame_memory {
    yki_resizer resizer;
    yki_picture pictures[2]; /* a step reads one and writes the other */
    yki_picture interleaved; /* a source of planes */
} yki_frame_memory;

void yki_frame_memory_free(yki_frame_memory *memory);

typedef struct yki_frame {
    yki_frame_memory *memory;
    yki_decoder *decoder; /* of a picture that is not decoded yet, or NULL */
    yki_planes planes;    /* the source before it is interleaved; else its pixels are NULL */
    yki_picture pixels;   /* otherwise */
    int holder;           /* the picture in memory that pixels belong to, or -1 */
    int channels;
    yki_box region;              /* of the source: crops before the resize */
    int full_width, full_height; /* what the region is resized to; its own size without a resize */
    yk_interpolation interpolation;
    yki_box window; /* of that: crops after it */
    bool mirrored, upside_down;
} yki_frame;

/* The planes may belong to anybody; they are not changed. */
yki_frame yki_frame_of_planes(yki_frame_memory *memory, const yki_planes *planes);
/* A picture that was opened. */
yki_frame yki_frame_of_encoded(yki_frame_memory *memory, yki_decoder *decoder,
                               yki_picture_size size);

static inline int yki_frame_width(const yki_frame *frame)
{
    return frame->window.width;
}

static inline int yki_frame_height(const yki_frame *frame)
{
    return frame->window.height;
}

/* Beyond the picture a crop is zeros. */
yk_status yki_frame_crop(yki_frame *frame, yki_box box);
yk_status yki_frame_resize(yki_frame *frame, int width, int height, yk_interpolation interpolation);
void yki_frame_flip(yki_frame *frame, bool mirrored, bool upside_down);

/* The pixels of the frame, which may be changed in place; nothing is pending afterwards. */
yk_status yki_frame_pixels(yki_frame *frame, yki_picture **pixels);
/* The picture of its memory that a step may write to, while it reads the frame's pixels. */
yki_picture *yki_frame_spare(yki_frame *frame);
/* Makes what a step has written there the frame's pixels. */
void yki_frame_take_spare(yki_frame *frame);
/* The pixels, which must not be changed; flips may still be pending. */
yk_status yki_frame_finish(yki_frame *frame, yki_picture *pixels);
/* Whether the frame is a part of its source's planes; then the part. Flips may still be pending. */
bool yki_frame_is_planar(const yki_frame *frame, yki_planes *part);

#endif

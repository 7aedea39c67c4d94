/* The input as a picture: decoded whole, and a part of it at a reduced size. */
#ifndef PICTURE_H
#define PICTURE_H

#include <stdlib.h>

#include "fuzz.h"
#include "image/decode.h"

/* Larger ones only take longer. */
enum { FUZZ_PIXELS = 1 << 18 };

/* Reads all pixels, so that a sanitizer sees those that are not there. */
static inline void fuzz_look(const yki_picture *picture)
{
    volatile unsigned sum = 0;
    for (int y = 0; y < picture->height; y++)
        for (int x = 0; x < 3 * picture->width; x++)
            sum += yki_picture_row(picture, y)[x];
    (void)sum;
}

static inline void fuzz_picture(const uint8_t *data, size_t size)
{
    static yki_decoder *decoder;
    yki_picture_size shape;
    yki_picture picture;
    yki_scale scale;
    if (!decoder && yki_decoder_create(&decoder) != YK_OK)
        abort();
    fuzz_begin(size);
    for (int part = 0; part < 2; part++) {
        yk_status status = yki_decode_open(decoder, data, size, &shape);
        fuzz_check(status);
        if (status != YK_OK || (int64_t)shape.width * shape.height > FUZZ_PIXELS)
            break;
        yki_box box = {shape.width / 3, shape.height / 3, (shape.width + 1) / 2,
                       (shape.height + 1) / 2};
        status = yki_decode_read(decoder, part ? &box : NULL, part ? 4 : shape.width,
                                 part ? 4 : shape.height, &picture, &scale);
        fuzz_check(status);
        if (status == YK_OK)
            fuzz_look(&picture);
    }
    fuzz_end();
}

#endif

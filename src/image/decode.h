/*
 * Decodes JPEG, PNG and WebP pictures to RGB, and encodes RGB as JPEG and PNG, through the module
 * libyoke-image.so (<yoke/image_module.h>), which is opened by the first decoder.
 *
 * A decoder belongs to one thread. The header of a picture is read first: whoever wants only a part
 * of it at a small size then says so, and what is not needed is not decoded. Pixels are those of
 * Pillow's convert("RGB").
 */
#ifndef YKI_DECODE_H
#define YKI_DECODE_H

#include "image/picture.h"

typedef struct yki_decoder yki_decoder;

/* Where a region lies in a picture that was decoded for it, in pixels of that picture. */
typedef struct yki_scale {
    int reduction; /* 1, 2, 4 or 8: its pixels stand for so many columns and rows */
    double left, top, width, height;
} yki_scale;

/* YK_ERROR_UNSUPPORTED when the module is missing; the error names the package. */
yk_status yki_decoder_create(yki_decoder **decoder);
/* Accepts NULL. */
void yki_decoder_destroy(yki_decoder *decoder);
/*
 * Reads the header of a picture, whose bytes must remain valid until it is decoded. YK_ERROR_FORMAT
 * if it is damaged, too large or of an unknown format; the caller adds the picture's name.
 */
yk_status yki_decode_open(yki_decoder *decoder, const uint8_t *bytes, size_t size,
                          yki_picture_size *picture_size);
/*
 * Decodes the picture that was opened, once: all of it (region NULL) or a part, at the smallest
 * size at which the region still has min_width x min_height pixels; those of the region itself ask
 * for the full size. *out looks at memory of the decoder, which is valid until its next call. At
 * full size *out is exactly the region; at a reduced size it is rounded outwards to whole pixels,
 * and *scale says where the region lies in it.
 */
yk_status yki_decode_read(yki_decoder *decoder, const yki_box *region, int min_width,
                          int min_height, yki_picture *out, yki_scale *scale);
/* The longest side of a picture that is encoded: libjpeg's. */
enum { YKI_ENCODED_SIDE_MAX = 65500 };
/* Encodes an RGB picture as JPEG of this quality, 1 to 100; *bytes is memory of the decoder, which
 * is valid until its next call. */
yk_status yki_encode_jpeg(yki_decoder *decoder, const yki_picture *picture, int quality,
                          const uint8_t **bytes, size_t *size);
/* The same as PNG. */
yk_status yki_encode_png(yki_decoder *decoder, const yki_picture *picture, const uint8_t **bytes,
                         size_t *size);

#endif

/* Pictures in reports: PNG files in memory. */
#include <yoke/report.h>

#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "image/decode.h"

static yk_status encode(yk_png *png, yki_decoder *encoder, const yki_picture *picture)
{
    const uint8_t *bytes = NULL;
    size_t size = 0;
    YK_TRY(yki_encode_png(encoder, picture, &bytes, &size));
    void *copy = yki_calloc(size, 1);
    if (!copy)
        return yki_error_memory(size, "a PNG file");
    memcpy(copy, bytes, size);
    *png = (yk_png){copy, size, picture->width, picture->height};
    return YK_OK;
}

yk_status yk_png_encode(yk_png *png, const uint8_t *rgb, int width, int height)
{
    yki_decoder *encoder;
    YKI_NOT_NULL(png);
    *png = (yk_png){.bytes = NULL};
    YKI_NOT_NULL(rgb);
    if (width < 1 || height < 1)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "yk_png_encode: a picture of %d x %d pixels, expected 1 x 1 or more",
                         width, height);
    const yki_picture picture = {.pixels = (uint8_t *)(uintptr_t)rgb,
                                 .width = width,
                                 .height = height,
                                 .channels = 3,
                                 .stride = 3 * (size_t)width};
    YK_TRY(yki_decoder_create(&encoder));
    yk_status status = encode(png, encoder, &picture);
    yki_decoder_destroy(encoder);
    return status;
}

void yk_png_free(yk_png *png)
{
    if (!png)
        return;
    yki_free_const(png->bytes);
    *png = (yk_png){.bytes = NULL};
}

/* See decode.h. */
#include "image/decode.h"

#include <stdlib.h>

#include <yoke/image_module.h>
#include <yoke/system.h>

#include "base/memory.h"
#include "base/module.h"

static const char module_file[] = "libyoke-image.so";
static const char module_packages[] = "libjpeg62-turbo, libpng16-16 and libwebp7";

static const yki_module_contract contract = {"yk_image_decoders", "the contract of image modules",
                                             YK_IMAGE_MODULE_VERSION, sizeof(yk_image_module)};

struct yki_decoder {
    const yk_image_module *module;
    yk_image_decoder *decoder;
    yk_image_header header; /* of the open picture */
};

/* dlopen() counts references, so that opening a module again is cheap. */
static yk_status open_module(const yk_image_module **module)
{
    char path[YKI_MODULE_PATH], folder[YKI_MODULE_PATH];
    const void *table = NULL;
    *module = NULL;
    if (!yki_module_locate(path, module_file)) {
        yki_module_folder(folder);
        return yki_error(
            YK_ERROR_UNSUPPORTED,
            "pictures are neither read nor written: %s is not in %.200s; build yoke where "
            "Debian's packages libjpeg62-turbo-dev, libpng-dev and libwebp-dev are "
            "installed, or set YOKE_MODULES",
            module_file, folder);
    }
    YK_TRY(yki_module_open(&table, path, &contract, module_packages));
    *module = table;
    return YK_OK;
}

const char *yk_image_formats(void)
{
    const yk_image_module *module;
    return open_module(&module) == YK_OK ? module->formats : NULL;
}

yk_status yki_decoder_create(yki_decoder **decoder)
{
    const yk_image_module *module;
    *decoder = NULL;
    YK_TRY(open_module(&module));
    yki_decoder *self = yki_calloc(1, sizeof *self);
    if (!self)
        return yki_error_memory(sizeof *self, "a picture decoder");
    self->module = module;
    self->decoder = module->create();
    if (!self->decoder) {
        free(self);
        return yki_error_memory(sizeof *self, "a picture decoder");
    }
    *decoder = self;
    return YK_OK;
}

void yki_decoder_destroy(yki_decoder *decoder)
{
    if (!decoder)
        return;
    decoder->module->destroy(decoder->decoder);
    free(decoder);
}

yk_status yki_decode_open(yki_decoder *decoder, const uint8_t *bytes, size_t size,
                          yki_picture_size *picture_size)
{
    decoder->header = (yk_image_header){0};
    *picture_size = (yki_picture_size){0};
    const char *wrong = decoder->module->open(decoder->decoder, bytes, size, &decoder->header);
    if (wrong)
        return yki_error(YK_ERROR_FORMAT, "%s", wrong);
    *picture_size = (yki_picture_size){decoder->header.width, decoder->header.height, 3};
    return YK_OK;
}

/* The largest reduction that leaves a region the size that is needed. */
static int choose_reduction(const yki_decoder *decoder, const yki_box *region, int min_width,
                            int min_height)
{
    int reduction = decoder->header.max_reduction;
    while (reduction > 1 && (region->width < (int64_t)min_width * reduction ||
                             region->height < (int64_t)min_height * reduction))
        reduction /= 2;
    return reduction;
}

yk_status yki_decode_read(yki_decoder *decoder, const yki_box *region, int min_width,
                          int min_height, yki_picture *out, yki_scale *scale)
{
    const yki_box whole = {0, 0, decoder->header.width, decoder->header.height};
    const uint8_t *pixels = NULL;
    size_t stride = 0;
    *out = (yki_picture){0};
    if (!region)
        region = &whole;
    int r = choose_reduction(decoder, region, min_width, min_height);
    int left = region->left / r, top = region->top / r;
    int right = (region->left + region->width + r - 1) / r;
    int bottom = (region->top + region->height + r - 1) / r;
    const char *wrong = decoder->module->read(
        decoder->decoder, &(yk_image_region){left, top, right - left, bottom - top}, r, &pixels,
        &stride);
    if (wrong)
        return yki_error(YK_ERROR_FORMAT, "%s", wrong);
    *out = (yki_picture){(uint8_t *)(uintptr_t)pixels, right - left, bottom - top, 3, stride, 0};
    *scale = (yki_scale){r, (double)region->left / r - left, (double)region->top / r - top,
                         (double)region->width / r, (double)region->height / r};
    return YK_OK;
}

/* ---- encoding -------------------------------------------------------------------------------- */

static yk_status to_be_encoded(yk_image_pixels *pixels, const yki_picture *picture)
{
    if (picture->width > YKI_ENCODED_SIDE_MAX || picture->height > YKI_ENCODED_SIDE_MAX)
        return yki_error(YK_ERROR_UNSUPPORTED,
                         "a picture of %d x %d pixels: pictures are written with sides of at most "
                         "%d",
                         picture->width, picture->height, YKI_ENCODED_SIDE_MAX);
    *pixels = (yk_image_pixels){picture->pixels, picture->width, picture->height, picture->stride};
    return YK_OK;
}

static yk_status encoded(const char *wrong)
{
    return wrong ? yki_error(YK_ERROR_INTERNAL, "%s", wrong) : YK_OK;
}

yk_status yki_encode_jpeg(yki_decoder *decoder, const yki_picture *picture, int quality,
                          const uint8_t **bytes, size_t *size)
{
    yk_image_pixels pixels;
    YK_TRY(to_be_encoded(&pixels, picture));
    return encoded(decoder->module->write_jpeg(decoder->decoder, &pixels, quality, bytes, size));
}

yk_status yki_encode_png(yki_decoder *decoder, const yki_picture *picture, const uint8_t **bytes,
                         size_t *size)
{
    yk_image_pixels pixels;
    YK_TRY(to_be_encoded(&pixels, picture));
    return encoded(decoder->module->write_png(decoder->decoder, &pixels, bytes, size));
}

/* WebP, through libwebp, which decodes whole pictures only. */
#include <stdio.h>
#include <string.h>

#include <webp/decode.h>

#include "image.h"

static const char *const status_words[] = {
    [VP8_STATUS_OK] = "no error",
    [VP8_STATUS_OUT_OF_MEMORY] = "out of memory",
    [VP8_STATUS_INVALID_PARAM] = "it contradicts its header",
    [VP8_STATUS_BITSTREAM_ERROR] = "its data cannot be decoded",
    [VP8_STATUS_UNSUPPORTED_FEATURE] = "it uses a feature that libwebp does not know",
    [VP8_STATUS_SUSPENDED] = "the file ends before the picture does",
    [VP8_STATUS_USER_ABORT] = "decoding was interrupted",
    [VP8_STATUS_NOT_ENOUGH_DATA] = "the file ends before the picture does",
};

static const char *damaged(yk_image_decoder *decoder, VP8StatusCode status)
{
    return image_error(decoder, "damaged WebP: %s", status_words[status]);
}

static int recognises(const uint8_t *bytes, size_t size)
{
    return size >= 12 && memcmp(bytes, "RIFF", 4) == 0 && memcmp(bytes + 8, "WEBP", 4) == 0;
}

static const char *open_webp(yk_image_decoder *decoder)
{
    WebPBitstreamFeatures features;
    VP8StatusCode status = WebPGetFeatures(decoder->bytes, decoder->size, &features);
    if (status != VP8_STATUS_OK)
        return damaged(decoder, status);
    if (features.has_animation)
        return image_error(decoder, "an animated WebP; only single pictures are read");
    return image_check_size(decoder, (unsigned long)features.width, (unsigned long)features.height);
}

static const char *read_webp(yk_image_decoder *decoder, const yk_image_region *region,
                             int reduction, const uint8_t **pixels, size_t *stride)
{
    (void)reduction;
    WebPDecoderConfig config;
    size_t row_bytes = 3 * (size_t)decoder->width;
    if (!WebPInitDecoderConfig(&config))
        return image_error(decoder, "libwebp is of another version than yoke was built with");
    const char *wrong = image_reserve(decoder, (size_t)decoder->height, row_bytes);
    if (wrong)
        return wrong;
    config.output.colorspace = MODE_RGB;
    config.output.is_external_memory = 1;
    config.output.u.RGBA.rgba = decoder->pixels;
    config.output.u.RGBA.stride = (int)row_bytes;
    config.output.u.RGBA.size = row_bytes * (size_t)decoder->height;
    VP8StatusCode status = WebPDecode(decoder->bytes, decoder->size, &config);
    if (status != VP8_STATUS_OK)
        return damaged(decoder, status);
    *pixels = decoder->pixels + (size_t)region->top * row_bytes + 3 * (size_t)region->left;
    *stride = row_bytes;
    return NULL;
}

static void destroy_nothing(yk_image_decoder *decoder)
{
    (void)decoder;
}

void webp_version(char *text, size_t size)
{
    int version = WebPGetDecoderVersion();
    snprintf(text, size, "libwebp %d.%d.%d", version >> 16, version >> 8 & 255, version & 255);
}

const format webp_format = {.name = "WebP",
                            .max_reduction = 1,
                            .recognises = recognises,
                            .open = open_webp,
                            .read = read_webp,
                            .destroy = destroy_nothing};

/*
 * RandomCrop with zero padding, RandomHorizontalFlip, ToTensor, Normalize. Crop and flip move bytes
 * into scratch memory, of small pictures in the first-level cache; then each byte is looked up
 * once, straight into the batch. The f32 table is computed as torchvision does, (x / 255 - mean) /
 * std in f32, so that values are bit for bit its own.
 */
#include "data/transform.h"

#include <math.h>
#include <string.h>

#include "base/random.h"

const yk_transform yk_cifar10_augment = {.crop_padding = 4,
                                         .flip = true,
                                         .mean = {0.4914f, 0.4822f, 0.4465f},
                                         .std = {0.2023f, 0.1994f, 0.2010f}};
const yk_transform yk_cifar10_normalize = {.mean = {0.4914f, 0.4822f, 0.4465f},
                                           .std = {0.2023f, 0.1994f, 0.2010f}};

static yk_status check_dims(const yk_transform *transform, const int64_t dims[3])
{
    int64_t side = dims[1] < dims[2] ? dims[1] : dims[2];
    if (dims[0] > YKI_TRANSFORM_CHANNELS)
        return yki_error(YK_ERROR_UNSUPPORTED, "transform: pictures of %lld channels, not 1 to %d",
                         (long long)dims[0], YKI_TRANSFORM_CHANNELS);
    if (transform->crop_padding < 0 || transform->crop_padding > side)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "crop padding %d: expected 0 to %lld",
                         transform->crop_padding, (long long)side);
    return YK_OK;
}

yk_status yki_transform_prepare(yki_transform_plan *plan, const yk_transform *transform,
                                const int64_t dims[3])
{
    YK_TRY(check_dims(transform, dims));
    plan->channels = (int)dims[0];
    plan->height = (int)dims[1];
    plan->width = (int)dims[2];
    plan->padding = transform->crop_padding;
    plan->flip = transform->flip;
    for (int c = 0; c < YKI_TRANSFORM_CHANNELS; c++) {
        float mean = transform->mean[c], std = transform->std[c];
        if (!(std > 0 && isfinite(std) && isfinite(mean)))
            return yki_error(YK_ERROR_INVALID_ARGUMENT,
                             "transform: mean %g and std %g of channel %d: expected numbers, and a "
                             "std above 0",
                             (double)mean, (double)std, c);
        for (int byte = 0; byte < 256; byte++) {
            plan->f32[c][byte] = ((float)byte / 255.0f - mean) / std;
            plan->f64[c][byte] = ((double)byte / 255.0 - (double)mean) / (double)std;
        }
    }
    return YK_OK;
}

/* The size of a picture. Where it is known when compiling, the loops over it are unrolled. */
typedef struct extent {
    int channels, height, width;
} extent;

/* The window of the picture's size that starts at (top, left), zeros where it reaches beyond. */
static inline __attribute__((always_inline)) void crop(extent e, const uint8_t *pixels, int top,
                                                       int left, uint8_t *out)
{
    int h = e.height, w = e.width;
    int from = left > 0 ? left : 0, to = left < 0 ? w + left : w; /* columns of the picture */
    memset(out, 0, (size_t)(e.channels * h * w));
    for (int c = 0; c < e.channels; c++)
        for (int y = 0; y < h; y++)
            if (top + y >= 0 && top + y < h && from < to)
                memcpy(out + (c * h + y) * w + (from - left), pixels + (c * h + top + y) * w + from,
                       (size_t)(to - from));
}

static inline __attribute__((always_inline)) void flip(extent e, const uint8_t *restrict pixels,
                                                       uint8_t *restrict out)
{
    for (int row = 0; row < e.channels * e.height; row++, pixels += e.width, out += e.width)
        for (int x = 0; x < e.width; x++)
            out[x] = pixels[e.width - 1 - x];
}

static inline __attribute__((always_inline)) void
look_up_f32(extent e, const yki_transform_plan *plan, const uint8_t *pixels, float *out)
{
    for (int c = 0; c < e.channels; c++)
        for (int i = 0; i < e.height * e.width; i++)
            *out++ = plan->f32[c][*pixels++];
}

static inline __attribute__((always_inline)) void
look_up_f64(extent e, const yki_transform_plan *plan, const uint8_t *pixels, double *out)
{
    for (int c = 0; c < e.channels; c++)
        for (int i = 0; i < e.height * e.width; i++)
            *out++ = plan->f64[c][*pixels++];
}

static inline __attribute__((always_inline)) void apply(extent e, const yki_transform_plan *plan,
                                                        const uint8_t *pixels, uint64_t draw,
                                                        uint8_t *scratch, yk_dtype dtype, void *out)
{
    bool flipped = plan->flip && (draw & 1);
    if (plan->padding || flipped) {
        uint32_t offsets = 2 * (uint32_t)plan->padding + 1;
        int top = (int)((uint32_t)(draw >> 32) % offsets) - plan->padding;
        int left = (int)((uint32_t)(draw & 0xffffffffu) / 2 % offsets) - plan->padding;
        crop(e, pixels, top, left, scratch);
        pixels = scratch;
        if (flipped) {
            uint8_t *mirrored = scratch + e.channels * e.height * e.width;
            flip(e, pixels, mirrored);
            pixels = mirrored;
        }
    }
    if (dtype == YK_F64)
        look_up_f64(e, plan, pixels, out);
    else
        look_up_f32(e, plan, pixels, out);
}

void yki_transform_apply(const yki_transform_plan *plan, const uint8_t *pixels, uint64_t seed,
                         int64_t epoch, int64_t index, uint8_t *scratch, yk_dtype dtype, void *out)
{
    uint64_t draw = yki_hash3(seed, (uint64_t)epoch, (uint64_t)index);
    extent e = {plan->channels, plan->height, plan->width};
    if (e.channels == 3 && e.height == 32 && e.width == 32)
        apply((extent){3, 32, 32}, plan, pixels, draw, scratch, dtype, out);
    else
        apply(e, plan, pixels, draw, scratch, dtype, out);
}

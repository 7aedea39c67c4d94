/*
 * RandomCrop with zero padding, RandomHorizontalFlip, ToTensor, Normalize. Crop and flip move bytes
 * into a scratch image in the first-level cache; then each byte is looked up once, straight into
 * the batch. The f32 table is computed as torchvision does, (x / 255 - mean) / std in f32, so that
 * values are bit for bit its own.
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

yk_status yki_transform_prepare(yki_transform_plan *plan, const yk_transform *transform)
{
    if (transform->crop_padding < 0 || transform->crop_padding > YKI_IMAGE_SIDE)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "crop padding %d: expected 0 to %d",
                         transform->crop_padding, YKI_IMAGE_SIDE);
    plan->padding = transform->crop_padding;
    plan->flip = transform->flip;
    for (int c = 0; c < 3; c++) {
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

/* The window that starts at (top, left) of the image, zeros where it reaches beyond. */
static void crop(const uint8_t *pixels, int top, int left, uint8_t *out)
{
    enum { S = YKI_IMAGE_SIDE };
    int from = left > 0 ? left : 0, to = left < 0 ? S + left : S; /* columns of the image */
    memset(out, 0, YKI_IMAGE_BYTES);
    for (int c = 0; c < 3; c++)
        for (int y = 0; y < S; y++)
            if (top + y >= 0 && top + y < S && from < to)
                memcpy(out + (c * S + y) * S + (from - left), pixels + (c * S + top + y) * S + from,
                       (size_t)(to - from));
}

static void flip(uint8_t *pixels)
{
    enum { S = YKI_IMAGE_SIDE };
    for (int row = 0; row < 3 * S; row++, pixels += S) {
        uint8_t mirrored[S];
        for (int x = 0; x < S; x++)
            mirrored[x] = pixels[S - 1 - x];
        memcpy(pixels, mirrored, S);
    }
}

static void look_up_f32(const yki_transform_plan *plan, const uint8_t *pixels, float *out)
{
    for (int c = 0; c < 3; c++)
        for (int i = 0; i < YKI_IMAGE_PLANE; i++)
            *out++ = plan->f32[c][*pixels++];
}

static void look_up_f64(const yki_transform_plan *plan, const uint8_t *pixels, double *out)
{
    for (int c = 0; c < 3; c++)
        for (int i = 0; i < YKI_IMAGE_PLANE; i++)
            *out++ = plan->f64[c][*pixels++];
}

void yki_transform_apply(const yki_transform_plan *plan, const uint8_t *pixels, uint64_t seed,
                         int64_t epoch, int64_t index, yk_dtype dtype, void *out)
{
    uint8_t scratch[YKI_IMAGE_BYTES];
    uint64_t draw = yki_hash3(seed, (uint64_t)epoch, (uint64_t)index);
    bool flipped = plan->flip && (draw & 1);
    if (plan->padding || flipped) {
        uint32_t offsets = 2 * (uint32_t)plan->padding + 1;
        int top = (int)((uint32_t)(draw >> 32) % offsets) - plan->padding;
        int left = (int)((uint32_t)(draw & 0xffffffffu) / 2 % offsets) - plan->padding;
        crop(pixels, top, left, scratch);
        if (flipped)
            flip(scratch);
        pixels = scratch;
    }
    if (dtype == YK_F64)
        look_up_f64(plan, pixels, out);
    else
        look_up_f32(plan, pixels, out);
}

/*
 * RandomCrop to the picture's own size, a horizontal flip and a table in one pass, for small planar
 * pictures such as CIFAR's. Crop and flip move bytes into scratch memory, of small pictures in the
 * first-level cache; then each byte is looked up once, straight into the batch.
 */
#include "data/transforms/crop_flip.h"

#include <string.h>

#include "data/transforms/picture_steps.h"

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

/* The same window; beyond its edges the picture is mirrored. */
static inline __attribute__((always_inline)) void crop_reflected(extent e, const uint8_t *pixels,
                                                                 int top, int left, uint8_t *out)
{
    int h = e.height, w = e.width;
    int begin = left < 0 ? -left : 0, end = left > 0 ? w - left : w; /* columns of the picture */
    for (int c = 0; c < e.channels; c++)
        for (int y = 0; y < h; y++, out += w) {
            const uint8_t *row = pixels + (c * h + yki_reflected(top + y, h)) * w;
            memcpy(out + begin, row + begin + left, (size_t)(end - begin));
            for (int x = 0; x < begin; x++)
                out[x] = row[yki_reflected(left + x, w)];
            for (int x = end; x < w; x++)
                out[x] = row[yki_reflected(left + x, w)];
        }
}

static inline __attribute__((always_inline)) void flip(extent e, const uint8_t *restrict pixels,
                                                       uint8_t *restrict out)
{
    for (int row = 0; row < e.channels * e.height; row++, pixels += e.width, out += e.width)
        for (int x = 0; x < e.width; x++)
            out[x] = pixels[e.width - 1 - x];
}

static inline __attribute__((always_inline)) void apply(extent e, const yki_crop_flip *plan,
                                                        const yki_byte_tables *tables,
                                                        const uint8_t *pixels, uint64_t word,
                                                        uint8_t *scratch, yk_dtype dtype, void *out)
{
    bool flipped = plan->flip && yki_flip_drawn(word);
    if (plan->padding || flipped) {
        int offsets = 2 * plan->padding + 1;
        int top = yki_crop_top(word, offsets) - plan->padding;
        int left = yki_crop_left(word, offsets) - plan->padding;
        if (plan->reflect)
            crop_reflected(e, pixels, top, left, scratch);
        else
            crop(e, pixels, top, left, scratch);
        pixels = scratch;
        if (flipped) {
            uint8_t *mirrored = scratch + e.channels * e.height * e.width;
            flip(e, pixels, mirrored);
            pixels = mirrored;
        }
    }
    size_t plane = (size_t)e.height * (size_t)e.width;
    for (size_t c = 0; c < (size_t)e.channels; c++)
        if (dtype == YK_F64)
            yki_bytes_to_f64(tables, (int)c, pixels + c * plane, plane, false,
                             (double *)out + c * plane);
        else
            yki_bytes_to_f32(tables, (int)c, pixels + c * plane, plane, false,
                             (float *)out + c * plane);
}

void yki_crop_flip_apply(const yki_crop_flip *plan, const yki_byte_tables *tables,
                         const uint8_t *pixels, uint64_t word, uint8_t *scratch, yk_dtype dtype,
                         void *out)
{
    extent e = {plan->channels, plan->height, plan->width};
    if (e.channels == 3 && e.height == 32 && e.width == 32)
        apply((extent){3, 32, 32}, plan, tables, pixels, word, scratch, dtype, out);
    else
        apply(e, plan, tables, pixels, word, scratch, dtype, out);
}

bool yki_crop_flip_plan(yki_crop_flip *plan, const yk_transform_step *steps, int count,
                        const int64_t dims[3])
{
    *plan = (yki_crop_flip){(int)dims[0], (int)dims[1], (int)dims[2], 0, false, false};
    int i = 0;
    if (i < count && steps[i].kind == YK_TRANSFORM_RANDOM_CROP) {
        const yk_transform_random_crop *crop = &steps[i++].random_crop;
        if (crop->height != dims[1] || crop->width != dims[2] || crop->padding > dims[1] ||
            crop->padding > dims[2])
            return false;
        plan->padding = crop->padding;
        plan->reflect = crop->padding_mode == YK_PADDING_REFLECT;
    }
    if (i < count && steps[i].kind == YK_TRANSFORM_RANDOM_HORIZONTAL_FLIP)
        plan->flip = steps[i++].random_horizontal_flip.p == 0.5;
    else if (i < count && steps[i].kind == YK_TRANSFORM_ALTERNATING_HORIZONTAL_FLIP) {
        plan->flip = true;
        i++;
    }
    return i == count && (plan->flip || i == 0 || steps[i - 1].kind == YK_TRANSFORM_RANDOM_CROP);
}

/*
 * See mixing.h. As in torchvision's references: each sample is mixed with the one before it
 * (batch.roll(1)), the share of a mixup is Beta(alpha, alpha), a cut is a box of the area 1 - share
 * around a random point, and its share is then that of the box within the picture.
 */
#include "data/transforms/mixing.h"

#include <math.h>
#include <string.h>

yki_mixing yki_mixing_of(const yk_transforms *transforms)
{
    yki_mixing mixing = {.steps = transforms->count,
                         .probabilities = yk_transforms_mix(transforms)};
    for (int i = 0; i < transforms->count; i++) {
        const yk_transform_step *step = &transforms->steps[i];
        if (step->kind == YK_TRANSFORM_MIXUP) {
            mixing.mixup = true;
            mixing.mixup_alpha = step->mixup.alpha;
        } else if (step->kind == YK_TRANSFORM_CUTMIX) {
            mixing.cutmix = true;
            mixing.cutmix_alpha = step->cutmix.alpha;
        }
    }
    return mixing;
}

static int64_t within(double value, int64_t most)
{
    return value < 0 ? 0 : value > (double)most ? most : (int64_t)value;
}

static void draw_box(yki_mix *mix, yki_draws *draws, int64_t height, int64_t width)
{
    int64_t x = yki_draw_below(draws, (int)width), y = yki_draw_below(draws, (int)height);
    double half = 0.5 * sqrt(1 - mix->share);
    int64_t half_width = (int64_t)(half * (double)width);
    int64_t half_height = (int64_t)(half * (double)height);
    mix->left = within((double)(x - half_width), width);
    mix->top = within((double)(y - half_height), height);
    mix->right = within((double)(x + half_width), width);
    mix->bottom = within((double)(y + half_height), height);
    double area = (double)(mix->right - mix->left) * (double)(mix->bottom - mix->top);
    mix->share = 1 - area / ((double)width * (double)height);
}

yki_mix yki_draw_mix(const yki_mixing *mixing, uint64_t word, int64_t height, int64_t width)
{
    yki_mix mix = {.share = 1};
    yki_draws draws = yki_draws_of(word, mixing->steps);
    if (!mixing->mixup && !mixing->cutmix)
        return mix;
    mix.cut = mixing->cutmix && (!mixing->mixup || yki_draw_below(&draws, 2));
    mix.share = yki_draw_beta(&draws, mix.cut ? mixing->cutmix_alpha : mixing->mixup_alpha);
    if (mix.cut)
        draw_box(&mix, &draws, height, width);
    return mix;
}

/* ---- samples -------------------------------------------------------------------------------- */

static void blend_f32(float *restrict image, const float *restrict other, float share, size_t count)
{
    for (size_t i = 0; i < count; i++)
        image[i] = share * image[i] + (1 - share) * other[i];
}

static void blend_f64(double *restrict image, const double *restrict other, double share,
                      size_t count)
{
    for (size_t i = 0; i < count; i++)
        image[i] = share * image[i] + (1 - share) * other[i];
}

static void paste(const yki_mix *mix, const yk_tensor *images, char *image, const char *other)
{
    int64_t height = images->dims[2], width = images->dims[3];
    size_t element = yk_dtype_size(images->dtype);
    size_t bytes = (size_t)(mix->right - mix->left) * element;
    for (int64_t c = 0; c < images->dims[1]; c++)
        for (int64_t y = mix->top; y < mix->bottom; y++) {
            size_t at = (size_t)((c * height + y) * width + mix->left) * element;
            memcpy(image + at, other + at, bytes);
        }
}

static void mix_one(const yki_mix *mix, const yk_tensor *samples, char *sample, const char *other)
{
    size_t count = (size_t)(yk_tensor_count(samples) / samples->dims[0]);
    if (mix->cut)
        paste(mix, samples, sample, other);
    else if (samples->dtype == YK_F64)
        blend_f64((void *)sample, (const void *)other, mix->share, count);
    else
        blend_f32((void *)sample, (const void *)other, (float)mix->share, count);
}

void yki_mix_samples(const yki_mix *mix, yk_tensor *samples, void *scratch)
{
    int64_t last = samples->dims[0] - 1;
    char *rows = samples->data;
    if (mix->share == 1 || last < 1)
        return;
    size_t bytes = yk_tensor_bytes(samples) / (size_t)samples->dims[0];
    memcpy(scratch, rows + (size_t)last * bytes, bytes);
    for (int64_t i = last; i > 0; i--) /* from the end: what comes before is not mixed yet */
        mix_one(mix, samples, rows + (size_t)i * bytes, rows + (size_t)(i - 1) * bytes);
    mix_one(mix, samples, rows, scratch);
}

/* ---- labels --------------------------------------------------------------------------------- */

void yki_mix_labels(const yki_mix *mix, const int32_t *labels, int64_t count, int64_t classes,
                    float *probabilities)
{
    memset(probabilities, 0, (size_t)(count * classes) * sizeof *probabilities);
    for (int64_t i = 0; i < count; i++, probabilities += classes) {
        int32_t before = labels[i > 0 ? i - 1 : count - 1];
        probabilities[labels[i]] += (float)mix->share;
        probabilities[before] += 1 - (float)mix->share;
    }
}

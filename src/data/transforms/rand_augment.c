/*
 * RandAugment (Cubuk et al. 2019) with the operations and magnitudes of torchvision's class of this
 * name; affine maps take the nearest pixel, and zeros beyond the picture.
 */
#include <math.h>

#include "data/transforms/picture_steps.h"
#include "image/color.h"

typedef enum operation {
    IDENTITY,
    SHEAR_X,
    SHEAR_Y,
    TRANSLATE_X,
    TRANSLATE_Y,
    ROTATE,
    BRIGHTNESS,
    COLOR,
    CONTRAST,
    SHARPNESS,
    POSTERIZE,
    SOLARIZE,
    AUTOCONTRAST,
    EQUALIZE,
    OPERATIONS
} operation;

/* torch.linspace(start, end, bins)[index] in f32, which rounds once. */
static double linspace(double start, double end, int bins, int index)
{
    float from = (float)start, to = (float)end, step = (to - from) / (float)(bins - 1);
    return index < bins / 2 ? fmaf(step, (float)index, from)
                            : fmaf(-step, (float)(bins - 1 - index), to);
}

static bool is_signed(operation op)
{
    return op >= SHEAR_X && op <= SHARPNESS;
}

static double magnitude_of(operation op, const yk_transform_rand_augment *step, int width,
                           int height)
{
    int bins = step->num_magnitude_bins, index = step->magnitude;
    switch (op) {
    case SHEAR_X:
    case SHEAR_Y:
        return linspace(0, 0.3, bins, index);
    case TRANSLATE_X:
        return linspace(0, 150.0 / 331.0 * width, bins, index);
    case TRANSLATE_Y:
        return linspace(0, 150.0 / 331.0 * height, bins, index);
    case ROTATE:
        return linspace(0, 30, bins, index);
    case BRIGHTNESS:
    case COLOR:
    case CONTRAST:
    case SHARPNESS:
        return linspace(0, 0.9, bins, index);
    case POSTERIZE:
        return 8 - rint(index / ((bins - 1) / 4.0));
    case SOLARIZE:
        return linspace(255, 0, bins, index);
    default:
        return 0;
    }
}

static yk_status map(yki_frame *frame, const yki_picture *pixels, double a, double b, double c,
                     double d, double e, double f)
{
    double m[] = {a, b, c, d, e, f};
    YK_TRY(yki_affine(pixels, m, yki_frame_spare(frame)));
    yki_frame_take_spare(frame);
    return YK_OK;
}

static yk_status rotate(yki_frame *frame, const yki_picture *pixels, double degrees)
{
    YK_TRY(yki_rotate(pixels, degrees, yki_frame_spare(frame)));
    yki_frame_take_spare(frame);
    return YK_OK;
}

static yk_status apply(yki_frame *frame, operation op, double magnitude)
{
    yki_picture *pixels;
    float factor = (float)(1 + magnitude);
    YK_TRY(yki_frame_pixels(frame, &pixels));
    switch (op) {
    case SHEAR_X:
        return map(frame, pixels, 1, magnitude, 0, 0, 1, 0);
    case SHEAR_Y:
        return map(frame, pixels, 1, 0, 0, magnitude, 1, 0);
    case TRANSLATE_X:
        return map(frame, pixels, 1, 0, -trunc(magnitude), 0, 1, 0);
    case TRANSLATE_Y:
        return map(frame, pixels, 1, 0, 0, 0, 1, -trunc(magnitude));
    case ROTATE:
        return rotate(frame, pixels, magnitude);
    case BRIGHTNESS:
        yki_adjust_brightness(pixels, factor);
        break;
    case COLOR:
        yki_adjust_saturation(pixels, factor);
        break;
    case CONTRAST:
        yki_adjust_contrast(pixels, factor);
        break;
    case SHARPNESS:
        return yki_adjust_sharpness(pixels, factor, yki_frame_spare(frame));
    case POSTERIZE:
        yki_posterize(pixels, (int)magnitude);
        break;
    case SOLARIZE:
        yki_solarize(pixels, magnitude);
        break;
    case AUTOCONTRAST:
        yki_autocontrast(pixels);
        break;
    case EQUALIZE:
        yki_equalize(pixels);
        break;
    case IDENTITY:
    case OPERATIONS:
        break;
    }
    return YK_OK;
}

yk_status yki_rand_augment(yki_frame *frame, const yk_transform_rand_augment *step,
                           yki_draws *draws)
{
    for (int i = 0; i < step->num_ops; i++) {
        operation op = (operation)yki_draw_below(draws, OPERATIONS);
        double magnitude = magnitude_of(op, step, yki_frame_width(frame), yki_frame_height(frame));
        if (is_signed(op) && yki_draw_below(draws, 2))
            magnitude = -magnitude;
        YK_TRY(apply(frame, op, magnitude));
    }
    return YK_OK;
}

/* See picture_steps.h. Sizes and boxes are computed as torchvision 0.14 does. */
#include "data/transforms/picture_steps.h"

#include <math.h>

#include "image/color.h"

/* ---- crops and resizes ---------------------------------------------------------------------- */

static yk_status resize(yki_frame *frame, const yk_transform_step *step)
{
    int64_t dims[] = {frame->channels, yki_frame_height(frame), yki_frame_width(frame)};
    YK_TRY(yki_transform_size_after(step, dims));
    if (dims[1] > YKI_PICTURE_SIDE_MAX || dims[2] > YKI_PICTURE_SIDE_MAX)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "Resize: the picture of %dx%d would have %lldx%lld pixels",
                         yki_frame_width(frame), yki_frame_height(frame), (long long)dims[2],
                         (long long)dims[1]);
    return yki_frame_resize(frame, (int)dims[2], (int)dims[1], step->resize.interpolation);
}

/* Where a crop of `size` begins in the middle of `side`; Python's round() is to even, as rint(). */
static int middle(int side, int size)
{
    return side < size ? -((size - side) / 2) : (int)rint((side - size) / 2.0);
}

yki_box yki_center_crop_box(const yk_transform_center_crop *crop, int width, int height)
{
    return (yki_box){middle(width, crop->width), middle(height, crop->height), crop->width,
                     crop->height};
}

static bool is_first(const yk_transform_step *steps, int index)
{
    for (int i = 0; i < index; i++)
        if (steps[i].kind == steps[index].kind)
            return false;
    return true;
}

static yk_status crop_reflected(yki_frame *frame, yki_box box)
{
    yki_picture *pixels;
    YK_TRY(yki_frame_pixels(frame, &pixels));
    YK_TRY(yki_crop_reflected(pixels, box, yki_frame_spare(frame)));
    yki_frame_take_spare(frame);
    return YK_OK;
}

yki_box yki_random_crop_box(const yk_transform_step *steps, int index, uint64_t word, int width,
                            int height)
{
    const yk_transform_random_crop *crop = &steps[index].random_crop;
    yki_draws draws = yki_draws_of(word, index);
    int tops = height + 2 * crop->padding - crop->height + 1;
    int lefts = width + 2 * crop->padding - crop->width + 1;
    uint64_t own = is_first(steps, index) ? word : yki_draw(&draws);
    return (yki_box){yki_crop_left(own, lefts) - crop->padding,
                     yki_crop_top(own, tops) - crop->padding, crop->width, crop->height};
}

static yk_status random_crop(yki_frame *frame, const yk_transform_step *steps, int index,
                             uint64_t word)
{
    const yk_transform_random_crop *crop = &steps[index].random_crop;
    int width = yki_frame_width(frame), height = yki_frame_height(frame);
    int64_t dims[] = {frame->channels, height, width};
    YK_TRY(yki_transform_size_after(&steps[index], dims)); /* says so if it is too small */
    yki_box box = yki_random_crop_box(steps, index, word, width, height);
    bool reflects = crop->padding && crop->padding_mode == YK_PADDING_REFLECT;
    return reflects ? crop_reflected(frame, box) : yki_frame_crop(frame, box);
}

yki_box yki_random_resized_crop_box(const yk_transform_random_resized_crop *crop, yki_draws *draws,
                                    int width, int height)
{
    double area = (double)width * height;
    double logs[] = {log(crop->ratio[0]), log(crop->ratio[1])};
    for (int attempt = 0; attempt < 10; attempt++) {
        double target = area * yki_draw_in(draws, crop->scale);
        double aspect = exp(yki_draw_in(draws, logs));
        double w = rint(sqrt(target * aspect)), h = rint(sqrt(target / aspect));
        if (w >= 1 && w <= width && h >= 1 && h <= height) {
            int top = yki_draw_below(draws, height - (int)h + 1);
            int left = yki_draw_below(draws, width - (int)w + 1);
            return (yki_box){left, top, (int)w, (int)h};
        }
    }
    /* The largest crop in the middle whose proportions are allowed. */
    double proportions = (double)width / height;
    int w = width, h = height;
    if (proportions < crop->ratio[0])
        h = (int)rint(width / crop->ratio[0]);
    else if (proportions > crop->ratio[1])
        w = (int)rint(height * crop->ratio[1]);
    w = w < 1 ? 1 : w;
    h = h < 1 ? 1 : h;
    return (yki_box){(width - w) / 2, (height - h) / 2, w, h};
}

static yk_status random_resized_crop(yki_frame *frame, const yk_transform_random_resized_crop *crop,
                                     yki_draws *draws)
{
    yki_box box =
        yki_random_resized_crop_box(crop, draws, yki_frame_width(frame), yki_frame_height(frame));
    YK_TRY(yki_frame_crop(frame, box));
    return yki_frame_resize(frame, crop->width, crop->height, crop->interpolation);
}

static bool mirrors(const yk_transform_step *steps, int index, uint64_t word, yki_draws *draws)
{
    double p = steps[index].random_horizontal_flip.p;
    return p == 0.5 && is_first(steps, index) ? yki_flip_drawn(word) : yki_draw_chance(draws, p);
}

bool yki_draw_flip(const yk_transform_step *steps, int index, uint64_t word, bool *mirrored,
                   bool *upside_down)
{
    yki_draws draws = yki_draws_of(word, index);
    switch (steps[index].kind) {
    case YK_TRANSFORM_RANDOM_HORIZONTAL_FLIP:
        *mirrored ^= mirrors(steps, index, word, &draws);
        return true;
    case YK_TRANSFORM_RANDOM_VERTICAL_FLIP:
        *upside_down ^= yki_draw_chance(&draws, steps[index].random_vertical_flip.p);
        return true;
    case YK_TRANSFORM_ALTERNATING_HORIZONTAL_FLIP:
        *mirrored ^= yki_flip_drawn(word);
        return true;
    default:
        return false;
    }
}

static yk_status flip(yki_frame *frame, const yk_transform_step *steps, int index, uint64_t word)
{
    bool mirrored = false, upside_down = false;
    yki_draw_flip(steps, index, word, &mirrored, &upside_down);
    yki_frame_flip(frame, mirrored, upside_down);
    return YK_OK;
}

/* ---- colours -------------------------------------------------------------------------------- */

static bool is_used(const double range[2], double centre)
{
    return range[0] != centre || range[1] != centre;
}

static yk_status color_jitter(yki_frame *frame, const yk_transform_color_jitter *jitter,
                              yki_draws *draws)
{
    int order[] = {0, 1, 2, 3};
    for (int i = 3; i > 0; i--) {
        int other = yki_draw_below(draws, i + 1), kept = order[i];
        order[i] = order[other];
        order[other] = kept;
    }
    float brightness = (float)yki_draw_in(draws, jitter->brightness);
    float contrast = (float)yki_draw_in(draws, jitter->contrast);
    float saturation = (float)yki_draw_in(draws, jitter->saturation);
    double hue = yki_draw_in(draws, jitter->hue);
    yki_picture *pixels;
    YK_TRY(yki_frame_pixels(frame, &pixels));
    for (int i = 0; i < 4; i++) {
        if (order[i] == 0 && is_used(jitter->brightness, 1))
            yki_adjust_brightness(pixels, brightness);
        else if (order[i] == 1 && is_used(jitter->contrast, 1))
            yki_adjust_contrast(pixels, contrast);
        else if (order[i] == 2 && is_used(jitter->saturation, 1))
            yki_adjust_saturation(pixels, saturation);
        else if (order[i] == 3 && is_used(jitter->hue, 0))
            yki_adjust_hue(pixels, hue);
    }
    return YK_OK;
}

/* One channel to three that are equal. */
static yk_status spread_grey(yki_frame *frame)
{
    yki_picture *pixels, *wide;
    YK_TRY(yki_frame_pixels(frame, &pixels));
    wide = yki_frame_spare(frame);
    YK_TRY(yki_picture_reserve(wide, pixels->width, pixels->height, 3));
    for (int y = 0; y < pixels->height; y++)
        for (int x = 0; x < pixels->width; x++)
            for (int c = 0; c < 3; c++)
                yki_picture_row(wide, y)[3 * x + c] = yki_picture_row(pixels, y)[x];
    yki_frame_take_spare(frame);
    return YK_OK;
}

static yk_status grayscale(yki_frame *frame, int channels)
{
    yki_picture *pixels;
    if (frame->channels == 1)
        return channels == 3 ? spread_grey(frame) : YK_OK;
    YK_TRY(yki_frame_pixels(frame, &pixels));
    if (channels == 3)
        yki_make_grey(pixels);
    else
        yki_to_one_channel(pixels);
    frame->channels = channels;
    return YK_OK;
}

/* --------------------------------------------------------------------------------------------- */

yk_status yki_apply_picture_step(yki_frame *frame, const yk_transform_step *steps, int index,
                                 uint64_t word)
{
    const yk_transform_step *step = &steps[index];
    yki_draws draws = yki_draws_of(word, index);
    switch (step->kind) {
    case YK_TRANSFORM_RESIZE:
        return resize(frame, step);
    case YK_TRANSFORM_CENTER_CROP:
        return yki_frame_crop(frame, yki_center_crop_box(&step->center_crop, yki_frame_width(frame),
                                                         yki_frame_height(frame)));
    case YK_TRANSFORM_RANDOM_CROP:
        return random_crop(frame, steps, index, word);
    case YK_TRANSFORM_RANDOM_RESIZED_CROP:
        return random_resized_crop(frame, &step->random_resized_crop, &draws);
    case YK_TRANSFORM_RANDOM_HORIZONTAL_FLIP:
    case YK_TRANSFORM_RANDOM_VERTICAL_FLIP:
    case YK_TRANSFORM_ALTERNATING_HORIZONTAL_FLIP:
        return flip(frame, steps, index, word);
    case YK_TRANSFORM_COLOR_JITTER:
        return color_jitter(frame, &step->color_jitter, &draws);
    case YK_TRANSFORM_GRAYSCALE:
        return grayscale(frame, step->grayscale.num_output_channels);
    case YK_TRANSFORM_RANDOM_GRAYSCALE:
        return yki_draw_chance(&draws, step->random_grayscale.p) ? grayscale(frame, frame->channels)
                                                                 : YK_OK;
    case YK_TRANSFORM_RAND_AUGMENT:
        return yki_rand_augment(frame, &step->rand_augment, &draws);
    default:
        return YK_OK; /* not on pictures */
    }
}

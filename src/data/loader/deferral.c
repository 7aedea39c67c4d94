/* See deferral.h. */
#include "data/loader/deferral.h"

#include <string.h>

#include "data/transforms/picture_steps.h"

/* ---- planning -------------------------------------------------------------------------------- */

static int64_t count_of(const int64_t dims[3])
{
    return dims[0] * dims[1] * dims[2];
}

bool yki_pipeline_defers(const yki_pipeline *pipeline)
{
    return count_of(pipeline->dims) <= INT32_MAX && pipeline->dims[0] <= YKI_PICTURE_CHANNELS &&
           pipeline->field.dims[0] <= YKI_PICTURE_CHANNELS;
}

/* A crop that a window can be. */
static bool is_window(const yk_transform_step *step, const int64_t dims[3])
{
    const yk_transform_random_crop *crop = &step->random_crop;
    if (step->kind == YK_TRANSFORM_CENTER_CROP)
        return true;
    return step->kind == YK_TRANSFORM_RANDOM_CROP &&
           (crop->padding_mode != YK_PADDING_REFLECT ||
            (crop->padding < dims[1] && crop->padding < dims[2]));
}

static bool is_flip(const yk_transform_step *step)
{
    return step->kind == YK_TRANSFORM_RANDOM_HORIZONTAL_FLIP ||
           step->kind == YK_TRANSFORM_RANDOM_VERTICAL_FLIP ||
           step->kind == YK_TRANSFORM_ALTERNATING_HORIZONTAL_FLIP;
}

/* Whether the steps on pictures are a crop, or none, and flips. */
static bool is_windowed(const yki_pipeline *pipeline)
{
    const yk_field *field = &pipeline->field;
    const yk_transform_step *steps = pipeline->transforms->steps;
    if (field->kind != YK_FIELD_IMAGE || field->dims[1] < 0 || field->dims[2] < 0 ||
        count_of(field->dims) > INT32_MAX)
        return false;
    for (int i = 0; i < pipeline->picture_steps; i++)
        if (!is_flip(&steps[i]) && !(i == 0 && is_window(&steps[i], field->dims)))
            return false;
    return true;
}

/* The host crops where much fewer bytes remain, unless they cross only once. */
static bool crosses_whole(const yki_pipeline *pipeline, bool kept)
{
    return is_windowed(pipeline) &&
           (kept || 2 * count_of(pipeline->field.dims) <= 3 * count_of(pipeline->dims));
}

void yki_pipeline_defer(yki_deferral *deferral, const yki_pipeline *pipeline, bool kept)
{
    const yk_transforms *list = pipeline->transforms;
    bool whole = crosses_whole(pipeline, kept);
    *deferral = (yki_deferral){.whole = whole, .interleaved = !whole};
    memcpy(deferral->dims, whole ? pipeline->field.dims : pipeline->dims, sizeof deferral->dims);
    if (whole && pipeline->picture_steps > 0 && list->steps[0].kind == YK_TRANSFORM_RANDOM_CROP)
        deferral->reflects = list->steps[0].random_crop.padding_mode == YK_PADDING_REFLECT;
}

/* ---- running --------------------------------------------------------------------------------- */

static void draw_window(const yki_pipeline *pipeline, uint64_t word, yki_picture_draw *made)
{
    const yk_transform_step *steps = pipeline->transforms->steps;
    int height = (int)pipeline->field.dims[1], width = (int)pipeline->field.dims[2];
    bool mirrored = false, upside_down = false;
    yki_box box = {0, 0, width, height};
    for (int i = 0; i < pipeline->picture_steps; i++)
        if (steps[i].kind == YK_TRANSFORM_CENTER_CROP)
            box = yki_center_crop_box(&steps[i].center_crop, width, height);
        else if (steps[i].kind == YK_TRANSFORM_RANDOM_CROP)
            box = yki_random_crop_box(steps, i, word, width, height);
        else
            yki_draw_flip(steps, i, word, &mirrored, &upside_down);
    made->top = box.top;
    made->left = box.left;
    made->mirrored = mirrored;
    made->upside_down = upside_down;
}

/* (H, W, C), row by row. */
static void copy_pixels(const yki_picture *picture, uint8_t *pixels)
{
    size_t row = (size_t)picture->width * (size_t)picture->channels;
    for (int y = 0; y < picture->height; y++)
        memcpy(pixels + (size_t)y * row, yki_picture_row(picture, y), row);
}

yk_status yki_deferral_run(const yki_deferral *deferral, const yki_pipeline *pipeline,
                           yki_pipeline_memory *memory, yki_decoder *decoder,
                           const yk_field_buffer *picture, yki_pipeline_draw draw, uint8_t *pixels,
                           yki_picture_draw *made, yki_picture_box *boxes)
{
    uint64_t word = yki_pipeline_word(pipeline, draw);
    *made = (yki_picture_draw){.source = 0};
    if (deferral->whole) {
        draw_window(pipeline, word, made);
        if (pixels)
            memcpy(pixels, picture->data, picture->bytes);
    } else {
        yki_frame frame;
        yki_picture taken;
        YK_TRY(yki_pipeline_frame(pipeline, memory, decoder, picture, word, &frame));
        YK_TRY(yki_frame_finish(&frame, &taken));
        copy_pixels(&taken, pixels);
        made->mirrored = frame.mirrored;
        made->upside_down = frame.upside_down;
    }
    yki_pipeline_draw_boxes(pipeline, word, boxes);
    return YK_OK;
}

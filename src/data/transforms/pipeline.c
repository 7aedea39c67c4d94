/* See pipeline.h. */
#include "data/transforms/pipeline.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "data/transforms/picture_steps.h"
#include "data/transforms/tensor_steps.h"

/* ---- preparation ---------------------------------------------------------------------------- */

/* Numbers that are erased before Normalize are normalised with the others. */
static yk_status plan_erasings(yki_pipeline *pipeline)
{
    const yk_transforms *list = pipeline->transforms;
    const yk_transform_normalize *pending = pipeline->normalize;
    size_t most = (size_t)(list->count - pipeline->picture_steps);
    pipeline->erasing_steps = yki_calloc(most, sizeof *pipeline->erasing_steps);
    pipeline->erasings = yki_calloc(most, sizeof *pipeline->erasings);
    if (!pipeline->erasing_steps || !pipeline->erasings)
        return yki_error_memory(most * sizeof *pipeline->erasings, "transforms");
    for (int i = pipeline->picture_steps; i < list->count; i++) {
        const yk_transform_step *step = &list->steps[i];
        if (step->kind == YK_TRANSFORM_NORMALIZE)
            pending = NULL;
        if (step->kind != YK_TRANSFORM_RANDOM_ERASING)
            continue;
        pipeline->erasing_steps[pipeline->erasing_count] = i;
        pipeline->erasings[pipeline->erasing_count++] =
            yki_erasing_of(&step->random_erasing, pending);
    }
    return YK_OK;
}

yk_status yki_pipeline_prepare(yki_pipeline *pipeline, const yk_field *field,
                               const yk_transforms *transforms, yk_dtype dtype)
{
    pipeline->field = *field;
    pipeline->dtype = dtype;
    YK_TRY(yk_transforms_output_size(transforms, field->dims, pipeline->dims));
    yki_transforms_retain(transforms);
    pipeline->transforms = transforms;
    for (int i = 0; i < transforms->count; i++) {
        const yk_transform_step *step = &transforms->steps[i];
        pipeline->picture_steps += yki_transform_type_of(step->kind)->phase == YKI_ON_PICTURE;
        if (step->kind == YK_TRANSFORM_NORMALIZE)
            pipeline->normalize = &step->normalize;
        pipeline->alternates |= step->kind == YK_TRANSFORM_ALTERNATING_HORIZONTAL_FLIP;
    }
    pipeline->direct = field->kind == YK_FIELD_IMAGE && field->dims[1] > 0 && field->dims[2] > 0 &&
                       yki_crop_flip_plan(&pipeline->plan, transforms->steps,
                                          pipeline->picture_steps, field->dims);
    yki_byte_tables_fill(&pipeline->tables, pipeline->normalize);
    return plan_erasings(pipeline);
}

void yki_pipeline_destroy(yki_pipeline *pipeline)
{
    yk_transforms_destroy((yk_transforms *)(uintptr_t)pipeline->transforms);
    free(pipeline->erasing_steps);
    free(pipeline->erasings);
    *pipeline = (yki_pipeline){.dims = {0}};
}

void yki_pipeline_memory_free(yki_pipeline_memory *memory)
{
    yki_frame_memory_free(&memory->frame);
    yki_room_free(&memory->room);
    *memory = (yki_pipeline_memory){.room = {0}};
}

/* ---- pictures that come in ------------------------------------------------------------------ */

static yk_status check_size(const yk_field_buffer *picture)
{
    if (picture->dims[1] <= YKI_PICTURE_SIDE_MAX && picture->dims[2] <= YKI_PICTURE_SIDE_MAX)
        return YK_OK;
    return yki_error(YK_ERROR_UNSUPPORTED,
                     "a picture of %lldx%lld: at most %dx%d can be transformed",
                     (long long)picture->dims[2], (long long)picture->dims[1], YKI_PICTURE_SIDE_MAX,
                     YKI_PICTURE_SIDE_MAX);
}

static yk_status start(const yki_pipeline *pipeline, yki_pipeline_memory *memory,
                       yki_decoder *decoder, const yk_field_buffer *picture, yki_frame *frame)
{
    if (pipeline->field.kind == YK_FIELD_ENCODED_IMAGE) {
        yki_picture_size size;
        YK_TRY(yki_decode_open(decoder, picture->data, picture->bytes, &size));
        *frame = yki_frame_of_encoded(&memory->frame, decoder, size);
        return YK_OK;
    }
    YK_TRY(check_size(picture));
    yki_planes source = yki_planes_of(
        picture->data,
        (yki_picture_size){(int)picture->dims[2], (int)picture->dims[1], (int)picture->dims[0]});
    *frame = yki_frame_of_planes(&memory->frame, &source);
    return YK_OK;
}

/* ---- running -------------------------------------------------------------------------------- */

/* The steps' parameters were checked when the list was made: what they cannot do is this picture's
 * fault. */
static yk_status apply_step(const yki_pipeline *pipeline, yki_frame *frame, int index,
                            uint64_t word)
{
    yk_status status = yki_apply_picture_step(frame, pipeline->transforms->steps, index, word);
    return status == YK_ERROR_INVALID_ARGUMENT ? YK_ERROR_UNSUPPORTED : status;
}

/* Whether the steps have led to the size that was computed from the list. */
static yk_status check_result(const yki_pipeline *pipeline, const yki_frame *frame)
{
    int channels = frame->channels, height = yki_frame_height(frame);
    int width = yki_frame_width(frame);
    if (channels == pipeline->dims[0] && height == pipeline->dims[1] && width == pipeline->dims[2])
        return YK_OK;
    return yki_error(YK_ERROR_INTERNAL, "a picture became %d x %d x %d instead of %lld x %lld",
                     channels, height, width, (long long)pipeline->dims[1],
                     (long long)pipeline->dims[2]);
}

yk_status yki_pipeline_frame(const yki_pipeline *pipeline, yki_pipeline_memory *memory,
                             yki_decoder *decoder, const yk_field_buffer *picture, uint64_t word,
                             yki_frame *frame)
{
    YK_TRY(start(pipeline, memory, decoder, picture, frame));
    for (int i = 0; i < pipeline->picture_steps; i++)
        YK_TRY(apply_step(pipeline, frame, i, word));
    return check_result(pipeline, frame);
}

static yk_status run_picture_steps(const yki_pipeline *pipeline, yki_pipeline_memory *memory,
                                   yki_decoder *decoder, const yk_field_buffer *picture,
                                   uint64_t word, void *out)
{
    yki_frame frame;
    yki_picture pixels;
    yki_planes planes;
    YK_TRY(yki_pipeline_frame(pipeline, memory, decoder, picture, word, &frame));
    if (yki_frame_is_planar(&frame, &planes)) {
        yki_planes_to_tensor(&pipeline->tables, &planes, frame.mirrored, frame.upside_down,
                             pipeline->dtype, out);
        return YK_OK;
    }
    YK_TRY(yki_frame_finish(&frame, &pixels));
    yki_to_tensor(&pipeline->tables, &pixels, frame.mirrored, frame.upside_down, pipeline->dtype,
                  out);
    return YK_OK;
}

static yk_status run_direct(const yki_pipeline *pipeline, yki_pipeline_memory *memory,
                            const yk_field_buffer *picture, uint64_t word, void *out)
{
    size_t bytes = 2 * picture->bytes;
    uint8_t *scratch = yki_room_reserve(&memory->room, bytes);
    if (!scratch)
        return yki_error_memory(bytes, "a picture");
    yki_crop_flip_apply(&pipeline->plan, &pipeline->tables, picture->data, word, scratch,
                        pipeline->dtype, out);
    return YK_OK;
}

static yki_picture_box draw_box(const yki_pipeline *pipeline, uint64_t word, int erasing)
{
    int step = pipeline->erasing_steps[erasing];
    return yki_draw_erasing(&pipeline->transforms->steps[step].random_erasing,
                            yki_draws_of(word, step), pipeline->dims);
}

void yki_pipeline_draw_boxes(const yki_pipeline *pipeline, uint64_t word, yki_picture_box *boxes)
{
    for (int i = 0; i < pipeline->erasing_count; i++)
        boxes[i] = draw_box(pipeline, word, i);
}

static void run_tensor_steps(const yki_pipeline *pipeline, uint64_t word, void *out)
{
    for (int i = 0; i < pipeline->erasing_count; i++) {
        yki_picture_box box = draw_box(pipeline, word, i);
        yki_erase(&pipeline->erasings[i], &box, pipeline->dims, pipeline->dtype, out);
    }
}

uint64_t yki_pipeline_word(const yki_pipeline *pipeline, yki_pipeline_draw draw)
{
    uint64_t word = yki_hash3(draw.seed, (uint64_t)draw.epoch, (uint64_t)draw.index);
    if (!pipeline->alternates)
        return word;
    return yki_alternate_flip(word, yki_hash3(draw.seed, 0, (uint64_t)draw.index), draw.epoch);
}

yk_status yki_pipeline_run(const yki_pipeline *pipeline, yki_pipeline_memory *memory,
                           yki_decoder *decoder, const yk_field_buffer *picture,
                           yki_pipeline_draw draw, void *out)
{
    uint64_t word = yki_pipeline_word(pipeline, draw);
    if (pipeline->direct)
        YK_TRY(run_direct(pipeline, memory, picture, word, out));
    else
        YK_TRY(run_picture_steps(pipeline, memory, decoder, picture, word, out));
    run_tensor_steps(pipeline, word, out);
    return YK_OK;
}

/* See frame.h. */
#include "data/transforms/frame.h"

void yki_frame_memory_free(yki_frame_memory *memory)
{
    yki_resizer_free(&memory->resizer);
    for (int i = 0; i < 2; i++)
        yki_picture_free(&memory->pictures[i]);
    yki_picture_free(&memory->interleaved);
}

/* Nothing is pending on a source of this size. */
static void start(yki_frame *frame, int width, int height)
{
    frame->region = frame->window = (yki_box){0, 0, width, height};
    frame->full_width = width;
    frame->full_height = height;
    frame->mirrored = frame->upside_down = false;
}

yki_frame yki_frame_of_planes(yki_frame_memory *memory, const yki_planes *planes)
{
    yki_frame frame = {
        .memory = memory, .planes = *planes, .holder = -1, .channels = planes->channels};
    start(&frame, planes->width, planes->height);
    return frame;
}

yki_frame yki_frame_of_encoded(yki_frame_memory *memory, yki_decoder *decoder,
                               yki_picture_size size)
{
    yki_frame frame = {
        .memory = memory, .decoder = decoder, .holder = -1, .channels = size.channels};
    start(&frame, size.width, size.height);
    return frame;
}

yki_picture *yki_frame_spare(yki_frame *frame)
{
    return &frame->memory->pictures[frame->holder == 0];
}

void yki_frame_take_spare(yki_frame *frame)
{
    frame->holder = frame->holder == 0;
    frame->pixels = frame->memory->pictures[frame->holder];
    frame->pixels.capacity = 0;
    frame->channels = frame->pixels.channels;
    start(frame, frame->pixels.width, frame->pixels.height);
}

static bool is_resized(const yki_frame *frame)
{
    return frame->full_width != frame->region.width || frame->full_height != frame->region.height;
}

/* ---- what is pending ------------------------------------------------------------------------ */

/* Decodes the region; *place is where it lies in the frame's pixels. */
static yk_status decode(yki_frame *frame, yki_scale *place)
{
    bool exact = frame->interpolation == YK_INTERPOLATION_NEAREST || !is_resized(frame);
    int width = exact ? frame->region.width : frame->full_width;
    int height = exact ? frame->region.height : frame->full_height;
    YK_TRY(yki_decode_read(frame->decoder, &frame->region, width, height, &frame->pixels, place));
    frame->pixels.capacity = 0;
    frame->decoder = NULL;
    return YK_OK;
}

/* Interleaves the region, which becomes the frame's pixels. */
static yk_status interleave(yki_frame *frame)
{
    yki_planes part = yki_planes_part(&frame->planes, frame->region);
    frame->planes.pixels = NULL;
    if (part.channels == 1) { /* both layouts are one, and the frame only reads */
        uint8_t *pixels = (uint8_t *)(uintptr_t)part.pixels;
        frame->pixels = (yki_picture){pixels, part.width, part.height, 1, part.stride, 0};
        return YK_OK;
    }
    YK_TRY(yki_picture_interleave(&frame->memory->interleaved, &part));
    frame->pixels = frame->memory->interleaved;
    frame->pixels.capacity = 0;
    return YK_OK;
}

/* Brings pending crops and the resize into pixels; flips stay pending. */
static yk_status settle(yki_frame *frame)
{
    yki_scale place = {.width = frame->region.width, .height = frame->region.height};
    bool mirrored = frame->mirrored, upside_down = frame->upside_down, resized = is_resized(frame);
    yki_box window = frame->window;
    if (frame->decoder)
        YK_TRY(decode(frame, &place));
    else if (frame->planes.pixels)
        YK_TRY(interleave(frame));
    else /* what is resized knows nothing beyond the crop, as in torchvision */
        frame->pixels = yki_picture_part(&frame->pixels, frame->region);
    if (resized || place.width != frame->region.width || place.height != frame->region.height) {
        yki_resize_job job = {place.left,   place.top,           place.width,
                              place.height, frame->full_width,   frame->full_height,
                              window,       frame->interpolation};
        YK_TRY(yki_resize(&frame->memory->resizer, &frame->pixels, &job, yki_frame_spare(frame)));
        yki_frame_take_spare(frame);
    } else {
        frame->pixels = yki_picture_part(&frame->pixels, window);
        start(frame, window.width, window.height);
    }
    frame->mirrored = mirrored;
    frame->upside_down = upside_down;
    return YK_OK;
}

static yk_status settle_all(yki_frame *frame)
{
    YK_TRY(settle(frame));
    if (!frame->mirrored && !frame->upside_down)
        return YK_OK;
    YK_TRY(yki_flip(&frame->pixels, frame->mirrored, frame->upside_down, yki_frame_spare(frame)));
    yki_frame_take_spare(frame);
    return YK_OK;
}

yk_status yki_frame_finish(yki_frame *frame, yki_picture *pixels)
{
    YK_TRY(settle(frame));
    *pixels = frame->pixels;
    return YK_OK;
}

bool yki_frame_is_planar(const yki_frame *frame, yki_planes *part)
{
    if (!frame->planes.pixels || is_resized(frame))
        return false;
    *part = yki_planes_part(&frame->planes, frame->region);
    return true;
}

yk_status yki_frame_pixels(yki_frame *frame, yki_picture **pixels)
{
    YK_TRY(settle_all(frame));
    if (frame->holder < 0) {
        yki_box all = {0, 0, frame->pixels.width, frame->pixels.height};
        YK_TRY(yki_crop(&frame->pixels, all, yki_frame_spare(frame)));
        yki_frame_take_spare(frame);
    }
    *pixels = &frame->pixels;
    return YK_OK;
}

/* ---- steps that are noted down -------------------------------------------------------------- */

yk_status yki_frame_crop(yki_frame *frame, yki_box box)
{
    int width = frame->window.width, height = frame->window.height;
    if (!yki_box_is_inside(box, width, height)) {
        YK_TRY(settle_all(frame));
        YK_TRY(yki_crop(&frame->pixels, box, yki_frame_spare(frame)));
        yki_frame_take_spare(frame);
        return YK_OK;
    }
    int left = frame->mirrored ? width - box.left - box.width : box.left;
    int top = frame->upside_down ? height - box.top - box.height : box.top;
    if (is_resized(frame)) {
        frame->window =
            (yki_box){frame->window.left + left, frame->window.top + top, box.width, box.height};
        return YK_OK;
    }
    frame->region.left += left;
    frame->region.top += top;
    frame->region.width = frame->full_width = box.width;
    frame->region.height = frame->full_height = box.height;
    frame->window = (yki_box){0, 0, box.width, box.height};
    return YK_OK;
}

yk_status yki_frame_resize(yki_frame *frame, int width, int height, yk_interpolation interpolation)
{
    if (is_resized(frame) || frame->mirrored || frame->upside_down)
        YK_TRY(settle_all(frame));
    frame->interpolation = interpolation;
    frame->full_width = width;
    frame->full_height = height;
    frame->window = (yki_box){0, 0, width, height};
    return YK_OK;
}

void yki_frame_flip(yki_frame *frame, bool mirrored, bool upside_down)
{
    frame->mirrored ^= mirrored;
    frame->upside_down ^= upside_down;
}

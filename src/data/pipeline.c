/* See pipeline.h. */
#include "data/pipeline.h"

#include <string.h>

static yk_status refuse_encoded(const yk_field *field)
{
    return yki_error(YK_ERROR_UNSUPPORTED,
                     "\"%s\" holds encoded pictures, which this build of yoke cannot decode",
                     field->name);
}

yk_status yki_pipeline_prepare(yki_pipeline *pipeline, const yk_field *field,
                               const yk_loader_options *options)
{
    pipeline->field = *field;
    pipeline->dtype = options->dtype;
    memcpy(pipeline->dims, field->dims, sizeof pipeline->dims);
    if (field->kind == YK_FIELD_ENCODED_IMAGE)
        return refuse_encoded(field);
    if (field->dims[1] == YK_ANY_SIZE || field->dims[2] == YK_ANY_SIZE)
        return yki_error(YK_ERROR_UNSUPPORTED,
                         "\"%s\" holds pictures of different sizes, which no transform brings to "
                         "one size",
                         field->name);
    return yki_transform_prepare(&pipeline->plan, &options->transform, field->dims);
}

void yki_pipeline_destroy(yki_pipeline *pipeline)
{
    *pipeline = (yki_pipeline){.dims = {0}};
}

yk_status yki_pipeline_run(const yki_pipeline *pipeline, yki_room *scratch,
                           const yk_field_buffer *picture, yki_pipeline_draw draw, void *out)
{
    size_t bytes = 2 * picture->bytes;
    uint8_t *room = yki_room_reserve(scratch, bytes);
    if (!room)
        return yki_error_memory(bytes, "a picture");
    yki_transform_apply(&pipeline->plan, picture->data, draw.seed, draw.epoch, draw.index, room,
                        pipeline->dtype, out);
    return YK_OK;
}

/* From (H, W, 3) to (3, H, W). */
static void separate_channels(const yki_picture *picture, uint8_t *planes)
{
    size_t plane = (size_t)picture->width * (size_t)picture->height;
    for (int y = 0; y < picture->height; y++) {
        const uint8_t *row = yki_picture_row(picture, y);
        for (int x = 0; x < picture->width; x++, planes++)
            for (size_t c = 0; c < 3; c++)
                planes[c * plane] = row[3 * x + (int)c];
    }
}

static yk_status decode(yki_decoder *decoder, yki_room *scratch, const yk_field_buffer *file,
                        yk_tensor *tensor)
{
    yki_picture_size size;
    yki_picture picture;
    yki_scale scale;
    YK_TRY(yki_decode_open(decoder, file->data, file->bytes, &size));
    YK_TRY(yki_decode_read(decoder, NULL, size.width, size.height, &picture, &scale));
    size_t bytes = 3 * (size_t)size.width * (size_t)size.height;
    uint8_t *planes = yki_room_reserve(scratch, bytes);
    if (!planes)
        return yki_error_memory(bytes, "a picture");
    separate_channels(&picture, planes);
    *tensor = (yk_tensor){
        .data = planes, .dtype = YK_U8, .ndim = 3, .dims = {3, size.height, size.width}};
    return YK_OK;
}

yk_status yki_pipeline_decode(const yk_field *field, yki_room *scratch, yki_decoder *decoder,
                              const yk_field_buffer *picture, yk_tensor *tensor)
{
    if (field->kind == YK_FIELD_ENCODED_IMAGE)
        return decode(decoder, scratch, picture, tensor);
    *tensor = (yk_tensor){.data = picture->data, .dtype = YK_U8, .ndim = 3};
    memcpy(tensor->dims, picture->dims, sizeof picture->dims);
    return YK_OK;
}

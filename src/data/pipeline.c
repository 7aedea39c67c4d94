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

yk_status yki_pipeline_decode(const yk_field *field, yki_room *scratch,
                              const yk_field_buffer *picture, yk_tensor *tensor)
{
    (void)scratch;
    if (field->kind == YK_FIELD_ENCODED_IMAGE)
        return refuse_encoded(field);
    *tensor = (yk_tensor){.data = picture->data, .dtype = YK_U8, .ndim = 3};
    memcpy(tensor->dims, picture->dims, sizeof picture->dims);
    return YK_OK;
}

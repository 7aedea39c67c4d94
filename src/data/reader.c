/* A yk_reader: one worker of a data set, and room for the tensors of one sample. */
#include <stdlib.h>

#include "base/error.h"
#include "base/memory.h"
#include "data/worker.h"

struct yk_reader {
    const yk_dataset *dataset;
    yki_worker worker;
    yki_room *rooms;    /* (field_count): of tensors their elements, of pictures decoded ones */
    yk_tensor *tensors; /* (field_count) of the last sample */
};

/* ---- life ----------------------------------------------------------------------------------- */

static yk_status describe_tensor(yk_reader *reader, int index)
{
    const yk_field *field = yk_dataset_field(reader->dataset, index);
    yk_tensor *tensor = &reader->tensors[index];
    size_t bytes = yki_field_bytes(field);
    *tensor = (yk_tensor){.dtype = field->dtype, .ndim = field->ndim};
    for (int d = 0; d < field->ndim; d++)
        tensor->dims[d] = field->dims[d];
    tensor->data = yki_room_reserve(&reader->rooms[index], bytes);
    reader->worker.buffers[index].data = tensor->data;
    return tensor->data ? YK_OK : yki_error_memory(bytes, "a sample");
}

static yk_status open_reader(yk_reader *reader)
{
    int count = yk_dataset_field_count(reader->dataset);
    reader->rooms = yki_calloc((size_t)count, sizeof *reader->rooms);
    reader->tensors = yki_calloc((size_t)count, sizeof *reader->tensors);
    if (!reader->rooms || !reader->tensors)
        return yki_error_memory((size_t)count * sizeof *reader->tensors, "a sample");
    YK_TRY(yki_worker_open(&reader->worker, reader->dataset));
    for (int i = 0; i < count; i++)
        if (yk_dataset_field(reader->dataset, i)->kind == YK_FIELD_TENSOR)
            YK_TRY(describe_tensor(reader, i));
    return YK_OK;
}

yk_status yk_reader_create(yk_reader **reader, const yk_dataset *dataset)
{
    YKI_NOT_NULL(reader);
    *reader = NULL;
    YKI_NOT_NULL(dataset);
    yk_reader *self = yki_calloc(1, sizeof *self);
    if (!self)
        return yki_error_memory(sizeof *self, "a reader");
    yki_dataset_retain(dataset);
    self->dataset = dataset;
    yk_status status = open_reader(self);
    if (status == YK_OK)
        *reader = self;
    else
        yk_reader_destroy(self);
    return status;
}

void yk_reader_destroy(yk_reader *reader)
{
    if (!reader)
        return;
    yki_worker_close(&reader->worker);
    for (int i = 0; reader->rooms && i < yk_dataset_field_count(reader->dataset); i++)
        yki_room_free(&reader->rooms[i]);
    free(reader->rooms);
    free(reader->tensors);
    yk_dataset_destroy((yk_dataset *)(uintptr_t)reader->dataset);
    free(reader);
}

/* ---- reading -------------------------------------------------------------------------------- */

/* (H, W, C) to (C, H, W). */
static yk_status to_planar(yki_room *room, const yki_picture *picture, yk_tensor *tensor)
{
    size_t bytes = (size_t)picture->width * (size_t)picture->height * (size_t)picture->channels;
    uint8_t *to = yki_room_reserve(room, bytes);
    if (!to)
        return yki_error_memory(bytes, "a picture");
    *tensor = (yk_tensor){.data = to, .dtype = YK_U8, .ndim = 3};
    tensor->dims[0] = picture->channels;
    tensor->dims[1] = picture->height;
    tensor->dims[2] = picture->width;
    yki_picture_to_planes(picture, to);
    return YK_OK;
}

static yk_status decode(yki_decoder *decoder, const yk_field_buffer *file, yki_room *room,
                        yk_tensor *tensor)
{
    yki_picture_size size;
    yki_picture pixels;
    yki_scale scale;
    YK_TRY(yki_decode_open(decoder, file->data, file->bytes, &size));
    YK_TRY(yki_decode_read(decoder, NULL, size.width, size.height, &pixels, &scale));
    return to_planar(room, &pixels, tensor);
}

/* Makes the picture that the worker has read the tensor of its field, bytes (C, H, W). */
static yk_status take_picture(yk_reader *reader, int64_t index, int i)
{
    const yk_field_buffer *picture = &reader->worker.buffers[i];
    yk_tensor *tensor = &reader->tensors[i];
    yk_status status = YK_OK;
    if (yk_dataset_field(reader->dataset, i)->kind == YK_FIELD_ENCODED_IMAGE)
        status = decode(reader->worker.decoder, picture, &reader->rooms[i], tensor);
    else
        *tensor = (yk_tensor){
            .data = picture->data,
            .dtype = YK_U8,
            .ndim = 3,
            .dims = {picture->dims[0], picture->dims[1], picture->dims[2]},
        };
    return status == YK_OK ? YK_OK : yki_name_sample(reader->dataset, index, status);
}

yk_status yk_reader_read(yk_reader *reader, int64_t index, const yk_tensor **fields)
{
    YKI_NOT_NULL(fields);
    *fields = NULL;
    YKI_NOT_NULL(reader);
    const yk_dataset *dataset = reader->dataset;
    if (index < 0 || index >= yk_dataset_size(dataset))
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "%s: there is no sample %lld of %lld",
                         yk_dataset_name(dataset), (long long)index,
                         (long long)yk_dataset_size(dataset));
    YK_TRY(yki_worker_read(&reader->worker, index));
    for (int i = 0; i < yk_dataset_field_count(dataset); i++)
        if (yk_dataset_field(dataset, i)->kind != YK_FIELD_TENSOR)
            YK_TRY(take_picture(reader, index, i));
    *fields = reader->tensors;
    return YK_OK;
}

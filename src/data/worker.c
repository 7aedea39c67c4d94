/* See worker.h. */
#include "data/worker.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"

/* ---- buffers -------------------------------------------------------------------------------- */

void *yki_room_reserve(yki_room *room, size_t bytes)
{
    if (bytes > room->bytes || !room->memory) {
        uint8_t *memory = malloc(bytes ? bytes : 1); /* what was there is not needed any more */
        if (!memory)
            return NULL;
        free(room->memory);
        *room = (yki_room){.memory = memory, .bytes = bytes};
    }
    return room->memory;
}

void yki_room_free(yki_room *room)
{
    free(room->memory);
    *room = (yki_room){.bytes = 0};
}

void *yk_field_buffer_reserve(yk_field_buffer *buffer, size_t bytes)
{
    if (!buffer) {
        yki_error(YK_ERROR_INVALID_ARGUMENT, "yk_field_buffer_reserve: the buffer is NULL");
        return NULL;
    }
    buffer->data = buffer->room ? yki_room_reserve(buffer->room, bytes) : NULL;
    buffer->bytes = buffer->data ? bytes : 0;
    if (!buffer->data)
        yki_error_memory(bytes, "a picture");
    return buffer->data;
}

void yk_field_buffer_lend(yk_field_buffer *buffer, const void *data, size_t bytes)
{
    if (!buffer)
        return;
    buffer->data = (void *)(uintptr_t)data; /* only read */
    buffer->bytes = bytes;
}

size_t yki_field_bytes(const yk_field *field)
{
    size_t bytes = yk_dtype_size(field->dtype);
    for (int d = 0; d < field->ndim; d++)
        bytes *= (size_t)field->dims[d];
    return bytes;
}

/* ---- life ----------------------------------------------------------------------------------- */

yk_status yki_worker_open(yki_worker *worker, const yk_dataset *dataset)
{
    const yk_dataset_ops *ops = &dataset->ops;
    size_t count = (size_t)ops->field_count;
    worker->dataset = dataset;
    worker->buffers = yki_calloc(count, sizeof *worker->buffers);
    worker->rooms = yki_calloc(count, sizeof *worker->rooms);
    if (!worker->buffers || !worker->rooms)
        return yki_error_memory(count * sizeof *worker->buffers, "a worker of a data set");
    for (size_t i = 0; i < count; i++)
        if (ops->fields[i].kind == YK_FIELD_TENSOR)
            worker->buffers[i].bytes = yki_field_bytes(&ops->fields[i]);
        else
            worker->buffers[i].room = &worker->rooms[i];
    for (size_t i = 0; i < count && !worker->decoder; i++)
        if (ops->fields[i].kind == YK_FIELD_ENCODED_IMAGE)
            YK_TRY(yki_decoder_create(&worker->decoder));
    yk_status status = ops->open_worker ? ops->open_worker(dataset->data, &worker->state) : YK_OK;
    worker->open = status == YK_OK;
    return status == YK_OK ? YK_OK : yki_error_context(status, "data set %s", ops->name);
}

void yki_worker_close(yki_worker *worker)
{
    if (!worker->dataset)
        return;
    const yk_dataset_ops *ops = &worker->dataset->ops;
    if (worker->open && ops->close_worker)
        ops->close_worker(worker->dataset->data, worker->state);
    for (int i = 0; worker->rooms && i < ops->field_count; i++)
        yki_room_free(&worker->rooms[i]);
    yki_decoder_destroy(worker->decoder);
    free(worker->rooms);
    free(worker->buffers);
    *worker = (yki_worker){.open = false};
}

/* ---- reading -------------------------------------------------------------------------------- */

/* Whether read() has left a picture that fits its field. */
static yk_status check_picture(const yk_field *field, const yk_field_buffer *buffer)
{
    size_t expected = 1;
    if (!buffer->data)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "read() gave no picture for \"%s\"",
                         field->name);
    if (field->kind == YK_FIELD_ENCODED_IMAGE)
        return YK_OK;
    for (int d = 0; d < 3; d++) {
        bool fits = field->dims[d] == YK_ANY_SIZE ? buffer->dims[d] > 0 && buffer->dims[d] < 1 << 20
                                                  : buffer->dims[d] == field->dims[d];
        expected = fits ? expected * (size_t)buffer->dims[d] : 0;
    }
    if (expected == 0 || buffer->bytes != expected)
        return yki_error(YK_ERROR_INVALID_SHAPE,
                         "read() gave %zu bytes for \"%s\" of (%lld, %lld, %lld)", buffer->bytes,
                         field->name, (long long)buffer->dims[0], (long long)buffer->dims[1],
                         (long long)buffer->dims[2]);
    return YK_OK;
}

yk_status yki_name_sample(const yk_dataset *dataset, int64_t index, yk_status status)
{
    char name[256];
    yk_dataset_sample_name(dataset, index, name, sizeof name);
    return yki_error_context(status, "sample %lld%s%s", (long long)index, *name ? ", " : "", name);
}

yk_status yki_worker_read(yki_worker *worker, int64_t index)
{
    const yk_dataset *dataset = worker->dataset;
    const yk_dataset_ops *ops = &dataset->ops;
    for (int i = 0; i < ops->field_count; i++) {
        yk_field_buffer *buffer = &worker->buffers[i];
        if (ops->fields[i].kind == YK_FIELD_TENSOR)
            continue;
        *buffer = (yk_field_buffer){.room = buffer->room};
        memcpy(buffer->dims, ops->fields[i].dims, sizeof buffer->dims);
    }
    char line[YKI_ERROR_LINE];
    yki_error_begin(line);
    yk_status status = ops->read(dataset->data, worker->state, index, worker->buffers);
    status = yki_error_end(status, line, "read()");
    for (int i = 0; i < ops->field_count && status == YK_OK; i++)
        if (ops->fields[i].kind != YK_FIELD_TENSOR)
            status = check_picture(&ops->fields[i], &worker->buffers[i]);
    return status == YK_OK ? YK_OK : yki_name_sample(worker->dataset, index, status);
}

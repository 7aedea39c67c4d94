/* See arrays.h. */
#include "data/sources/arrays.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "data/worker.h"

void yki_arrays_free(yki_arrays *arrays)
{
    yki_input_file_close(&arrays->file);
    free(arrays->memory);
    free(arrays->labels);
    *arrays = (yki_arrays){0};
}

static bool name_file(void *data, int64_t index, char *path, size_t size)
{
    const yki_arrays *arrays = data;
    if (index > 0 || !arrays->file.path)
        return false;
    snprintf(path, size, "%s", arrays->file.path);
    return true;
}

static void close_arrays(void *data)
{
    yki_arrays_free(data);
    free(data);
}

/* From (H, W, C), with C a few, to (C, H, W). */
static void separate_channels(const uint8_t *pixels, uint8_t *planes, const int64_t dims[3])
{
    size_t plane = (size_t)(dims[1] * dims[2]), channels = (size_t)dims[0];
    for (size_t p = 0; p < plane; p++)
        for (size_t c = 0; c < channels; c++)
            planes[c * plane + p] = pixels[p * channels + c];
}

/* Puts the bytes of a sample into a buffer, which may also be lent those in memory. */
static yk_status fetch(const yki_arrays *arrays, size_t offset, size_t bytes,
                       yk_field_buffer *buffer)
{
    bool tensor = arrays->field.kind == YK_FIELD_TENSOR;
    if (arrays->memory && !tensor) {
        yk_field_buffer_lend(buffer, arrays->memory + offset, bytes);
        return YK_OK;
    }
    uint8_t *to = tensor ? buffer->data : yk_field_buffer_reserve(buffer, bytes);
    if (!to)
        return YK_ERROR_OUT_OF_MEMORY;
    if (!arrays->memory)
        return yki_input_file_read(&arrays->file, offset, to, bytes);
    memcpy(to, arrays->memory + offset, bytes);
    return YK_OK;
}

/* Reads a picture whose channels come last into the second half of a buffer. */
static yk_status fetch_and_separate(const yki_arrays *arrays, size_t offset, size_t bytes,
                                    yk_field_buffer *buffer)
{
    uint8_t *planes = yk_field_buffer_reserve(buffer, 2 * bytes);
    if (!planes)
        return YK_ERROR_OUT_OF_MEMORY;
    YK_TRY(yki_input_file_read(&arrays->file, offset, planes + bytes, bytes));
    separate_channels(planes + bytes, planes, arrays->field.dims);
    buffer->bytes = bytes;
    return YK_OK;
}

static yk_status read_sample(void *data, void *worker, int64_t index, yk_field_buffer *buffers)
{
    const yki_arrays *arrays = data;
    size_t bytes = yki_field_bytes(&arrays->field);
    size_t offset = arrays->offset + (size_t)index * bytes;
    (void)worker;
    if (arrays->labels)
        *(int32_t *)buffers[1].data = arrays->labels[index];
    return arrays->channels_last ? fetch_and_separate(arrays, offset, bytes, &buffers[0])
                                 : fetch(arrays, offset, bytes, &buffers[0]);
}

yk_status yki_arrays_create(yk_dataset **dataset, yki_arrays *arrays)
{
    yk_field fields[2] = {arrays->field, {"labels", YK_FIELD_TENSOR, YK_I32, 0, {0}}};
    yk_dataset_ops ops = YK_DATASET_OPS_INIT;
    yki_arrays *own = yki_calloc(1, sizeof *own);
    *dataset = NULL;
    if (!own) {
        yki_arrays_free(arrays);
        return yki_error_memory(sizeof *own, "a data set");
    }
    *own = *arrays;
    *arrays = (yki_arrays){0};
    ops.name = own->name;
    ops.count = own->count;
    ops.field_count = own->labels ? 2 : 1;
    ops.fields = fields;
    ops.classes = own->classes;
    ops.class_names = own->class_names;
    ops.read = read_sample;
    ops.close = close_arrays;
    ops.file_path = name_file;
    yk_status status = yk_dataset_create(dataset, &ops, own);
    if (status != YK_OK)
        close_arrays(own);
    return status;
}

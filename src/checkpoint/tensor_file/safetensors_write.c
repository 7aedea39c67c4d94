/*
 * The writer of safetensors: see safetensors.h. As the reference writer it sorts by falling size of
 * the elements, then by name, and pads the header with spaces to a multiple of 8, so that all
 * elements are aligned. {"format": "pt"} is what the readers of PyTorch models look for.
 */
#include "checkpoint/tensor_file/safetensors.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "base/memory.h"
#include "device/memory.h"
#include "io/atomic_file.h"
#include "nn/model_info_json.h"

enum { SIZE_BYTES = 8, ALIGNMENT = 8 };

static int in_file_order(const void *a, const void *b)
{
    const yki_tensor_source *const *left = a, *const *right = b;
    size_t sizes[] = {(*left)->stored.dtype->size, (*right)->stored.dtype->size};
    if (sizes[0] != sizes[1])
        return sizes[0] > sizes[1] ? -1 : 1;
    return strcmp((*left)->name, (*right)->name);
}

static bool add_number(cJSON *array, int64_t number)
{
    return cJSON_AddItemToArray(array, cJSON_CreateNumber((double)number));
}

/* One tensor's line of the header; moves *offset behind its bytes. */
static yk_status describe_tensor(cJSON *header, const yki_tensor_source *source, int64_t *offset)
{
    int64_t count;
    size_t bytes;
    const yki_file_tensor *stored = &source->stored;
    YK_TRY(yki_tensor_name_check(source->name));
    if (!yki_file_tensor_size(stored, &count, &bytes))
        return yki_error(YK_ERROR_INVALID_SHAPE, "%s: more elements than 64 bits count",
                         source->name);
    cJSON *info = cJSON_AddObjectToObject(header, source->name);
    bool made = cJSON_AddStringToObject(info, "dtype", stored->dtype->safetensors);
    cJSON *shape = cJSON_AddArrayToObject(info, "shape");
    for (int i = 0; i < stored->ndim; i++)
        made = add_number(shape, stored->dims[i]) && made;
    cJSON *offsets = cJSON_AddArrayToObject(info, "data_offsets");
    made = add_number(offsets, *offset) && made;
    *offset += (int64_t)bytes;
    made = add_number(offsets, *offset) && made;
    return made && shape ? YK_OK : yki_error_memory(strlen(source->name), "a line of a header");
}

static yk_status add_file_metadata(cJSON *header, const yk_model_info *info)
{
    char *text = NULL;
    cJSON *metadata = cJSON_AddObjectToObject(header, "__metadata__");
    if (info)
        YK_TRY(yki_model_info_to_json(&text, info));
    bool made = cJSON_AddStringToObject(metadata, "format", "pt") &&
                (!text || cJSON_AddStringToObject(metadata, "yoke", text));
    free(text);
    return made ? YK_OK : yki_error_memory(256, "the metadata of safetensors");
}

/* The header's size and text, padded; free it. */
static yk_status make_header(unsigned char **block, size_t *size, const yki_tensor_source **order,
                             size_t count, const yk_model_info *info)
{
    cJSON *header = cJSON_CreateObject();
    int64_t offset = 0;
    yk_status status = add_file_metadata(header, info);
    for (size_t i = 0; i < count && status == YK_OK; i++)
        status = describe_tensor(header, order[i], &offset);
    char *text = status == YK_OK ? cJSON_PrintUnformatted(header) : NULL;
    cJSON_Delete(header);
    YK_TRY(status);
    size_t length = text ? strlen(text) : 0, padded = yki_align(length, ALIGNMENT);
    *block = text ? malloc(SIZE_BYTES + padded) : NULL;
    *size = SIZE_BYTES + padded;
    if (*block) {
        for (int i = 0; i < SIZE_BYTES; i++)
            (*block)[i] = (unsigned char)(padded >> 8 * i);
        memcpy(*block + SIZE_BYTES, text, length);
        memset(*block + SIZE_BYTES + length, ' ', padded - length);
    }
    cJSON_free(text);
    return *block ? YK_OK : yki_error_memory(*size, "a header of safetensors");
}

static yk_status write_elements(int fd, const char *path, const yki_tensor_source *source)
{
    int64_t elements;
    size_t size;
    yki_host_view view;
    if (!yki_file_tensor_size(&source->stored, &elements, &size))
        return YK_OK; /* the header has refused it */
    const yk_tensor bytes = {.data = (void *)(uintptr_t)source->data,
                             .dtype = YK_U8,
                             .ndim = 1,
                             .dims = {(int64_t)size},
                             .device = source->device};
    YK_TRY(yki_host_view_open(&view, &bytes, YKI_READ));
    yk_status status = yki_write_all(fd, path, view.data, size);
    return yki_host_view_end(&view, status);
}

static yk_status write_in_order(int fd, const char *path, const yki_tensor_source **order,
                                size_t count, const yk_model_info *info)
{
    unsigned char *header;
    size_t size;
    YK_TRY(make_header(&header, &size, order, count, info));
    yk_status status = yki_write_all(fd, path, header, size);
    free(header);
    for (size_t i = 0; i < count && status == YK_OK; i++)
        status = write_elements(fd, path, order[i]);
    return status;
}

yk_status yki_safetensors_write(int fd, const char *path, const yki_tensor_source *sources,
                                size_t count, const yk_model_info *info)
{
    const yki_tensor_source **order = yki_calloc(count, sizeof(yki_tensor_source *));
    if (!order)
        return yki_error_memory(count * sizeof *order, "a list of tensors");
    for (size_t i = 0; i < count; i++)
        order[i] = &sources[i];
    qsort(order, count, sizeof *order, in_file_order);
    yk_status status = write_in_order(fd, path, order, count, info);
    free(order);
    return status;
}

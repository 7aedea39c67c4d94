/*
 * The reader of safetensors: see safetensors.h. JSON by cJSON, given a terminated text, since not
 * every cJSON stops at a length. Tensors are in the header's order; their bytes are read one by
 * one, when asked for.
 */
#include "checkpoint/tensor_file/safetensors.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/utf8.h"
#include "io/input_file.h"
#include "io/json.h"
#include "tensor/tensor.h"

enum { SIZE_BYTES = 8 /* of the header's size, at the beginning of the file */ };

static const char metadata_key[] = "__metadata__";

typedef struct tensor {
    const char *name;   /* in the header */
    int64_t begin, end; /* behind the header */
    yki_file_tensor stored;
    void *data; /* NULL until fetched */
} tensor;

struct yki_safetensors {
    yki_input_file input;
    size_t data; /* where the tensors' bytes begin */
    cJSON *header;
    tensor *tensors;
    size_t count;
};

/* ---- the header's text ---------------------------------------------------------------------- */

static yk_status read_header_size(yki_safetensors *file, size_t *size)
{
    unsigned char bytes[SIZE_BYTES];
    uint64_t value = 0;
    YK_TRY(yki_input_file_read(&file->input, 0, bytes, sizeof bytes));
    for (int i = SIZE_BYTES - 1; i >= 0; i--)
        value = value << 8 | bytes[i];
    if (value > YKI_SAFETENSORS_HEADER)
        return yki_error(YK_ERROR_FORMAT,
                         "%s: offset 0: expected the size of a header of at most %d bytes, found"
                         " %llu",
                         file->input.path, YKI_SAFETENSORS_HEADER, (unsigned long long)value);
    if (value > file->input.size - SIZE_BYTES)
        return yki_error(YK_ERROR_FORMAT,
                         "%s: offset 8: expected a header of %llu bytes, but the file has %zu",
                         file->input.path, (unsigned long long)value, file->input.size);
    *size = (size_t)value;
    file->data = SIZE_BYTES + (size_t)value;
    return YK_OK;
}

/* The escape of a zero, at which cJSON would cut a name or text; NULL where there is none. */
static const char *find_zero(const char *text)
{
    for (; (text = strchr(text, '\\')); text += 2) {
        if (strncmp(text, "\\u0000", 6) == 0)
            return text;
        if (text[1] == '\0')
            break;
    }
    return NULL;
}

/* One JSON object, and behind it spaces only. */
static yk_status parse_header(yki_safetensors *file, const char *text, size_t size)
{
    const char *end = NULL;
    file->header = cJSON_ParseWithOpts(text, &end, false);
    size_t at = end ? (size_t)(end - text) : 0;
    if (!file->header)
        return yki_error(YK_ERROR_FORMAT, "%s: offset %zu: expected JSON", file->input.path,
                         SIZE_BYTES + at);
    while (at < size && text[at] == ' ')
        at++;
    if (at < size)
        return yki_error(YK_ERROR_FORMAT, "%s: offset %zu: expected the end of the header",
                         file->input.path, SIZE_BYTES + at);
    const char *zero = find_zero(text);
    if (zero)
        return yki_error(YK_ERROR_FORMAT, "%s: offset %zu: expected names and texts without zeros",
                         file->input.path, SIZE_BYTES + (size_t)(zero - text));
    if (!cJSON_IsObject(file->header))
        return yki_error(YK_ERROR_FORMAT, "%s: offset 8: expected a JSON object", file->input.path);
    return YK_OK;
}

static yk_status read_safetensors_header(yki_safetensors *file)
{
    size_t size = 0;
    YK_TRY(read_header_size(file, &size));
    char *text = yki_calloc(size + 1, 1);
    if (!text)
        return yki_error_memory(size, "a header of safetensors");
    yk_status status = yki_input_file_read(&file->input, SIZE_BYTES, text, size);
    if (status != YK_OK)
        goto out;
    status = parse_header(file, text, size);
out:
    free(text);
    return status;
}

/* ---- the header's tensors ------------------------------------------------------------------- */

static YKI_PRINTF(3, 4) yk_status
    refuse_tensor(const yki_safetensors *file, const char *name, const char *format, ...)
{
    char what[160];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    return yki_error(YK_ERROR_FORMAT, "%s: offset 8: the header's tensor %.80s: expected %s",
                     file->input.path, name, what);
}

/* Dtypes that a file may have but that yoke does not read: they have no read function. */
static const yki_file_tensor_dtype unread_dtypes[] = {
    {.name = "float8_e4m3fn", .safetensors = "F8_E4M3", .size = 1},
    {.name = "float8_e5m2", .safetensors = "F8_E5M2", .size = 1},
    {.name = "float8_e4m3fnuz", .safetensors = "F8_E4M3FNUZ", .size = 1},
    {.name = "float8_e5m2fnuz", .safetensors = "F8_E5M2FNUZ", .size = 1},
    {.name = "float8_e8m0fnu", .safetensors = "F8_E8M0", .size = 1},
    {.name = "complex64", .safetensors = "C64", .size = 8},
};

static const yki_file_tensor_dtype *find_safetensors_dtype(const char *name)
{
    const yki_file_tensor_dtype *dtype;
    for (size_t i = 0; (dtype = yki_file_tensor_dtype_at(i)); i++)
        if (strcmp(dtype->safetensors, name) == 0)
            return dtype;
    for (size_t i = 0; i < sizeof unread_dtypes / sizeof *unread_dtypes; i++)
        if (strcmp(unread_dtypes[i].safetensors, name) == 0)
            return &unread_dtypes[i];
    return NULL;
}

static yk_status read_header_shape(const yki_safetensors *file, tensor *one, const cJSON *shape)
{
    const cJSON *item;
    yki_file_tensor *stored = &one->stored;
    if (!cJSON_IsArray(shape))
        return refuse_tensor(file, one->name, "a \"shape\"");
    cJSON_ArrayForEach(item, shape)
    {
        if (stored->ndim == YKI_FILE_TENSOR_DIMS ||
            !yki_json_is_count(item, &stored->dims[stored->ndim]))
            return refuse_tensor(file, one->name,
                                 "at most %d dimensions in \"shape\", all integers",
                                 YKI_FILE_TENSOR_DIMS);
        stored->ndim++;
    }
    int64_t count;
    size_t bytes;
    if (!yki_file_tensor_size(stored, &count, &bytes) || bytes != (size_t)(one->end - one->begin)) {
        char text[96];
        return refuse_tensor(file, one->name, "the %lld bytes of \"data_offsets\" to be a %s %s",
                             (long long)(one->end - one->begin), stored->dtype->name,
                             yki_dims_text(text, sizeof text, stored->ndim, stored->dims));
    }
    yki_file_tensor_dense_strides(stored->ndim, stored->dims, stored->strides);
    return YK_OK;
}

/* A name of the header, of a tensor or in the metadata. */
static yk_status check_text(const yki_safetensors *file, const char *text)
{
    char shown[128];
    size_t length = strlen(text);
    if (yki_utf8_is_valid(text, length))
        return YK_OK;
    return yki_error(YK_ERROR_FORMAT, "%s: offset 8: the header's \"%s\" is not valid UTF-8",
                     file->input.path, yki_utf8_escape(shown, sizeof shown, text, length));
}

/* "__metadata__" maps strings to strings. */
static yk_status check_metadata(const yki_safetensors *file, const cJSON *metadata)
{
    const cJSON *item;
    if (!cJSON_IsObject(metadata))
        return yki_error(YK_ERROR_FORMAT,
                         "%s: offset 8: expected \"__metadata__\" to be an object of strings",
                         file->input.path);
    cJSON_ArrayForEach(item, metadata)
    {
        YK_TRY(check_text(file, item->string));
        if (!cJSON_IsString(item))
            return yki_error(YK_ERROR_FORMAT,
                             "%s: offset 8: expected \"%.80s\" in \"__metadata__\" to be a string",
                             file->input.path, item->string);
        YK_TRY(check_text(file, item->valuestring));
    }
    return YK_OK;
}

static yk_status read_tensor(const yki_safetensors *file, tensor *one, const cJSON *info)
{
    const cJSON *dtype = cJSON_GetObjectItemCaseSensitive(info, "dtype");
    const cJSON *offsets = cJSON_GetObjectItemCaseSensitive(info, "data_offsets");
    one->name = info->string;
    YK_TRY(check_text(file, one->name));
    if (!cJSON_IsString(dtype))
        return refuse_tensor(file, one->name, "a \"dtype\"");
    one->stored.dtype = find_safetensors_dtype(dtype->valuestring);
    if (!one->stored.dtype)
        return yki_error(
            YK_ERROR_UNSUPPORTED,
            "%s: offset 8: the header's tensor %.80s: dtype %.20s is not one that yoke knows",
            file->input.path, one->name, dtype->valuestring);
    if (!cJSON_IsArray(offsets) || cJSON_GetArraySize(offsets) != 2 ||
        !yki_json_is_count(cJSON_GetArrayItem(offsets, 0), &one->begin) ||
        !yki_json_is_count(cJSON_GetArrayItem(offsets, 1), &one->end) || one->end < one->begin)
        return refuse_tensor(file, one->name, "\"data_offsets\" of two rising integers");
    return read_header_shape(file, one, cJSON_GetObjectItemCaseSensitive(info, "shape"));
}

static int tensors_by_name(const void *a, const void *b)
{
    const tensor *const *left = a, *const *right = b;
    return strcmp((*left)->name, (*right)->name);
}

static int tensors_by_offset(const void *a, const void *b)
{
    const tensor *const *left = a, *const *right = b;
    if ((*left)->begin != (*right)->begin)
        return (*left)->begin < (*right)->begin ? -1 : 1;
    return ((*left)->end > (*right)->end) - ((*left)->end < (*right)->end);
}

static yk_status check_unique_names(const yki_safetensors *file, tensor **order)
{
    qsort(order, file->count, sizeof *order, tensors_by_name);
    for (size_t i = 1; i < file->count; i++)
        if (strcmp(order[i - 1]->name, order[i]->name) == 0)
            return refuse_tensor(file, order[i]->name, "it once");
    return YK_OK;
}

/* Each tensor begins where the one before it ends, and the last one ends with the file. */
static yk_status check_ranges(const yki_safetensors *file, tensor **order)
{
    int64_t end = 0;
    qsort(order, file->count, sizeof *order, tensors_by_offset);
    for (size_t i = 0; i < file->count; i++) {
        if (order[i]->begin != end)
            return refuse_tensor(file, order[i]->name, "its bytes to begin at %lld, not %lld",
                                 (long long)end, (long long)order[i]->begin);
        end = order[i]->end;
    }
    if ((size_t)end != file->input.size - file->data)
        return yki_error(
            YK_ERROR_FORMAT, "%s: offset %zu: expected %lld bytes of tensors, found %zu",
            file->input.path, file->data, (long long)end, file->input.size - file->data);
    return YK_OK;
}

static yk_status check_all(const yki_safetensors *file)
{
    tensor **order = yki_calloc(file->count, sizeof(tensor *));
    if (!order)
        return yki_error_memory(file->count * sizeof *order, "a list of tensors");
    for (size_t i = 0; i < file->count; i++)
        order[i] = &file->tensors[i];
    yk_status status = check_unique_names(file, order);
    if (status != YK_OK)
        goto out;
    status = check_ranges(file, order);
out:
    free(order);
    return status;
}

static yk_status read_tensors(yki_safetensors *file)
{
    const cJSON *item;
    size_t room = (size_t)cJSON_GetArraySize(file->header);
    file->tensors = yki_calloc(room, sizeof *file->tensors);
    if (!file->tensors)
        return yki_error_memory(room * sizeof *file->tensors, "a list of tensors");
    cJSON_ArrayForEach(item, file->header)
    {
        if (strcmp(item->string, metadata_key) == 0) {
            YK_TRY(check_metadata(file, item));
            continue;
        }
        tensor *one = &file->tensors[file->count];
        YK_TRY(read_tensor(file, one, item));
        one->stored.storage = file->count++;
    }
    return check_all(file);
}

/* ---- the file ------------------------------------------------------------------------------- */

static yk_status open_safetensors(yki_safetensors *file, const char *path)
{
    YK_TRY(yki_input_file_open(&file->input, path));
    YK_TRY(read_safetensors_header(file));
    return read_tensors(file);
}

yk_status yki_safetensors_open(yki_safetensors **file, const char *path)
{
    *file = NULL;
    yki_safetensors *made = yki_calloc(1, sizeof *made);
    if (!made)
        return yki_error_memory(sizeof *made, "a file of tensors");
    yk_status status = open_safetensors(made, path);
    if (status != YK_OK) {
        yki_safetensors_close(made);
        return status;
    }
    *file = made;
    return YK_OK;
}

void yki_safetensors_close(yki_safetensors *file)
{
    if (!file)
        return;
    for (size_t i = 0; i < file->count; i++)
        free(file->tensors[i].data);
    free(file->tensors);
    cJSON_Delete(file->header);
    yki_input_file_close(&file->input);
    free(file);
}

size_t yki_safetensors_count(const yki_safetensors *file)
{
    return file->count;
}

const char *yki_safetensors_name(const yki_safetensors *file, size_t index)
{
    return file->tensors[index].name;
}

const yki_file_tensor *yki_safetensors_stored(const yki_safetensors *file, size_t index)
{
    return &file->tensors[index].stored;
}

const char *yki_safetensors_unsupported_kind(const yki_safetensors *file, size_t index)
{
    const yki_file_tensor_dtype *dtype = file->tensors[index].stored.dtype;
    return dtype->read ? NULL : dtype->name;
}

yk_status yki_safetensors_fetch(yki_safetensors *file, const yki_file_tensor *stored)
{
    tensor *one = &file->tensors[stored->storage];
    size_t size = (size_t)(one->end - one->begin);
    if (one->data)
        return YK_OK;
    void *data = malloc(size ? size : 1);
    if (!data)
        return yki_error_memory(size, "a tensor");
    yk_status status =
        yki_input_file_read(&file->input, file->data + (size_t)one->begin, data, size);
    if (status != YK_OK) {
        free(data);
        return status;
    }
    one->data = data;
    return YK_OK;
}

const void *yki_safetensors_storage(const yki_safetensors *file, const yki_file_tensor *stored)
{
    return file->tensors[stored->storage].data;
}

const char *yki_safetensors_info(const yki_safetensors *file)
{
    const cJSON *dict = cJSON_GetObjectItemCaseSensitive(file->header, metadata_key);
    const cJSON *text = cJSON_GetObjectItemCaseSensitive(dict, "yoke");
    return text ? text->valuestring : NULL;
}

void yki_safetensors_metadata(const yki_safetensors *file, int limit, yk_tensor_file_visit visit,
                              void *context)
{
    const cJSON *item, *dict = cJSON_GetObjectItemCaseSensitive(file->header, metadata_key);
    cJSON_ArrayForEach(item, dict)
    {
        if (limit-- <= 0)
            return;
        visit(context, item->string, item->valuestring);
    }
}

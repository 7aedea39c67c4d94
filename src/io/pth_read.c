/*
 * The reader of .pth files. It believes nothing: a tensor must be the one call that torch.save
 * writes, its storage must have exactly the bytes it claims, and its shape, strides and offset must
 * stay within it. A storage that several tensors share is read once.
 */
#include "io/pth.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "io/pth_dtype.h"
#include "io/zip.h"

enum { MEMBER_NAME = 256 };

struct yki_pth {
    char *path;
    yki_zip *zip;
    char folder[MEMBER_NAME]; /* with the slash */
    void *pickle_data;
    yki_pickle *pickle;
    void **storages; /* (members), NULL until fetched */
    size_t members;
};

/* ---- opening -------------------------------------------------------------------------------- */

/* The folder that has a data.pkl: torch.save names it after the file. */
static yk_status find_pickle(yki_pth *pth, size_t *index)
{
    static const char pickle_name[] = "/data.pkl";
    for (size_t i = 0; i < pth->members; i++) {
        const char *name = yki_zip_name(pth->zip, i);
        const char *slash = name ? strchr(name, '/') : NULL;
        if (!slash || strcmp(slash, pickle_name) != 0)
            continue;
        size_t length = (size_t)(slash - name) + 1;
        if (length + 64 > sizeof pth->folder)
            break;
        memcpy(pth->folder, name, length);
        pth->folder[length] = '\0';
        *index = i;
        return YK_OK;
    }
    return yki_error(YK_FORMAT,
                     "%s: expected a file of torch.save, found a zip archive without"
                     " FOLDER/data.pkl",
                     pth->path);
}

static yk_status check_byte_order(yki_pth *pth)
{
    char name[MEMBER_NAME + 16];
    snprintf(name, sizeof name, "%sbyteorder", pth->folder);
    int64_t index = yki_zip_find(pth->zip, name);
    if (index < 0)
        return YK_OK; /* older files have none, and are little-endian */
    void *data;
    size_t size;
    YK_TRY(yki_zip_read(pth->zip, (size_t)index, &data, &size));
    bool little = size == 6 && memcmp(data, "little", 6) == 0;
    free(data);
    return little
               ? YK_OK
               : yki_error(YK_UNSUPPORTED, "%s: member %s: expected \"little\"", pth->path, name);
}

static yk_status read_pickle(yki_pth *pth)
{
    pth->members = yki_zip_count(pth->zip);
    pth->storages = yki_calloc(pth->members, sizeof *pth->storages);
    if (!pth->storages)
        return yki_error_memory(pth->members * sizeof *pth->storages, "a checkpoint's members");
    size_t index = 0, size;
    YK_TRY(find_pickle(pth, &index));
    YK_TRY(check_byte_order(pth));
    YK_TRY(yki_zip_read(pth->zip, index, &pth->pickle_data, &size));
    char name[YKI_ERROR_LINE / 2];
    snprintf(name, sizeof name, "%s: data.pkl", pth->path);
    return yki_pickle_parse(&pth->pickle, name, pth->pickle_data, size, NULL);
}

yk_status yki_pth_open(yki_pth **pth, const char *path)
{
    *pth = NULL;
    yki_pth *new = yki_calloc(1, sizeof *new);
    if (!new)
        return yki_error_memory(sizeof *new, "a checkpoint");
    yk_status status = YK_OK;
    new->path = yki_strdup(path);
    if (!new->path)
        status = yki_error_memory(strlen(path), "a file's name");
    if (status == YK_OK)
        status = yki_zip_open(&new->zip, path);
    if (status == YK_OK)
        status = read_pickle(new);
    if (status != YK_OK) {
        yki_pth_close(new);
        return status;
    }
    *pth = new;
    return YK_OK;
}

void yki_pth_close(yki_pth *pth)
{
    if (!pth)
        return;
    for (size_t i = 0; i < pth->members && pth->storages; i++)
        free(pth->storages[i]);
    free(pth->storages);
    yki_pickle_destroy(pth->pickle);
    free(pth->pickle_data);
    yki_zip_close(pth->zip);
    free(pth->path);
    free(pth);
}

const char *yki_pth_path(const yki_pth *pth)
{
    return pth->path;
}

const yki_pickle *yki_pth_file_pickle(const yki_pth *pth)
{
    return pth->pickle;
}

const yki_pickle_value *yki_pth_root(const yki_pth *pth)
{
    return yki_pickle_root(pth->pickle);
}

/* ---- tensors -------------------------------------------------------------------------------- */

/* A parameter is a call on its tensor; the tensor's own call otherwise. */
static const yki_pickle_value *unwrap(const yki_pickle_value *value)
{
    if (yki_pickle_is_call(value, "torch._utils", "_rebuild_parameter"))
        return yki_pickle_item(yki_pickle_arguments(value), 0);
    return value;
}

bool yki_pth_is_tensor(const yki_pickle_value *value)
{
    return yki_pickle_is_call(unwrap(value), "torch._utils", "_rebuild_tensor_v2");
}

/* A tuple of ndim numbers that are not negative. */
static bool read_numbers(const yki_pickle_value *tuple, int ndim, int64_t *numbers)
{
    if (!yki_pickle_is(tuple, YKI_PICKLE_TUPLE) || tuple->count != (uint32_t)ndim)
        return false;
    for (int i = 0; i < ndim; i++) {
        const yki_pickle_value *item = yki_pickle_item(tuple, (size_t)i);
        if (!yki_pickle_is(item, YKI_PICKLE_INT) || item->integer < 0)
            return false;
        numbers[i] = item->integer;
    }
    return true;
}

/* Whether the last element lies within a storage of count elements; an empty view always does. */
static bool stays_within(const yki_pth_view *view, int64_t count)
{
    int64_t last = view->offset;
    if (last > count)
        return false;
    for (int i = 0; i < view->ndim; i++)
        if (view->dims[i] == 0)
            return true;
    for (int i = 0; i < view->ndim; i++) {
        int64_t step;
        if (__builtin_mul_overflow(view->dims[i] - 1, view->strides[i], &step) ||
            __builtin_add_overflow(last, step, &last))
            return false;
    }
    return last < count;
}

/* The archive's member of a storage's key, or -1. */
static int64_t find_storage(const yki_pth *pth, const yki_pickle_value *key)
{
    char name[MEMBER_NAME + 32];
    if (!yki_pickle_is(key, YKI_PICKLE_STRING) || key->count > 20)
        return -1;
    int length =
        snprintf(name, sizeof name, "%sdata/%.*s", pth->folder, (int)key->count, key->text);
    return length < (int)sizeof name ? yki_zip_find(pth->zip, name) : -1;
}

/* ('storage', torch.FloatStorage, '0', 'cpu', count) */
static yk_status read_storage(const yki_pth *pth, const yki_pickle_value *value, yki_pth_view *view,
                              int64_t *count)
{
    const yki_pickle_value *id =
        yki_pickle_is(value, YKI_PICKLE_PERSISTENT) ? value->items[0] : NULL;
    const yki_pickle_value *numel = yki_pickle_item(id, 4);
    if (!yki_pickle_is(id, YKI_PICKLE_TUPLE) ||
        !yki_pickle_is_text(yki_pickle_item(id, 0), "storage") ||
        !yki_pickle_is(numel, YKI_PICKLE_INT) || numel->integer < 0)
        return yki_pickle_unexpected(pth->pickle, value, "the persistent id of a storage");
    view->dtype = yki_pth_dtype_find(yki_pickle_item(id, 1));
    if (!view->dtype)
        return yki_pickle_unexpected(pth->pickle, yki_pickle_item(id, 1), "a torch storage class");
    int64_t member = find_storage(pth, yki_pickle_item(id, 2));
    if (member < 0)
        return yki_pickle_unexpected(pth->pickle, yki_pickle_item(id, 2),
                                     "the key of a storage in the archive");
    size_t bytes;
    YK_TRY(yki_zip_size(pth->zip, (size_t)member, &bytes));
    *count = numel->integer;
    if (bytes % view->dtype->size != 0 || (uint64_t)*count != bytes / view->dtype->size)
        return yki_error(YK_FORMAT,
                         "%s: member %.100s: expected %lld elements of %zu bytes, found"
                         " %zu bytes",
                         pth->path, yki_zip_name(pth->zip, (size_t)member), (long long)*count,
                         view->dtype->size, bytes);
    view->member = (size_t)member;
    return YK_OK;
}

yk_status yki_pth_view_of(yki_pth *pth, const yki_pickle_value *value, yki_pth_view *view)
{
    *view = (yki_pth_view){0};
    if (!yki_pth_is_tensor(value))
        return yki_pickle_unexpected(pth->pickle, value, "a tensor");
    const yki_pickle_value *arguments = yki_pickle_arguments(unwrap(value));
    const yki_pickle_value *offset = yki_pickle_item(arguments, 1);
    const yki_pickle_value *shape = yki_pickle_item(arguments, 2);
    int64_t count = 0;
    YK_TRY(read_storage(pth, yki_pickle_item(arguments, 0), view, &count));
    if (!yki_pickle_is(shape, YKI_PICKLE_TUPLE) || shape->count > YK_MAX_DIMS)
        return yki_pickle_unexpected(pth->pickle, shape,
                                     "the shape of a tensor, at most %d"
                                     " dimensions",
                                     YK_MAX_DIMS);
    view->ndim = (int)shape->count;
    if (!read_numbers(shape, view->ndim, view->dims) ||
        !read_numbers(yki_pickle_item(arguments, 3), view->ndim, view->strides) ||
        !yki_pickle_is(offset, YKI_PICKLE_INT) || offset->integer < 0)
        return yki_pickle_unexpected(pth->pickle, value, "a tensor's offset, shape and strides");
    view->offset = offset->integer;
    for (int i = 0; i < view->ndim; i++)
        if (view->dims[i] <= 1)
            view->strides[i] = 0; /* never walked: whatever the file says */
    if (!stays_within(view, count))
        return yki_pickle_unexpected(pth->pickle, value,
                                     "a tensor within the %lld elements of its storage",
                                     (long long)count);
    return YK_OK;
}

yk_status yki_pth_fetch(yki_pth *pth, const yki_pth_view *view)
{
    size_t size;
    if (pth->storages[view->member])
        return YK_OK;
    return yki_zip_read(pth->zip, view->member, &pth->storages[view->member], &size);
}

/* ---- copying -------------------------------------------------------------------------------- */

bool yki_pth_converts_to(yk_dtype dtype)
{
    return dtype == YK_F32 || dtype == YK_F64 || dtype == YK_I64 || dtype == YK_I32;
}

static void put(yk_tensor *tensor, int64_t index, double value)
{
    switch (tensor->dtype) {
    case YK_F32:
        ((float *)tensor->data)[index] = (float)value;
        break;
    case YK_F64:
        ((double *)tensor->data)[index] = value;
        break;
    case YK_I64:
        ((int64_t *)tensor->data)[index] = yki_pth_to_integer(value, INT64_MIN, INT64_MAX);
        break;
    case YK_I32:
        ((int32_t *)tensor->data)[index] = (int32_t)yki_pth_to_integer(value, INT32_MIN, INT32_MAX);
        break;
    default:
        break; /* yki_pth_converts_to said no */
    }
}

static bool is_dense(const yki_pth_view *view)
{
    int64_t expected = 1;
    for (int i = view->ndim - 1; i >= 0; i--) {
        if (view->dims[i] > 1 && view->strides[i] != expected)
            return false;
        expected *= view->dims[i];
    }
    return true;
}

/* The next index in row-major order, and the element it lies at. */
static int64_t advance(const yki_pth_view *view, int64_t *index, int64_t element)
{
    for (int i = view->ndim - 1; i >= 0; i--) {
        element += view->strides[i];
        if (++index[i] < view->dims[i])
            break;
        element -= view->strides[i] * view->dims[i];
        index[i] = 0;
    }
    return element;
}

void yki_pth_copy(const yki_pth *pth, const yki_pth_view *view, yk_tensor *tensor)
{
    size_t size = view->dtype->size;
    const char *storage = pth->storages[view->member];
    bool same = view->dtype->same == tensor->dtype && size == yk_dtype_size(tensor->dtype);
    if (same && is_dense(view)) {
        memcpy(tensor->data, storage + (size_t)view->offset * size, yk_tensor_bytes(tensor));
        return;
    }
    int64_t index[YK_MAX_DIMS] = {0}, count = yk_tensor_count(tensor), element = view->offset;
    for (int64_t i = 0; i < count; i++) {
        const char *from = storage + (size_t)element * size;
        if (same)
            memcpy((char *)tensor->data + (size_t)i * size, from, size);
        else
            put(tensor, i, view->dtype->read(from));
        element = advance(view, index, element);
    }
}

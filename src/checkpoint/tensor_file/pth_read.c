/*
 * The reader of .pth files. It believes nothing: a tensor must be the one call that torch.save
 * writes, its storage must have exactly the bytes it claims, and its shape, strides and offset must
 * stay within it. A storage that several tensors share is read once.
 */
#include "checkpoint/tensor_file/pth.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "io/zip.h"

enum { MEMBER_NAME = 4096, STORAGE_KEY = 20 /* digits of a number */ };

struct yki_pth {
    char *path;
    yki_zip *zip;
    const char *folder; /* that all members lie in: the first folder_length bytes, with the slash */
    int folder_length;
    void *pickle_data;
    yki_pickle *pickle;
    void **storages; /* (members), NULL until fetched */
    size_t members;
};

/* ---- opening -------------------------------------------------------------------------------- */

/* The folder that has a data.pkl: torch.save names it after the file. */
static yk_status find_pickle(yki_pth *pth, size_t *index)
{
    for (size_t i = 0; i < pth->members; i++) {
        const char *name = yki_zip_name(pth->zip, i);
        const char *slash = name ? strchr(name, '/') : NULL;
        if (!slash || strcmp(slash, "/data.pkl") != 0 || slash - name >= MEMBER_NAME)
            continue;
        pth->folder = name;
        pth->folder_length = (int)(slash - name) + 1;
        *index = i;
        return YK_OK;
    }
    return yki_error(YK_ERROR_FORMAT,
                     "%s: expected a file of torch.save, found a zip archive without"
                     " FOLDER/data.pkl",
                     pth->path);
}

/* The archive's member of this name in the folder, or -1. */
static int64_t find_member(const yki_pth *pth, const char *name)
{
    char path[MEMBER_NAME];
    int length = snprintf(path, sizeof path, "%.*s%s", pth->folder_length, pth->folder, name);
    return length < MEMBER_NAME ? yki_zip_find(pth->zip, path) : -1;
}

/* torch.jit.save's archives have a pickle of code's objects too, and the code beside it. */
static yk_status check_no_program(const yki_pth *pth)
{
    if (find_member(pth, "constants.pkl") >= 0)
        return yki_error(YK_ERROR_UNSUPPORTED,
                         "%s: is a TorchScript program: save its state_dict()", pth->path);
    return YK_OK;
}

static yk_status check_byte_order(yki_pth *pth)
{
    int64_t index = find_member(pth, "byteorder");
    if (index < 0)
        return YK_OK; /* older files have none, and are little-endian */
    void *data;
    size_t size;
    YK_TRY(yki_zip_read(pth->zip, (size_t)index, &data, &size));
    bool little = size == 6 && memcmp(data, "little", 6) == 0;
    free(data);
    return little ? YK_OK
                  : yki_zip_refuse(pth->zip, YK_ERROR_UNSUPPORTED, (size_t)index,
                                   "expected \"little\": the file is of a big-endian machine; load "
                                   "and save it again with PyTorch on a little-endian one");
}

static yk_status read_pickle(yki_pth *pth)
{
    pth->members = yki_zip_count(pth->zip);
    pth->storages = yki_calloc(pth->members, sizeof *pth->storages);
    if (!pth->storages)
        return yki_error_memory(pth->members * sizeof *pth->storages, "a checkpoint's members");
    size_t index = 0, size;
    YK_TRY(find_pickle(pth, &index));
    YK_TRY(check_no_program(pth));
    YK_TRY(check_byte_order(pth));
    YK_TRY(yki_zip_read(pth->zip, index, &pth->pickle_data, &size));
    char name[YKI_ERROR_LINE / 2];
    snprintf(name, sizeof name, "%s: data.pkl", pth->path);
    return yki_pickle_parse(&pth->pickle, name, pth->pickle_data, size, NULL);
}

static yk_status open_pth(yki_pth *pth, const char *path)
{
    pth->path = yki_strdup(path);
    if (!pth->path)
        return yki_error_memory(strlen(path), "a file's name");
    YK_TRY(yki_zip_open(&pth->zip, path));
    return read_pickle(pth);
}

yk_status yki_pth_open(yki_pth **pth, const char *path)
{
    *pth = NULL;
    yki_pth *made = yki_calloc(1, sizeof *made);
    if (!made)
        return yki_error_memory(sizeof *made, "a checkpoint");
    yk_status status = open_pth(made, path);
    if (status != YK_OK) {
        yki_pth_close(made);
        return status;
    }
    *pth = made;
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

yk_status yki_pth_read_info(yki_pth *pth, char **text)
{
    int64_t index = find_member(pth, "extra/yoke.json");
    size_t size;
    void *data;
    *text = NULL;
    if (index < 0)
        return YK_OK;
    YK_TRY(yki_zip_read(pth->zip, (size_t)index, &data, &size));
    char *ended = yki_calloc(size + 1, 1);
    if (ended)
        memcpy(ended, data, size);
    free(data);
    *text = ended;
    return ended ? YK_OK : yki_error_memory(size, "a model's description");
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

/* A tuple of ndim numbers that are not negative. */
static bool read_counts(const yki_pickle_value *tuple, int ndim, int64_t *numbers)
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

/* The archive's member of a storage's key, or -1. */
static int64_t find_storage(const yki_pth *pth, const yki_pickle_value *key)
{
    char name[sizeof "data/" + STORAGE_KEY];
    if (!yki_pickle_is(key, YKI_PICKLE_STRING) || key->count > STORAGE_KEY)
        return -1;
    snprintf(name, sizeof name, "data/%.*s", (int)key->count, key->text);
    return find_member(pth, name);
}

/* For a pickled class, torch.FloatStorage; NULL for one that is not known. */
static const yki_file_tensor_dtype *find_storage_dtype(const yki_pickle_value *storage_class)
{
    const yki_file_tensor_dtype *dtype;
    for (size_t i = 0; (dtype = yki_file_tensor_dtype_at(i)); i++)
        if (dtype->storage && yki_pickle_is_global(storage_class, "torch", dtype->storage))
            return dtype;
    return NULL;
}

static yk_status unknown_dtype(const yki_pth *pth, const yki_pickle_value *storage_class)
{
    if (!yki_pickle_is(storage_class, YKI_PICKLE_GLOBAL))
        return yki_pickle_unexpected(pth->pickle, storage_class, "a torch storage class");
    const char *name = memchr(storage_class->text, '\n', storage_class->count);
    int length = (int)(storage_class->count - (size_t)(name + 1 - storage_class->text));
    return yki_error(
        YK_ERROR_UNSUPPORTED,
        "%s: data.pkl: offset %u: expected a storage of floats, integers or bools, found a %.*s",
        pth->path, storage_class->offset, length < 64 ? length : 64, name + 1);
}

/* The storage of a tensor's arguments: ('storage', torch.FloatStorage, '0', 'cpu', count), or,
 * where they name the dtype, ('storage', torch.storage.UntypedStorage, '0', 'cpu', bytes). */
static yk_status read_storage(const yki_pth *pth, const yki_pickle_value *arguments,
                              yki_file_tensor *stored, int64_t *count)
{
    const yki_pickle_value *value = yki_pickle_item(arguments, 0);
    const yki_file_tensor_dtype *named = yki_pth_named_dtype(arguments);
    const yki_pickle_value *id =
        yki_pickle_is(value, YKI_PICKLE_PERSISTENT) ? value->items[0] : NULL;
    const yki_pickle_value *numel = yki_pickle_item(id, 4);
    if (!yki_pickle_is(id, YKI_PICKLE_TUPLE) ||
        !yki_pickle_is_text(yki_pickle_item(id, 0), "storage") ||
        !yki_pickle_is(numel, YKI_PICKLE_INT) || numel->integer < 0)
        return yki_pickle_unexpected(pth->pickle, value, "the persistent id of a storage");
    const yki_pickle_value *class = yki_pickle_item(id, 1);
    if (named && !yki_pickle_is_global(class, "torch.storage", "UntypedStorage"))
        return yki_pickle_unexpected(pth->pickle, value, "the persistent id of an untyped storage");
    stored->dtype = named ? named : find_storage_dtype(class);
    if (!stored->dtype)
        return unknown_dtype(pth, class);
    int64_t member = find_storage(pth, yki_pickle_item(id, 2));
    if (member < 0)
        return yki_pickle_unexpected(pth->pickle, yki_pickle_item(id, 2),
                                     "the key of a storage in the archive");
    size_t bytes;
    YK_TRY(yki_zip_size(pth->zip, (size_t)member, &bytes));
    size_t unit = named ? 1 : stored->dtype->size;
    if (bytes % unit != 0 || (uint64_t)numel->integer != bytes / unit)
        return yki_error(
            YK_ERROR_FORMAT,
            "%s: data.pkl: offset %u: expected a storage of %lld elements of %zu bytes,"
            " member %.100s has %zu bytes",
            pth->path, numel->offset, (long long)numel->integer, unit,
            yki_zip_name(pth->zip, (size_t)member), bytes);
    *count = (int64_t)(bytes / stored->dtype->size);
    stored->storage = (size_t)member;
    return YK_OK;
}

/* (storage, offset, shape, strides, ...), the arguments of _rebuild_tensor_v2 or _v3 */
static yk_status read_tensor_shape(const yki_pth *pth, const yki_pickle_value *arguments,
                                   yki_file_tensor *stored)
{
    const yki_pickle_value *offset = yki_pickle_item(arguments, 1);
    const yki_pickle_value *shape = yki_pickle_item(arguments, 2);
    if (!yki_pickle_is(shape, YKI_PICKLE_TUPLE))
        return yki_pickle_unexpected(pth->pickle, shape, "the shape of a tensor");
    if (shape->count > YKI_FILE_TENSOR_DIMS)
        return yki_pickle_unexpected(pth->pickle, shape,
                                     "a tensor of at most %d dimensions, not %u",
                                     YKI_FILE_TENSOR_DIMS, shape->count);
    stored->ndim = (int)shape->count;
    if (!read_counts(shape, stored->ndim, stored->dims) ||
        !read_counts(yki_pickle_item(arguments, 3), stored->ndim, stored->strides) ||
        !yki_pickle_is(offset, YKI_PICKLE_INT) || offset->integer < 0)
        return yki_pickle_unexpected(pth->pickle, arguments,
                                     "a tensor's offset, shape and strides");
    stored->offset = offset->integer;
    for (int i = 0; i < stored->ndim; i++)
        if (stored->dims[i] <= 1)
            stored->strides[i] = 0; /* never walked: whatever the file says */
    return YK_OK;
}

/*
 * The last argument of _rebuild_tensor_v2 or _v3, where there is one: a dict of the bits that make
 * a tensor the negative or the conjugate of its storage. A real number is its own conjugate.
 */
static yk_status read_tensor_bits(const yki_pth *pth, const yki_pickle_value *metadata,
                                  yki_file_tensor *stored)
{
    for (size_t i = 0; i < yki_pickle_pairs(metadata); i++) {
        const yki_pickle_value *key = yki_pickle_key(metadata, i);
        const yki_pickle_value *bit = yki_pickle_pair_value(metadata, i);
        bool negative = yki_pickle_is_text(key, "neg");
        if (!yki_pickle_is(bit, YKI_PICKLE_BOOL) || (!negative && !yki_pickle_is_text(key, "conj")))
            return yki_pickle_unexpected(pth->pickle, metadata,
                                         "only the bits \"neg\" and \"conj\" in the metadata of "
                                         "a tensor");
        if (negative && bit->integer && !stored->dtype->is_float)
            return yki_pickle_unexpected(pth->pickle, metadata,
                                         "the negative bit on floats only, this is %s",
                                         stored->dtype->name);
        if (negative)
            stored->negated = bit->integer != 0;
    }
    if (yki_pickle_pairs(metadata) == 0 && metadata && !yki_pickle_is(metadata, YKI_PICKLE_NONE) &&
        !yki_pickle_is(metadata, YKI_PICKLE_DICT))
        return yki_pickle_unexpected(pth->pickle, metadata, "the metadata of a tensor");
    return YK_OK;
}

yk_status yki_pth_stored(const yki_pth *pth, const yki_pickle_value *value, yki_file_tensor *stored)
{
    *stored = (yki_file_tensor){0};
    const char *kind = yki_pth_unsupported_kind(value);
    if (kind)
        return yki_error(YK_ERROR_UNSUPPORTED,
                         "%s: data.pkl: offset %u: is a tensor of kind %s: yoke reads dense floats "
                         "of 16 to 64 bits, integers and bools",
                         pth->path, value->offset, kind);
    if (!yki_pth_is_tensor(value))
        return yki_pickle_unexpected(pth->pickle, value, "a tensor");
    const yki_pickle_value *arguments = yki_pth_tensor_arguments(value);
    int64_t elements = 0, count;
    size_t bytes;
    YK_TRY(read_storage(pth, arguments, stored, &elements));
    YK_TRY(read_tensor_shape(pth, arguments, stored));
    size_t metadata = yki_pth_named_dtype(arguments) ? 7 : 6;
    YK_TRY(read_tensor_bits(pth, yki_pickle_item(arguments, metadata), stored));
    if (!yki_file_tensor_size(stored, &count, &bytes) || !yki_file_tensor_within(stored, elements))
        return yki_pickle_unexpected(pth->pickle, value,
                                     "a tensor within the %lld elements of its storage",
                                     (long long)elements);
    return YK_OK;
}

yk_status yki_pth_fetch(yki_pth *pth, const yki_file_tensor *stored)
{
    size_t size;
    if (pth->storages[stored->storage])
        return YK_OK;
    return yki_zip_read(pth->zip, stored->storage, &pth->storages[stored->storage], &size);
}

const void *yki_pth_storage(const yki_pth *pth, const yki_file_tensor *stored)
{
    return pth->storages[stored->storage];
}

yk_status yki_pth_copy(const yki_pth *pth, const yki_file_tensor *stored, const yk_tensor *tensor)
{
    return yki_file_tensor_copy_to(stored, yki_pth_storage(pth, stored), tensor);
}

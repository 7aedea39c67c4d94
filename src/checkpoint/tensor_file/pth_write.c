/*
 * The writer of .pth files. The archive is written last, straight from the tensors' own memory
 * where the host can use it: a checkpoint costs no second copy of the model.
 */
#include "checkpoint/tensor_file/pth.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "device/memory.h"
#include "io/zip.h"
#include "nn/model_info_json.h"

/* The folder within the archive; torch.load takes any name. */
#define FOLDER "archive/"

/* A number that has to stay in memory until the archive is written. */
typedef struct scalar {
    struct scalar *next;
    float value;
} scalar;

/* The bytes of a storage, kept until the pickle, which comes first in the archive, is complete. */
typedef yk_tensor storage;

struct yki_pth_writer {
    yki_zip_writer *zip;
    yki_pickle_writer pickle;
    storage *storages;
    size_t count, capacity;
    yki_host_view *views; /* of storages, once the archive is being written */
    size_t opened;
    scalar *scalars;
    char *info; /* text of extra/yoke.json, or NULL */
};

yk_status yki_pth_writer_create(yki_pth_writer **writer, int fd, const char *path)
{
    *writer = NULL;
    yki_pth_writer *made = yki_calloc(1, sizeof *made);
    if (!made)
        return yki_error_memory(sizeof *made, "a checkpoint's writer");
    yki_pickle_init(&made->pickle);
    yk_status status = yki_zip_writer_create(&made->zip, fd, path);
    if (status != YK_OK) {
        yki_pth_writer_discard(made);
        return status;
    }
    *writer = made;
    return YK_OK;
}

yki_pickle_writer *yki_pth_pickle(yki_pth_writer *writer)
{
    return &writer->pickle;
}

static yk_status keep_storage(yki_pth_writer *writer, const void *data, size_t bytes,
                              yk_device *device)
{
    if (!yki_grow(&writer->storages, writer->count, &writer->capacity, sizeof(storage)))
        return yki_error_memory(2 * writer->capacity * sizeof(storage),
                                "a checkpoint's list of tensors");
    writer->storages[writer->count++] =
        (storage){.data = (void *)(uintptr_t)data, /* only read from */
                  .dtype = YK_U8,
                  .ndim = 1,
                  .dims = {(int64_t)bytes},
                  .device = device};
    return YK_OK;
}

/* ('storage', torch.FloatStorage, '0', 'cpu', count) as a persistent id, or, where torch has no
 * class for the dtype, ('storage', torch.storage.UntypedStorage, '0', 'cpu', bytes) */
static void pickle_storage(yki_pickle_writer *pickle, const yki_file_tensor_dtype *dtype,
                           int64_t count, size_t key)
{
    bool typed = dtype->storage != NULL;
    char text[24];
    snprintf(text, sizeof text, "%zu", key);
    yki_pickle_mark(pickle);
    yki_pickle_text(pickle, "storage");
    if (typed)
        yki_pickle_global(pickle, "torch", dtype->storage);
    else
        yki_pickle_global(pickle, "torch.storage", "UntypedStorage");
    yki_pickle_text(pickle, text);
    yki_pickle_text(pickle, "cpu");
    yki_pickle_int(pickle, typed ? count : count * (int64_t)dtype->size);
    yki_pickle_tuple(pickle);
    yki_pickle_persistent(pickle);
}

static void pickle_shape(yki_pickle_writer *pickle, int ndim, const int64_t *numbers)
{
    yki_pickle_mark(pickle);
    for (int i = 0; i < ndim; i++)
        yki_pickle_int(pickle, numbers[i]);
    yki_pickle_tuple(pickle);
}

yk_status yki_pth_tensor_stored(yki_pth_writer *writer, const yki_file_tensor *stored,
                                const void *data, yk_device *device)
{
    int64_t count, strides[YKI_FILE_TENSOR_DIMS];
    size_t bytes;
    if (!yki_file_tensor_size(stored, &count, &bytes))
        return yki_error(YK_ERROR_INVALID_SHAPE, "a tensor of more elements than 64 bits count");
    yki_file_tensor_dense_strides(stored->ndim, stored->dims, strides);
    yki_pickle_writer *pickle = &writer->pickle;
    bool typed = stored->dtype->storage != NULL;
    yki_pickle_global(pickle, "torch._utils", typed ? "_rebuild_tensor_v2" : "_rebuild_tensor_v3");
    yki_pickle_mark(pickle);
    pickle_storage(pickle, stored->dtype, count, writer->count);
    yki_pickle_int(pickle, 0); /* offset in the storage */
    pickle_shape(pickle, stored->ndim, stored->dims);
    pickle_shape(pickle, stored->ndim, strides);
    yki_pickle_bool(pickle, false);  /* requires_grad */
    yki_pickle_ordered_dict(pickle); /* backward hooks */
    if (!typed)
        yki_pickle_global(pickle, "torch", stored->dtype->name);
    yki_pickle_tuple(pickle);
    yki_pickle_reduce(pickle);
    return keep_storage(writer, data, bytes, device);
}

yk_status yki_pth_tensor(yki_pth_writer *writer, const yk_tensor *tensor)
{
    yki_file_tensor stored = yki_file_tensor_from(tensor);
    return yki_pth_tensor_stored(writer, &stored, tensor->data, tensor->device);
}

yk_status yki_pth_scalar(yki_pth_writer *writer, float value)
{
    scalar *kept = yki_calloc(1, sizeof *kept);
    if (!kept)
        return yki_error_memory(sizeof *kept, "a checkpoint's number");
    *kept = (scalar){writer->scalars, value};
    writer->scalars = kept;
    return yki_pth_tensor(writer, &(yk_tensor){.data = &kept->value, .dtype = YK_F32});
}

yk_status yki_pth_info(yki_pth_writer *writer, const yk_model_info *info)
{
    return info ? yki_model_info_to_json(&writer->info, info) : YK_OK;
}

yk_status yki_pth_writer_add_to(const yki_pth_writer *writer, yki_snapshot *snapshot)
{
    for (size_t i = 0; i < writer->count; i++)
        YK_TRY(yki_snapshot_add(snapshot, &writer->storages[i]));
    return YK_OK;
}

void yki_pth_writer_use(yki_pth_writer *writer, yki_snapshot *snapshot)
{
    for (size_t i = 0; i < writer->count; i++) {
        storage *kept = &writer->storages[i];
        kept->data = yki_snapshot_find(snapshot, kept);
        kept->device = NULL;
    }
}

/* The archive reads a storage when it is finished, not before. */
static yk_status add_storage(yki_pth_writer *writer, size_t index)
{
    char name[48];
    const storage *kept = &writer->storages[index];
    yki_host_view *view = &writer->views[index];
    snprintf(name, sizeof name, FOLDER "data/%zu", index);
    YK_TRY(yki_host_view_open(view, kept, YKI_READ));
    writer->opened++;
    return yki_zip_writer_add(writer->zip, name, view->data, yk_tensor_bytes(kept));
}

static yk_status add_storages(yki_pth_writer *writer)
{
    writer->views = yki_calloc(writer->count, sizeof *writer->views);
    if (!writer->views)
        return yki_error_memory(writer->count * sizeof *writer->views, "a checkpoint's tensors");
    for (size_t i = 0; i < writer->count; i++)
        YK_TRY(add_storage(writer, i));
    return YK_OK;
}

/* Members in torch.save's order; the description comes after them, as torch.jit's extra files. */
static yk_status add_members(yki_pth_writer *writer)
{
    static const char byteorder[] = "little", version[] = "3\n";
    YK_TRY(yki_pickle_finish(&writer->pickle));
    YK_TRY(yki_zip_writer_add(writer->zip, FOLDER "data.pkl", writer->pickle.data,
                              writer->pickle.size));
    YK_TRY(yki_zip_writer_add(writer->zip, FOLDER "byteorder", byteorder, sizeof byteorder - 1));
    YK_TRY(add_storages(writer));
    YK_TRY(yki_zip_writer_add(writer->zip, FOLDER "version", version, sizeof version - 1));
    if (!writer->info)
        return YK_OK;
    return yki_zip_writer_add(writer->zip, FOLDER "extra/yoke.json", writer->info,
                              strlen(writer->info));
}

yk_status yki_pth_writer_finish(yki_pth_writer *writer)
{
    yk_status status = add_members(writer);
    if (status == YK_OK) {
        status = yki_zip_writer_finish(writer->zip);
        writer->zip = NULL;
    }
    yki_pth_writer_discard(writer);
    return status;
}

void yki_pth_writer_discard(yki_pth_writer *writer)
{
    if (!writer)
        return;
    yki_zip_writer_discard(writer->zip);
    while (writer->opened > 0)
        yki_host_view_close(&writer->views[--writer->opened]);
    free(writer->views);
    yki_pickle_fini(&writer->pickle);
    while (writer->scalars) {
        scalar *next = writer->scalars->next;
        free(writer->scalars);
        writer->scalars = next;
    }
    free(writer->storages);
    free(writer->info);
    free(writer);
}

/* A data set of tensors in memory: sample i is row i of each of them. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "data/worker.h"
#include "tensor/element.h"

typedef struct tensor_dataset {
    const uint8_t **rows; /* (count) where the rows of each tensor begin: the program's memory */
    yk_field *fields;     /* (count) */
    int count;
} tensor_dataset;

static yk_status read_rows(void *data, void *worker, int64_t index, yk_field_buffer *buffers)
{
    const tensor_dataset *set = data;
    (void)worker;
    for (int i = 0; i < set->count; i++) {
        size_t bytes = yki_field_bytes(&set->fields[i]);
        const uint8_t *row = set->rows[i] + (size_t)index * bytes;
        if (set->fields[i].kind == YK_FIELD_IMAGE)
            yk_field_buffer_lend(&buffers[i], row, bytes);
        else
            memcpy(buffers[i].data, row, bytes);
    }
    return YK_OK;
}

static void close_rows(void *data)
{
    tensor_dataset *set = data;
    free(set->rows);
    free(set->fields);
    free(set);
}

static yk_status check_tensor(const char *name, const yk_tensor *tensor, int64_t rows)
{
    if (!name)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "yk_tensor_dataset_create: a tensor has no name");
    if (tensor->ndim < 1 || tensor->ndim > YK_MAX_DIMS)
        return yki_error(
            YK_ERROR_INVALID_ARGUMENT,
            "yk_tensor_dataset_create: \"%s\" has %d dimensions: expected 1 to %d, the "
            "first of which counts the samples",
            name, tensor->ndim, YK_MAX_DIMS);
    for (int d = 1; d < tensor->ndim; d++)
        if (tensor->dims[d] < 1)
            return yki_error(YK_ERROR_INVALID_ARGUMENT,
                             "yk_tensor_dataset_create: dimension %d of \"%s\" is %lld: expected 1 "
                             "or more",
                             d, name, (long long)tensor->dims[d]);
    if (tensor->dims[0] != rows)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "yk_tensor_dataset_create: \"%s\" has %lld samples, but the first tensor "
                         "has %lld",
                         name, (long long)tensor->dims[0], (long long)rows);
    if (tensor->device || tensor->parts || (!tensor->data && rows > 0))
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "yk_tensor_dataset_create: \"%s\" has no data in the host's memory", name);
    return YK_OK;
}

enum { IGNORED = -100 /* by yk_cross_entropy(), unless its options say otherwise */ };

/* Class labels are what the number of classes is of. */
static yk_status check_labels(const char *name, const yk_tensor *tensor, int64_t classes)
{
    if (classes < 1 || !yki_is_index(tensor->dtype) || tensor->ndim != 1 ||
        strcmp(name, "labels") != 0)
        return YK_OK;
    for (int64_t i = 0; i < tensor->dims[0]; i++) {
        const int64_t label = yki_index_at(tensor->dtype, tensor->data, i);
        if (label != IGNORED && (label < 0 || label >= classes))
            return yki_error(YK_ERROR_INVALID_ARGUMENT,
                             "yk_tensor_dataset_create: label %lld is %lld: expected 0 to %lld, as "
                             "classes is %lld",
                             (long long)i, (long long)label, (long long)classes - 1,
                             (long long)classes);
    }
    return YK_OK;
}

/* Pictures are bytes of (N, C, H, W). */
static yk_field field_of(const char *name, const yk_tensor *tensor)
{
    bool picture = tensor->dtype == YK_U8 && tensor->ndim == 4;
    yk_field field = {.name = name,
                      .kind = picture ? YK_FIELD_IMAGE : YK_FIELD_TENSOR,
                      .dtype = tensor->dtype,
                      .ndim = tensor->ndim - 1};
    memcpy(field.dims, tensor->dims + 1, (size_t)field.ndim * sizeof *field.dims);
    return field;
}

static yk_status create(yk_dataset **dataset, tensor_dataset *set, int64_t rows, int64_t classes)
{
    yk_dataset_ops ops = YK_DATASET_OPS_INIT;
    ops.name = "tensors";
    ops.count = rows;
    ops.field_count = set->count;
    ops.fields = set->fields;
    ops.classes = classes;
    ops.read = read_rows;
    ops.close = close_rows;
    return yk_dataset_create(dataset, &ops, set);
}

yk_status yk_tensor_dataset_create(yk_dataset **dataset, const char *const *names,
                                   const yk_tensor *tensors, int count, int64_t classes)
{
    YKI_NOT_NULL(dataset);
    *dataset = NULL;
    YKI_NOT_NULL(names);
    YKI_NOT_NULL(tensors);
    if (count < 1)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "yk_tensor_dataset_create: %d tensors: expected 1 or more", count);
    for (int i = 0; i < count; i++) {
        YK_TRY(check_tensor(names[i], &tensors[i], tensors[0].dims[0]));
        YK_TRY(check_labels(names[i], &tensors[i], classes));
    }
    tensor_dataset *set = yki_calloc(1, sizeof *set);
    if (!set)
        return yki_error_memory(sizeof *set, "a data set");
    set->rows = yki_calloc((size_t)count, sizeof *set->rows);
    set->fields = yki_calloc((size_t)count, sizeof *set->fields);
    set->count = count;
    yk_status status = YK_OK;
    if (!set->rows || !set->fields)
        status = yki_error_memory((size_t)count * sizeof *set->fields, "a data set");
    for (int i = 0; status == YK_OK && i < count; i++) {
        set->fields[i] = field_of(names[i], &tensors[i]);
        set->rows[i] = tensors[i].data;
    }
    if (status == YK_OK)
        status = create(dataset, set, tensors[0].dims[0], classes);
    if (status != YK_OK)
        close_rows(set);
    return status;
}

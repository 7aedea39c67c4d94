/* Data sets: checking and copying what describes them, and their ownership. */
#define _GNU_SOURCE
#include "data/dataset.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/folder.h"
#include "base/memory.h"
#include "base/options.h"

enum { MAX_FIELDS = 256 };
static const int64_t MAX_ELEMENTS = (int64_t)1 << 30; /* of a field, so that bytes fit a size_t */
static const int64_t MAX_CLASSES = (int64_t)1 << 24;

/* ---- checking ------------------------------------------------------------------------------- */

static bool is_image(const yk_field *field)
{
    return field->kind != YK_FIELD_TENSOR;
}

static yk_status check_dims(const yk_dataset_ops *ops, const yk_field *field)
{
    int64_t count = 1;
    for (int d = 0; d < field->ndim; d++) {
        bool any = is_image(field) && d > 0 && field->dims[d] == YK_ANY_SIZE;
        int64_t size = any ? 1 : field->dims[d];
        if (size < 1 || size > MAX_ELEMENTS / count)
            return yki_error(YK_ERROR_INVALID_ARGUMENT,
                             "data set %s: field \"%s\": dimension %d is %lld: expected 1 or more, "
                             "and at most %lld elements in all",
                             ops->name, field->name, d, (long long)field->dims[d],
                             (long long)MAX_ELEMENTS);
        count *= size;
    }
    return YK_OK;
}

static yk_status check_field(const yk_dataset_ops *ops, int index)
{
    const yk_field *field = &ops->fields[index];
    if (!field->name || !*field->name)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "data set %s: field %d has no name", ops->name,
                         index);
    for (int i = 0; i < index; i++)
        if (strcmp(ops->fields[i].name, field->name) == 0)
            return yki_error(YK_ERROR_INVALID_ARGUMENT, "data set %s: two fields are named \"%s\"",
                             ops->name, field->name);
    if (is_image(field) && (field->ndim != 3 || field->dtype != YK_U8))
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "data set %s: field \"%s\": a picture is uint8 with 3 dimensions "
                         "(C, H, W), not %s with %d",
                         ops->name, field->name, yk_dtype_name(field->dtype), field->ndim);
    if (field->ndim < 0 || field->ndim >= YK_MAX_DIMS || !yk_dtype_size(field->dtype))
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "data set %s: field \"%s\": expected 0 to %d dimensions of a known dtype",
                         ops->name, field->name, YK_MAX_DIMS - 1);
    return check_dims(ops, field);
}

static yk_status check_ops(const yk_dataset_ops *ops)
{
    if (!ops->name || !ops->read)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "yk_dataset_create: ops.%s is NULL",
                         ops->name ? "read" : "name");
    if (ops->count < 0)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "data set %s: %lld samples: expected 0 or more",
                         ops->name, (long long)ops->count);
    if (!ops->fields || ops->field_count < 1 || ops->field_count > MAX_FIELDS)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "data set %s: %d fields: expected 1 to %d",
                         ops->name, ops->fields ? ops->field_count : 0, MAX_FIELDS);
    if (ops->classes < 0 || ops->classes > MAX_CLASSES)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "data set %s: %lld classes: expected 0 to %lld",
                         ops->name, (long long)ops->classes, (long long)MAX_CLASSES);
    for (int64_t i = 0; ops->class_names && i < ops->classes; i++)
        if (!ops->class_names[i])
            return yki_error(YK_ERROR_INVALID_ARGUMENT, "data set %s: class %lld has no name",
                             ops->name, (long long)i);
    for (int i = 0; i < ops->field_count; i++)
        YK_TRY(check_field(ops, i));
    return YK_OK;
}

/* ---- copying -------------------------------------------------------------------------------- */

static bool copy_fields(yk_dataset *dataset, const yk_dataset_ops *from)
{
    size_t count = (size_t)from->field_count;
    yk_field *fields = yki_calloc(count, sizeof *fields);
    dataset->ops.fields = fields;
    dataset->names = yki_calloc(count, sizeof *dataset->names);
    for (size_t i = 0; fields && dataset->names && i < count; i++) {
        fields[i] = from->fields[i];
        fields[i].name = dataset->names[i] = yki_strdup(from->fields[i].name);
        dataset->ops.field_count = (int)i + 1;
        if (!fields[i].name)
            return false;
    }
    return fields && dataset->names;
}

static bool copy_class_names(yk_dataset *dataset, const yk_dataset_ops *from)
{
    if (from->class_names)
        dataset->ops.class_names = yki_strdup_all(from->class_names, (size_t)from->classes);
    return dataset->ops.class_names || !from->class_names;
}

static void free_copies(yk_dataset *dataset)
{
    const yk_dataset_ops *ops = &dataset->ops;
    yki_free_all(dataset->names, (size_t)ops->field_count);
    yki_free_const(ops->fields);
    yki_free_all(ops->class_names, (size_t)ops->classes);
    yki_free_const(ops->name);
    free(dataset);
}

/* ---- life ----------------------------------------------------------------------------------- */

yk_status yk_dataset_create(yk_dataset **dataset, const yk_dataset_ops *ops, void *data)
{
    YKI_NOT_NULL(dataset);
    *dataset = NULL;
    YKI_NOT_NULL(ops);
    yk_dataset_ops given;
    YK_TRY(YKI_READ_OPTIONS(&given, ops, yk_dataset_ops, YK_DATASET_OPS_INIT));
    YK_TRY(check_ops(&given));
    yk_dataset *self = yki_calloc(1, sizeof *self);
    if (!self)
        return yki_error_memory(sizeof *self, "a data set");
    yki_reference_init(&self->reference);
    self->data = data;
    self->ops = given;
    self->ops.fields = NULL;
    self->ops.field_count = 0;
    self->ops.class_names = NULL;
    self->ops.name = yki_strdup(given.name);
    if (!self->ops.name || !copy_fields(self, &given) || !copy_class_names(self, &given)) {
        free_copies(self);
        return yki_error_memory(sizeof *self, "a data set");
    }
    *dataset = self;
    return YK_OK;
}

void yki_dataset_retain(const yk_dataset *dataset)
{
    yki_reference_retain((yki_reference *)(uintptr_t)&dataset->reference);
}

void yk_dataset_destroy(yk_dataset *dataset)
{
    if (!dataset || !yki_reference_release(&dataset->reference))
        return;
    if (dataset->ops.close)
        dataset->ops.close(dataset->data);
    free_copies(dataset);
}

/* ---- questions ------------------------------------------------------------------------------ */

const char *yk_dataset_name(const yk_dataset *dataset)
{
    return dataset ? dataset->ops.name : NULL;
}

int64_t yk_dataset_size(const yk_dataset *dataset)
{
    return dataset ? dataset->ops.count : 0;
}

int yk_dataset_field_count(const yk_dataset *dataset)
{
    return dataset ? dataset->ops.field_count : 0;
}

const yk_field *yk_dataset_field(const yk_dataset *dataset, int index)
{
    bool exists = index >= 0 && index < yk_dataset_field_count(dataset);
    return exists ? &dataset->ops.fields[index] : NULL;
}

const yk_field *yk_dataset_find_field(const yk_dataset *dataset, const char *name)
{
    for (int i = 0; name && i < yk_dataset_field_count(dataset); i++)
        if (strcmp(dataset->ops.fields[i].name, name) == 0)
            return &dataset->ops.fields[i];
    return NULL;
}

int64_t yk_dataset_classes(const yk_dataset *dataset)
{
    return dataset ? dataset->ops.classes : 0;
}

const char *yk_dataset_class_name(const yk_dataset *dataset, int64_t label)
{
    bool exists = label >= 0 && label < yk_dataset_classes(dataset) && dataset->ops.class_names;
    return exists ? dataset->ops.class_names[label] : NULL;
}

bool yk_sample_is_damaged(yk_status status)
{
    return status == YK_ERROR_FORMAT || status == YK_ERROR_NOT_FOUND || status == YK_ERROR_DENIED ||
           status == YK_ERROR_UNSUPPORTED;
}

void yk_dataset_sample_name(const yk_dataset *dataset, int64_t index, char *name, size_t size)
{
    char line[YKI_ERROR_LINE];
    if (!name || size == 0)
        return;
    name[0] = '\0';
    yki_error_copy(line, sizeof line); /* a name that cannot be read is none, and no error */
    if (dataset && dataset->ops.sample_name && index >= 0 && index < dataset->ops.count)
        dataset->ops.sample_name(dataset->data, index, name, size);
    yki_error_set_line(YK_OK, line);
    name[size - 1] = '\0';
}

bool yk_dataset_reads_file(const yk_dataset *dataset, const char *path)
{
    char file[PATH_MAX];
    bool found = false;
    if (!dataset || !path || !dataset->ops.file_path)
        return false;
    int fd = open(path, O_PATH | O_CLOEXEC);
    for (int64_t i = 0; fd >= 0 && !found; i++) {
        if (!dataset->ops.file_path(dataset->data, i, file, sizeof file))
            break;
        found = yki_is_at(fd, file);
    }
    if (fd >= 0)
        close(fd);
    return found;
}

/*
 * What a loader is made of, before it starts: options are checked, the fields of the data set
 * become columns of a batch, and all memory is allocated. See state.h.
 */
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "data/loader/state.h"
#include "data/sampler.h"

enum { MAX_WORKERS = 256, MAX_SLOTS = 4096, MAX_CLASSES = 1 << 24 };
enum { MAX_VIRTUAL_RANKS = 65535 }; /* as many as yk_ddp takes */

yk_status yki_loader_check_options(const yk_loader_options *options)
{
    if (options->batch_size < 1 || options->batch_size > INT32_MAX)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "loader: batch size %lld: expected 1 to %d",
                         (long long)options->batch_size, INT32_MAX);
    int ranks = options->group ? yk_group_size(options->group) : 1;
    if (options->virtual_ranks < 0 || options->virtual_ranks > MAX_VIRTUAL_RANKS ||
        options->virtual_ranks % ranks)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "loader: %d virtual ranks cannot be shared equally by %d ranks (at most "
                         "%d)",
                         options->virtual_ranks, ranks, MAX_VIRTUAL_RANKS);
    if (options->workers < 1 || options->workers > MAX_WORKERS)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "loader: %d workers: expected 1 to %d",
                         options->workers, MAX_WORKERS);
    if (options->prefetch < 1 || options->prefetch > MAX_SLOTS / MAX_WORKERS)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "loader: prefetch %d: expected 1 to %d",
                         options->prefetch, MAX_SLOTS / MAX_WORKERS);
    if (options->dtype != YK_F32 && options->dtype != YK_F64)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "loader: pictures become float32 or float64, not %s",
                         yk_dtype_name(options->dtype));
    return YK_OK;
}

/* Finds the field that becomes probabilities, where the transforms want them. */
static yk_status plan_mixing(yk_loader *loader)
{
    loader->mixing = yki_mixing_of(loader->transforms);
    loader->mixed_labels = -1;
    for (int i = 0; loader->mixing.probabilities && i < loader->fields; i++) {
        const yk_field *field = yk_dataset_field(loader->dataset, i);
        if (strcmp(field->name, "labels") == 0 && field->dtype == YK_I32 && field->ndim == 0 &&
            yk_dataset_classes(loader->dataset) > 0)
            loader->mixed_labels = i;
    }
    if (loader->mixing.probabilities && loader->mixed_labels < 0)
        return yki_error(
            YK_ERROR_INVALID_ARGUMENT,
            "loader: MixUp, CutMix and OneHot need a data set with classes and a field "
            "\"labels\" of int32 numbers");
    return YK_OK;
}

/* The length of probabilities. */
static yk_status choose_classes(const yk_loader *loader, int64_t *classes)
{
    int64_t wanted = loader->options.classes, there = yk_dataset_classes(loader->dataset);
    *classes = wanted ? wanted : there;
    if (*classes >= there && *classes <= MAX_CLASSES)
        return YK_OK;
    return yki_error(YK_ERROR_INVALID_ARGUMENT,
                     "loader: %lld classes: expected 0 or %lld, the number of classes of %s, to %d",
                     (long long)wanted, (long long)there, yk_dataset_name(loader->dataset),
                     MAX_CLASSES);
}

/* What a field of pictures becomes. */
static yk_status plan_pictures(yk_loader *loader, int index, const yk_field *field)
{
    yki_loader_column *made = &loader->columns[index];
    made->is_picture = true;
    made->row.dtype = loader->options.dtype;
    YK_TRY(yki_pipeline_prepare(&made->pipeline, field, loader->transforms, loader->options.dtype));
    memcpy(made->row.dims, made->pipeline.dims, sizeof made->pipeline.dims);
    if (!yki_pipeline_defers(&made->pipeline))
        return YK_OK;
    return yki_crossing_plan(&made->crossing, loader->devices, loader->device_count,
                             &made->pipeline, loader->dataset, index, loader->options.cache_bytes);
}

static yk_status plan_column(yk_loader *loader, int index, int64_t classes)
{
    const yk_field *field = yk_dataset_field(loader->dataset, index);
    yki_loader_column *made = &loader->columns[index];
    made->row.dtype = field->dtype;
    made->row.ndim = field->ndim;
    if (field->kind != YK_FIELD_TENSOR)
        YK_TRY(plan_pictures(loader, index, field));
    else
        memcpy(made->row.dims, field->dims, (size_t)field->ndim * sizeof *field->dims);
    if (index == loader->mixed_labels)
        made->row = (yk_tensor){.dtype = YK_F32, .ndim = 1, .dims = {classes}};
    made->row_bytes = yk_tensor_bytes(&made->row);
    return YK_OK;
}

/* MixUp and CutMix are of pictures or, where there are none, of floating-point numbers. */
static yk_status plan_mixed(yk_loader *loader)
{
    bool has_pictures = false, has_mixed = false;
    for (int i = 0; i < loader->fields; i++)
        has_pictures |= loader->columns[i].is_picture;
    for (int i = 0; i < loader->fields; i++) {
        yki_loader_column *column = &loader->columns[i];
        bool is_float = column->row.dtype == YK_F32 || column->row.dtype == YK_F64;
        column->is_mixed =
            has_pictures ? column->is_picture : is_float && i != loader->mixed_labels;
        has_mixed |= column->is_mixed;
        if (column->is_mixed && loader->mixing.cutmix && column->row.ndim != 3)
            return yki_error(YK_ERROR_INVALID_ARGUMENT,
                             "loader: CutMix needs samples (C, H, W), and those of \"%s\" have %d "
                             "%s: use MixUp",
                             yk_dataset_field(loader->dataset, i)->name, column->row.ndim,
                             yki_plural(column->row.ndim, "dimension", "dimensions"));
    }
    if (!has_mixed && (loader->mixing.mixup || loader->mixing.cutmix))
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "loader: MixUp and CutMix need pictures or floating-point numbers");
    return YK_OK;
}

/* What each field becomes in a batch. */
static yk_status plan_columns(yk_loader *loader)
{
    loader->fields = yk_dataset_field_count(loader->dataset);
    loader->columns = yki_calloc((size_t)loader->fields, sizeof *loader->columns);
    if (!loader->columns)
        return yki_error_memory((size_t)loader->fields * sizeof *loader->columns, "a loader");
    int64_t classes;
    YK_TRY(plan_mixing(loader));
    YK_TRY(choose_classes(loader, &classes));
    for (int i = 0; i < loader->fields; i++)
        YK_TRY(plan_column(loader, i, classes));
    return plan_mixed(loader);
}

/* Bytes of the memory that workers write a field's rows to. */
static size_t column_bytes(const yki_loader_column *column, size_t rows)
{
    bool crosses = column->crossing.lane_count > 0;
    size_t bytes = crosses ? yki_crossing_bytes(&column->crossing) : rows * column->row_bytes;
    return yki_align(bytes, YKI_ALIGNMENT);
}

/* Points a slot to its part of the memory: the rows of each field, then the indices. */
static void describe(const yk_loader *loader, yki_loader_slot *one, char *memory, size_t rows)
{
    for (int i = 0; i < loader->fields; i++) {
        const yki_loader_column *from = &loader->columns[i];
        yk_tensor *tensor = &one->tensors[i];
        one->rows[i] = memory;
        tensor->data = memory;
        if (from->crossing.lane_count > 0)
            yki_crossing_place(&from->crossing, tensor);
        tensor->dtype = from->row.dtype;
        tensor->ndim = from->row.ndim + 1;
        memcpy(tensor->dims + 1, from->row.dims, (size_t)from->row.ndim * sizeof *tensor->dims);
        memory += column_bytes(from, rows);
    }
    one->indices = (int64_t *)(void *)memory;
    one->labels = (int32_t *)(void *)(memory + yki_align(rows * sizeof(int64_t), YKI_ALIGNMENT));
    one->batch = (yk_batch){.count = loader->fields,
                            .names = loader->dataset->names,
                            .tensors = one->tensors,
                            .indices = one->indices};
}

/* Bytes of a slot; 0 if they do not fit a size_t. */
static size_t slot_bytes(const yk_loader *loader, size_t rows)
{
    size_t total = yki_align(rows * sizeof(int64_t), YKI_ALIGNMENT), bytes;
    if (loader->mixed_labels >= 0)
        total += yki_align(rows * sizeof(int32_t), YKI_ALIGNMENT);
    for (int i = 0; i < loader->fields; i++) {
        if (__builtin_mul_overflow(rows, loader->columns[i].row_bytes, &bytes) ||
            __builtin_add_overflow(total, column_bytes(&loader->columns[i], rows), &total))
            return 0;
    }
    return __builtin_mul_overflow(total, (size_t)loader->slot_count, &bytes) ? 0 : total;
}

/* Of the largest batch, which never holds more than an epoch. */
static size_t rows_of_batch(const yk_loader *loader)
{
    int64_t epoch = loader->count > 0 ? loader->count : 1;
    return (size_t)(loader->options.batch_size < epoch ? loader->options.batch_size : epoch);
}

static yk_status create_crossings(yk_loader *loader)
{
    for (int i = 0; i < loader->fields; i++)
        if (loader->columns[i].crossing.lane_count > 0)
            YK_TRY(yki_crossing_create(&loader->columns[i].crossing, rows_of_batch(loader),
                                       loader->mixing.mixup || loader->mixing.cutmix));
    return YK_OK;
}

/* Pinned where devices copy from it. */
static yk_status allocate_memory(yk_loader *loader)
{
    if (loader->device_count > 0)
        return yki_device_alloc_pinned(loader->devices[0], loader->memory_bytes, &loader->memory);
    loader->memory = yki_map(loader->memory_bytes);
    return loader->memory ? YK_OK : yki_error_memory(loader->memory_bytes, "the loader's batches");
}

/* One block for the rows and indices of all slots, each part on a cache line. */
static yk_status allocate_slots(yk_loader *loader)
{
    size_t rows = rows_of_batch(loader);
    size_t bytes = slot_bytes(loader, rows), slots = (size_t)loader->slot_count;
    if (bytes == 0)
        return yki_error_memory(SIZE_MAX, "the loader's batches");
    loader->memory_bytes = bytes * slots;
    YK_TRY(allocate_memory(loader));
    loader->slots = yki_calloc(slots, sizeof *loader->slots);
    loader->tensors = yki_calloc(slots * (size_t)loader->fields, sizeof *loader->tensors);
    loader->rows = yki_calloc(slots * (size_t)loader->fields, sizeof *loader->rows);
    if (!loader->slots || !loader->tensors || !loader->rows)
        return yki_error_memory(loader->memory_bytes, "the loader's batches");
    for (size_t i = 0; i < slots; i++) {
        loader->slots[i].tensors = loader->tensors + i * (size_t)loader->fields;
        loader->slots[i].rows = loader->rows + i * (size_t)loader->fields;
        describe(loader, &loader->slots[i], (char *)loader->memory + i * bytes, rows);
    }
    return YK_OK;
}

/* Divides the indices and batches. Virtual ranks with one batch more come first, so that the turns
 * add up. */
static yk_status plan_virtual_ranks(yk_loader *loader)
{
    loader->starts = yki_calloc((size_t)loader->virtual_ranks + 1, sizeof *loader->starts);
    if (!loader->starts)
        return yki_error_memory((size_t)loader->virtual_ranks * sizeof *loader->starts, "a loader");
    yk_sampler_options sampler = loader->sampler;
    int64_t size = loader->options.batch_size;
    for (int v = 0; v < loader->virtual_ranks; v++, sampler.rank++) {
        int64_t count = yki_sampler_count(&sampler);
        if (__builtin_add_overflow(loader->starts[v], count, &loader->starts[v + 1]))
            return yki_error_memory(SIZE_MAX, "the loader's indices");
        const bool is_short = count % size != 0 && !loader->options.drop_last;
        loader->batches += count / size + is_short;
    }
    loader->count = loader->starts[loader->virtual_ranks];
    return YK_OK;
}

/* The caller's weights, in the form in which the sampler reads them. */
static yk_status copy_weights(yk_loader *loader)
{
    size_t count = loader->sampler.weights ? (size_t)loader->sampler.samples : 0;
    if (count == 0)
        return YK_OK;
    loader->weights = yki_calloc(count, sizeof *loader->weights);
    if (!loader->weights)
        return yki_error_memory(count * sizeof *loader->weights, "the loader's weights");
    memcpy(loader->weights, loader->sampler.weights, count * sizeof *loader->weights);
    yki_sampler_cumulate(loader->weights, (int64_t)count);
    loader->options.weights = loader->sampler.weights = loader->weights;
    return YK_OK;
}

static yk_status allocate(yk_loader *loader)
{
    size_t size = yki_sampler_draws(&loader->sampler) ? (size_t)loader->sampler.samples : 0;
    YK_TRY(plan_virtual_ranks(loader));
    YK_TRY(copy_weights(loader));
    loader->drawn = yki_calloc(size, sizeof *loader->drawn);
    loader->indices = yki_calloc((size_t)loader->count, sizeof *loader->indices);
    loader->workers = yki_calloc((size_t)loader->options.workers, sizeof *loader->workers);
    loader->reported =
        yki_calloc(loader->options.skip_damaged ? (size_t)loader->sampler.samples : 0,
                   sizeof *loader->reported);
    if (!loader->drawn || !loader->indices || !loader->workers || !loader->reported)
        return yki_error_memory((size_t)loader->count * sizeof *loader->indices,
                                "the loader's indices");
    YK_TRY(create_crossings(loader));
    return allocate_slots(loader);
}

yk_status yki_loader_plan(yk_loader *loader)
{
    YK_TRY(plan_columns(loader));
    return allocate(loader);
}

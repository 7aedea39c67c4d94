/* Some samples of a data set as a data set: the same fields and workers, other indices. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "data/dataset.h"
#include "data/sampler.h"

typedef struct subset {
    const yk_dataset *whole;
    int64_t *indices; /* in it */
} subset;

static yk_status read_subset(void *data, void *worker, int64_t index, yk_field_buffer *buffers)
{
    const subset *part = data;
    return part->whole->ops.read(part->whole->data, worker, part->indices[index], buffers);
}

static yk_status open_subset_worker(void *data, void **worker)
{
    const subset *part = data;
    return part->whole->ops.open_worker(part->whole->data, worker);
}

static void close_subset_worker(void *data, void *worker)
{
    const subset *part = data;
    part->whole->ops.close_worker(part->whole->data, worker);
}

static void name_subset_sample(void *data, int64_t index, char *name, size_t size)
{
    const subset *part = data;
    yk_dataset_sample_name(part->whole, part->indices[index], name, size);
}

static bool name_subset_file(void *data, int64_t index, char *path, size_t size)
{
    const subset *part = data;
    return part->whole->ops.file_path(part->whole->data, index, path, size);
}

static void close_subset(void *data)
{
    subset *part = data;
    yk_dataset_destroy((yk_dataset *)(uintptr_t)part->whole);
    free(part->indices);
    free(part);
}

static yk_status check_indices(const yk_dataset *dataset, const int64_t *indices, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (indices[i] < 0 || indices[i] >= dataset->ops.count)
            return yki_error(YK_ERROR_INVALID_ARGUMENT, "%s: there is no sample %lld of %lld",
                             dataset->ops.name, (long long)indices[i],
                             (long long)dataset->ops.count);
    return YK_OK;
}

/* ops: those of the whole, but for the number of samples. */
static yk_dataset_ops subset_ops(const yk_dataset *whole, int64_t count)
{
    yk_dataset_ops ops = whole->ops;
    ops.count = count;
    ops.read = read_subset;
    ops.open_worker = whole->ops.open_worker ? open_subset_worker : NULL;
    ops.close_worker = whole->ops.close_worker ? close_subset_worker : NULL;
    ops.sample_name = name_subset_sample;
    ops.close = close_subset;
    ops.file_path = whole->ops.file_path ? name_subset_file : NULL;
    return ops;
}

yk_status yk_subset_create(yk_dataset **part, const yk_dataset *dataset, const int64_t *indices,
                           int64_t count)
{
    YKI_NOT_NULL(part);
    *part = NULL;
    YKI_NOT_NULL(dataset);
    if (count < 0 || (count > 0 && !indices))
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "yk_subset_create: %lld indices at %p",
                         (long long)count, (const void *)indices);
    YK_TRY(check_indices(dataset, indices, count));
    size_t bytes = (size_t)count * sizeof *indices;
    subset *made = yki_calloc(1, sizeof *made);
    int64_t *copy = yki_calloc((size_t)count, sizeof *copy);
    if (!made || !copy) {
        free(made);
        free(copy);
        return yki_error_memory(bytes, "a subset");
    }
    if (count > 0)
        memcpy(copy, indices, bytes);
    yki_dataset_retain(dataset);
    *made = (subset){.whole = dataset, .indices = copy};
    yk_dataset_ops ops = subset_ops(dataset, count);
    yk_status status = yk_dataset_create(part, &ops, made);
    if (status != YK_OK)
        close_subset(made);
    return status;
}

/* ---- splitting at random -------------------------------------------------------------------- */

static int compare_indices(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* torch.randperm(size) with the seed, cut in two; each part in the order of the data set, so that
 * files are still read in their order. */
static yk_status split_indices(int64_t *indices, int64_t size, int64_t first_count, uint64_t seed)
{
    yk_sampler_options sampler = YK_SAMPLER_OPTIONS_INIT;
    sampler.samples = size;
    sampler.shuffle = true;
    sampler.seed = seed;
    YK_TRY(yk_sampler_indices(&sampler, 0, indices));
    qsort(indices, (size_t)first_count, sizeof *indices, compare_indices);
    qsort(indices + first_count, (size_t)(size - first_count), sizeof *indices, compare_indices);
    return YK_OK;
}

yk_status yk_dataset_random_split(yk_dataset **first, yk_dataset **second,
                                  const yk_dataset *dataset, int64_t first_count, uint64_t seed)
{
    YKI_NOT_NULL(first);
    *first = NULL;
    YKI_NOT_NULL(second);
    *second = NULL;
    YKI_NOT_NULL(dataset);
    int64_t size = dataset->ops.count;
    if (first_count < 0 || first_count > size)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "%s: cannot split %lld of %lld samples off",
                         dataset->ops.name, (long long)first_count, (long long)size);
    int64_t *indices = yki_calloc((size_t)size, sizeof *indices);
    if (!indices)
        return yki_error_memory((size_t)size * sizeof *indices, "a random split");
    yk_status status = split_indices(indices, size, first_count, seed);
    if (status == YK_OK)
        status = yk_subset_create(first, dataset, indices, first_count);
    if (status == YK_OK)
        status = yk_subset_create(second, dataset, indices + first_count, size - first_count);
    if (status != YK_OK) {
        yk_dataset_destroy(*first);
        *first = NULL;
    }
    free(indices);
    return status;
}

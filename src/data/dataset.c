/* What all data sets have in common: ownership, and looking at one image. */
#include "data/dataset.h"

#include <stdlib.h>

#include "base/memory.h"

yk_dataset *yki_dataset_new(const char *name, const char *const *class_names)
{
    yk_dataset *dataset = yki_calloc(1, sizeof *dataset);
    if (!dataset) {
        yki_error_memory(sizeof *dataset, "a data set");
        return NULL;
    }
    dataset->name = name;
    dataset->class_names = class_names;
    return dataset;
}

yk_status yki_dataset_reserve(yk_dataset *dataset, int64_t more)
{
    size_t count = (size_t)(dataset->count + more);
    const uint8_t **images = realloc(dataset->images, count * sizeof *images);
    if (images)
        dataset->images = images;
    uint8_t *labels = realloc(dataset->labels, count);
    if (labels)
        dataset->labels = labels;
    return images && labels ? YK_OK : yki_error_memory(count * sizeof *images, "image pointers");
}

/* The file that the image lies in, or NULL. */
static const yki_mapped_file *file_of(const yk_dataset *dataset, const uint8_t *pixels)
{
    for (int i = 0; i < dataset->file_count; i++) {
        const yki_mapped_file *file = &dataset->files[i];
        if (pixels >= file->data && pixels < file->data + file->size)
            return file;
    }
    return NULL;
}

yk_status yki_dataset_read(const yk_dataset *dataset, int64_t index, uint8_t *scratch,
                           const uint8_t **pixels, int *label)
{
    *pixels = yk_dataset_image(dataset, index, label);
    if (!*pixels)
        return yki_error(YK_INTERNAL, "%s: there is no image %lld", dataset->name,
                         (long long)index);
    const yki_mapped_file *file = file_of(dataset, *pixels);
    if (file) {
        YK_TRY(
            yki_mapped_file_read(file, (size_t)(*pixels - file->data), scratch, YKI_IMAGE_BYTES));
        *pixels = scratch;
    }
    return YK_OK;
}

void yk_dataset_destroy(yk_dataset *dataset)
{
    if (!dataset)
        return;
    for (int i = 0; i < dataset->file_count; i++)
        yki_mapped_file_close(&dataset->files[i]);
    yki_unmap(dataset->block, dataset->block_bytes);
    free(dataset->images);
    free(dataset->labels);
    free(dataset);
}

int64_t yk_dataset_size(const yk_dataset *dataset)
{
    return dataset->count;
}

int64_t yk_dataset_classes(const yk_dataset *dataset)
{
    (void)dataset;
    return YKI_CLASSES;
}

const char *yk_dataset_class_name(const yk_dataset *dataset, int64_t label)
{
    return label >= 0 && label < YKI_CLASSES ? dataset->class_names[label] : NULL;
}

const char *yk_dataset_name(const yk_dataset *dataset)
{
    return dataset->name;
}

const uint8_t *yk_dataset_image(const yk_dataset *dataset, int64_t index, int *label)
{
    if (index < 0 || index >= dataset->count)
        return NULL;
    if (label)
        *label = dataset->labels[index];
    return dataset->images[index];
}

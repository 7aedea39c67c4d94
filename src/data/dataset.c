/* What all data sets have in common: ownership, and access to a single image. */
#include "data/dataset.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

yk_dataset *yki_dataset_new(const char *name, const char *const *class_names)
{
    yk_dataset *dataset = yki_calloc(1, sizeof *dataset);
    if (!dataset) {
        yki_error_memory(sizeof *dataset, "a data set");
        return NULL;
    }
    yki_reference_init(&dataset->reference);
    dataset->name = name;
    dataset->class_names = class_names;
    return dataset;
}

yk_status yki_dataset_reserve(yk_dataset *dataset, int64_t more)
{
    size_t bytes = (size_t)(dataset->count + more) * sizeof *dataset->images;
    yki_image *images = realloc(dataset->images, bytes ? bytes : 1);
    if (!images)
        return yki_error_memory(bytes, "a list of images");
    dataset->images = images;
    return YK_OK;
}

void yki_dataset_add(yk_dataset *dataset, int file, size_t offset, int label)
{
    dataset->images[dataset->count++] =
        (yki_image){.offset = offset, .file = (int8_t)file, .label = (uint8_t)label};
}

yk_status yki_dataset_read(const yk_dataset *dataset, int64_t index, uint8_t *scratch,
                           const uint8_t **pixels, int *label)
{
    const yki_image *image = &dataset->images[index];
    *label = image->label;
    if (image->file < 0) {
        *pixels = dataset->block + image->offset;
        return YK_OK;
    }
    *pixels = scratch;
    return yki_input_file_read(&dataset->files[image->file], image->offset, scratch,
                               YKI_IMAGE_BYTES);
}

void yki_dataset_retain(const yk_dataset *dataset)
{
    yki_reference_retain((yki_reference *)(uintptr_t)&dataset->reference);
}

void yk_dataset_destroy(yk_dataset *dataset)
{
    if (!dataset || !yki_reference_release(&dataset->reference))
        return;
    for (int i = 0; i < dataset->file_count; i++)
        yki_input_file_close(&dataset->files[i]);
    yki_unmap(dataset->block, dataset->block_bytes);
    free(dataset->images);
    free(dataset);
}

int64_t yk_dataset_size(const yk_dataset *dataset)
{
    return dataset ? dataset->count : 0;
}

int64_t yk_dataset_classes(const yk_dataset *dataset)
{
    return dataset ? YKI_CLASSES : 0;
}

const char *yk_dataset_class_name(const yk_dataset *dataset, int64_t label)
{
    return label >= 0 && label < yk_dataset_classes(dataset) ? dataset->class_names[label] : NULL;
}

const char *yk_dataset_name(const yk_dataset *dataset)
{
    return dataset ? dataset->name : NULL;
}

yk_status yk_dataset_image(const yk_dataset *dataset, int64_t index, uint8_t *pixels, int *label)
{
    const uint8_t *found = NULL;
    int found_label = -1;
    YKI_NOT_NULL(dataset);
    YKI_NOT_NULL(pixels);
    if (index < 0 || index >= dataset->count)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "%s: there is no image %lld", dataset->name,
                         (long long)index);
    YK_TRY(yki_dataset_read(dataset, index, pixels, &found, &found_label));
    if (found != pixels)
        memcpy(pixels, found, YKI_IMAGE_BYTES);
    if (label)
        *label = found_label;
    return YK_OK;
}

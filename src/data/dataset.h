/*
 * A data set: where each image's 3,072 bytes lie, and its label. The bytes are in files (CIFAR-10:
 * the ranks share the page cache) or in one block that the data set owns (synthetic). All of it is
 * read-only once made, so that threads need no lock.
 */
#ifndef YKI_DATASET_H
#define YKI_DATASET_H

#include <yoke/data.h>

#include "base/reference.h"
#include "io/input_file.h"

enum { YKI_IMAGE_SIDE = 32, YKI_IMAGE_PLANE = 1024, YKI_IMAGE_BYTES = 3072, YKI_CLASSES = 10 };
enum { YKI_DATASET_FILES = 5 };

/* An image: in file number `file`, or in the block if that is negative. */
typedef struct yki_image {
    size_t offset;
    int8_t file;
    uint8_t label; /* below YKI_CLASSES */
} yki_image;

struct yk_dataset {
    yki_reference reference; /* its creator's, and one of each loader */
    const char *name;
    const char *const *class_names; /* YKI_CLASSES of them */
    int64_t count;
    yki_image *images; /* (count) */
    yki_input_file files[YKI_DATASET_FILES];
    int file_count;
    uint8_t *block; /* from yki_map */
    size_t block_bytes;
};

/* Makes a data set without images; see reserve and add. NULL when out of memory. */
yk_dataset *yki_dataset_new(const char *name, const char *const *class_names);
/* Takes another reference, which yk_dataset_destroy releases. */
void yki_dataset_retain(const yk_dataset *dataset);
/* Makes room for `more` further images; the count does not change. */
yk_status yki_dataset_reserve(yk_dataset *dataset, int64_t more);
/* Adds one image, for which there must be room. */
void yki_dataset_add(yk_dataset *dataset, int file, size_t offset, int label);
/*
 * Reads an image, whose index must be valid. *pixels points into the data set if the image is in
 * memory, otherwise to scratch (YKI_IMAGE_BYTES).
 */
yk_status yki_dataset_read(const yk_dataset *dataset, int64_t index, uint8_t *scratch,
                           const uint8_t **pixels, int *label);

#endif

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

/* An image: in file number `file`, or where that is negative in the block. */
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

/* A data set without images yet; give it some with reserve. NULL when memory is out. */
yk_dataset *yki_dataset_new(const char *name, const char *const *class_names);
/* Another reference, which yk_dataset_destroy gives back. */
void yki_dataset_retain(const yk_dataset *dataset);
/* Room for `more` further images; count stays. */
yk_status yki_dataset_reserve(yk_dataset *dataset, int64_t more);
/* Enters one image, for which there must be room. */
void yki_dataset_add(yk_dataset *dataset, int file, size_t offset, int label);
/*
 * One image that there is, without a copy where it lies in memory: *pixels points into the data
 * set or to scratch (YKI_IMAGE_BYTES).
 */
yk_status yki_dataset_read(const yk_dataset *dataset, int64_t index, uint8_t *scratch,
                           const uint8_t **pixels, int *label);

#endif

/*
 * A data set: a pointer to each image's 3,072 bytes and its label. The bytes lie in mapped files
 * (CIFAR-10: the ranks share the page cache) or in one block that the data set owns (synthetic).
 * All of it is read-only once made, so that threads need no lock.
 */
#ifndef YKI_DATASET_H
#define YKI_DATASET_H

#include <yoke/data.h>

#include "data/mapped_file.h"

enum { YKI_IMAGE_SIDE = 32, YKI_IMAGE_PLANE = 1024, YKI_IMAGE_BYTES = 3072, YKI_CLASSES = 10 };
enum { YKI_DATASET_FILES = 5 };

struct yk_dataset {
    const char *name;
    const char *const *class_names; /* YKI_CLASSES of them */
    int64_t count;
    const uint8_t **images; /* (count) */
    uint8_t *labels;        /* (count), each below YKI_CLASSES */
    yki_mapped_file files[YKI_DATASET_FILES];
    int file_count;
    void *block; /* from yki_map */
    size_t block_bytes;
};

/* A data set without images yet; give it some with reserve. NULL when memory is out. */
yk_dataset *yki_dataset_new(const char *name, const char *const *class_names);
/* Room for `more` further images; count stays. */
yk_status yki_dataset_reserve(yk_dataset *dataset, int64_t more);
/*
 * One image for a worker: *pixels points to its bytes, in memory of the data set or in scratch
 * (YKI_IMAGE_BYTES). Bytes of a file are read, not looked at through the mapping: should the file
 * have been cut short, that is YK_IO with its name here, but would be SIGBUS there.
 */
yk_status yki_dataset_read(const yk_dataset *dataset, int64_t index, uint8_t *scratch,
                           const uint8_t **pixels, int *label);

#endif

/*
 * A data set in memory: a pointer to each image's 3,072 bytes and its label. The bytes lie in
 * mapped files (CIFAR-10: nothing is copied, ranks share the page cache) or in one block that the
 * data set owns (synthetic). All of it is read-only once made, so that threads need no lock.
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
 * YK_IO when a mapped file is shorter than it was: reading the lost part would end the process with
 * SIGBUS. Called before each batch; costs one fstat a file.
 */
yk_status yki_dataset_check(const yk_dataset *dataset);

#endif

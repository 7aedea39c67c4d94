/*
 * Data sets whose samples all have one size and lie at equal distances in a file or in memory, with
 * labels in memory: what IDX and NumPy files hold.
 */
#ifndef YKI_ARRAYS_H
#define YKI_ARRAYS_H

#include <yoke/data.h>

#include "io/input_file.h"

/* All zeros is an empty one. */
typedef struct yki_arrays {
    const char *name;
    yki_input_file file; /* of the samples, or */
    uint8_t *memory;     /* all of them, owned */
    size_t offset;       /* of the first sample in the file or in memory */
    bool channels_last;  /* a sample is (H, W, C) although its field is (C, H, W) */
    yk_field field;      /* "images" */
    int64_t count;
    int32_t *labels; /* (count), owned; NULL for data without labels */
    int64_t classes;
    const char *const *class_names; /* (classes) that last, or NULL */
} yki_arrays;

/* Makes the data set. Takes over what arrays holds, on failure, too. */
yk_status yki_arrays_create(yk_dataset **dataset, yki_arrays *arrays);
void yki_arrays_free(yki_arrays *arrays);

#endif

/*
 * A data set: the functions that it was made with, and copies of its texts and fields. All of it is
 * read-only once made, so that threads need no lock.
 */
#ifndef YKI_DATASET_H
#define YKI_DATASET_H

#include <yoke/data.h>

#include "base/reference.h"

struct yk_dataset {
    yki_reference reference; /* its creator's, and one of each loader and reader */
    yk_dataset_ops ops;      /* texts and fields are the data set's own */
    void *data;              /* of ops */
    const char **names;      /* (field_count) of the fields */
};

/* Takes another reference, which yk_dataset_destroy releases. */
void yki_dataset_retain(const yk_dataset *dataset);

#endif

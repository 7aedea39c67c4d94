/* The input as a file of a data set, of which all samples are read. */
#ifndef READER_H
#define READER_H

#include <yoke/readers.h>

#include "fuzz.h"

typedef yk_status (*fuzz_open)(yk_dataset **dataset, const char *path, yk_split split);

static inline void fuzz_reader(fuzz_open open, const char *path, size_t size)
{
    yk_dataset *dataset;
    yk_reader *reader;
    const yk_tensor *fields;
    char name[64];
    fuzz_begin(size);
    yk_status status = open(&dataset, path, YK_SPLIT_TRAIN);
    fuzz_check(status);
    if (status == YK_OK && yk_reader_create(&reader, dataset) == YK_OK) {
        for (int64_t i = 0; i < yk_dataset_size(dataset) && i < 100; i++) {
            fuzz_check(yk_reader_read(reader, i, &fields));
            yk_dataset_sample_name(dataset, i, name, sizeof name);
        }
        yk_reader_destroy(reader);
    }
    yk_dataset_destroy(dataset);
    fuzz_end();
}

#endif

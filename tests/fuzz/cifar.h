/* The input as test_batch of CIFAR-10, opened and looked at. */
#ifndef CIFAR_H
#define CIFAR_H

#include <yoke/data.h>

#include "fuzz.h"

static inline void fuzz_cifar(const char *file_name, const uint8_t *data, size_t size)
{
    yk_dataset *dataset;
    const char *folder = fuzz_folder(file_name);
    fuzz_file(data, size);
    fuzz_begin(size);
    yk_status status = yk_cifar10_open(&dataset, folder, YK_SPLIT_TEST);
    fuzz_check(status);
    if (status == YK_OK) {
        yk_reader *reader;
        const yk_tensor *fields;
        if (yk_reader_create(&reader, dataset) != YK_OK)
            __builtin_trap();
        for (int64_t i = 0; i < yk_dataset_size(dataset); i++) {
            if (yk_reader_read(reader, i, &fields) != YK_OK)
                __builtin_trap();
            int32_t label = *(const int32_t *)fields[1].data;
            if (label < 0 || label > 9)
                __builtin_trap();
        }
        yk_reader_destroy(reader);
        yk_dataset_destroy(dataset);
    }
    fuzz_end();
}

#endif

/* Data that is damaged, and data that is refused. */
#ifndef DAMAGE_H
#define DAMAGE_H

#include "harness.h"

#include <string.h>

/* yk_mnist_open and the like. */
typedef yk_status (*open_fn)(yk_dataset **dataset, const char *path, yk_split split);

static inline void read_all(const yk_dataset *dataset)
{
    yk_reader *reader;
    const yk_tensor *fields;
    if (yk_reader_create(&reader, dataset) != YK_OK)
        return;
    for (int64_t i = 0; i < yk_dataset_size(dataset) && i < 50; i++)
        if (yk_reader_read(reader, i, &fields) != YK_OK)
            assert_non_null(strstr(yk_last_error(), "sample "));
    yk_reader_destroy(reader);
}

/* Opens the data 200 times with a file of it cut short, or with a few bytes changed near its start:
 * it is read, or refused with one line. */
static inline void damage(open_fn open, const char *path, const char *name, yk_split split)
{
    static uint8_t whole[1 << 16], damaged[1 << 16];
    FILE *file = fopen(yk_test_path(name), "rb");
    assert_non_null(file);
    size_t size = fread(whole, 1, sizeof whole, file);
    uint32_t random = 1;
    fclose(file);
    for (int i = 0; i < 200; i++) {
        yk_dataset *dataset;
        char folder[512];
        memcpy(damaged, whole, size);
        for (int k = 0; k < i % 4; k++) {
            random = random * 1664525 + 1013904223;
            damaged[(random >> 8) % (i % 8 < 4 && size > 128 ? 128 : size)] ^=
                (uint8_t)(1 + (random >> 25));
        }
        yk_test_write_file(yk_test_path(name), damaged, i % 4 ? size : size * (size_t)i / 200);
        snprintf(folder, sizeof folder, "%s", yk_test_path(path));
        yk_status status = open(&dataset, folder, split);
        if (status == YK_OK)
            read_all(dataset);
        else
            assert_true(strlen(yk_last_error()) > 10 && !strchr(yk_last_error(), '\n'));
        assert_true(status != YK_ERROR_INTERNAL);
        yk_dataset_destroy(dataset);
    }
    yk_test_write_file(yk_test_path(name), whole, size);
}

static inline void assert_refused(open_fn open, const char *path, yk_split split, const char *why)
{
    yk_dataset *dataset;
    yk_status status = open(&dataset, yk_test_path(path), split);
    assert_true(status != YK_OK);
    assert_null(dataset);
    assert_contains(yk_last_error(), why);
}

#endif

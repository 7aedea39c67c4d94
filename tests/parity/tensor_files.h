/* Files of tensors that a script reads, in the test's folder. */
#ifndef YK_TENSOR_FILES_H
#define YK_TENSOR_FILES_H

#include <stdio.h>

#include "harness.h"

/* The path of a file in the test's folder; valid until the fourth call after this one. */
static inline const char *file_of(const char *name)
{
    static char paths[4][256];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof *paths, "%s/%s", yk_test_directory(), name);
    return path;
}

/* Writes the bytes of a tensor in host memory. */
static inline void write_floats(const char *name, const yk_tensor *tensor)
{
    FILE *file = fopen(file_of(name), "wbe");
    assert_non_null(file);
    assert_int_equal(fwrite(tensor->data, yk_tensor_bytes(tensor), 1, file), 1);
    fclose(file);
}

#endif

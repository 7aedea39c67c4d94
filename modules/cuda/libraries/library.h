/*
 * NVIDIA's libraries, opened when something first needs them: the module must load without them,
 * and they take hundreds of megabytes. What is used of each is declared next to its table of
 * functions (cudnn_calls.h, cublas_calls.h), so that building needs none of their headers.
 * They are never closed. common/nvidia.h says where they are searched for.
 */
#ifndef YKI_CUDA_LIBRARY_H
#define YKI_CUDA_LIBRARY_H

#include <stddef.h>

#include "base/error.h"

typedef struct yki_cuda_library {
    const char *what;           /* for errors: "cuDNN" */
    const char *files[4];       /* newest first; ends with NULL */
    const char *package;        /* what to install */
    const char *const *symbols; /* of the functions in the table, in its order; ends with NULL */
} yki_cuda_library;

/* Fills a table, a struct of nothing but pointers to functions. The error names what to install. */
yk_status yki_cuda_library_open(const yki_cuda_library *library, void *table);

#endif

/*
 * Products of row-major matrices by cuBLASLt, where a or b may be transposed. The
 * algorithm is chosen once; which one depends on shapes and on the GPU alone, so that bits repeat.
 */
#ifndef YKI_CUBLAS_H
#define YKI_CUBLAS_H

#include <stdbool.h>

#include <yoke/tensor.h>

#include "libraries/cublas_calls.h"
#include "libraries/library.h"

typedef struct yki_cublas {
    yki_cublas_calls calls;
    void *handle; /* of the GPU in whose context it was opened */
    bool tf32;    /* for f32, if YOKE_CUDA_TF32 is 1 */
} yki_cublas;

yk_status yki_cublas_open(yki_cublas **cublas);
void yki_cublas_close(yki_cublas *cublas); /* accepts NULL */

/* (rows, inner) x (inner, columns) -> (rows, columns) */
typedef struct yki_cublas_shape {
    yk_dtype dtype, result; /* of a and b, and of c */
    int64_t rows, inner, columns;
    int64_t batch; /* so many products, whose matrices lie one after another; 0 is 1 */
    bool transpose_a, transpose_b; /* in memory, it is (inner, rows) or (columns, inner) */
    bool bias;                     /* of c's dtype, one for each column */
} yki_cublas_shape;

typedef struct yki_cublas_product {
    const yki_cublas *cublas;
    void *desc, *a, *b, *c;
    cublas_algorithm algorithm;
    size_t workspace;
    int64_t batch;
    size_t a_bytes, b_bytes, c_bytes; /* of a matrix */
    bool wide;                        /* sums in f64 */
} yki_cublas_product;

/* False without an error if there is no algorithm for the shape with its bias. */
yk_status yki_cublas_prepare(yki_cublas_product *product, const yki_cublas *cublas,
                             const yki_cublas_shape *shape, bool *found);
void yki_cublas_product_fini(yki_cublas_product *product);
/* The error where there is no algorithm without a bias either. */
yk_status yki_cublas_no_algorithm(const yki_cublas_shape *shape);

/* c = scale a b + added_scale added + bias; added, which is as large as c, and bias may be NULL. */
typedef struct yki_cublas_terms {
    const void *a, *b, *bias, *added;
    void *c;
    double scale, added_scale;
} yki_cublas_terms;

/* Enters the product in a stream of the driver. */
yk_status yki_cublas_run(const yki_cublas_product *product, const yki_cublas_terms *terms,
                         void *workspace, void *stream);

#endif

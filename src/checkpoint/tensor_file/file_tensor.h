/*
 * A tensor as a file holds it, whichever the format: elements of a dtype that yoke may not compute
 * with, and a shape and strides over a storage that other tensors may share. Here it is made dense
 * and its elements are converted.
 */
#ifndef YKI_FILE_TENSOR_H
#define YKI_FILE_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <yoke/tensor.h>

#include "base/error.h"

enum { YKI_FILE_TENSOR_DIMS = 8 };

/* What elements may be, by the names that PyTorch and the formats have for it. */
typedef struct yki_file_tensor_dtype {
    const char *name;        /* PyTorch's word, "float32" */
    const char *storage;     /* PyTorch's class in the module torch, NULL where it has none */
    const char *safetensors; /* "F32" */
    size_t size;             /* bytes of an element */
    bool is_float;
    yk_dtype same; /* our dtype with the same elements, YK_DTYPE_COUNT for none */
    double (*read)(const void *element);
} yki_file_tensor_dtype;

/* Checked by its reader to lie within its storage. */
typedef struct yki_file_tensor {
    const yki_file_tensor_dtype *dtype;
    int ndim;
    int64_t dims[YKI_FILE_TENSOR_DIMS],
        strides[YKI_FILE_TENSOR_DIMS]; /* in elements; not negative */
    int64_t offset;                    /* of the first, in elements */
    size_t storage;                    /* its reader's number for it */
    bool negated;                      /* floats only: the elements are the storage's, negated */
} yki_file_tensor;

/* Writers refuse a name that is not UTF-8: no reader of their files would open them. */
yk_status yki_tensor_name_check(const char *name);

/* All of them, by index; NULL past the last one. */
const yki_file_tensor_dtype *yki_file_tensor_dtype_at(size_t index);
/* The one that our dtype is the same as. */
const yki_file_tensor_dtype *yki_file_tensor_dtype_of(yk_dtype dtype);

/* A tensor of our own as a stored one: dense, at the beginning of its storage. */
yki_file_tensor yki_file_tensor_from(const yk_tensor *tensor);

/* The strides of elements that lie one after the other, row-major, as PyTorch counts them. */
void yki_file_tensor_dense_strides(int ndim, const int64_t *dims, int64_t *strides);
/* Elements, and the bytes they take when dense: false when no 64 bits hold them, or the strides. */
bool yki_file_tensor_size(const yki_file_tensor *stored, int64_t *count, size_t *bytes);
/* Whether the last element lies within a storage of count elements; an empty tensor always does. */
bool yki_file_tensor_within(const yki_file_tensor *stored, int64_t count);
/* Whether the elements lie one after the other, row-major. */
bool yki_file_tensor_is_dense(const yki_file_tensor *stored);

/*
 * Whether every element has a counterpart in our dtype: all have in a floating one (it may be an
 * infinity), and numbers within its range in an integer one. *culprit is the first that has not.
 */
bool yki_file_tensor_fits(const yki_file_tensor *stored, const void *storage, yk_dtype dtype,
                          double *culprit);
/* Writes all elements to data, dense, converted to dtype: to nearest, or towards zero. */
void yki_file_tensor_copy(const yki_file_tensor *stored, const void *storage, yk_dtype dtype,
                          void *data);
/* The same into a tensor of this shape, wherever it is. Cannot fail if that is in host memory. */
yk_status yki_file_tensor_copy_to(const yki_file_tensor *stored, const void *storage,
                                  const yk_tensor *tensor);
/* The elements in the stored dtype: nothing is rounded. */
void yki_file_tensor_copy_raw(const yki_file_tensor *stored, const void *storage, void *data);
/* The square root of the sum of squares. */
double yki_file_tensor_norm(const yki_file_tensor *stored, const void *storage);

#endif

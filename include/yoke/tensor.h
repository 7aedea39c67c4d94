/**
 * @file
 * Tensors at the boundary of the library: a dtype, a shape and a pointer, always row-major and
 * contiguous. The layouts that kernels use inside never show here.
 */
#ifndef YOKE_TENSOR_H
#define YOKE_TENSOR_H

#include <stddef.h>
#include <stdint.h>

#include <yoke/status.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/** Dimensions that a tensor can have. */
#define YK_MAX_DIMS 6

/** The list of dtypes: X(name, bytes, PyTorch's name). */
#define YK_DTYPE_LIST(X)                                                                           \
    X(F32, 4, "float32")                                                                           \
    X(F64, 8, "float64")                                                                           \
    X(BF16, 2, "bfloat16")                                                                         \
    X(F16, 2, "float16")                                                                           \
    X(I32, 4, "int32")                                                                             \
    X(I64, 8, "int64")                                                                             \
    X(U8, 1, "uint8")

/** The type of a tensor's elements: YK_F32, YK_F64, ... */
typedef enum yk_dtype {
/** @cond */
#define YK_DTYPE_ENUM(name, bytes, words) YK_##name,
    /** @endcond */
    YK_DTYPE_LIST(YK_DTYPE_ENUM)
#undef YK_DTYPE_ENUM
        YK_DTYPE_COUNT
} yk_dtype;

/** What a tensor's memory belongs to, if that is not the host: see yk_tensor_read(). */
typedef struct yk_device yk_device;
/** The rows of a tensor, if several devices have a part of them: see yk_tensor_read(). */
typedef struct yk_tensor_parts yk_tensor_parts;

/** A view, which never owns its data. A scalar has ndim 0. */
typedef struct yk_tensor {
    void *data;                /**< the elements, row-major */
    yk_dtype dtype;            /**< their type */
    int ndim;                  /**< dimensions, 0 to YK_MAX_DIMS */
    int64_t dims[YK_MAX_DIMS]; /**< (ndim) their sizes */
    yk_device *device; /**< NULL: a program may use data; otherwise only yk_tensor_read() and
                            yk_tensor_write() may */
    const yk_tensor_parts *parts; /**< NULL, or the rows are in the memory of several devices, of
                                       which `device` is the first; data is NULL then */
} yk_tensor;

/** Bytes of one element; 0 for a dtype that there is not. */
size_t yk_dtype_size(yk_dtype dtype);
/** PyTorch's name of a dtype, e.g. "float32". */
const char *yk_dtype_name(yk_dtype dtype);

/** Number of elements: the product of dims, 1 for a scalar, 0 for NULL. */
int64_t yk_tensor_count(const yk_tensor *tensor);
/** Bytes of all elements; 0 for NULL. */
size_t yk_tensor_bytes(const yk_tensor *tensor);
/** The element at a row-major index as a double, exact for every dtype but int64; 0 if none. */
double yk_tensor_get(const yk_tensor *tensor, int64_t index);
/** Sets an element to the nearest number of the dtype, even of two; integers end where their range
 *  does, and NaN makes them 0. Ignores NULL, and elements that are not in the host's memory. */
void yk_tensor_set(const yk_tensor *tensor, int64_t index, double number);

/**
 * Copies all elements to host memory, which has room for yk_tensor_bytes() of them, from wherever
 * they are. Blocks until the device has finished the work that was given to it before.
 * YK_ERROR_INVALID_ARGUMENT if the tensor has no data, as the gradient of a buffer has none.
 */
yk_status yk_tensor_read(const yk_tensor *tensor, void *host);
/** Copies all elements from host memory into the tensor. Blocks as yk_tensor_read() does. */
yk_status yk_tensor_write(const yk_tensor *tensor, const void *host);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif

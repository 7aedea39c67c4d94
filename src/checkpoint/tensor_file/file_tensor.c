/* See file_tensor.h. Elements are read with memcpy: a file may put them at any address. */
#include "checkpoint/tensor_file/file_tensor.h"

#include <math.h>
#include <string.h>

#include "base/utf8.h"
#include "device/memory.h"
#include "tensor/bf16.h"
#include "tensor/f16.h"

yk_status yki_tensor_name_check(const char *name)
{
    char shown[128];
    size_t length = strlen(name);
    if (yki_utf8_is_valid(name, length))
        return YK_OK;
    return yki_error(YK_ERROR_INVALID_ARGUMENT, "the tensor name \"%s\" is not valid UTF-8",
                     yki_utf8_escape(shown, sizeof shown, name, length));
}

/* ---- dtypes --------------------------------------------------------------------------------- */

#define DEFINE_READ(name, type, convert)                                                           \
    static double name(const void *element)                                                        \
    {                                                                                              \
        type value;                                                                                \
        memcpy(&value, element, sizeof value);                                                     \
        return (double)convert(value);                                                             \
    }

DEFINE_READ(read_f64, double, )
DEFINE_READ(read_f32, float, )
DEFINE_READ(read_f16, uint16_t, yki_f16_to_float)
DEFINE_READ(read_bf16, uint16_t, yki_bf16_to_float)
DEFINE_READ(read_i64, int64_t, )
DEFINE_READ(read_i32, int32_t, )
DEFINE_READ(read_i16, int16_t, )
DEFINE_READ(read_i8, int8_t, )
DEFINE_READ(read_u64, uint64_t, )
DEFINE_READ(read_u32, uint32_t, )
DEFINE_READ(read_u16, uint16_t, )
DEFINE_READ(read_u8, uint8_t, )

static const yki_file_tensor_dtype dtypes[] = {
    {"float32", "FloatStorage", "F32", 4, true, YK_F32, read_f32},
    {"float64", "DoubleStorage", "F64", 8, true, YK_F64, read_f64},
    {"bfloat16", "BFloat16Storage", "BF16", 2, true, YK_BF16, read_bf16},
    {"float16", "HalfStorage", "F16", 2, true, YK_F16, read_f16},
    {"int64", "LongStorage", "I64", 8, false, YK_I64, read_i64},
    {"int32", "IntStorage", "I32", 4, false, YK_I32, read_i32},
    {"int16", "ShortStorage", "I16", 2, false, YK_DTYPE_COUNT, read_i16},
    {"int8", "CharStorage", "I8", 1, false, YK_DTYPE_COUNT, read_i8},
    {"uint8", "ByteStorage", "U8", 1, false, YK_U8, read_u8},
    {"bool", "BoolStorage", "BOOL", 1, false, YK_DTYPE_COUNT, read_u8},
    {"uint16", NULL, "U16", 2, false, YK_DTYPE_COUNT, read_u16},
    {"uint32", NULL, "U32", 4, false, YK_DTYPE_COUNT, read_u32},
    {"uint64", NULL, "U64", 8, false, YK_DTYPE_COUNT, read_u64},
};

const yki_file_tensor_dtype *yki_file_tensor_dtype_at(size_t index)
{
    return index < sizeof dtypes / sizeof *dtypes ? &dtypes[index] : NULL;
}

const yki_file_tensor_dtype *yki_file_tensor_dtype_of(yk_dtype dtype)
{
    size_t index = 0;
    while (dtypes[index].same != dtype)
        index++;
    return &dtypes[index];
}

/* ---- shapes --------------------------------------------------------------------------------- */

/* What a dimension multiplies the strides before it by: those of an empty tensor are not 0. */
static int64_t factor(int64_t dim)
{
    return dim > 0 ? dim : 1;
}

void yki_file_tensor_dense_strides(int ndim, const int64_t *dims, int64_t *strides)
{
    int64_t stride = 1;
    for (int i = ndim - 1; i >= 0; i--) {
        strides[i] = stride;
        stride *= factor(dims[i]);
    }
}

yki_file_tensor yki_file_tensor_from(const yk_tensor *tensor)
{
    yki_file_tensor stored = {.dtype = yki_file_tensor_dtype_of(tensor->dtype),
                              .ndim = tensor->ndim};
    for (int i = 0; i < tensor->ndim; i++)
        stored.dims[i] = tensor->dims[i];
    yki_file_tensor_dense_strides(stored.ndim, stored.dims, stored.strides);
    return stored;
}

bool yki_file_tensor_size(const yki_file_tensor *stored, int64_t *count, size_t *bytes)
{
    bool fits = true, empty = false;
    int64_t span = 1;
    for (int i = 0; i < stored->ndim; i++) {
        fits &= !__builtin_mul_overflow(span, factor(stored->dims[i]), &span);
        empty |= stored->dims[i] == 0;
    }
    *count = empty ? 0 : span;
    fits &= !__builtin_mul_overflow((uint64_t)*count, stored->dtype->size, bytes);
    return fits;
}

bool yki_file_tensor_within(const yki_file_tensor *stored, int64_t count)
{
    int64_t last = stored->offset;
    if (last > count)
        return false;
    for (int i = 0; i < stored->ndim; i++)
        if (stored->dims[i] == 0)
            return true;
    for (int i = 0; i < stored->ndim; i++) {
        int64_t step;
        if (__builtin_mul_overflow(stored->dims[i] - 1, stored->strides[i], &step) ||
            __builtin_add_overflow(last, step, &last))
            return false;
    }
    return last < count;
}

bool yki_file_tensor_is_dense(const yki_file_tensor *stored)
{
    int64_t expected = 1;
    for (int i = stored->ndim - 1; i >= 0; i--) {
        if (stored->dims[i] > 1 && stored->strides[i] != expected)
            return false;
        expected *= factor(stored->dims[i]);
    }
    return true;
}

/* ---- elements ------------------------------------------------------------------------------- */

/* A walk over all elements in row-major order. */
typedef struct walk {
    const yki_file_tensor *stored;
    const char *storage;
    int64_t index[YKI_FILE_TENSOR_DIMS], element, left;
} walk;

static walk walk_begin(const yki_file_tensor *stored, const void *storage)
{
    walk at = {.stored = stored, .storage = storage, .element = stored->offset, .left = 1};
    for (int i = 0; i < stored->ndim; i++)
        at.left *= stored->dims[i];
    return at;
}

/* The next element, or NULL after the last. */
static const char *walk_next(walk *at)
{
    const yki_file_tensor *stored = at->stored;
    if (at->left-- <= 0)
        return NULL;
    const char *element = at->storage + (size_t)at->element * stored->dtype->size;
    for (int i = stored->ndim - 1; i >= 0; i--) {
        at->element += stored->strides[i];
        if (++at->index[i] < stored->dims[i])
            break;
        at->element -= stored->strides[i] * stored->dims[i];
        at->index[i] = 0;
    }
    return element;
}

/*
 * An integer of 64 bits as a double that becomes in fewer bits what the integer does, so that it is
 * rounded once: it is cut off, and its last bit says whether that has changed it (rounding to odd).
 */
static double odd_value(const yki_file_tensor *stored, const char *element)
{
    enum { CUT = (1 << 11) - 1 }; /* the bits that a double lacks */
    uint64_t bits;
    memcpy(&bits, element, sizeof bits);
    if (bits & CUT)
        bits = (bits & ~(uint64_t)CUT) | (CUT + 1);
    return stored->dtype->read == read_i64 ? (double)(int64_t)bits : (double)bits;
}

static double element_value(const yki_file_tensor *stored, const char *element)
{
    double value = stored->dtype->read(element);
    return stored->negated ? -value : value;
}

/* Flips the sign of count floats of this size, NaN's too, as PyTorch's neg does. */
static void negate_floats(char *data, int64_t count, size_t size)
{
    for (int64_t i = 0; i < count; i++)
        data[(size_t)i * size + size - 1] ^= (char)0x80; /* little-endian: the sign comes last */
}

/* Numbers that an integer dtype holds, from minimum to below the limit. */
static void range_of(yk_dtype dtype, double *minimum, double *limit)
{
    *minimum = dtype == YK_I64 ? -0x1p63 : dtype == YK_I32 ? -0x1p31 : 0;
    *limit = dtype == YK_I64 ? 0x1p63 : dtype == YK_I32 ? 0x1p31 : 0x1p8;
}

/* uint64 that is to be int64: beyond 2^53, a double does not hold it. What fits has the same bits.
 */
static bool is_u64_as_i64(const yki_file_tensor *stored, yk_dtype dtype)
{
    return stored->dtype->read == read_u64 && dtype == YK_I64;
}

static bool element_fits(const yki_file_tensor *stored, const char *element, yk_dtype dtype,
                         double value)
{
    double minimum, limit;
    if (is_u64_as_i64(stored, dtype))
        return !(element[stored->dtype->size - 1] & 0x80); /* little-endian: the top bit */
    range_of(dtype, &minimum, &limit);
    return trunc(value) >= minimum && value < limit;
}

bool yki_file_tensor_fits(const yki_file_tensor *stored, const void *storage, yk_dtype dtype,
                          double *culprit)
{
    if (yki_file_tensor_dtype_of(dtype)->is_float || stored->dtype->same == dtype)
        return true;
    walk at = walk_begin(stored, storage);
    for (const char *element; (element = walk_next(&at));) {
        *culprit = element_value(stored, element);
        if (!element_fits(stored, element, dtype, *culprit))
            return false;
    }
    return true;
}

/* One number, which fits, into element `index` of data. */
static void put_element(yk_dtype dtype, void *data, int64_t index, double value)
{
    switch (dtype) {
    case YK_F32:
        ((float *)data)[index] = (float)value;
        break;
    case YK_F64:
        ((double *)data)[index] = value;
        break;
    case YK_BF16:
        ((uint16_t *)data)[index] = yki_bf16_from_float((float)value);
        break;
    case YK_F16:
        ((uint16_t *)data)[index] = yki_f16_from_float((float)value);
        break;
    case YK_I64:
        ((int64_t *)data)[index] = (int64_t)value;
        break;
    case YK_I32:
        ((int32_t *)data)[index] = (int32_t)value;
        break;
    case YK_U8:
        ((uint8_t *)data)[index] = (uint8_t)value;
        break;
    case YK_DTYPE_COUNT:
        break;
    }
}

void yki_file_tensor_copy_raw(const yki_file_tensor *stored, const void *storage, void *data)
{
    size_t size = stored->dtype->size;
    walk at = walk_begin(stored, storage);
    int64_t count = at.left;
    char *to = data;
    if (yki_file_tensor_is_dense(stored) && count > 0)
        memcpy(data, at.storage + (size_t)at.element * size, (size_t)count * size);
    else
        for (const char *element; (element = walk_next(&at)); to += size)
            memcpy(to, element, size);
    if (stored->negated)
        negate_floats(data, count, size);
}

static double value_as(const yki_file_tensor *stored, const char *element, yk_dtype dtype)
{
    double value = element_value(stored, element);
    bool narrow = dtype == YK_F32 || dtype == YK_BF16 || dtype == YK_F16;
    return narrow && stored->dtype->size == 8 && !stored->dtype->is_float && fabs(value) >= 0x1p53
               ? odd_value(stored, element)
               : value;
}

void yki_file_tensor_copy(const yki_file_tensor *stored, const void *storage, yk_dtype dtype,
                          void *data)
{
    if (stored->dtype->same == dtype || is_u64_as_i64(stored, dtype)) {
        yki_file_tensor_copy_raw(stored, storage, data);
        return;
    }
    walk at = walk_begin(stored, storage);
    int64_t index = 0;
    for (const char *element; (element = walk_next(&at)); index++)
        put_element(dtype, data, index, value_as(stored, element, dtype));
}

yk_status yki_file_tensor_copy_to(const yki_file_tensor *stored, const void *storage,
                                  const yk_tensor *tensor)
{
    yki_host_view view;
    YK_TRY(yki_host_view_open(&view, tensor, YKI_WRITE));
    yki_file_tensor_copy(stored, storage, tensor->dtype, view.data);
    return yki_host_view_close(&view);
}

double yki_file_tensor_norm(const yki_file_tensor *stored, const void *storage)
{
    double sum = 0;
    walk at = walk_begin(stored, storage);
    for (const char *element; (element = walk_next(&at));) {
        double value = stored->dtype->read(element);
        sum += value * value;
    }
    return sqrt(sum);
}

/* Dtypes, shapes and sums of tensors. */
#include "tensor/tensor.h"

#include "base/memory.h"

size_t yk_dtype_size(yk_dtype dtype)
{
    static const size_t sizes[] = {
#define DTYPE_SIZE(name, bytes, words) [YK_##name] = bytes,
        YK_DTYPE_LIST(DTYPE_SIZE)
#undef DTYPE_SIZE
    };
    return (size_t)dtype < YK_DTYPE_COUNT ? sizes[dtype] : 0;
}

const char *yk_dtype_name(yk_dtype dtype)
{
    static const char *const names[] = {
#define DTYPE_NAME(name, bytes, words) [YK_##name] = words,
        YK_DTYPE_LIST(DTYPE_NAME)
#undef DTYPE_NAME
    };
    return (size_t)dtype < YK_DTYPE_COUNT ? names[dtype] : "unknown dtype";
}

int64_t yk_tensor_count(const yk_tensor *tensor)
{
    int64_t count = tensor != NULL;
    for (int i = 0; tensor && i < tensor->ndim; i++)
        count *= tensor->dims[i];
    return count;
}

size_t yk_tensor_bytes(const yk_tensor *tensor)
{
    return tensor ? (size_t)yk_tensor_count(tensor) * yk_dtype_size(tensor->dtype) : 0;
}

const char *yki_dims_text(char *text, size_t size, int ndim, const int64_t *dims)
{
    size_t at = (size_t)snprintf(text, size, "(");
    for (int i = 0; i < ndim && at < size; i++) {
        const char *comma = i ? ", " : "";
        int written = dims[i] < 0
                          ? snprintf(text + at, size - at, "%sN", comma)
                          : snprintf(text + at, size - at, "%s%lld", comma, (long long)dims[i]);
        at += (size_t)written;
    }
    if (at < size)
        snprintf(text + at, size - at, ")");
    return text;
}

size_t yki_tensor_padded_bytes(const yk_tensor *tensor)
{
    return yki_align(yk_tensor_bytes(tensor), YKI_ALIGNMENT);
}

#define DEFINE_ADD_SCALED(name, real)                                                              \
    static void name(real *out, real scale, const real *a, const real *b, int64_t count)           \
    {                                                                                              \
        _Pragma("omp simd") for (int64_t i = 0; i < count; i++) out[i] = scale * a[i] + b[i];      \
    }

DEFINE_ADD_SCALED(add_scaled_f32, float)
DEFINE_ADD_SCALED(add_scaled_f64, double)

void yki_add_scaled(yk_dtype dtype, void *out, double scale, const void *a, const void *b,
                    int64_t count)
{
    if (dtype == YK_F64)
        add_scaled_f64(out, scale, a, b, count);
    else
        add_scaled_f32(out, (float)scale, a, b, count);
}

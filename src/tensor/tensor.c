/* Dtypes and shapes. */
#include <yoke/tensor.h>

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
    int64_t count = 1;
    for (int i = 0; i < tensor->ndim; i++)
        count *= tensor->dims[i];
    return count;
}

size_t yk_tensor_bytes(const yk_tensor *tensor)
{
    return (size_t)yk_tensor_count(tensor) * yk_dtype_size(tensor->dtype);
}

/* What batch_norm and group_norm share: how many channels a thread takes, and moments. */
#ifndef YKI_NORM_CUH
#define YKI_NORM_CUH

#include "sums.cuh"

#include "device/sync.h"

template <typename T>
constexpr int norm_width = vector_width<T> < YKI_CUDA_NORM ? vector_width<T> : YKI_CUDA_NORM;

/* A multiprocessor runs four blocks at once, whose threads then have 64 registers each. */
#define NORM_KERNELS_OF(name, args, body, type, suffix)                                            \
    KERNEL_OF(4, name##_##suffix, args, body<type, norm_width<type>>)                              \
    KERNEL_OF(4, name##_##suffix##_1, args, body<type, 1>)
#define NORM_KERNELS(name, args, body)                                                             \
    NORM_KERNELS_OF(name, args, body, float, f32)                                                  \
    NORM_KERNELS_OF(name, args, body, double, f64)                                                 \
    NORM_KERNELS_OF(name, args, body, bf16, bf16)                                                  \
    NORM_KERNELS_OF(name, args, body, f16, f16)

/* Rows that a thread loads before it computes, of so many tensors: as many as registers hold. */
template <typename T, int TENSORS>
constexpr int rows_ahead = (TENSORS == 1     ? 16
                            : TENSORS == 2   ? 8
                            : sizeof(T) == 2 ? 4
                                             : 8) /
                           (int)sizeof(T);

/* Of the sums of x - x[0] and of its square. */
DEVICE yki_moments moments_of_partial(double first, int64_t rows, double sum, double squares)
{
    const double count = (double)rows;
    yki_moments found = {count, 0, squares};
    if (rows > 0) {
        found.mean = first + sum / count;
        found.squares -= sum * sum / count;
    }
    if (found.squares < 0)
        found.squares = 0;
    return found;
}

#endif

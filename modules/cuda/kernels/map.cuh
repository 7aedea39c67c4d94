/* y = f(a) and y = f(a, b), element by element. */
#ifndef YKI_MAP_CUH
#define YKI_MAP_CUH

#include "kernel.cuh"

/* Each thread loads YKI_CUDA_BATCH vectors before it computes, so that enough loads are in flight.
 * The elements after the last whole vector are done one by one. */
template <typename T, typename U, int W, bool BINARY, typename F>
DEVICE void map(const yki_cuda_map_args &args, F f)
{
    const T *a = (const T *)args.a, *b = (const T *)args.b;
    U *y = (U *)args.y;
    int64_t vectors = args.count / W;
    int64_t first = (int64_t)blockIdx.x * THREADS * YKI_CUDA_BATCH + threadIdx.x;
    T left[YKI_CUDA_BATCH][W], right[YKI_CUDA_BATCH][W];
#pragma unroll
    for (int i = 0; i < YKI_CUDA_BATCH; i++) {
        int64_t vector = first + i * THREADS;
        if (vector >= vectors)
            continue;
        load_raw(a + vector * W, left[i]);
        if (BINARY)
            load_raw(b + vector * W, right[i]);
    }
#pragma unroll
    for (int i = 0; i < YKI_CUDA_BATCH; i++) {
        int64_t vector = first + i * THREADS;
        if (vector >= vectors)
            continue;
        real_of<U> result[W];
#pragma unroll
        for (int j = 0; j < W; j++)
            result[j] = (real_of<U>)f(widen(left[i][j]), BINARY ? widen(right[i][j]) : 0);
        store(y + vector * W, result);
    }
    int64_t rest = vectors * W + first;
    if (first < W && rest < args.count)
        y[rest] = narrow<U>((real_of<U>)f(widen(a[rest]), BINARY ? widen(b[rest]) : 0));
}

#endif

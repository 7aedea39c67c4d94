/* amax and amin, and their gradient: x is (outer, size, inner), and what is in the middle is
 * reduced. A warp has one result, or a thread has some neighbours (columns), where those are enough
 * for all threads of a GPU. */
#include "sums.cuh"

/* The larger or the smaller, or NaN where either is one. */
template <bool LEAST, typename R> DEVICE R extreme_of(R x, R y)
{
    return x != x || (LEAST ? x < y : x > y) ? x : y;
}

/* Where the elements of result `i` begin. */
DEVICE int64_t begin_of(const yki_cuda_amax_args &args, int64_t i)
{
    return i / args.inner * args.inner * args.size + i % args.inner;
}

template <bool LEAST, typename T> DEVICE void extreme(const yki_cuda_amax_args &args)
{
    typedef real_of<T> real;
    const int64_t element = row_of_warp();
    if (element >= args.count)
        return;
    const T *x = (const T *)args.x + begin_of(args, element);
    real most = LEAST ? INFINITY : -INFINITY;
    for (int64_t i = lane_number(); i < args.size; i += WARP)
        most = extreme_of<LEAST>((real)widen(x[i * args.inner]), most);
    for (int distance = WARP / 2; distance > 0; distance /= 2)
        most = extreme_of<LEAST>(__shfl_xor_sync(ALL_LANES, most, distance), most);
    if (lane_number() == 0)
        ((T *)args.to)[element] = narrow<T>(most);
}

template <bool LEAST, typename T, int W> DEVICE void extreme_columns(const yki_cuda_amax_args &args)
{
    const int64_t element = thread_number() * W;
    if (element >= args.count)
        return;
    const T *x = (const T *)args.x + begin_of(args, element);
    real_of<T> most[W];
    load(x, most);
#pragma unroll 4
    for (int64_t i = 1; i < args.size; i++) {
        real_of<T> v[W];
        load(x + i * args.inner, v);
#pragma unroll
        for (int j = 0; j < W; j++)
            most[j] = extreme_of<LEAST>(v[j], most[j]);
    }
    store((T *)args.to + element, most);
}

template <typename T> DEVICE void amax(const yki_cuda_amax_args &args)
{
    extreme<false, T>(args);
}
SCALAR_KERNELS(amax, yki_cuda_amax_args, amax)

template <typename T> DEVICE void amin(const yki_cuda_amax_args &args)
{
    extreme<true, T>(args);
}
SCALAR_KERNELS(amin, yki_cuda_amax_args, amin)

template <typename T, int W> DEVICE void amax_columns(const yki_cuda_amax_args &args)
{
    extreme_columns<false, T, W>(args);
}
KERNELS(amax_columns, yki_cuda_amax_args, amax_columns)

template <typename T, int W> DEVICE void amin_columns(const yki_cuda_amax_args &args)
{
    extreme_columns<true, T, W>(args);
}
KERNELS(amin_columns, yki_cuda_amax_args, amin_columns)

/* ---- the gradient: dy / the number of elements that are y, where they are, and 0 / it elsewhere,
 * which is NaN where y is one and is none of them ---------------------------------------------- */

template <typename T> DEVICE void amax_backward(const yki_cuda_amax_args &args)
{
    typedef real_of<T> real;
    const int64_t element = row_of_warp();
    if (element >= args.count)
        return;
    const int64_t begin = begin_of(args, element);
    const T *x = (const T *)args.x + begin;
    T *dx = (T *)args.to + begin;
    const real best = widen(((const T *)args.y)[element]);
    real equal = 0;
    for (int64_t i = lane_number(); i < args.size; i += WARP)
        equal += (real)widen(x[i * args.inner]) == best ? 1 : 0;
    equal = warp_sum(equal);
    const real share = (real)widen(((const T *)args.dy)[element]) / equal, rest = 0 / equal;
    for (int64_t i = lane_number(); i < args.size; i += WARP)
        dx[i * args.inner] = narrow<T>((real)widen(x[i * args.inner]) == best ? share : rest);
}
SCALAR_KERNELS(amax_backward, yki_cuda_amax_args, amax_backward)

template <typename T, int W> DEVICE void amax_backward_columns(const yki_cuda_amax_args &args)
{
    typedef real_of<T> real;
    const int64_t element = thread_number() * W;
    if (element >= args.count)
        return;
    const int64_t begin = begin_of(args, element);
    const T *x = (const T *)args.x + begin;
    T *dx = (T *)args.to + begin;
    real best[W], share[W], equal[W] = {};
    load((const T *)args.y + element, best);
    load((const T *)args.dy + element, share);
#pragma unroll 4
    for (int64_t i = 0; i < args.size; i++) {
        real v[W];
        load(x + i * args.inner, v);
#pragma unroll
        for (int j = 0; j < W; j++)
            equal[j] += v[j] == best[j] ? 1 : 0;
    }
#pragma unroll
    for (int j = 0; j < W; j++)
        share[j] /= equal[j];
#pragma unroll 4
    for (int64_t i = 0; i < args.size; i++) {
        real v[W];
        load(x + i * args.inner, v);
#pragma unroll
        for (int j = 0; j < W; j++)
            v[j] = v[j] == best[j] ? share[j] : 0 / equal[j];
        store(dx + i * args.inner, v);
    }
}
KERNELS(amax_backward_columns, yki_cuda_amax_args, amax_backward_columns)

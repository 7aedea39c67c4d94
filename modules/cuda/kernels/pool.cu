/* Pooling: maxima, averages with zeros counted, and the average of a whole image. */
#include "sums.cuh"

/* A vector of channels in one pixel of an image. */
struct pixel {
    int column, w, h;
    int64_t image, offset; /* offset: of its first element in its tensor */
    bool exists;
};

template <int W> DEVICE pixel pixel_of(const yki_cuda_pool_args &args, int height, int width)
{
    const uint32_t vectors = (uint32_t)(args.columns / W);
    const uint32_t w = (uint32_t)width, h = (uint32_t)height;
    const uint32_t item = (uint32_t)thread_number(), place = item / vectors, line = place / w;
    pixel at;
    at.column = (int)(item % vectors) * W;
    at.exists = place < (uint32_t)args.batch * h * w;
    at.w = (int)(place % w);
    at.h = (int)(line % h);
    at.image = line / h;
    at.offset = (int64_t)place * args.columns + at.column;
    return at;
}

DEVICE int64_t place_of(const yki_cuda_pool_args &args, const pixel &at, int height, int width,
                        int h, int w)
{
    return ((at.image * height + h) * width + w) * args.columns + at.column;
}

/* ---- maxima: the first of equal ones wins; NaN is larger than any ---------------------------- */

template <typename T, int W> DEVICE void max_pool(const yki_cuda_pool_args &args)
{
    typedef real_of<T> real;
    const pixel at = pixel_of<W>(args, args.p, args.q);
    if (!at.exists)
        return;
    real best[W] = {}, value[W];
    int32_t winner[W];
#pragma unroll
    for (int i = 0; i < W; i++)
        winner[i] = -1;
    for (int r = 0; r < args.kernel; r++)
        for (int s = 0; s < args.kernel; s++) {
            int h = at.h * args.stride - args.padding + r,
                w = at.w * args.stride - args.padding + s;
            if (h < 0 || h >= args.h || w < 0 || w >= args.w)
                continue;
            load((const T *)args.in + place_of(args, at, args.h, args.w, h, w), value);
#pragma unroll
            for (int i = 0; i < W; i++)
                if (winner[i] < 0 || value[i] > best[i] || value[i] != value[i]) {
                    best[i] = value[i];
                    winner[i] = r * args.kernel + s;
                }
        }
    store((T *)args.out + at.offset, best);
    if (args.index)
        store_raw(args.index + at.offset, winner);
}
KERNELS(max_pool, yki_cuda_pool_args, max_pool)

/* ---- backward: an input pixel sums over the windows that have it ----------------------------- */

/* The first window that has position i of the input. */
DEVICE int first_window(const yki_cuda_pool_args &args, int i)
{
    int from = i + args.padding - args.kernel + 1;
    return from <= 0 ? 0 : (from + args.stride - 1) / args.stride;
}

template <typename T, int W, bool MAX> DEVICE void pool_backward(const yki_cuda_pool_args &args)
{
    typedef real_of<T> real;
    const pixel at = pixel_of<W>(args, args.h, args.w);
    if (!at.exists)
        return;
    real sum[W] = {}, dy[W];
    for (int p = first_window(args, at.h); p < args.p && p * args.stride <= at.h + args.padding;
         p++)
        for (int q = first_window(args, at.w); q < args.q && q * args.stride <= at.w + args.padding;
             q++) {
            int64_t place = place_of(args, at, args.p, args.q, p, q);
            int r = at.h + args.padding - p * args.stride,
                s = at.w + args.padding - q * args.stride;
            int32_t index[W] = {};
            load((const T *)args.in + place, dy);
            if (MAX)
                load_raw(args.index + place, index);
#pragma unroll
            for (int i = 0; i < W; i++)
                sum[i] += !MAX || index[i] == r * args.kernel + s ? dy[i] : 0;
        }
#pragma unroll
    for (int i = 0; i < W; i++)
        sum[i] = MAX ? sum[i] : sum[i] / (real)(args.kernel * args.kernel);
    store((T *)args.out + at.offset, sum);
}

template <typename T, int W> DEVICE void max_pool_backward(const yki_cuda_pool_args &args)
{
    pool_backward<T, W, true>(args);
}
KERNELS(max_pool_backward, yki_cuda_pool_args, max_pool_backward)

template <typename T, int W> DEVICE void avg_pool_backward(const yki_cuda_pool_args &args)
{
    pool_backward<T, W, false>(args);
}
KERNELS(avg_pool_backward, yki_cuda_pool_args, avg_pool_backward)

/* ---- averages -------------------------------------------------------------------------------- */

template <typename T, int W> DEVICE void avg_pool(const yki_cuda_pool_args &args)
{
    typedef real_of<T> real;
    const pixel at = pixel_of<W>(args, args.p, args.q);
    if (!at.exists)
        return;
    real sum[W] = {}, value[W];
    for (int r = 0; r < args.kernel; r++)
        for (int s = 0; s < args.kernel; s++) {
            int h = at.h * args.stride - args.padding + r,
                w = at.w * args.stride - args.padding + s;
            if (h < 0 || h >= args.h || w < 0 || w >= args.w)
                continue;
            load((const T *)args.in + place_of(args, at, args.h, args.w, h, w), value);
#pragma unroll
            for (int i = 0; i < W; i++)
                sum[i] += value[i];
        }
#pragma unroll
    for (int i = 0; i < W; i++)
        sum[i] /= (real)(args.kernel * args.kernel);
    store((T *)args.out + at.offset, sum);
}
KERNELS(avg_pool, yki_cuda_pool_args, avg_pool)

/* blockIdx.y is the first image; each warp takes every eighth pixel of WARP vectors of channels. */
template <typename T, int W>
DEVICE void global_pool_of(const yki_cuda_pool_args &args, real_of<T> *sums, int64_t image)
{
    typedef real_of<T> real;
    int warp = (int)threadIdx.x / WARP, lane = (int)threadIdx.x % WARP;
    int column = ((int)blockIdx.x * WARP + lane) * W, pixels = args.h * args.w;
    const T *x = (const T *)args.in + image * pixels * args.columns + column;
    real sum[W] = {}, value[W];
#pragma unroll 4
    for (int i = warp; column < args.columns && i < pixels; i += WARPS) {
        load(x + (int64_t)i * args.columns, value);
#pragma unroll
        for (int j = 0; j < W; j++)
            sum[j] += value[j];
    }
#pragma unroll
    for (int j = 0; j < W; j++)
        sums[j * THREADS + threadIdx.x] = sum[j];
    __syncthreads();
    if (warp == 0 && column < args.columns) {
#pragma unroll
        for (int j = 0; j < W; j++) {
            for (int other = 1; other < WARPS; other++)
                sum[j] += sums[j * THREADS + other * WARP + lane];
            sum[j] /= (real)pixels;
        }
        store((T *)args.out + image * args.columns + column, sum);
    }
    __syncthreads();
}

template <typename T, int W> DEVICE void global_pool(const yki_cuda_pool_args &args)
{
    SHARED(real_of<T>, sums, W * THREADS);
    for (int64_t image = blockIdx.y; image < args.batch; image += gridDim.y)
        global_pool_of<T, W>(args, sums, image);
}
KERNELS(global_pool, yki_cuda_pool_args, global_pool)

template <typename T, int W> DEVICE void global_pool_backward(const yki_cuda_pool_args &args)
{
    typedef real_of<T> real;
    const pixel at = pixel_of<W>(args, args.h, args.w);
    if (!at.exists)
        return;
    real dy[W];
    load((const T *)args.in + at.image * args.columns + at.column, dy);
#pragma unroll
    for (int i = 0; i < W; i++)
        dy[i] /= (real)(args.h * args.w);
    store((T *)args.out + at.offset, dy);
}
KERNELS(global_pool_backward, yki_cuda_pool_args, global_pool_backward)

/* ---- adaptive averages: output p is the mean of inputs floor(p H / P) to ceil((p + 1) H / P) - 1
 */

DEVICE int begin_of(int p, int outputs, int inputs)
{
    return (int)((int64_t)p * inputs / outputs);
}

DEVICE int end_of(int p, int outputs, int inputs)
{
    return (int)((((int64_t)p + 1) * inputs + outputs - 1) / outputs);
}

template <typename T, int W> DEVICE void adaptive_pool(const yki_cuda_pool_args &args)
{
    typedef real_of<T> real;
    const pixel at = pixel_of<W>(args, args.p, args.q);
    if (!at.exists)
        return;
    int top = begin_of(at.h, args.p, args.h), bottom = end_of(at.h, args.p, args.h);
    int left = begin_of(at.w, args.q, args.w), right = end_of(at.w, args.q, args.w);
    real sum[W] = {}, value[W];
    for (int h = top; h < bottom; h++)
        for (int w = left; w < right; w++) {
            load((const T *)args.in + place_of(args, at, args.h, args.w, h, w), value);
#pragma unroll
            for (int i = 0; i < W; i++)
                sum[i] += value[i];
        }
#pragma unroll
    for (int i = 0; i < W; i++)
        sum[i] /= (real)((bottom - top) * (right - left));
    store((T *)args.out + at.offset, sum);
}
KERNELS(adaptive_pool, yki_cuda_pool_args, adaptive_pool)

/* The outputs that have an input are those of the same rule with the sizes exchanged. */
template <typename T, int W> DEVICE void adaptive_pool_backward(const yki_cuda_pool_args &args)
{
    typedef real_of<T> real;
    const pixel at = pixel_of<W>(args, args.h, args.w);
    if (!at.exists)
        return;
    real sum[W] = {}, dy[W];
    for (int p = begin_of(at.h, args.h, args.p); p < end_of(at.h, args.h, args.p); p++)
        for (int q = begin_of(at.w, args.w, args.q); q < end_of(at.w, args.w, args.q); q++) {
            int rows = end_of(p, args.p, args.h) - begin_of(p, args.p, args.h);
            int columns = end_of(q, args.q, args.w) - begin_of(q, args.q, args.w);
            load((const T *)args.in + place_of(args, at, args.p, args.q, p, q), dy);
#pragma unroll
            for (int i = 0; i < W; i++)
                sum[i] += dy[i] / (real)(rows * columns);
        }
    store((T *)args.out + at.offset, sum);
}
KERNELS(adaptive_pool_backward, yki_cuda_pool_args, adaptive_pool_backward)

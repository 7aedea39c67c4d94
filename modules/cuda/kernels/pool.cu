/* Pooling: maxima, averages of windows, and the average of a whole image. */
#include "graph/pool.h"
#include "pixel.cuh"
#include "sums.cuh"

/* Two values of 16 bits at a time, of which each takes one instruction. */
template <int W> DEVICE void widen(const bf16 (&raw)[W], float (&to)[W])
{
#pragma unroll
    for (int i = 0; i + 1 < W; i += 2) {
        uint32_t pair, high;
        memcpy(&pair, raw + i, sizeof pair);
        high = pair & 0xffff0000u;
        pair <<= 16;
        memcpy(to + i, &pair, sizeof pair);
        memcpy(to + i + 1, &high, sizeof high);
    }
    if (W % 2)
        to[W - 1] = widen(raw[W - 1]);
}

/* ---- maxima: the first of equal ones wins; NaN is larger than any ---------------------------- */

template <typename R> DEVICE bool wins(R value, R best)
{
    return value > best || value != value;
}

template <typename T, int W, typename I> DEVICE void max_pool_of(const yki_cuda_pool_args &args)
{
    typedef real_of<T> real;
    const pixel at = pixel_of<W>(args);
    if (!at.exists)
        return;
    real best[W] = {}, value[W];
    I winner[W] = {};
    bool first = true;
    for (int r = 0; r < args.kernel[0]; r++)
        for (int s = 0; s < args.kernel[1]; s++) {
            int h = at.h * args.stride[0] - args.padding[0] + r,
                w = at.w * args.stride[1] - args.padding[1] + s;
            if (h < 0 || h >= args.h || w < 0 || w >= args.w)
                continue;
            load((const T *)args.in + place_of(args, at, args.h, args.w, h, w), value);
#pragma unroll
            for (int i = 0; i < W; i++)
                if (first || wins(value[i], best[i])) {
                    best[i] = value[i];
                    winner[i] = (I)(r * args.kernel[1] + s);
                }
            first = false;
        }
    store((T *)args.out + at.offset, best);
    if (args.index)
        store_raw((I *)args.index + at.offset, winner);
}

template <typename T, int W> DEVICE void max_pool(const yki_cuda_pool_args &args)
{
    max_pool_of<T, W, uint8_t>(args);
}
KERNELS(max_pool, yki_cuda_pool_args, max_pool)

template <typename T, int W> DEVICE void max_pool_wide(const yki_cuda_pool_args &args)
{
    max_pool_of<T, W, int32_t>(args);
}
KERNELS(max_pool_wide, yki_cuda_pool_args, max_pool_wide)

/* ---- backward: an input pixel sums over the windows that have it ----------------------------- */

/* The first window that has position i of the input along dimension d. */
DEVICE int first_window(const yki_cuda_pool_args &args, int d, int i)
{
    int from = i + args.padding[d] - args.kernel[d] + 1;
    return from <= 0 ? 0 : (from + args.stride[d] - 1) / args.stride[d];
}

/* Of the mean of window i along dimension d. */
DEVICE int counted(const yki_cuda_pool_args &args, int d, int i)
{
    return (int)yki_pool_counted(i, args.kernel[d], args.stride[d], args.padding[d],
                                 args.count_include_pad, d == 0 ? args.h : args.w);
}

template <typename T, int W, bool MAX, typename I>
DEVICE void pool_backward(const yki_cuda_pool_args &args)
{
    typedef real_of<T> real;
    const pixel at = pixel_of<W>(args);
    if (!at.exists)
        return;
    real sum[W] = {}, dy[W];
    const int down = at.h + args.padding[0], across = at.w + args.padding[1];
    for (int p = first_window(args, 0, at.h); p < args.p && p * args.stride[0] <= down; p++)
        for (int q = first_window(args, 1, at.w); q < args.q && q * args.stride[1] <= across; q++) {
            int64_t place = place_of(args, at, args.p, args.q, p, q);
            int r = down - p * args.stride[0], s = across - q * args.stride[1];
            const real share = MAX ? 1 : 1 / (real)(counted(args, 0, p) * counted(args, 1, q));
            I index[W] = {};
            load((const T *)args.in + place, dy);
            if (MAX)
                load_raw((const I *)args.index + place, index);
#pragma unroll
            for (int i = 0; i < W; i++)
                sum[i] += !MAX || index[i] == r * args.kernel[1] + s ? dy[i] * share : 0;
        }
    store((T *)args.out + at.offset, sum);
}

template <typename T, int W> DEVICE void max_pool_backward(const yki_cuda_pool_args &args)
{
    pool_backward<T, W, true, uint8_t>(args);
}
KERNELS(max_pool_backward, yki_cuda_pool_args, max_pool_backward)

template <typename T, int W> DEVICE void max_pool_backward_wide(const yki_cuda_pool_args &args)
{
    pool_backward<T, W, true, int32_t>(args);
}
KERNELS(max_pool_backward_wide, yki_cuda_pool_args, max_pool_backward_wide)

template <typename T, int W> DEVICE void avg_pool_backward(const yki_cuda_pool_args &args)
{
    pool_backward<T, W, false, uint8_t>(args);
}
KERNELS(avg_pool_backward, yki_cuda_pool_args, avg_pool_backward)

/* ---- maxima of windows of a size K and a stride S that are constants ------------------------- */

/*
 * Forward: a thread takes a strip of results below each other. Of each row of a window it keeps the
 * maxima, so that windows which share rows read them once. Where a window leaves the image, the
 * pixel at the border is taken once more, under its own place, which changes no maximum.
 */
template <typename R, int W> struct window_row {
    R best[W];
    int column[W]; /* of the maximum, and */
    int row;       /* its row in the image */
};

DEVICE int to_inside(int i, int size)
{
    return i < 0 ? 0 : i >= size ? size - 1 : i;
}

/* Row h of a window whose columns begin with `left`; image: its channels of pixel (0, 0). */
template <int K, typename T, int W>
DEVICE window_row<real_of<T>, W> row_of(const yki_cuda_pool_args &args, const T *image, int h,
                                        int left)
{
    window_row<real_of<T>, W> row;
    T raw[K][W];
    row.row = to_inside(h, args.h);
#pragma unroll
    for (int s = 0; s < K; s++)
        load_raw(image + (row.row * args.w + to_inside(left + s, args.w)) * args.columns, raw[s]);
#pragma unroll
    for (int s = 0; s < K; s++) {
        const int column = to_inside(left + s, args.w);
        real_of<T> value[W];
        widen(raw[s], value);
#pragma unroll
        for (int i = 0; i < W; i++) {
            const bool larger = s == 0 || wins(value[i], row.best[i]);
            row.best[i] = larger ? value[i] : row.best[i];
            row.column[i] = larger ? column : row.column[i];
        }
    }
    return row;
}

/* The result of the window at (top, left), whose rows are known. */
template <int K, typename T, int W>
DEVICE void finish_window(const yki_cuda_pool_args &args,
                          const window_row<real_of<T>, W> (&rows)[K], int top, int left,
                          int64_t place)
{
    real_of<T> best[W];
    int found[W];
    uint8_t winner[W];
#pragma unroll
    for (int r = 0; r < K; r++) {
        const int first = (rows[r].row - top) * K - left;
#pragma unroll
        for (int i = 0; i < W; i++) {
            const bool larger = r == 0 || wins(rows[r].best[i], best[i]);
            best[i] = larger ? rows[r].best[i] : best[i];
            found[i] = larger ? first + rows[r].column[i] : found[i];
        }
    }
#pragma unroll
    for (int i = 0; i < W; i++)
        winner[i] = (uint8_t)found[i];
    store((T *)args.out + place, best);
    if (args.index)
        store_raw((uint8_t *)args.index + place, winner);
}

template <int K, int S, typename T, int W>
DEVICE void max_pool_fixed(const yki_cuda_pool_args &args)
{
    const int shared = K > S ? K - S : 0; /* rows of a window and the next */
    const pixel at = pixel_of<W>(args);
    if (!at.exists)
        return;
    const T *image = (const T *)args.in + place_of(args, at, args.h, args.w, 0, 0);
    const int left = at.w * S - args.padding[1];
    window_row<real_of<T>, W> rows[K];
#pragma unroll
    for (int i = 0; i < YKI_CUDA_STRIP; i++) {
        const int p = at.h * YKI_CUDA_STRIP + i, top = p * S - args.padding[0];
        if (p >= args.p)
            break;
#pragma unroll
        for (int r = i == 0 ? 0 : shared; r < K; r++)
            rows[r] = row_of<K, T, W>(args, image, top + r, left);
        finish_window<K, T, W>(args, rows, top, left, place_of(args, at, args.p, args.q, p, at.w));
#pragma unroll
        for (int r = 0; r < shared; r++)
            rows[r] = rows[r + S];
    }
}

/*
 * Backward: a thread takes a strip of cells below each other, which are S x S pixels of the padded
 * image. All pixels of a cell are in the same N x N windows, of which N - 1 rows have pixels of the
 * next cell too.
 */
enum { NOWHERE = 0x7f }; /* the index of a window that does not exist */

template <typename T, int W> struct window {
    T dy[W];
    uint32_t places[(W + 3) / 4]; /* the indices, four in a word */
};

/* One that does not exist has no maximum. */
template <typename T, int W>
DEVICE window<T, W> window_of(const yki_cuda_pool_args &args, int64_t image, int p, int q)
{
    window<T, W> found = {};
#pragma unroll
    for (int i = 0; i < (W + 3) / 4; i++)
        found.places[i] = NOWHERE * 0x01010101u;
    if (p >= 0 && p < args.p && q >= 0 && q < args.q) {
        const int64_t place = image + (p * args.q + q) * args.columns;
        const uint8_t *index = (const uint8_t *)args.index + place;
        load_raw((const T *)args.in + place, found.dy);
        if constexpr (W % 4 == 0)
            load_raw((const uint32_t *)index, found.places);
        else
            memcpy(found.places, index, W);
    }
    return found;
}

/* Of each of four places the highest bit of its byte: whether it is this one. */
DEVICE uint32_t are(uint32_t places, int place)
{
    uint32_t flags = 0x80808080u - (places ^ (uint32_t)place * 0x01010101u);
    asm("" : "+r"(flags)); /* all four at once: compilers would compute each by itself */
    return flags;
}

/* The sums of pixel (a, b) of a cell over the windows that have it, in their order. */
template <int K, int S, int N, typename T, int W>
DEVICE void sum_windows(const window<T, W> (&windows)[N][N], int a, int b, real_of<T> (&sum)[W])
{
    real_of<T> dy[W];
#pragma unroll
    for (int p = 0; p < N; p++)
#pragma unroll
        for (int q = 0; q < N; q++) {
            const int r = a + (N - 1 - p) * S, s = b + (N - 1 - q) * S;
            if (r >= K || s >= K)
                continue;
            const window<T, W> &from = windows[p][q];
            uint32_t won[(W + 3) / 4];
#pragma unroll
            for (int i = 0; i < (W + 3) / 4; i++)
                won[i] = are(from.places[i], r * K + s);
            widen(from.dy, dy);
#pragma unroll
            for (int i = 0; i < W; i++)
                if (won[i / 4] & 0x80u << i % 4 * 8)
                    sum[i] += dy[i];
        }
}

template <int K, int S, typename T, int W>
DEVICE void max_pool_backward_fixed(const yki_cuda_pool_args &args)
{
    const int N = (K + S - 1) / S;
    static_assert(K * K <= NOWHERE, "NOWHERE is no place of a window");
    const pixel at = pixel_of<W>(args);
    if (!at.exists)
        return;
    const int64_t from = place_of(args, at, args.p, args.q, 0, 0);
    T *image = (T *)args.out + place_of(args, at, args.h, args.w, 0, 0);
    const int left = at.w * S - args.padding[1];
    window<T, W> windows[N][N];
#pragma unroll
    for (int i = 0; i < YKI_CUDA_STRIP; i++) {
        const int row = at.h * YKI_CUDA_STRIP + i, top = row * S - args.padding[0];
        if (top >= args.h)
            break;
#pragma unroll
        for (int p = i == 0 ? 0 : N - 1; p < N; p++)
#pragma unroll
            for (int q = 0; q < N; q++)
                windows[p][q] = window_of<T, W>(args, from, row - (N - 1) + p, at.w - (N - 1) + q);
#pragma unroll
        for (int a = 0; a < S; a++)
#pragma unroll
            for (int b = 0; b < S; b++) {
                const int h = top + a, w = left + b;
                real_of<T> sum[W] = {};
                sum_windows<K, S, N, T, W>(windows, a, b, sum);
                if (h >= 0 && h < args.h && w >= 0 && w < args.w)
                    store(image + (h * args.w + w) * args.columns, sum);
            }
#pragma unroll
        for (int p = 0; p < N - 1; p++)
#pragma unroll
            for (int q = 0; q < N; q++)
                windows[p][q] = windows[p + 1][q];
    }
}

#define FIXED_KERNELS_OF(K, S, type, suffix)                                                       \
    KERNEL_OF(3, max_pool_##K##_##S##_##suffix, yki_cuda_pool_args,                                \
              max_pool_fixed<K, S, type, vector_width<type>>)                                      \
    KERNEL_OF(3, max_pool_backward_##K##_##S##_##suffix, yki_cuda_pool_args,                       \
              max_pool_backward_fixed<K, S, type, vector_width<type>>)
#define FIXED_KERNELS(K, S)                                                                        \
    FIXED_KERNELS_OF(K, S, float, f32)                                                             \
    FIXED_KERNELS_OF(K, S, double, f64)                                                            \
    FIXED_KERNELS_OF(K, S, bf16, bf16)                                                             \
    FIXED_KERNELS_OF(K, S, f16, f16)
FIXED_KERNELS(2, 2)
FIXED_KERNELS(3, 2)
FIXED_KERNELS(3, 3)

/* ---- averages -------------------------------------------------------------------------------- */

template <typename T, int W> DEVICE void avg_pool(const yki_cuda_pool_args &args)
{
    typedef real_of<T> real;
    const pixel at = pixel_of<W>(args);
    if (!at.exists)
        return;
    real sum[W] = {}, value[W];
    for (int r = 0; r < args.kernel[0]; r++)
        for (int s = 0; s < args.kernel[1]; s++) {
            int h = at.h * args.stride[0] - args.padding[0] + r,
                w = at.w * args.stride[1] - args.padding[1] + s;
            if (h < 0 || h >= args.h || w < 0 || w >= args.w)
                continue;
            load((const T *)args.in + place_of(args, at, args.h, args.w, h, w), value);
#pragma unroll
            for (int i = 0; i < W; i++)
                sum[i] += value[i];
        }
    const int pixels = counted(args, 0, at.h) * counted(args, 1, at.w);
#pragma unroll
    for (int i = 0; i < W; i++)
        sum[i] /= (real)pixels;
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
    const pixel at = pixel_of<W>(args);
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
    const pixel at = pixel_of<W>(args);
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
    const pixel at = pixel_of<W>(args);
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

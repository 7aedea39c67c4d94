/* softmax, log_softmax, layer_norm and rms_norm over the rows of a matrix, with a warp for each
 * row: its lanes take vectors of W columns in turn. Rows are read again from the caches. */
#include "sums.cuh"

/* Calls take(i) for the first of each W columns that are this lane's. */
template <int W, typename F> DEVICE void for_columns(int columns, F take)
{
#pragma unroll 4
    for (int i = lane_number() * W; i < columns; i += WARP * W)
        take(i);
}

/* ---- softmax, log_softmax -------------------------------------------------------------------- */

template <bool LOGARITHM, typename T, int W> DEVICE void softmax_row(const yki_cuda_rows_args &args)
{
    typedef real_of<T> real;
    int64_t row = row_of_warp();
    if (row >= args.rows)
        return;
    const T *x = (const T *)args.x + row * args.columns;
    T *out = (T *)args.out + row * args.columns;
    real largest = -INFINITY, sum = 0;
    for_columns<W>(args.columns, [&](int i) {
        real v[W];
        load(x + i, v);
#pragma unroll
        for (int j = 0; j < W; j++)
            largest = v[j] > largest ? v[j] : largest;
    });
    largest = warp_max(largest);
    for_columns<W>(args.columns, [&](int i) {
        real v[W];
        load(x + i, v);
#pragma unroll
        for (int j = 0; j < W; j++)
            sum += exp(v[j] - largest);
    });
    sum = warp_sum(sum);
    const real log_sum = LOGARITHM ? log(sum) : 0;
    for_columns<W>(args.columns, [&](int i) {
        real v[W];
        load(x + i, v);
#pragma unroll
        for (int j = 0; j < W; j++)
            v[j] = LOGARITHM ? v[j] - largest - log_sum : exp(v[j] - largest) / sum;
        store(out + i, v);
    });
}
template <typename T, int W> DEVICE void softmax(const yki_cuda_rows_args &args)
{
    softmax_row<false, T, W>(args);
}
KERNELS(softmax, yki_cuda_rows_args, softmax)

template <typename T, int W> DEVICE void log_softmax(const yki_cuda_rows_args &args)
{
    softmax_row<true, T, W>(args);
}
KERNELS(log_softmax, yki_cuda_rows_args, log_softmax)

/* dx = y (dy - sum(dy y)), and of log_softmax dy - exp(y) sum(dy) */
template <bool LOGARITHM, typename T, int W>
DEVICE void softmax_row_backward(const yki_cuda_rows_args &args)
{
    typedef real_of<T> real;
    int64_t row = row_of_warp();
    if (row >= args.rows)
        return;
    const T *y = (const T *)args.y + row * args.columns,
            *dy = (const T *)args.dy + row * args.columns;
    T *out = (T *)args.out + row * args.columns;
    real sum = 0;
    for_columns<W>(args.columns, [&](int i) {
        real of_y[W] = {}, of_dy[W];
        if (!LOGARITHM)
            load(y + i, of_y);
        load(dy + i, of_dy);
#pragma unroll
        for (int j = 0; j < W; j++)
            sum += LOGARITHM ? of_dy[j] : of_dy[j] * of_y[j];
    });
    sum = warp_sum(sum);
    for_columns<W>(args.columns, [&](int i) {
        real of_y[W], of_dy[W];
        load(y + i, of_y);
        load(dy + i, of_dy);
#pragma unroll
        for (int j = 0; j < W; j++)
            of_dy[j] = LOGARITHM ? of_dy[j] - exp(of_y[j]) * sum : of_y[j] * (of_dy[j] - sum);
        store(out + i, of_dy);
    });
}
template <typename T, int W> DEVICE void softmax_backward(const yki_cuda_rows_args &args)
{
    softmax_row_backward<false, T, W>(args);
}
KERNELS(softmax_backward, yki_cuda_rows_args, softmax_backward)

template <typename T, int W> DEVICE void log_softmax_backward(const yki_cuda_rows_args &args)
{
    softmax_row_backward<true, T, W>(args);
}
KERNELS(log_softmax_backward, yki_cuda_rows_args, log_softmax_backward)

/* ---- layer_norm: y = h weight + bias, h = (x - mean) invstd; rms_norm: mean and bias are 0 --- */

/* The mean of a row in layer_norm; rms_norm takes the squares about 0. */
template <bool CENTRED, typename T, int W> DEVICE real_of<T> row_centre(const T *x, int columns)
{
    typedef real_of<T> real;
    real sum = 0;
    if (!CENTRED)
        return 0;
    for_columns<W>(columns, [&](int i) {
        real v[W];
        load(x + i, v);
#pragma unroll
        for (int j = 0; j < W; j++)
            sum += v[j];
    });
    return warp_sum(sum) / (real)columns;
}

template <bool CENTRED, typename T, int W>
DEVICE void row_moments(const T *x, int columns, double eps, real_of<T> *mean, real_of<T> *invstd)
{
    typedef real_of<T> real;
    real squares = 0;
    const real middle = row_centre<CENTRED, T, W>(x, columns);
    for_columns<W>(columns, [&](int i) {
        real v[W];
        load(x + i, v);
#pragma unroll
        for (int j = 0; j < W; j++)
            squares += (v[j] - middle) * (v[j] - middle);
    });
    *mean = middle;
    *invstd = 1 / sqrt(warp_sum(squares) / (real)columns + (real)eps);
}

template <bool CENTRED, typename T, int W> DEVICE void normalise(const yki_cuda_rows_args &args)
{
    typedef real_of<T> real;
    int64_t row = row_of_warp();
    if (row >= args.rows)
        return;
    const T *x = (const T *)args.x + row * args.columns;
    T *out = (T *)args.out + row * args.columns;
    real mean, invstd;
    row_moments<CENTRED, T, W>(x, args.columns, args.eps, &mean, &invstd);
    for_columns<W>(args.columns, [&](int i) {
        real v[W], weight[W], bias[W] = {};
        load(x + i, v);
        load((const real *)args.weight + i, weight);
        if (CENTRED)
            load((const real *)args.bias + i, bias);
#pragma unroll
        for (int j = 0; j < W; j++)
            v[j] = (v[j] - mean) * invstd * weight[j] + bias[j];
        store(out + i, v);
    });
}
template <typename T, int W> DEVICE void layer_norm(const yki_cuda_rows_args &args)
{
    normalise<true, T, W>(args);
}
KERNELS(layer_norm, yki_cuda_rows_args, layer_norm)

template <typename T, int W> DEVICE void rms_norm(const yki_cuda_rows_args &args)
{
    normalise<false, T, W>(args);
}
KERNELS(rms_norm, yki_cuda_rows_args, rms_norm)

/* With g = dy weight: dx = invstd (g - mean(g) - h mean(g h)), without mean(g) in rms_norm. Keeps
 * the moments for the columns. */
template <bool CENTRED, typename T, int W>
DEVICE void norm_row_backward(const yki_cuda_rows_args &args)
{
    typedef real_of<T> real;
    int64_t row = row_of_warp();
    if (row >= args.rows)
        return;
    const T *x = (const T *)args.x + row * args.columns,
            *dy = (const T *)args.dy + row * args.columns;
    T *out = (T *)args.out + row * args.columns;
    real mean, invstd, sum = 0, product = 0;
    row_moments<CENTRED, T, W>(x, args.columns, args.eps, &mean, &invstd);
    if (lane_number() == 0) {
        args.moments[2 * row] = mean;
        args.moments[2 * row + 1] = invstd;
    }
    if (!args.out)
        return;
    const auto load_both = [&](int i, real(&h)[W], real(&g)[W]) {
        real weight[W];
        load(x + i, h);
        load(dy + i, g);
        load((const real *)args.weight + i, weight);
#pragma unroll
        for (int j = 0; j < W; j++) {
            h[j] = (h[j] - mean) * invstd;
            g[j] *= weight[j];
        }
    };
    for_columns<W>(args.columns, [&](int i) {
        real h[W], g[W];
        load_both(i, h, g);
#pragma unroll
        for (int j = 0; j < W; j++) {
            sum += CENTRED ? g[j] : 0;
            product += g[j] * h[j];
        }
    });
    sum = CENTRED ? warp_sum(sum) / (real)args.columns : 0;
    product = warp_sum(product) / (real)args.columns;
    for_columns<W>(args.columns, [&](int i) {
        real h[W], g[W];
        load_both(i, h, g);
#pragma unroll
        for (int j = 0; j < W; j++)
            g[j] = invstd * (g[j] - (sum + h[j] * product));
        store(out + i, g);
    });
}
template <typename T, int W> DEVICE void layer_norm_backward(const yki_cuda_rows_args &args)
{
    norm_row_backward<true, T, W>(args);
}
KERNELS(layer_norm_backward, yki_cuda_rows_args, layer_norm_backward)

template <typename T, int W> DEVICE void rms_norm_backward(const yki_cuda_rows_args &args)
{
    norm_row_backward<false, T, W>(args);
}
KERNELS(rms_norm_backward, yki_cuda_rows_args, rms_norm_backward)

/* dweight = sum(dy h) and dbias = sum(dy) over the rows of a slice; of rms_norm too, which has no
 * use for the latter. */
template <typename T, int W> DEVICE void layer_norm_reduce(const yki_cuda_rows_reduce_args &args)
{
    enum { ROWS = 4 }; /* that are loaded at once */
    typedef real_of<T> real;
    const yki_cuda_columns &at = args.at;
    const part p = part_of<W>(at);
    real sum[W] = {}, product[W] = {}, mean[ROWS], invstd[ROWS];
    T x[ROWS][W], dy[ROWS][W];
    for_rows<ROWS>(
        at, p,
        [&](int i, uint32_t offset) {
            const uint32_t row = (offset - (uint32_t)p.column) / (uint32_t)at.columns;
            mean[i] = (real)args.moments[2 * row];
            invstd[i] = (real)args.moments[2 * row + 1];
            load_raw((const T *)args.x + offset, x[i]);
            load_raw((const T *)args.dy + offset, dy[i]);
        },
        [&](int i, uint32_t) {
#pragma unroll
            for (int j = 0; j < W; j++) {
                sum[j] += widen(dy[i][j]);
                product[j] += widen(dy[i][j]) * (widen(x[i][j]) - mean[i]) * invstd[i];
            }
        });
    add_up<real, W>(at, p, sum, product, args.partial);
}
KERNELS(layer_norm_reduce, yki_cuda_rows_reduce_args, layer_norm_reduce)

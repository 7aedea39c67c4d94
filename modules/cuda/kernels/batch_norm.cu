/*
 * batch_norm: measure and merge make the statistics of this rank, unless the convolution before has
 * summed its result (take_sums); finish makes those of all ranks, apply normalises. In backward, reduce and merge make the sums, and apply the gradient of x. Matrices
 * have pixels as rows and channels as columns.
 */
#include "sums.cuh"

#include "device/sync.h"

/* Rows that a thread loads before it computes. */
#define ROWS_AHEAD 4

/* ---- forward --------------------------------------------------------------------------------- */

/* Distances are measured from the column's first value, which avoids cancellation. */
template <typename T, int W> DEVICE void norm_measure(const yki_cuda_norm_measure_args &args)
{
    typedef real_of<T> real;
    const yki_cuda_columns &at = args.at;
    const part p = part_of<W>(at);
    const T *x = (const T *)args.x + p.column;
    real origin[W] = {}, sum[W] = {}, squares[W] = {};
    if (p.row < p.last)
        load(x, origin);
    for (int64_t row = p.row; row < p.last; row += ROWS_AHEAD * p.stride) {
        real value[ROWS_AHEAD][W];
#pragma unroll
        for (int i = 0; i < ROWS_AHEAD; i++)
            if (row + i * p.stride < p.last)
                load(x + (row + i * p.stride) * at.columns, value[i]);
#pragma unroll
        for (int i = 0; i < ROWS_AHEAD; i++) {
            if (row + i * p.stride >= p.last)
                continue;
#pragma unroll
            for (int j = 0; j < W; j++) {
                real distance = value[i][j] - origin[j];
                sum[j] += distance;
                squares[j] += distance * distance;
            }
        }
    }
    add_up<real, W>(at, p, sum, squares, args.partial);
}
KERNELS(norm_measure, yki_cuda_norm_measure_args, norm_measure)

template <typename T> DEVICE void norm_merge(const yki_cuda_norm_merge_args &args)
{
    int column;
    double sum, squares, count = (double)args.rows;
    if (!sum_slices(args.partial, args.slices, args.columns, &column, &sum, &squares))
        return;
    double mean = 0;
    if (args.rows > 0) {
        mean = widen(((const T *)args.x)[column]) + sum / count;
        squares -= sum * sum / count;
    }
    if (column == 0)
        args.vector[0] = count;
    args.vector[1 + column] = mean;
    args.vector[1 + args.columns + column] = squares > 0 || squares != squares ? squares : 0;
}
SCALAR_KERNELS(norm_merge, yki_cuda_norm_merge_args, norm_merge)

DEVICE yki_moments moments_of_sums(const float *sums, int64_t rows, int columns, int64_t column)
{
    return yki_moments_of_sums((double)rows, sums[column], sums[columns + column]);
}

DEVICE void norm_of_sums(const yki_cuda_norm_sums_args &args)
{
    int64_t column = thread_number();
    if (column >= args.columns)
        return;
    yki_moments found = moments_of_sums(args.sums, args.rows, args.columns, column);
    if (column == 0)
        args.vector[0] = found.count;
    args.vector[1 + column] = found.mean;
    args.vector[1 + args.columns + column] = found.squares;
}
KERNEL(norm_take_sums, yki_cuda_norm_sums_args, norm_of_sums)

DEVICE yki_moments moments_of_all(const double *vectors, int world, int columns, int column)
{
    yki_moments all = {0, 0, 0};
    for (int rank = 0; rank < world; rank++) {
        const double *vector = vectors + rank * yki_sync_length(columns);
        yki_moments one = {vector[0], vector[1 + column], vector[1 + columns + column]};
        all = yki_moments_merge(all, one);
    }
    return all;
}

template <typename R> DEVICE void norm_finish(const yki_cuda_norm_finish_args &args)
{
    int64_t column = thread_number();
    if (column >= args.columns)
        return;
    R *running_mean = (R *)args.running_mean + column,
      *running_var = (R *)args.running_var + column;
    double mean = *running_mean, variance = *running_var;
    if (args.world > 0) {
        const double momentum = args.momentum;
        yki_moments all =
            args.sums ? moments_of_sums(args.sums, args.rows, args.columns, column)
                      : moments_of_all(args.vectors, args.world, args.columns, (int)column);
        *running_mean = (R)((1 - momentum) * mean + momentum * all.mean);
        *running_var = (R)((1 - momentum) * variance + momentum * (all.squares / (all.count - 1)));
        mean = all.mean;
        variance = all.squares / all.count;
        if (column == 0 && args.batches)
            *args.batches += 1;
    }
    ((R *)args.mean)[column] = (R)mean;
    ((R *)args.invstd)[column] = (R)(1 / sqrt(variance + args.eps));
}
KERNEL(norm_finish_f32, yki_cuda_norm_finish_args, norm_finish<float>)
KERNEL(norm_finish_f64, yki_cuda_norm_finish_args, norm_finish<double>)

/* What a column's statistics and parameters are for one thread. */
template <typename R, int W> struct constants {
    R mean[W], invstd[W], weight[W], bias[W];
};

template <typename R, int W, typename A>
DEVICE void read_constants(const A &args, const part &p, constants<R, W> *k)
{
#pragma unroll
    for (int i = 0; i < W; i++) {
        k->mean[i] = ((const R *)args.mean)[p.column + i];
        k->invstd[i] = ((const R *)args.invstd)[p.column + i];
        k->weight[i] = ((const R *)args.weight)[p.column + i];
        k->bias[i] = ((const R *)args.bias)[p.column + i];
    }
}

template <typename T, int W> DEVICE void norm_apply(const yki_cuda_norm_apply_args &args)
{
    typedef real_of<T> real;
    const part p = part_of<W>(args.at);
    if (p.row >= p.last)
        return;
    const T *x = (const T *)args.x + p.column, *residual = (const T *)args.residual + p.column;
    T *y = (T *)args.y + p.column;
    constants<real, W> k;
    read_constants(args, p, &k);
    for (int64_t row = p.row; row < p.last; row += ROWS_AHEAD * p.stride) {
        real value[ROWS_AHEAD][W], more[ROWS_AHEAD][W];
#pragma unroll
        for (int i = 0; i < ROWS_AHEAD; i++) {
            int64_t offset = (row + i * p.stride) * args.at.columns;
            if (row + i * p.stride >= p.last)
                continue;
            load(x + offset, value[i]);
            if (args.residual)
                load(residual + offset, more[i]);
        }
#pragma unroll
        for (int i = 0; i < ROWS_AHEAD; i++) {
            if (row + i * p.stride >= p.last)
                continue;
#pragma unroll
            for (int j = 0; j < W; j++) {
                real v = (value[i][j] - k.mean[j]) * (k.weight[j] * k.invstd[j]) + k.bias[j];
                if (args.residual)
                    v += more[i][j];
                v = args.relu && v < 0 ? 0 : v;
                value[i][j] = args.relu6 && v > 6 ? 6 : v;
            }
            store(y + (row + i * p.stride) * args.at.columns, value[i]);
        }
    }
}
KERNELS(norm_apply, yki_cuda_norm_apply_args, norm_apply)

/* ---- backward -------------------------------------------------------------------------------- */

/* The incoming gradient g of one row, and the normalised x called h. */
template <typename T, int W>
DEVICE void read_gradient(const yki_cuda_norm_backward_args &args,
                          const constants<real_of<T>, W> &k, int64_t offset, real_of<T> (&g)[W],
                          real_of<T> (&h)[W])
{
    typedef real_of<T> real;
    real dy2[W] = {}, y[W] = {};
    load((const T *)args.x + offset, h);
    load((const T *)args.dy + offset, g);
    if (args.dy2)
        load((const T *)args.dy2 + offset, dy2);
    if (args.y)
        load((const T *)args.y + offset, y);
#pragma unroll
    for (int i = 0; i < W; i++) {
        h[i] = (h[i] - k.mean[i]) * k.invstd[i];
        g[i] += dy2[i];
        real out = args.y ? y[i] : h[i] * k.weight[i] + k.bias[i];
        if (args.relu && (!(out > 0) || (args.relu6 && out >= 6)))
            g[i] = 0;
    }
}

template <typename T, int W> DEVICE void norm_reduce(const yki_cuda_norm_backward_args &args)
{
    typedef real_of<T> real;
    const yki_cuda_columns &at = args.at;
    const part p = part_of<W>(at);
    constants<real, W> k;
    real sum[W] = {}, product[W] = {};
    if (p.row < p.last)
        read_constants(args, p, &k);
#pragma unroll 2
    for (int64_t row = p.row; row < p.last; row += p.stride) {
        real g[W], h[W];
        read_gradient<T, W>(args, k, row * at.columns + p.column, g, h);
#pragma unroll
        for (int i = 0; i < W; i++) {
            sum[i] += g[i];
            product[i] += g[i] * h[i];
        }
    }
    add_up<real, W>(at, p, sum, product, args.partial);
}
KERNELS(norm_reduce, yki_cuda_norm_backward_args, norm_reduce)

/* Also of layer_norm, which has no vector. */
template <typename R> DEVICE void sums_merge(const yki_cuda_sums_merge_args &args)
{
    int column;
    double sum, product;
    if (!sum_slices(args.partial, args.slices, args.columns, &column, &sum, &product))
        return;
    if (args.dbias)
        ((R *)args.dbias)[column] = (R)sum;
    if (args.dweight)
        ((R *)args.dweight)[column] = (R)product;
    if (!args.vector)
        return;
    if (column == 0)
        args.vector[0] = (double)args.rows;
    args.vector[1 + column] = sum;
    args.vector[1 + args.columns + column] = product;
}
KERNEL(sums_merge_f32, yki_cuda_sums_merge_args, sums_merge<float>)
KERNEL(sums_merge_f64, yki_cuda_sums_merge_args, sums_merge<double>)

/* The means of g and of g h over all ranks. */
template <typename R, int W>
DEVICE void read_means(const yki_cuda_norm_backward_args &args, const part &p, R (&g)[W],
                       R (&gh)[W])
{
    double count = 0, sum[W] = {}, product[W] = {};
    int columns = args.at.columns;
    for (int rank = 0; rank < args.world; rank++) {
        const double *vector = args.vectors + rank * yki_sync_length(columns);
        count += vector[0];
        for (int i = 0; i < W; i++) {
            sum[i] += vector[1 + p.column + i];
            product[i] += vector[1 + columns + p.column + i];
        }
    }
    for (int i = 0; i < W; i++) {
        g[i] = args.world > 0 ? (R)(sum[i] / count) : 0;
        gh[i] = args.world > 0 ? (R)(product[i] / count) : 0;
    }
}

template <typename T, int W> DEVICE void norm_backward(const yki_cuda_norm_backward_args &args)
{
    typedef real_of<T> real;
    const part p = part_of<W>(args.at);
    if (p.row >= p.last)
        return;
    constants<real, W> k;
    real mean_g[W], mean_gh[W];
    read_constants(args, p, &k);
    read_means(args, p, mean_g, mean_gh);
#pragma unroll 2
    for (int64_t row = p.row; row < p.last; row += p.stride) {
        real g[W], h[W];
        int64_t offset = row * args.at.columns + p.column;
        read_gradient<T, W>(args, k, offset, g, h);
        if (args.dresidual)
            store((T *)args.dresidual + offset, g);
#pragma unroll
        for (int i = 0; i < W; i++)
            g[i] = k.weight[i] * k.invstd[i] * (g[i] - (mean_g[i] + h[i] * mean_gh[i]));
        if (args.dx)
            store((T *)args.dx + offset, g);
    }
}
KERNELS(norm_backward, yki_cuda_norm_backward_args, norm_backward)

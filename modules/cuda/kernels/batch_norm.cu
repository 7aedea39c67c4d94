/*
 * batch_norm: measure and settle make the statistics of this rank alone; with other ranks, merge
 * makes a vector of them, unless the convolution before has summed its result (take_sums), and
 * finish those of all ranks. apply normalises. In backward, reduce and merge make the sums, and
 * backward the gradient of x. Matrices have pixels as rows and channels as columns.
 *
 * A thread takes few channels, so that what it knows of each leaves registers for many rows, and
 * loads several rows before it computes.
 */
#include "norm.cuh"

#define YKI_REAL       float
#define YKI_RULE(name) name##_rule
#include "device/activation_rules.h"
#undef YKI_REAL
#define YKI_REAL double
#include "device/activation_rules.h"

/* ---- forward --------------------------------------------------------------------------------- */

/* Distances are measured from the column's first value, which avoids cancellation. */
template <typename T, int W> DEVICE void norm_measure(const yki_cuda_norm_measure_args &args)
{
    typedef real_of<T> real;
    const int ahead = rows_ahead<T, 1>;
    const part p = part_of<W>(args.at);
    const T *x = (const T *)args.x;
    T raw[ahead][W];
    real origin[W] = {}, sum[W] = {}, squares[W] = {};
    if (p.row < p.last)
        load(x + p.column, origin);
    for_rows<ahead>(
        args.at, p, [&](int i, uint32_t offset) { load_raw(x + offset, raw[i]); },
        [&](int i, uint32_t) {
            real value[W];
            widen(raw[i], value);
#pragma unroll
            for (int j = 0; j < W; j++) {
                real distance = value[j] - origin[j];
                sum[j] += distance;
                squares[j] += distance * distance;
            }
        });
    add_up<real, W>(args.at, p, sum, squares, args.partial);
}
NORM_KERNELS(norm_measure, yki_cuda_norm_measure_args, norm_measure)

/* x[0] of the column that this thread of a block that merges may have. */
template <typename T> DEVICE double first_of(const void *x, int64_t rows, int columns)
{
    const int column = column_of_merge();
    return rows > 0 && column < columns ? widen(((const T *)x)[column]) : 0;
}

DEVICE void write_vector(double *vector, int columns, int64_t column, const yki_moments &found)
{
    if (column == 0)
        vector[0] = found.count;
    vector[1 + column] = found.mean;
    vector[1 + columns + column] = found.squares;
}

template <typename T> DEVICE void norm_merge(const yki_cuda_norm_merge_args &args)
{
    int column;
    double sum, squares;
    const double first = first_of<T>(args.x, args.rows, args.columns);
    if (sum_slices(args.partial, args.slices, args.columns, &column, &sum, &squares))
        write_vector(args.vector, args.columns, column,
                     moments_of_partial(first, args.rows, sum, squares));
}
SCALAR_KERNELS(norm_merge, yki_cuda_norm_merge_args, norm_merge)

DEVICE yki_moments moments_of_sums(const float *sums, int64_t rows, int columns, int64_t column)
{
    return yki_moments_of_sums((double)rows, sums[column], sums[columns + column]);
}

DEVICE void norm_of_sums(const yki_cuda_norm_sums_args &args)
{
    int64_t column = thread_number();
    if (column < args.columns)
        write_vector(args.vector, args.columns, column,
                     moments_of_sums(args.sums, args.rows, args.columns, column));
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

/* Mean and invstd of one column, and its running statistics, which are moved if there are new ones.
 */
template <typename R>
DEVICE void settle(const yki_cuda_norm_finish_args &args, int64_t column, double mean,
                   double variance, const yki_moments *all)
{
    if (all) {
        const double momentum = args.momentum;
        ((R *)args.running_mean)[column] = (R)((1 - momentum) * mean + momentum * all->mean);
        ((R *)args.running_var)[column] =
            (R)((1 - momentum) * variance + momentum * (all->squares / (all->count - 1)));
        mean = all->mean;
        variance = all->squares / all->count;
        if (column == 0 && args.batches)
            *args.batches += 1;
    }
    ((R *)args.mean)[column] = (R)mean;
    ((R *)args.invstd)[column] = (R)(1 / sqrt(variance + args.eps));
}

template <typename R> DEVICE void norm_finish(const yki_cuda_norm_finish_args &args)
{
    int64_t column = thread_number();
    if (column >= args.columns)
        return;
    yki_moments all = {0, 0, 0};
    bool trains = args.world > 0;
    if (trains)
        all = args.sums ? moments_of_sums(args.sums, args.rows, args.columns, column)
                        : moments_of_all(args.vectors, args.world, args.columns, (int)column);
    if (trains && all.count < 2) { /* only this kernel knows it, where ranks share statistics */
        report(&args.mistakes->few, (int64_t)all.count);
        trains = false;
    }
    settle<R>(args, column, ((const R *)args.running_mean)[column],
              ((const R *)args.running_var)[column], trains ? &all : nullptr);
}
KERNEL(norm_finish_f32, yki_cuda_norm_finish_args, norm_finish<float>)
KERNEL(norm_finish_f64, yki_cuda_norm_finish_args, norm_finish<double>)

/* merge and finish of a rank alone. It loads everything before it waits for anything. */
template <typename T> DEVICE void norm_settle(const yki_cuda_norm_finish_args &args)
{
    typedef real_of<T> real;
    int column = column_of_merge();
    double sum, squares, mean = 0, variance = 0;
    const double first = first_of<T>(args.x, args.rows, args.columns);
    if (column < args.columns) {
        mean = ((const real *)args.running_mean)[column];
        variance = ((const real *)args.running_var)[column];
    }
    if (!sum_slices(args.partial, args.slices, args.columns, &column, &sum, &squares))
        return;
    const yki_moments found = moments_of_partial(first, args.rows, sum, squares);
    settle<real>(args, column, mean, variance, &found);
}
SCALAR_KERNELS(norm_settle, yki_cuda_norm_finish_args, norm_settle)

/* What one thread knows of its columns: y = (x - mean) gain + bias. */
template <typename R, int W> struct constants {
    R mean[W], gain[W], bias[W];
};

template <typename R, int W, typename A>
DEVICE void read_constants(const A &args, const part &p, constants<R, W> *k)
{
#pragma unroll
    for (int i = 0; i < W; i++) {
        k->mean[i] = ((const R *)args.mean)[p.column + i];
        k->gain[i] =
            ((const R *)args.weight)[p.column + i] * ((const R *)args.invstd)[p.column + i];
        k->bias[i] = ((const R *)args.bias)[p.column + i];
    }
}

/* relu and relu6, which cost no registers, are told apart as the kernel runs; FORM is any other
 * activation, or none. */
template <yki_fused FORM, typename R> DEVICE R activate(yki_fused activation, R v)
{
    if (FORM != YKI_FUSED_NONE)
        return fused_rule(FORM, v);
    v = activation && v < 0 ? 0 : v;
    return activation == YKI_FUSED_RELU6 && v > 6 ? 6 : v;
}

template <typename T, int W, bool RESIDUAL, yki_fused FORM>
DEVICE void norm_apply_to(const yki_cuda_norm_apply_args &args)
{
    typedef real_of<T> real;
    const int ahead = rows_ahead < T, RESIDUAL ? 2 : 1 > ;
    const part p = part_of<W>(args.at);
    if (p.row >= p.last)
        return;
    const T *x = (const T *)args.x, *residual = (const T *)args.residual;
    T *y = (T *)args.y, raw[ahead][W], more[ahead][W];
    constants<real, W> k;
    read_constants(args, p, &k);
    for_rows<ahead>(
        args.at, p,
        [&](int i, uint32_t offset) {
            load_raw(x + offset, raw[i]);
            if (RESIDUAL)
                load_raw(residual + offset, more[i]);
        },
        [&](int i, uint32_t offset) {
            real value[W], added[W];
            widen(raw[i], value);
            if (RESIDUAL)
                widen(more[i], added);
#pragma unroll
            for (int j = 0; j < W; j++) {
                real v = (value[j] - k.mean[j]) * k.gain[j] + k.bias[j];
                if (RESIDUAL)
                    v += added[j];
                value[j] = activate<FORM>(args.activation, v);
            }
            store(y + offset, value);
        });
}

template <typename T, int W> DEVICE void norm_apply(const yki_cuda_norm_apply_args &args)
{
    if (args.residual)
        norm_apply_to<T, W, true, YKI_FUSED_NONE>(args);
    else if (args.activation == YKI_FUSED_SILU)
        norm_apply_to<T, W, false, YKI_FUSED_SILU>(args);
    else if (args.activation == YKI_FUSED_HARDSWISH)
        norm_apply_to<T, W, false, YKI_FUSED_HARDSWISH>(args);
    else
        norm_apply_to<T, W, false, YKI_FUSED_NONE>(args);
}
NORM_KERNELS(norm_apply, yki_cuda_norm_apply_args, norm_apply)

/* ---- backward -------------------------------------------------------------------------------- */

/* What a thread has loaded of several rows. */
template <typename T, int W, int ROWS> struct incoming {
    T x[ROWS][W], dy[ROWS][W], dy2[ROWS][W], y[ROWS][W];
};

template <bool DY2, bool Y, typename T, int W, int ROWS>
DEVICE void take_incoming(const yki_cuda_norm_backward_args &args, int i, uint32_t offset,
                          incoming<T, W, ROWS> &in)
{
    load_raw((const T *)args.x + offset, in.x[i]);
    load_raw((const T *)args.dy + offset, in.dy[i]);
    if (DY2)
        load_raw((const T *)args.dy2 + offset, in.dy2[i]);
    if (Y)
        load_raw((const T *)args.y + offset, in.y[i]);
}

/* g times the slope of the activation, of whose argument v this is a function; relu and relu6 also
 * take their result. */
template <yki_fused FORM, typename R> DEVICE R pass_back(yki_fused activation, R g, R v)
{
    if (FORM != YKI_FUSED_NONE)
        return fused_backward_rule(FORM, g, v);
    bool closed = activation && (!(v > 0) || (activation == YKI_FUSED_RELU6 && v >= 6));
    return closed ? 0 : g;
}

/* The gradient g before the activation, and c = x - mean. */
template <bool DY2, bool Y, yki_fused FORM, typename T, int W, int ROWS>
DEVICE void use_incoming(const yki_cuda_norm_backward_args &args, int i,
                         const incoming<T, W, ROWS> &in, const constants<real_of<T>, W> &k,
                         real_of<T> (&g)[W], real_of<T> (&c)[W])
{
    real_of<T> dy2[W], y[W];
    widen(in.x[i], c);
    widen(in.dy[i], g);
    if (DY2)
        widen(in.dy2[i], dy2);
    if (Y)
        widen(in.y[i], y);
#pragma unroll
    for (int j = 0; j < W; j++) {
        c[j] -= k.mean[j];
        if (DY2)
            g[j] += dy2[j];
        real_of<T> v = Y ? y[j] : c[j] * k.gain[j] + k.bias[j];
        g[j] = pass_back<FORM>(args.activation, g[j], v);
    }
}

/* Calls use(offset, g, c) for each row of a part. */
template <bool DY2, bool Y, yki_fused FORM, typename T, int W, typename F>
DEVICE void for_gradients(const yki_cuda_norm_backward_args &args, const part &p,
                          const constants<real_of<T>, W> &k, F use)
{
    const int rows = rows_ahead<T, 2 + DY2 + Y>;
    const bool slopes = FORM != YKI_FUSED_NONE; /* which take registers, too */
    const int ahead = slopes && rows > 1 ? rows / 2 : rows;
    incoming<T, W, ahead> in;
    for_rows<ahead>(
        args.at, p, [&](int i, uint32_t offset) { take_incoming<DY2, Y>(args, i, offset, in); },
        [&](int i, uint32_t offset) {
            real_of<T> g[W], c[W];
            use_incoming<DY2, Y, FORM>(args, i, in, k, g, c);
            use(offset, g, c);
        });
}

/* The gradient of what was added after normalising, g, which is all that backward then needs. */
template <typename T, int W> DEVICE void store_rounded(T *to, real_of<T> (&g)[W])
{
    T raw[W];
#pragma unroll
    for (int j = 0; j < W; j++)
        raw[j] = narrow<T>(g[j]);
    store_raw(to, raw);
    widen(raw, g);
}

template <bool DY2, bool Y, yki_fused FORM, typename T, int W>
DEVICE void reduce(const yki_cuda_norm_backward_args &args)
{
    typedef real_of<T> real;
    const part p = part_of<W>(args.at);
    constants<real, W> k;
    real sum[W] = {}, product[W] = {};
    T *dresidual = (T *)args.dresidual;
    if (p.row < p.last)
        read_constants(args, p, &k);
    for_gradients<DY2, Y, FORM, T, W>(args, p, k, [&](uint32_t offset, real(&g)[W], real(&c)[W]) {
        if (dresidual)
            store_rounded(dresidual + offset, g);
#pragma unroll
        for (int j = 0; j < W; j++) {
            sum[j] += g[j];
            product[j] += g[j] * c[j];
        }
    });
#pragma unroll
    for (int j = 0; p.row < p.last && j < W; j++)
        product[j] *= ((const real *)args.invstd)[p.column + j];
    add_up<real, W>(args.at, p, sum, product, args.partial);
}

/* What is absent takes no registers. */
#define BY_DY2(body, y, form, args)                                                                \
    args.dy2 ? body<true, y, form, T, W>(args) : body<false, y, form, T, W>(args)
#define BY_Y(body, args)                                                                           \
    if (args.y)                                                                                    \
        BY_DY2(body, true, YKI_FUSED_NONE, args);                                                  \
    else                                                                                           \
        BY_DY2(body, false, YKI_FUSED_NONE, args)
/* An activation that does not clamp has kernels of its own: in one kernel with the others it would
 * take registers from them. */
#define SLOPE_KERNELS(name, body, form)                                                            \
    template <typename T, int W> DEVICE void name(const yki_cuda_norm_backward_args &args)         \
    {                                                                                              \
        BY_DY2(body, false, form, args);                                                           \
    }                                                                                              \
    NORM_KERNELS(name, yki_cuda_norm_backward_args, name)

template <typename T, int W> DEVICE void norm_reduce(const yki_cuda_norm_backward_args &args)
{
    BY_Y(reduce, args);
}
NORM_KERNELS(norm_reduce, yki_cuda_norm_backward_args, norm_reduce)
SLOPE_KERNELS(norm_reduce_silu, reduce, YKI_FUSED_SILU)
SLOPE_KERNELS(norm_reduce_hardswish, reduce, YKI_FUSED_HARDSWISH)

/* Also of layer_norm and rms_norm, which have no vector. */
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

/* The means over all ranks: of g, and of g h times invstd, which is the slope along c. Without
 * ranks the statistics are constants, and there are neither. */
template <typename R, int W>
DEVICE void read_means(const yki_cuda_norm_backward_args &args, const part &p, R (&g)[W],
                       R (&slope)[W])
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
        const R invstd = ((const R *)args.invstd)[p.column + i];
        g[i] = args.world > 0 ? (R)(sum[i] / count) : 0;
        slope[i] = args.world > 0 ? (R)(product[i] / count) * invstd : 0;
    }
}

template <bool DY2, bool Y, yki_fused FORM, typename T, int W>
DEVICE void backward(const yki_cuda_norm_backward_args &args)
{
    typedef real_of<T> real;
    const part p = part_of<W>(args.at);
    if (p.row >= p.last)
        return;
    constants<real, W> k;
    real mean_g[W], slope[W];
    T *dx = (T *)args.dx;
    read_constants(args, p, &k);
    read_means(args, p, mean_g, slope);
    for_gradients<DY2, Y, FORM, T, W>(args, p, k, [&](uint32_t offset, real(&g)[W], real(&c)[W]) {
#pragma unroll
        for (int j = 0; j < W; j++)
            g[j] = k.gain[j] * (args.world > 0
                                    ? g[j] - (mean_g[j] + c[j] * slope[j]) /* c may be infinite */
                                    : g[j]);
        store(dx + offset, g);
    });
}

template <typename T, int W> DEVICE void norm_backward(const yki_cuda_norm_backward_args &args)
{
    BY_Y(backward, args);
}
NORM_KERNELS(norm_backward, yki_cuda_norm_backward_args, norm_backward)
SLOPE_KERNELS(norm_backward_silu, backward, YKI_FUSED_SILU)
SLOPE_KERNELS(norm_backward_hardswish, backward, YKI_FUSED_HARDSWISH)

/*
 * group_norm: measure sums up each channel of a sample, settle makes mean and invstd of each group
 * of these, and apply normalises. In backward, reduce makes two sums of each channel of a sample,
 * slopes the means over each group, and backward the gradient of x. Then sums_merge, which is in
 * batch_norm.cu, adds up the sums of all samples, which are the gradients of weight and bias.
 * Channels that lie side by side are taken as in batch_norm.cu. The kernels *_rows are for plain
 * tensors (N, C, L).
 */
#include "norm.cuh"

DEVICE int64_t sample_of_block(const yki_cuda_group_norm_args &args)
{
    return blockIdx.x / args.across;
}

/* A sample's first element. */
DEVICE int64_t sample_at(const yki_cuda_group_norm_args &args, int64_t sample)
{
    return sample * args.at.rows * args.at.columns;
}

template <int W> DEVICE part part_of_sample(const yki_cuda_group_norm_args &args)
{
    return part_at<W>(args.at, (int)(blockIdx.x % args.across));
}

/* Where the sums of a sample's first slice are. */
DEVICE double *partial_of(const yki_cuda_group_norm_args &args, int64_t sample)
{
    return args.partial + sample * args.slices * 2 * args.at.columns;
}

/* Where a column's group is in (samples, groups). */
DEVICE int64_t group_at(const yki_cuda_group_norm_args &args, int64_t sample, int column)
{
    return sample * args.groups + column / args.channels;
}

template <typename R> DEVICE R weight_of(const yki_cuda_group_norm_args &args, int column)
{
    return args.weight ? ((const R *)args.weight)[column] : 1;
}

/* What is known of a channel: y = (x - mean) weight invstd + bias. */
template <typename R> struct channel_constants {
    R mean, invstd, weight, bias;
};

template <typename R>
DEVICE channel_constants<R> constants_of(const yki_cuda_group_norm_args &args, int64_t sample,
                                         int column)
{
    const int64_t group = group_at(args, sample, column);
    channel_constants<R> k;
    k.mean = ((const R *)args.mean)[group];
    k.invstd = ((const R *)args.invstd)[group];
    k.weight = weight_of<R>(args, column);
    k.bias = args.bias ? ((const R *)args.bias)[column] : 0;
    return k;
}

template <typename R, int W>
DEVICE void read_constants(const yki_cuda_group_norm_args &args, int64_t sample, const part &p,
                           channel_constants<R> (&k)[W])
{
#pragma unroll
    for (int j = 0; j < W; j++)
        k[j] = constants_of<R>(args, sample, p.column + j);
}

/* ---- rows: channels of a sample -------------------------------------------------------------- */

struct channel_row {
    int64_t sample, at; /* at: its first element */
    int column;
    bool exists;
};

DEVICE channel_row channel_of_warp(const yki_cuda_group_norm_args &args)
{
    const int64_t row = row_of_warp();
    channel_row r;
    r.sample = row / args.at.columns;
    r.column = (int)(row % args.at.columns);
    r.at = row * args.at.rows;
    r.exists = r.sample < args.samples;
    return r;
}

/* Calls take(i) for the first of each W elements that are this lane's. */
template <int W, typename F> DEVICE void for_pixels(const yki_cuda_group_norm_args &args, F take)
{
    const int pixels = (int)args.at.rows;
#pragma unroll 4
    for (int i = lane_number() * W; i < pixels; i += WARP * W)
        take(i);
}

/* The two sums of a channel, by its first lane. */
template <typename R>
DEVICE void keep_row(const yki_cuda_group_norm_args &args, const channel_row &r, R first, R second)
{
    first = warp_sum(first);
    second = warp_sum(second);
    if (lane_number() > 0)
        return;
    double *to = partial_of(args, r.sample);
    to[r.column] = first;
    to[args.at.columns + r.column] = second;
}

/* ---- forward --------------------------------------------------------------------------------- */

/* Distances are measured from the channel's first value, which avoids cancellation. */
template <typename T, int W> DEVICE void group_norm_measure(const yki_cuda_group_norm_args &args)
{
    typedef real_of<T> real;
    const int ahead = rows_ahead<T, 1>;
    const part p = part_of_sample<W>(args);
    const int64_t sample = sample_of_block(args);
    const T *x = (const T *)args.x + sample_at(args, sample);
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
                const real distance = value[j] - origin[j];
                sum[j] += distance;
                squares[j] += distance * distance;
            }
        });
    add_up<real, W>(args.at, p, sum, squares, partial_of(args, sample));
}
NORM_KERNELS(group_norm_measure, yki_cuda_group_norm_args, group_norm_measure)

template <typename T, int W>
DEVICE void group_norm_measure_rows(const yki_cuda_group_norm_args &args)
{
    typedef real_of<T> real;
    const channel_row r = channel_of_warp(args);
    if (!r.exists)
        return;
    const T *x = (const T *)args.x + r.at;
    const real origin = widen(x[0]);
    real sum = 0, squares = 0;
    for_pixels<W>(args, [&](int i) {
        real value[W];
        load(x + i, value);
#pragma unroll
        for (int j = 0; j < W; j++) {
            const real distance = value[j] - origin;
            sum += distance;
            squares += distance * distance;
        }
    });
    keep_row(args, r, sum, squares);
}
NORM_KERNELS(group_norm_measure_rows, yki_cuda_group_norm_args, group_norm_measure_rows)

/* The pixels of a slice. */
DEVICE int64_t rows_of_slice(const yki_cuda_group_norm_args &args, int slice)
{
    const int64_t left = args.at.rows - slice * args.at.slice;
    return left < args.at.slice ? left : args.at.slice;
}

DEVICE yki_moments warp_merge(yki_moments mine)
{
    for (int distance = WARP / 2; distance > 0; distance /= 2) {
        yki_moments other;
        other.count = __shfl_xor_sync(ALL_LANES, mine.count, distance);
        other.mean = __shfl_xor_sync(ALL_LANES, mine.mean, distance);
        other.squares = __shfl_xor_sync(ALL_LANES, mine.squares, distance);
        mine = yki_moments_merge(mine, other);
    }
    return mine;
}

/* A warp for each group of a sample. `distance`: elements from one channel to the next. */
template <typename T>
DEVICE void settle(const yki_cuda_group_norm_args &args, int64_t distance)
{
    typedef real_of<T> real;
    const int64_t group = row_of_warp(), sample = group / args.groups;
    if (sample >= args.samples)
        return;
    const int first = (int)(group % args.groups) * args.channels;
    const T *x = (const T *)args.x + sample_at(args, sample);
    const double *partial = partial_of(args, sample);
    yki_moments all = {0, 0, 0};
    for (int i = lane_number(); i < args.slices * args.channels; i += WARP) {
        const int slice = i / args.channels, column = first + i % args.channels;
        const double *sums = partial + (int64_t)slice * 2 * args.at.columns + column;
        const double origin = widen(x[column * distance]);
        all = yki_moments_merge(all, moments_of_partial(origin, rows_of_slice(args, slice), sums[0],
                                                        sums[args.at.columns]));
    }
    all = warp_merge(all);
    if (lane_number() > 0)
        return;
    ((real *)args.mean)[group] = (real)all.mean;
    ((real *)args.invstd)[group] = (real)(1 / sqrt(all.squares / all.count + args.eps));
}

template <typename T> DEVICE void group_norm_settle(const yki_cuda_group_norm_args &args)
{
    settle<T>(args, 1);
}
SCALAR_KERNELS(group_norm_settle, yki_cuda_group_norm_args, group_norm_settle)

template <typename T> DEVICE void group_norm_settle_rows(const yki_cuda_group_norm_args &args)
{
    settle<T>(args, args.at.rows);
}
SCALAR_KERNELS(group_norm_settle_rows, yki_cuda_group_norm_args, group_norm_settle_rows)

template <typename R> DEVICE R normalised(R x, const channel_constants<R> &k)
{
    return (x - k.mean) * (k.weight * k.invstd) + k.bias;
}

template <typename T, int W> DEVICE void group_norm_apply(const yki_cuda_group_norm_args &args)
{
    typedef real_of<T> real;
    const int ahead = rows_ahead<T, 1>;
    const part p = part_of_sample<W>(args);
    const int64_t sample = sample_of_block(args), first = sample_at(args, sample);
    if (p.row >= p.last)
        return;
    const T *x = (const T *)args.x + first;
    T *y = (T *)args.out + first, raw[ahead][W];
    channel_constants<real> k[W];
    read_constants(args, sample, p, k);
    for_rows<ahead>(
        args.at, p, [&](int i, uint32_t offset) { load_raw(x + offset, raw[i]); },
        [&](int i, uint32_t offset) {
            real value[W];
            widen(raw[i], value);
#pragma unroll
            for (int j = 0; j < W; j++)
                value[j] = normalised(value[j], k[j]);
            store(y + offset, value);
        });
}
NORM_KERNELS(group_norm_apply, yki_cuda_group_norm_args, group_norm_apply)

template <typename T, int W> DEVICE void group_norm_apply_rows(const yki_cuda_group_norm_args &args)
{
    typedef real_of<T> real;
    const channel_row r = channel_of_warp(args);
    if (!r.exists)
        return;
    const channel_constants<real> k = constants_of<real>(args, r.sample, r.column);
    for_pixels<W>(args, [&](int i) {
        real value[W];
        load((const T *)args.x + r.at + i, value);
#pragma unroll
        for (int j = 0; j < W; j++)
            value[j] = normalised(value[j], k);
        store((T *)args.out + r.at + i, value);
    });
}
NORM_KERNELS(group_norm_apply_rows, yki_cuda_group_norm_args, group_norm_apply_rows)

/* ---- backward: with g = dy weight, dx = invstd (g - mean(g) - h mean(g h)) ------------------- */

/* What a thread has loaded of several rows. */
template <typename T, int W, int ROWS> struct incoming {
    T x[ROWS][W], dy[ROWS][W];
};

/* Calls use(offset, h, dy) for each row of a part of a sample. */
template <typename T, int W, typename F>
DEVICE void for_gradients(const yki_cuda_group_norm_args &args, int64_t first, const part &p,
                          const channel_constants<real_of<T>> (&k)[W], F use)
{
    typedef real_of<T> real;
    const int ahead = rows_ahead<T, 2>;
    const T *x = (const T *)args.x + first, *dy = (const T *)args.dy + first;
    incoming<T, W, ahead> in;
    for_rows<ahead>(
        args.at, p,
        [&](int i, uint32_t offset) {
            load_raw(x + offset, in.x[i]);
            load_raw(dy + offset, in.dy[i]);
        },
        [&](int i, uint32_t offset) {
            real h[W], d[W];
            widen(in.x[i], h);
            widen(in.dy[i], d);
#pragma unroll
            for (int j = 0; j < W; j++)
                h[j] = (h[j] - k[j].mean) * k[j].invstd;
            use(offset, h, d);
        });
}

template <typename T, int W> DEVICE void group_norm_reduce(const yki_cuda_group_norm_args &args)
{
    typedef real_of<T> real;
    const part p = part_of_sample<W>(args);
    const int64_t sample = sample_of_block(args), first = sample_at(args, sample);
    channel_constants<real> k[W];
    real sum[W] = {}, product[W] = {};
    if (p.row < p.last)
        read_constants(args, sample, p, k);
    for_gradients<T, W>(args, first, p, k, [&](uint32_t, real(&h)[W], real(&d)[W]) {
#pragma unroll
        for (int j = 0; j < W; j++) {
            sum[j] += d[j];
            product[j] += d[j] * h[j];
        }
    });
    add_up<real, W>(args.at, p, sum, product, partial_of(args, sample));
}
NORM_KERNELS(group_norm_reduce, yki_cuda_group_norm_args, group_norm_reduce)

/* Calls use(i, h, dy) for the elements of a channel that are this lane's. */
template <typename T, int W, typename F>
DEVICE void for_row_gradients(const yki_cuda_group_norm_args &args, const channel_row &r,
                              const channel_constants<real_of<T>> &k, F use)
{
    typedef real_of<T> real;
    for_pixels<W>(args, [&](int i) {
        real h[W], d[W];
        load((const T *)args.x + r.at + i, h);
        load((const T *)args.dy + r.at + i, d);
#pragma unroll
        for (int j = 0; j < W; j++)
            h[j] = (h[j] - k.mean) * k.invstd;
        use(i, h, d);
    });
}

template <typename T, int W>
DEVICE void group_norm_reduce_rows(const yki_cuda_group_norm_args &args)
{
    typedef real_of<T> real;
    const channel_row r = channel_of_warp(args);
    if (!r.exists)
        return;
    const channel_constants<real> k = constants_of<real>(args, r.sample, r.column);
    real sum = 0, product = 0;
    for_row_gradients<T, W>(args, r, k, [&](int, real(&h)[W], real(&d)[W]) {
#pragma unroll
        for (int j = 0; j < W; j++) {
            sum += d[j];
            product += d[j] * h[j];
        }
    });
    keep_row(args, r, sum, product);
}
NORM_KERNELS(group_norm_reduce_rows, yki_cuda_group_norm_args, group_norm_reduce_rows)

/* A warp for each group of a sample. */
template <typename R> DEVICE void group_norm_slopes(const yki_cuda_group_norm_args &args)
{
    const int64_t group = row_of_warp(), sample = group / args.groups;
    if (sample >= args.samples)
        return;
    const int first = (int)(group % args.groups) * args.channels;
    const double *partial = partial_of(args, sample);
    double sum = 0, product = 0;
    for (int i = lane_number(); i < args.slices * args.channels; i += WARP) {
        const int slice = i / args.channels, column = first + i % args.channels;
        const double *sums = partial + (int64_t)slice * 2 * args.at.columns + column;
        const double weight = weight_of<R>(args, column);
        sum += weight * sums[0];
        product += weight * sums[args.at.columns];
    }
    sum = warp_sum(sum);
    product = warp_sum(product);
    if (lane_number() > 0)
        return;
    const double count = (double)args.at.rows * args.channels;
    args.means[2 * group] = sum / count;
    args.means[2 * group + 1] = product / count;
}
KERNEL(group_norm_slopes_f32, yki_cuda_group_norm_args, group_norm_slopes<float>)
KERNEL(group_norm_slopes_f64, yki_cuda_group_norm_args, group_norm_slopes<double>)

/* The means of g and of g h of a channel's group. */
template <typename R>
DEVICE void read_means(const yki_cuda_group_norm_args &args, int64_t sample, int column, R *mean,
                       R *slope)
{
    const int64_t group = group_at(args, sample, column);
    *mean = (R)args.means[2 * group];
    *slope = (R)args.means[2 * group + 1];
}

template <typename R>
DEVICE R slope_at(R h, R dy, const channel_constants<R> &k, R mean, R slope)
{
    return k.invstd * (dy * k.weight - (mean + h * slope));
}

template <typename T, int W> DEVICE void group_norm_backward(const yki_cuda_group_norm_args &args)
{
    typedef real_of<T> real;
    const part p = part_of_sample<W>(args);
    const int64_t sample = sample_of_block(args), first = sample_at(args, sample);
    if (p.row >= p.last)
        return;
    T *dx = (T *)args.out + first;
    channel_constants<real> k[W];
    real mean[W], slope[W];
    read_constants(args, sample, p, k);
#pragma unroll
    for (int j = 0; j < W; j++)
        read_means(args, sample, p.column + j, &mean[j], &slope[j]);
    for_gradients<T, W>(args, first, p, k, [&](uint32_t offset, real(&h)[W], real(&d)[W]) {
#pragma unroll
        for (int j = 0; j < W; j++)
            d[j] = slope_at(h[j], d[j], k[j], mean[j], slope[j]);
        store(dx + offset, d);
    });
}
NORM_KERNELS(group_norm_backward, yki_cuda_group_norm_args, group_norm_backward)

template <typename T, int W>
DEVICE void group_norm_backward_rows(const yki_cuda_group_norm_args &args)
{
    typedef real_of<T> real;
    const channel_row r = channel_of_warp(args);
    if (!r.exists)
        return;
    const channel_constants<real> k = constants_of<real>(args, r.sample, r.column);
    real mean, slope;
    read_means(args, r.sample, r.column, &mean, &slope);
    for_row_gradients<T, W>(args, r, k, [&](int i, real(&h)[W], real(&d)[W]) {
#pragma unroll
        for (int j = 0; j < W; j++)
            d[j] = slope_at(h[j], d[j], k, mean, slope);
        store((T *)args.out + r.at + i, d);
    });
}
NORM_KERNELS(group_norm_backward_rows, yki_cuda_group_norm_args, group_norm_backward_rows)

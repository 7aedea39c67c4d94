/* Places of a dimension by an index, and the sums of what came for each place. */
#include "kernel.cuh"

/* Where element i is. Vectors are of what memory has in the order of elements. */
template <int W> DEVICE int64_t memory_of(const yki_cuda_order &order, int64_t i)
{
    if (W > 1 || order.channels == 0)
        return i;
    const int64_t pixel = i % order.pixels, channel = i / order.pixels % order.channels;
    const int64_t image = i / (order.channels * order.pixels);
    return (image * order.pixels + pixel) * order.channels + channel;
}

/* The place that the index names for the n-th of a row. */
template <int W> DEVICE int64_t place_at(const yki_cuda_take_args &args, int64_t row, int64_t n)
{
    const int64_t i = args.shared ? n : row * args.taken + n;
    return index_at(args.index, args.wide, memory_of<W>(args.index_order, i));
}

/* A thread for each W elements of y. */
template <typename T, int W> DEVICE void take(const yki_cuda_take_args &args)
{
    const int64_t at = thread_number() * W;
    if (at >= args.count)
        return;
    const int64_t column = at % args.inner, i = at / args.inner, row = i / args.taken;
    const int64_t place = place_at<W>(args, row, i % args.taken);
    const bool exists = place >= 0 && place < args.places;
    real_of<T> value[W];
#pragma unroll
    for (int j = 0; j < W; j++)
        value[j] = NAN;
    if (exists) {
        const int64_t from = (row * args.places + place) * args.inner + column;
        load((const T *)args.x + memory_of<W>(args.x_order, from), value);
    } else if (column == 0) {
        report(&args.mistakes->place, row / args.rows_of_sample);
    }
    store((T *)args.y + memory_of<W>(args.y_order, at), value);
}
KERNELS(take_along_dim, yki_cuda_take_args, take)

/* The first and the last number in the index of a place, a thread for each: it is looked for once,
 * not by each thread that has some of its elements. */
DEVICE void find_ranges(const yki_cuda_take_args &args)
{
    const int64_t i = thread_number(), row = i / args.places, place = i % args.places;
    if (i >= args.ranges)
        return;
    int64_t first = args.taken, last = -1;
#pragma unroll 8
    for (int64_t n = 0; n < args.taken; n++)
        if (place_at<1>(args, row, n) == place) {
            first = n < first ? n : first;
            last = n;
        }
    args.between[2 * i] = (int32_t)first;
    args.between[2 * i + 1] = (int32_t)last;
}
KERNEL(take_along_dim_ranges, yki_cuda_take_args, find_ranges)

/* A thread for each W elements of dx. Sums have the order of the index, and so the same bits in
 * every run. */
template <typename T, int W> DEVICE void take_backward(const yki_cuda_take_args &args)
{
    const int64_t at = thread_number() * W;
    if (at >= args.count)
        return;
    const int64_t column = at % args.inner, i = at / args.inner, row = i / args.places;
    const int64_t place = i % args.places;
    const int32_t *between = args.between ? args.between + 2 * (args.shared ? place : i) : NULL;
    const int64_t last = between ? between[1] : args.taken - 1;
    real_of<T> sum[W] = {0}, term[W];
    for (int64_t n = between ? between[0] : 0; n <= last; n++) {
        if (place_at<W>(args, row, n) != place)
            continue;
        const int64_t from = (row * args.taken + n) * args.inner + column;
        load((const T *)args.dy + memory_of<W>(args.y_order, from), term);
#pragma unroll
        for (int j = 0; j < W; j++)
            sum[j] += term[j];
    }
    store((T *)args.dx + memory_of<W>(args.x_order, at), sum);
}
KERNELS(take_along_dim_backward, yki_cuda_take_args, take_backward)

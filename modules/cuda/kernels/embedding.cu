/* Rows of a weight by their indices, and the sums of what came for each row. */
#include "sums.cuh"

/* A thread for each W elements of y, of which there are fewer than 2^31. */
template <typename T, int W> DEVICE void embedding(const yki_cuda_embedding_args &args)
{
    const int64_t at = thread_number() * W;
    if (at >= args.count * args.columns)
        return;
    const uint32_t i = (uint32_t)at / (uint32_t)args.columns;
    const uint32_t column = (uint32_t)at % (uint32_t)args.columns;
    const int64_t row = index_at(args.indices, args.wide, i);
    const bool exists = row >= 0 && row < args.rows;
    T value[W];
    if (!exists && column == 0)
        report(&args.mistakes->index, i / args.length);
    if (exists)
        load((const T *)args.weight + row * args.columns + column, value);
#pragma unroll
    for (int j = 0; !exists && j < W; j++)
        value[j] = NAN;
    store((T *)args.y + at, value);
}
KERNELS_OF(embedding, yki_cuda_embedding_args, embedding, float, f32)
KERNELS_OF(embedding, yki_cuda_embedding_args, embedding, double, f64)

/* A block for each row. Its threads look at as many indices at a time, and then add up what came
 * for those that are the row's, a thread for each column: in the order of the indices, so that the
 * sums have the same bits in every run. */
template <typename T> DEVICE void embedding_backward(const yki_cuda_embedding_args &args)
{
    SHARED(unsigned, found, WARPS); /* a bit for each of these indices */
    const int32_t row = (int32_t)blockIdx.x;
    for (int first = 0; first < args.columns; first += THREADS) {
        const int column = first + (int)threadIdx.x;
        T sum = 0;
        for (int64_t begin = 0; begin < args.count; begin += THREADS) {
            const int64_t i = begin + threadIdx.x;
            const unsigned bits = __ballot_sync(
                ALL_LANES, i < args.count && index_at(args.indices, args.wide, i) == row);
            __syncthreads(); /* the indices before have been added */
            if (lane_number() == 0)
                found[threadIdx.x / WARP] = bits;
            __syncthreads();
            for (int warp = 0; warp < WARPS; warp++)
                for (unsigned left = found[warp]; left && column < args.columns; left &= left - 1) {
                    const int64_t from = begin + warp * WARP + __ffs((int)left) - 1;
                    sum += ((const T *)args.dy)[from * args.columns + column];
                }
        }
        if (column < args.columns)
            ((T *)args.dweight)[(int64_t)row * args.columns + column] = sum;
    }
}
KERNEL(embedding_backward_f32, yki_cuda_embedding_args, embedding_backward<float>)
KERNEL(embedding_backward_f64, yki_cuda_embedding_args, embedding_backward<double>)

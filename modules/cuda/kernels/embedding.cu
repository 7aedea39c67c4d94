/* Rows of a weight by their indices, and the sums of what came for each row. */
#include "kernel.cuh"

/* A thread for each element of y. */
template <typename T> DEVICE void embedding(const yki_cuda_embedding_args &args)
{
    const int64_t at = thread_number(), i = at / args.columns, column = at % args.columns;
    if (i >= args.count)
        return;
    const int32_t row = args.indices[i];
    const bool exists = row >= 0 && row < args.rows;
    ((T *)args.y)[at] =
        exists ? ((const T *)args.weight)[(int64_t)row * args.columns + column] : (T)NAN;
}
KERNEL(embedding_f32, yki_cuda_embedding_args, embedding<float>)
KERNEL(embedding_f64, yki_cuda_embedding_args, embedding<double>)

/* A block for each row, whose threads read the same indices at a time: in order, so that the sums
 * have the same bits in every run. */
template <typename T> DEVICE void embedding_backward(const yki_cuda_embedding_args &args)
{
    const int32_t row = (int32_t)blockIdx.x;
    for (int column = (int)threadIdx.x; column < args.columns; column += THREADS) {
        T sum = 0;
        for (int64_t i = 0; i < args.count; i++)
            if (args.indices[i] == row)
                sum += ((const T *)args.dy)[i * args.columns + column];
        ((T *)args.dweight)[(int64_t)row * args.columns + column] = sum;
    }
}
KERNEL(embedding_backward_f32, yki_cuda_embedding_args, embedding_backward<float>)
KERNEL(embedding_backward_f64, yki_cuda_embedding_args, embedding_backward<double>)

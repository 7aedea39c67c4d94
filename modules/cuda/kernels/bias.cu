/* Biases of convolutions and linear layers: added to the columns of y, and their gradients. */
#include "sums.cuh"

/* y += bias; a thread takes W elements of a row. */
template <typename T, int W> DEVICE void bias_add(const yki_cuda_bias_add_args &args)
{
    typedef real_of<T> real;
    int64_t first = thread_number() * W, column = first % args.columns;
    if (first >= args.rows * args.columns)
        return;
    real value[W];
    T *y = (T *)args.y + first;
    load(y, value);
#pragma unroll
    for (int i = 0; i < W; i++)
        value[i] += ((const real *)args.bias)[column + i];
    store(y, value);
}
KERNELS(bias_add, yki_cuda_bias_add_args, bias_add)

/* The sums of columns over one slice, which sums_merge adds up. */
template <typename T, int W, bool IS_PRODUCT>
DEVICE void reduce_columns(const yki_cuda_bias_reduce_args &args)
{
    enum { ROWS = 4 }; /* that are loaded at once */
    typedef real_of<T> real;
    const part p = part_of<W>(args.at);
    real sum[W] = {}, none[W] = {};
    T dy[ROWS][W], factor[IS_PRODUCT ? ROWS : 1][W];
    for_rows<ROWS>(
        args.at, p,
        [&](int i, uint32_t offset) {
            load_raw((const T *)args.dy + offset, dy[i]);
            if (IS_PRODUCT)
                load_raw((const T *)args.factor + offset, factor[IS_PRODUCT ? i : 0]);
        },
        [&](int i, uint32_t) {
#pragma unroll
            for (int j = 0; j < W; j++)
                sum[j] += IS_PRODUCT ? widen(dy[i][j]) * widen(factor[i][j]) : widen(dy[i][j]);
        });
    add_up<real>(args.at, p, sum, none, args.partial);
}

template <typename T, int W> DEVICE void bias_reduce(const yki_cuda_bias_reduce_args &args)
{
    reduce_columns<T, W, false>(args);
}
KERNELS(bias_reduce, yki_cuda_bias_reduce_args, bias_reduce)

template <typename T, int W> DEVICE void bias_reduce_product(const yki_cuda_bias_reduce_args &args)
{
    reduce_columns<T, W, true>(args);
}
KERNELS(bias_reduce_product, yki_cuda_bias_reduce_args, bias_reduce_product)

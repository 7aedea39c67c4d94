/* Functions of two tensors that are repeated along some dimensions, such as add, expand, which only
 * repeats, and reduce, the gradient of that; and permute, which has other strides as well. */
#include "compare.cuh"
#include "sums.cuh"

/* The place of element i of these dimensions; there are fewer than 2^31 elements. */
DEVICE uint32_t place_in(const int32_t *dims, const int32_t *stride, uint32_t i)
{
    uint32_t place = 0;
#pragma unroll
    for (int d = YK_MAX_DIMS - 1; d >= 0; d--) {
        if (dims[d] == 1) /* the same for all threads, and divisions take long */
            continue;
        place += i % (uint32_t)dims[d] * (uint32_t)stride[d];
        i /= (uint32_t)dims[d];
    }
    return place;
}

/* Lane i of an operand whose last dimension is there (stride 1) or repeated (0). */
template <typename T, int W>
DEVICE void load_repeated(const T *from, int last_stride, real_of<T> (&to)[W])
{
    if (last_stride) {
        load(from, to);
        return;
    }
#pragma unroll
    for (int i = 0; i < W; i++)
        to[i] = widen(*from);
}

template <typename T, int W, typename F>
DEVICE void broadcast(const yki_cuda_broadcast_args &args, F f)
{
    const int64_t place = thread_number() * W;
    if (place >= args.count)
        return;
    const T *a_at = (const T *)args.a + place_in(args.dims, args.a_stride, (uint32_t)place);
    const T *b_at = (const T *)args.b + place_in(args.dims, args.b_stride, (uint32_t)place);
    real_of<T> a[W], b[W];
    load_repeated(a_at, args.a_stride[YK_MAX_DIMS - 1], a);
    load_repeated(b_at, args.b_stride[YK_MAX_DIMS - 1], b);
#pragma unroll
    for (int i = 0; i < W; i++)
        a[i] = f(a[i], b[i]);
    store((T *)args.y + place, a);
}

#define BROADCAST(name, of)                                                                        \
    template <typename T, int W> DEVICE void name(const yki_cuda_broadcast_args &args)             \
    {                                                                                              \
        typedef real_of<T> real;                                                                   \
        const real alpha = (real)args.alpha, beta = (real)args.beta;                               \
        (void)alpha, (void)beta;                                                                   \
        broadcast<T, W>(args, [=](real a, real b) { return of; });                                 \
    }                                                                                              \
    KERNELS(name, yki_cuda_broadcast_args, name)
BROADCAST(add_broadcast, a + b)
BROADCAST(subtract_broadcast, a - b)
BROADCAST(multiply_broadcast, a *b)
BROADCAST(divide_broadcast, a / b)
BROADCAST(maximum_broadcast, maximum_rule(a, b))
BROADCAST(minimum_broadcast, minimum_rule(a, b))
BROADCAST(compare_broadcast, compare_rule(a, b, alpha, beta))
BROADCAST(masked_fill_broadcast, masked_fill_rule(a, b, alpha, beta))

template <typename T, int W> DEVICE void expand(const yki_cuda_broadcast_args &args)
{
    const real_of<T> factor = (real_of<T>)args.alpha;
    broadcast<T, W>(args, [=](real_of<T> a, real_of<T>) { return a * factor; });
}
KERNELS(expand, yki_cuda_broadcast_args, expand)

/* Element i of those that are summed for one of dx, whose first one is there. */
template <typename T, bool IS_PRODUCT>
DEVICE real_of<T> term_of(const yki_cuda_reduce_args &args, uint32_t first, int64_t i)
{
    const uint32_t at = first + place_in(args.summed, args.stride, (uint32_t)i);
    const real_of<T> dy = widen(((const T *)args.dy)[at]);
    return IS_PRODUCT ? dy * widen(((const T *)args.factor)[at]) : dy;
}

/* A warp for each element of dx. */
template <typename T, bool IS_PRODUCT> DEVICE void reduce_terms(const yki_cuda_reduce_args &args)
{
    int64_t element = thread_number() / WARP;
    if (element >= args.count)
        return;
    const uint32_t first = place_in(args.kept, args.stride, (uint32_t)element);
    real_of<T> sum = 0;
    for (int64_t i = threadIdx.x % WARP; i < args.repeated; i += WARP)
        sum += term_of<T, IS_PRODUCT>(args, first, i);
    sum = warp_sum(sum);
    if (threadIdx.x % WARP == 0)
        ((T *)args.dx)[element] = narrow<T>(sum);
}

template <typename T> DEVICE void reduce(const yki_cuda_reduce_args &args)
{
    reduce_terms<T, false>(args);
}
SCALAR_KERNELS(reduce, yki_cuda_reduce_args, reduce)

template <typename T> DEVICE void reduce_product(const yki_cuda_reduce_args &args)
{
    reduce_terms<T, true>(args);
}
SCALAR_KERNELS(reduce_product, yki_cuda_reduce_args, reduce_product)

/* A block for each slice (blockIdx.y) of what one element of dx (blockIdx.x) is the sum of. */
template <typename T, bool IS_PRODUCT> DEVICE void reduce_a_slice(const yki_cuda_reduce_args &args)
{
    const uint32_t first = place_in(args.kept, args.stride, blockIdx.x);
    const int64_t begin = blockIdx.y * args.slice, end = begin + args.slice;
    const int64_t last = end < args.repeated ? end : args.repeated;
    real_of<T> sum = 0;
#pragma unroll 4
    for (int64_t i = begin + threadIdx.x; i < last; i += THREADS)
        sum += term_of<T, IS_PRODUCT>(args, first, i);
    const double all = block_sum((double)sum);
    if (threadIdx.x != 0)
        return;
    double *to = args.partial + (int64_t)blockIdx.y * 2 * args.count + blockIdx.x;
    to[0] = all;
    to[args.count] = 0;
}

template <typename T> DEVICE void reduce_slices(const yki_cuda_reduce_args &args)
{
    reduce_a_slice<T, false>(args);
}
SCALAR_KERNELS(reduce_slices, yki_cuda_reduce_args, reduce_slices)

template <typename T> DEVICE void reduce_slices_product(const yki_cuda_reduce_args &args)
{
    reduce_a_slice<T, true>(args);
}
SCALAR_KERNELS(reduce_slices_product, yki_cuda_reduce_args, reduce_slices_product)

/* Of each matrix the threads of a column have some rows each. */
template <typename T, int W, bool IS_PRODUCT>
DEVICE void reduce_matrices(const yki_cuda_reduce_rows_args &args)
{
    typedef real_of<T> real;
    SHARED(real, sums, W * THREADS);
    real *const mine = sums + threadIdx.x;
    yki_cuda_columns at = {args.rows, args.rows, args.columns, args.tile};
    part p = part_of<W>(at);
    p.row = p.place;
    p.last = p.place < p.places && p.column < args.columns ? args.rows : 0;
    for (int64_t matrix = blockIdx.y; matrix < args.batch; matrix += gridDim.y) {
        const int64_t first = matrix * args.rows * args.columns + p.column;
        real sum[W] = {};
#pragma unroll 4
        for (int64_t row = p.row; row < p.last; row += p.stride) {
            const int64_t place = first + row * args.columns;
            real value[W], factor[W];
            load((const T *)args.dy + place, value);
            if (IS_PRODUCT)
                load((const T *)args.factor + place, factor);
#pragma unroll
            for (int i = 0; i < W; i++)
                sum[i] += IS_PRODUCT ? value[i] * factor[i] : value[i];
        }
        __syncthreads(); /* the matrix before has been stored */
#pragma unroll
        for (int i = 0; i < W; i++)
            mine[i * THREADS] = sum[i];
        add_places<W>(mine, p, args.tile);
        if (p.place > 0 || p.column >= args.columns)
            continue;
#pragma unroll
        for (int i = 0; i < W; i++)
            sum[i] = mine[i * THREADS];
        store((T *)args.dx + matrix * args.columns + p.column, sum);
    }
}

template <typename T, int W> DEVICE void reduce_rows(const yki_cuda_reduce_rows_args &args)
{
    reduce_matrices<T, W, false>(args);
}
KERNELS(reduce_rows, yki_cuda_reduce_rows_args, reduce_rows)

template <typename T, int W> DEVICE void reduce_rows_product(const yki_cuda_reduce_rows_args &args)
{
    reduce_matrices<T, W, true>(args);
}
KERNELS(reduce_rows_product, yki_cuda_reduce_rows_args, reduce_rows_product)

/* T: an integer of the element's size, or several of them. */
template <typename T> DEVICE void permute(const yki_cuda_permute_args &args)
{
    const int64_t i = thread_number();
    if (i < args.count)
        ((T *)args.y)[i] = ((const T *)args.x)[place_in(args.dims, args.stride, (uint32_t)i)];
}
KERNEL(permute_2, yki_cuda_permute_args, permute<uint16_t>)
KERNEL(permute_4, yki_cuda_permute_args, permute<uint32_t>)
KERNEL(permute_8, yki_cuda_permute_args, permute<uint64_t>)
KERNEL(permute_16, yki_cuda_permute_args, permute<uint4>)

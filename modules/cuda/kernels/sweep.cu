/*
 * Sweeps (device/sweep.h): a block for each chunk. Sums are made by chunk and added up by a second
 * kernel, in an order that shapes alone decide.
 */
#include "sums.cuh"

#define YKI_SWEEP_REAL       float
#define YKI_SWEEP_NAME(name) name##_f32
#define YKI_SWEEP_SQRT       sqrtf
#include "device/sweep_rules.h"
#undef YKI_SWEEP_REAL
#undef YKI_SWEEP_NAME
#undef YKI_SWEEP_SQRT
#define YKI_SWEEP_REAL       double
#define YKI_SWEEP_NAME(name) name##_f64
#define YKI_SWEEP_SQRT       sqrt
#include "device/sweep_rules.h"

/* The rules of one type, by names that do not have it. */
template <typename R> struct rules;

template <> struct rules<float> {
    typedef sgd_f32 sgd;
    typedef adam_f32 adam;
    typedef rmsprop_f32 rmsprop;
    static constexpr auto read_sgd = read_sgd_f32;
    static constexpr auto read_adam = read_adam_f32;
    static constexpr auto read_rmsprop = read_rmsprop_f32;
    static constexpr auto sgd_plain = sgd_plain_f32;
    static constexpr auto sgd_momentum = sgd_momentum_f32;
    static constexpr auto adam_moments = adam_moments_f32;
    static constexpr auto adam_step = adam_step_f32;
    static constexpr auto amsgrad_step = amsgrad_step_f32;
    static constexpr auto nadam_step = nadam_step_f32;
    static constexpr auto adamax_step = adamax_step_f32;
    static constexpr auto rmsprop_scaled = rmsprop_scaled_f32;
    static constexpr auto rmsprop_centered = rmsprop_centered_f32;
    static constexpr auto rmsprop_momentum = rmsprop_momentum_f32;
    static constexpr auto adadelta_step = adadelta_step_f32;
    static constexpr auto lars_gradient = lars_gradient_f32;
    static constexpr auto lamb_update = lamb_update_f32;
    static constexpr auto approach = approach_f32;
};

template <> struct rules<double> {
    typedef sgd_f64 sgd;
    typedef adam_f64 adam;
    typedef rmsprop_f64 rmsprop;
    static constexpr auto read_sgd = read_sgd_f64;
    static constexpr auto read_adam = read_adam_f64;
    static constexpr auto read_rmsprop = read_rmsprop_f64;
    static constexpr auto sgd_plain = sgd_plain_f64;
    static constexpr auto sgd_momentum = sgd_momentum_f64;
    static constexpr auto adam_moments = adam_moments_f64;
    static constexpr auto adam_step = adam_step_f64;
    static constexpr auto amsgrad_step = amsgrad_step_f64;
    static constexpr auto nadam_step = nadam_step_f64;
    static constexpr auto adamax_step = adamax_step_f64;
    static constexpr auto rmsprop_scaled = rmsprop_scaled_f64;
    static constexpr auto rmsprop_centered = rmsprop_centered_f64;
    static constexpr auto rmsprop_momentum = rmsprop_momentum_f64;
    static constexpr auto adadelta_step = adadelta_step_f64;
    static constexpr auto lars_gradient = lars_gradient_f64;
    static constexpr auto lamb_update = lamb_update_f64;
    static constexpr auto approach = approach_f64;
};

/* ---- the elements of a chunk ----------------------------------------------------------------- */

/* What a block works on. */
struct part_of_sweep {
    const yki_span *span;
    yki_sweep_chunk chunk;
    const double *c; /* the coefficients of its group */
};

DEVICE part_of_sweep part_of_block(const yki_cuda_sweep_args &args)
{
    part_of_sweep p;
    p.chunk = args.chunks[blockIdx.x];
    p.span = &args.spans[p.chunk.span];
    p.c = args.coefficients ? args.coefficients + p.span->group * YKI_SWEEP_COEFFICIENTS : nullptr;
    return p;
}

/* Calls f with references to the elements of at[0] ... at[4] that are in the set USED, and stores
 * those in WRITTEN. Vectors where all tensors allow it, and single elements for the rest. */
template <typename R, int USED, int WRITTEN, typename F>
DEVICE void each(const part_of_sweep &p, F f)
{
    constexpr int W = vector_width<R>;
    R *at[YKI_SWEEP_TENSORS] = {};
    bool aligned = true;
    for (int t = 0; t < YKI_SWEEP_TENSORS; t++)
        if (USED >> t & 1) {
            at[t] = (R *)p.span->at[t] + p.chunk.begin;
            aligned = aligned && (uintptr_t)at[t] % 16 == 0;
        }
    int whole = aligned ? p.chunk.count / W * W : 0;
    for (int i = (int)threadIdx.x * W; i < whole; i += THREADS * W) {
        R v[YKI_SWEEP_TENSORS][W] = {};
#pragma unroll
        for (int t = 0; t < YKI_SWEEP_TENSORS; t++)
            if (USED >> t & 1)
                load(at[t] + i, v[t]);
#pragma unroll
        for (int j = 0; j < W; j++)
            f(v[0][j], v[1][j], v[2][j], v[3][j], v[4][j]);
#pragma unroll
        for (int t = 0; t < YKI_SWEEP_TENSORS; t++)
            if (WRITTEN >> t & 1)
                store(at[t] + i, v[t]);
    }
    for (int i = whole + (int)threadIdx.x; i < p.chunk.count; i += THREADS) {
        R v[YKI_SWEEP_TENSORS] = {};
        for (int t = 0; t < YKI_SWEEP_TENSORS; t++)
            if (USED >> t & 1)
                v[t] = at[t][i];
        f(v[0], v[1], v[2], v[3], v[4]);
        for (int t = 0; t < YKI_SWEEP_TENSORS; t++)
            if (WRITTEN >> t & 1)
                at[t][i] = v[t];
    }
}

/* A kernel whose body is a template of the spans' type. */
#define SWEEP(name)                                                                                \
    DEVICE void do_##name(const yki_cuda_sweep_args &args)                                         \
    {                                                                                              \
        const part_of_sweep p = part_of_block(args);                                               \
        if (p.span->dtype == YK_F64)                                                               \
            name<double>(args, p);                                                                 \
        else                                                                                       \
            name<float>(args, p);                                                                  \
    }                                                                                              \
    KERNEL(sweep_##name, yki_cuda_sweep_args, do_##name)

/* ---- arithmetic ------------------------------------------------------------------------------ */

template <typename R> DEVICE void add(const yki_cuda_sweep_args &, const part_of_sweep &p)
{
    const R scale = (R)p.c[0];
    each<R, 3, 1>(p, [=](R &a, R b, auto...) { a = scale * a + b; });
}
SWEEP(add)

template <typename R> DEVICE void scale(const yki_cuda_sweep_args &, const part_of_sweep &p)
{
    const R factor = (R)p.c[0];
    each<R, 1, 1>(p, [=](R &a, auto...) { a *= factor; });
}
SWEEP(scale)

template <typename R> DEVICE void approach(const yki_cuda_sweep_args &, const part_of_sweep &p)
{
    const R share = (R)p.c[0];
    if (p.c[YKI_SWEEP_SKIP] != 0)
        return;
    each<R, 3, 1>(p, [=](R &a, R b, auto...) { a = rules<R>::approach(a, share, b); });
}
SWEEP(approach)

/* Of the first group, whatever the span's is. */
template <typename R> DEVICE void clip(const yki_cuda_sweep_args &args, const part_of_sweep &p)
{
    const double exact = yki_clip_factor(args.coefficients);
    const R factor = (R)exact;
    if (!(exact >= 1))
        each<R, 1, 1>(p, [=](R &a, auto...) { a *= factor; });
}
SWEEP(clip)

template <typename R> DEVICE void limit(const yki_cuda_sweep_args &, const part_of_sweep &p)
{
    const R most = (R)p.c[0];
    each<R, 1, 1>(p, [=](R &a, auto...) {
        a = a > most ? most : a;
        a = a < -most ? -most : a;
    });
}
SWEEP(limit)

template <typename R> DEVICE void sgd(const yki_cuda_sweep_args &, const part_of_sweep &p)
{
    const typename rules<R>::sgd k = rules<R>::read_sgd(p.c);
    if (p.c[YKI_SWEEP_SKIP] != 0)
        return;
    if (p.span->at[2])
        each<R, 7, 5>(p, [&](R &value, R grad, R &buffer, auto...) {
            value = rules<R>::sgd_momentum(&k, value, grad, &buffer);
        });
    else
        each<R, 3, 1>(
            p, [&](R &value, R grad, auto...) { value = rules<R>::sgd_plain(&k, value, grad); });
}
SWEEP(sgd)

template <typename R> DEVICE void adam(const yki_cuda_sweep_args &, const part_of_sweep &p)
{
    const typename rules<R>::adam k = rules<R>::read_adam(p.c);
    if (p.c[YKI_SWEEP_SKIP] != 0)
        return;
    if (p.span->at[4])
        each<R, 31, 29>(p, [&](R &value, R grad, R &mean, R &square, R &largest) {
            value = rules<R>::amsgrad_step(&k, value, grad, &mean, &square, &largest);
        });
    else
        each<R, 15, 13>(p, [&](R &value, R grad, R &mean, R &square, auto...) {
            value = rules<R>::adam_step(&k, value, grad, &mean, &square);
        });
}
SWEEP(adam)

template <typename R> DEVICE void nadam(const yki_cuda_sweep_args &, const part_of_sweep &p)
{
    const typename rules<R>::adam k = rules<R>::read_adam(p.c);
    const R ahead = (R)p.c[YKI_NADAM_AHEAD];
    if (p.c[YKI_SWEEP_SKIP] != 0)
        return;
    each<R, 15, 13>(p, [&](R &value, R grad, R &mean, R &square, auto...) {
        value = rules<R>::nadam_step(&k, ahead, value, grad, &mean, &square);
    });
}
SWEEP(nadam)

template <typename R> DEVICE void adamax(const yki_cuda_sweep_args &, const part_of_sweep &p)
{
    const typename rules<R>::adam k = rules<R>::read_adam(p.c);
    if (p.c[YKI_SWEEP_SKIP] != 0)
        return;
    each<R, 15, 13>(p, [&](R &value, R grad, R &mean, R &largest, auto...) {
        value = rules<R>::adamax_step(&k, value, grad, &mean, &largest);
    });
}
SWEEP(adamax)

template <typename R> DEVICE void rmsprop(const yki_cuda_sweep_args &, const part_of_sweep &p)
{
    const typename rules<R>::rmsprop k = rules<R>::read_rmsprop(p.c);
    if (p.c[YKI_SWEEP_SKIP] != 0)
        return;
    if (p.span->at[3] && p.span->at[4])
        each<R, 31, 29>(p, [&](R &value, R grad, R &square, R &buffer, R &mean) {
            R g = rules<R>::rmsprop_centered(&k, value, grad, &square, &mean);
            value -= k.lr * rules<R>::rmsprop_momentum(&k, g, &buffer);
        });
    else if (p.span->at[3])
        each<R, 15, 13>(p, [&](R &value, R grad, R &square, R &buffer, R) {
            R g = rules<R>::rmsprop_scaled(&k, value, grad, &square);
            value -= k.lr * rules<R>::rmsprop_momentum(&k, g, &buffer);
        });
    else if (p.span->at[4])
        each<R, 23, 21>(p, [&](R &value, R grad, R &square, R, R &mean) {
            value -= k.lr * rules<R>::rmsprop_centered(&k, value, grad, &square, &mean);
        });
    else
        each<R, 7, 5>(p, [&](R &value, R grad, R &square, auto...) {
            value -= k.lr * rules<R>::rmsprop_scaled(&k, value, grad, &square);
        });
}
SWEEP(rmsprop)

template <typename R> DEVICE void adadelta(const yki_cuda_sweep_args &, const part_of_sweep &p)
{
    const typename rules<R>::rmsprop k = rules<R>::read_rmsprop(p.c);
    if (p.c[YKI_SWEEP_SKIP] != 0)
        return;
    each<R, 15, 13>(p, [&](R &value, R grad, R &square, R &updates, auto...) {
        value = rules<R>::adadelta_step(&k, value, grad, &square, &updates);
    });
}
SWEEP(adadelta)

/* What was found of the span of a block. */
DEVICE const double *norms_of(const yki_cuda_sweep_args &args, const part_of_sweep &p)
{
    return (const double *)args.result + 2 * p.chunk.span;
}

template <typename R> DEVICE void lars(const yki_cuda_sweep_args &args, const part_of_sweep &p)
{
    typename rules<R>::sgd k = rules<R>::read_sgd(p.c);
    const R ratio = (R)yki_lars_ratio(p.c, norms_of(args, p)), decay = k.decay;
    k.decay = 0;
    if (p.c[YKI_SWEEP_SKIP] != 0)
        return;
    if (p.span->at[2])
        each<R, 7, 5>(p, [&](R &value, R grad, R &buffer, auto...) {
            R g = rules<R>::lars_gradient(ratio, decay, value, grad);
            value = rules<R>::sgd_momentum(&k, value, g, &buffer);
        });
    else
        each<R, 3, 1>(p, [&](R &value, R grad, auto...) {
            R g = rules<R>::lars_gradient(ratio, decay, value, grad);
            value = rules<R>::sgd_plain(&k, value, g);
        });
}
SWEEP(lars)

template <typename R> DEVICE void lamb(const yki_cuda_sweep_args &args, const part_of_sweep &p)
{
    const typename rules<R>::adam k = rules<R>::read_adam(p.c);
    const R rate = (R)(p.c[YKI_LAMB_LR] * yki_lamb_ratio(p.c, norms_of(args, p)));
    if (p.c[YKI_SWEEP_SKIP] != 0)
        return;
    each<R, 13, 1>(p, [&](R &value, R, R mean, R square, auto...) {
        value -= rate * rules<R>::lamb_update(&k, value, mean, square);
    });
}
SWEEP(lamb)

/* ---- what is found in a chunk ---------------------------------------------------------------- */

template <typename R> DEVICE void squares(const part_of_sweep &p, double *sum)
{
    each<R, 1, 0>(p, [=](R a, auto...) { *sum += (double)a * (double)a; });
}

DEVICE void do_squares(const yki_cuda_sweep_args &args)
{
    const part_of_sweep p = part_of_block(args);
    double sum = 0;
    if (p.span->dtype == YK_F64)
        squares<double>(p, &sum);
    else
        squares<float>(p, &sum);
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        ((double *)args.partial)[blockIdx.x] = sum;
}
KERNEL(sweep_squares, yki_cuda_sweep_args, do_squares)

/* Two sums of a block. */
DEVICE void leave_norms(const yki_cuda_sweep_args &args, double first, double second)
{
    first = block_sum(first);
    __syncthreads();
    second = block_sum(second);
    if (threadIdx.x == 0) {
        ((double *)args.partial)[2 * blockIdx.x] = first;
        ((double *)args.partial)[2 * blockIdx.x + 1] = second;
    }
}

template <typename R> DEVICE void norms(const yki_cuda_sweep_args &args, const part_of_sweep &p)
{
    double first = 0, second = 0;
    each<R, 3, 0>(p, [&](R a, R b, auto...) {
        first += (double)a * (double)a;
        second += (double)b * (double)b;
    });
    leave_norms(args, first, second);
}
SWEEP(norms)

template <typename R> DEVICE void moments(const yki_cuda_sweep_args &args, const part_of_sweep &p)
{
    const typename rules<R>::adam k = rules<R>::read_adam(p.c);
    double first = 0, second = 0;
    if (p.c[YKI_SWEEP_SKIP] != 0)
        return;
    each<R, 15, 12>(p, [&](R value, R grad, R &mean, R &square, auto...) {
        rules<R>::adam_moments(&k, grad, &mean, &square);
        double update = rules<R>::lamb_update(&k, value, mean, square);
        first += (double)value * (double)value;
        second += update * update;
    });
    leave_norms(args, first, second);
}
SWEEP(moments)

/* Counts what is not finite: only then is the difference to itself not 0. */
template <typename R> DEVICE void unscale(const part_of_sweep &p, double *found)
{
    const R factor = (R)p.c[0];
    each<R, 1, 1>(p, [=](R &a, auto...) {
        if (a - a != 0)
            *found += 1;
        a *= factor;
    });
}

DEVICE void do_unscale(const yki_cuda_sweep_args &args)
{
    const part_of_sweep p = part_of_block(args);
    double found = 0;
    if (p.span->dtype == YK_F64)
        unscale<double>(p, &found);
    else
        unscale<float>(p, &found);
    found = block_sum(found);
    if (threadIdx.x == 0)
        ((double *)args.partial)[blockIdx.x] = found;
}
KERNEL(sweep_unscale, yki_cuda_sweep_args, do_unscale)

/* The sum of what was found in all chunks, or whether anything was. */
template <bool ANY> DEVICE void do_sum(const yki_cuda_sweep_args &args)
{
    double sum = 0;
    for (int64_t i = threadIdx.x; i < args.chunk_count; i += THREADS)
        sum += ((const double *)args.partial)[i];
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        *(double *)args.result = ANY ? (double)(sum > 0) : sum;
}
KERNEL(sweep_sum, yki_cuda_sweep_args, do_sum<false>)
KERNEL(sweep_any, yki_cuda_sweep_args, do_sum<true>)

/* ---- bytes ----------------------------------------------------------------------------------- */

/* The bytes of a chunk. */
struct bytes_of_chunk {
    char *at[2];
    int64_t offset, count; /* offset: in the span */
    bool aligned;          /* to vectors */
};

DEVICE bytes_of_chunk bytes_of(const part_of_sweep &p, int size, int tensors)
{
    bytes_of_chunk b = {
        {nullptr, nullptr}, p.chunk.begin * size, (int64_t)p.chunk.count * size, true};
    for (int t = 0; t < tensors; t++) {
        b.at[t] = (char *)p.span->at[t] + b.offset;
        b.aligned = b.aligned && (uintptr_t)b.at[t] % 16 == 0;
    }
    return b;
}

DEVICE int size_of(yk_dtype dtype)
{
    switch (dtype) {
    case YK_U8:
        return 1;
    case YK_BF16:
    case YK_F16:
        return 2;
    case YK_F32:
    case YK_I32:
        return 4;
    default:
        return 8;
    }
}

/* a = b or, if SWAP, both exchanged. */
template <bool SWAP> DEVICE void move_bytes(const yki_cuda_sweep_args &args)
{
    const part_of_sweep p = part_of_block(args);
    const bytes_of_chunk b = bytes_of(p, size_of(p.span->dtype), 2);
    if (p.c && p.c[YKI_SWEEP_SKIP] != 0)
        return;
    int64_t vectors = b.aligned ? b.count / 16 : 0;
    for (int64_t i = threadIdx.x; i < vectors; i += THREADS) {
        uint4 first = ((uint4 *)b.at[0])[i];
        ((uint4 *)b.at[0])[i] = ((uint4 *)b.at[1])[i];
        if (SWAP)
            ((uint4 *)b.at[1])[i] = first;
    }
    for (int64_t i = vectors * 16 + threadIdx.x; i < b.count; i += THREADS) {
        char first = b.at[0][i];
        b.at[0][i] = b.at[1][i];
        if (SWAP)
            b.at[1][i] = first;
    }
}
KERNEL(sweep_copy, yki_cuda_sweep_args, move_bytes<false>)
KERNEL(sweep_swap, yki_cuda_sweep_args, move_bytes<true>)

/* Word i of a chunk; the last one of a span may be cut. Tensors are aligned to their elements. */
DEVICE uint64_t word_of(const bytes_of_chunk &b, int64_t i)
{
    uint64_t word = 0;
    if ((uintptr_t)b.at[0] % sizeof word == 0 && (i + 1) * 8 <= b.count)
        return ((const uint64_t *)b.at[0])[i];
    for (int j = 0; j < 8 && i * 8 + j < b.count; j++)
        word |= (uint64_t)(uint8_t)b.at[0][i * 8 + j] << (8 * j);
    return word;
}

DEVICE void do_hash(const yki_cuda_sweep_args &args)
{
    const part_of_sweep p = part_of_block(args);
    const bytes_of_chunk b = bytes_of(p, size_of(p.span->dtype), 1);
    uint64_t sum = 0;
    for (int64_t i = threadIdx.x; i * 8 < b.count; i += THREADS)
        sum += yki_sweep_hash(word_of(b, i), (uint64_t)(b.offset / 8 + i));
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        ((uint64_t *)args.partial)[blockIdx.x] = sum;
}
KERNEL(sweep_hash, yki_cuda_sweep_args, do_hash)

/* Adds up the N numbers that were found in each chunk of a span: a warp for each span, whose chunks
 * are neighbours. */
template <typename T, int N> DEVICE void merge_by_span(const yki_cuda_sweep_args &args)
{
    int64_t span = thread_number() / WARP, first = 0, end = args.chunk_count;
    if (span >= args.span_count)
        return;
    while (first < end) {
        int64_t middle = (first + end) / 2;
        if (args.chunks[middle].span < span)
            first = middle + 1;
        else
            end = middle;
    }
    T sums[N] = {};
    for (int64_t i = first + threadIdx.x % WARP;
         i < args.chunk_count && args.chunks[i].span == span; i += WARP)
        for (int n = 0; n < N; n++)
            sums[n] += ((const T *)args.partial)[i * N + n];
    for (int n = 0; n < N; n++) {
        T sum = warp_sum(sums[n]);
        if (threadIdx.x % WARP == 0)
            ((T *)args.result)[span * N + n] = sum;
    }
}
KERNEL(sweep_hashes, yki_cuda_sweep_args, merge_by_span<uint64_t, 1>)
KERNEL(sweep_norms_merge, yki_cuda_sweep_args, merge_by_span<double, 2>)

/* Element by element: functions of one number and their gradients, of two numbers, such as add,
 * scale, add_scalar, cast, dropout, randn_like. */
#include "compare.cuh"
#include "map.cuh"

#include "graph/dropout.h"
#include "graph/randn.h"

#define YKI_REAL       float
#define YKI_RULE(name) name##_rule
#include "device/activation_rules.h"
#undef YKI_REAL
#define YKI_REAL double
#include "device/activation_rules.h"

#define UNARY(name, of)                                                                            \
    template <typename T, int W> DEVICE void name(const yki_cuda_map_args &args)                   \
    {                                                                                              \
        typedef real_of<T> real;                                                                   \
        const real alpha = (real)args.alpha, beta = (real)args.beta;                               \
        (void)alpha, (void)beta;                                                                   \
        map<T, T, W, false>(args, [=](real x, real) { return of; });                               \
    }                                                                                              \
    KERNELS_OF_ALL(name)
#define BINARY(name, of)                                                                           \
    template <typename T, int W> DEVICE void name(const yki_cuda_map_args &args)                   \
    {                                                                                              \
        typedef real_of<T> real;                                                                   \
        const real alpha = (real)args.alpha, beta = (real)args.beta;                               \
        (void)alpha, (void)beta;                                                                   \
        map<T, T, W, true>(args, [=](real a, real b) { return of; });                              \
    }                                                                                              \
    KERNELS_OF_ALL(name)
/* Vectors alone: whole ones, and the rest one by one. */
#define KERNELS_OF_ALL(name)                                                                       \
    KERNEL(name##_f32, yki_cuda_map_args, name<float, 4>)                                          \
    KERNEL(name##_f64, yki_cuda_map_args, name<double, 2>)                                         \
    KERNEL(name##_bf16, yki_cuda_map_args, name<bf16, 8>)                                          \
    KERNEL(name##_f16, yki_cuda_map_args, name<f16, 8>)

#define ACTIVATION(name)                                                                           \
    UNARY(name, name##_rule(x))                                                                    \
    BINARY(name##_backward, name##_backward_rule(a, b))
ACTIVATION(relu)
ACTIVATION(relu6)
ACTIVATION(gelu)
ACTIVATION(sigmoid)
ACTIVATION(silu)
ACTIVATION(hardswish)
ACTIVATION(tanh)
UNARY(leaky_relu, leaky_relu_rule(x, alpha))
BINARY(leaky_relu_backward, leaky_relu_backward_rule(a, b, alpha))
UNARY(elu, elu_rule(x, alpha))
BINARY(elu_backward, elu_backward_rule(a, b, alpha))
ACTIVATION(abs)
UNARY(pow, pow_rule(x, alpha))
BINARY(pow_backward, pow_backward_rule(a, b, alpha))
UNARY(clamp, clamp_rule(x, alpha, beta))
BINARY(clamp_backward, clamp_backward_rule(a, b, alpha, beta))
UNARY(exp, ::exp(x))
UNARY(log, ::log(x))
UNARY(sin, ::sin(x))
UNARY(cos, ::cos(x))
UNARY(scale, alpha *x)
UNARY(add_scalar, x + alpha)
BINARY(add, a + b)
BINARY(subtract, a - b)
BINARY(multiply, a *b)
BINARY(divide, a / b)
BINARY(maximum, maximum_rule(a, b))
BINARY(minimum, minimum_rule(a, b))
BINARY(compare, compare_rule(a, b, alpha, beta))
BINARY(masked_fill, masked_fill_rule(a, b, alpha, beta))

/* ---- cast ------------------------------------------------------------------------------------ */

/* Vectors of the narrower type, so that the wider one takes several of 16 bytes. */
template <typename T, typename U> DEVICE void cast(const yki_cuda_map_args &args)
{
    constexpr int width = 16 / (sizeof(T) < sizeof(U) ? sizeof(T) : sizeof(U));
    map<T, U, width, false>(args, [=](real_of<T> x, real_of<T>) { return x; });
}

#define CASTS(from, suffix)                                                                        \
    KERNEL(cast_##suffix##_f32, yki_cuda_map_args, cast<from, float>)                              \
    KERNEL(cast_##suffix##_f64, yki_cuda_map_args, cast<from, double>)                             \
    KERNEL(cast_##suffix##_bf16, yki_cuda_map_args, cast<from, bf16>)                              \
    KERNEL(cast_##suffix##_f16, yki_cuda_map_args, cast<from, f16>)
CASTS(float, f32)
CASTS(double, f64)
CASTS(bf16, bf16)
CASTS(f16, f16)

/* ---- dropout, forward and backward of which are one linear map; and randn_like --------------- */

/* The first of the W columns of one row that a thread takes: where it is in memory, and its place
 * in plain order, where columns (channels) come before the rows of an image. */
struct drawn {
    int64_t at, place;
};

/* False beyond the last row. A tensor has fewer than 2^31 elements, which makes divisions cheap. */
template <int W> DEVICE bool find_drawn(const yki_cuda_draw_args &args, drawn &d)
{
    const uint32_t vectors = (uint32_t)(args.columns / W), image = (uint32_t)args.image;
    const uint32_t item = (uint32_t)thread_number(), row = item / vectors;
    const int64_t column = item % vectors * W;
    d.at = (int64_t)row * args.columns + column;
    d.place = ((int64_t)(row / image) * args.columns + column) * args.image + row % image;
    return row < args.rows;
}

template <typename T, int W> DEVICE void dropout(const yki_cuda_draw_args &args)
{
    drawn d;
    if (!find_drawn<W>(args, d))
        return;
    const yki_dropout_draw draw = yki_dropout_draw_of(*args.seed, *args.step, args.salt, args.p);
    const real_of<T> kept = (real_of<T>)(1 / (1 - args.p));
    real_of<T> x[W];
    load((const T *)args.x + d.at, x);
#pragma unroll
    for (int i = 0; i < W; i++) {
        uint64_t element = (uint64_t)(d.place + i * args.image);
        x[i] = yki_dropout_keeps(&draw, element) ? kept * x[i] : 0 * x[i];
    }
    store((T *)args.y + d.at, x);
}
KERNELS(dropout, yki_cuda_draw_args, dropout)

template <typename T, int W> DEVICE void randn_like(const yki_cuda_draw_args &args)
{
    drawn d;
    if (!find_drawn<W>(args, d))
        return;
    const yki_randn draw = yki_randn_of(*args.seed, *args.step, args.salt);
    real_of<T> y[W];
#pragma unroll
    for (int i = 0; i < W; i++)
        y[i] = (real_of<T>)yki_randn_at(&draw, (uint64_t)(d.place + i * args.image));
    store((T *)args.y + d.at, y);
}
KERNELS(randn_like, yki_cuda_draw_args, randn_like)

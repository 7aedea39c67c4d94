/*
 * Activation functions and their slopes, each slope below its function: relu, relu6, gelu, sigmoid,
 * silu, hardswish. What backward reads besides dy is the function's result y or its argument x, as
 * the gradient rule (graph/activation.c) says. NaN passes, as in PyTorch.
 */
#include "device/ref/ref.h"

#include <math.h>

static double relu(double x)
{
    return x < 0 ? 0 : x;
}

static double relu_backward(double dy, double y)
{
    return y <= 0 ? 0 : dy;
}

static double relu6(double x)
{
    return x < 0 ? 0 : x > 6 ? 6 : x;
}

static double relu6_backward(double dy, double y)
{
    return y <= 0 || y >= 6 ? 0 : dy;
}

/* x Phi(x), Phi the normal distribution function (Hendrycks and Gimpel 2016). */
static double phi(double x)
{
    return 0.5 * (1 + erf(x * sqrt(0.5)));
}

static double gelu(double x)
{
    return x * phi(x);
}

static double gelu_backward(double dy, double x)
{
    double density = exp(-0.5 * x * x) / sqrt(2 * acos(-1));
    return dy * (phi(x) + x * density);
}

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static double sigmoid_backward(double dy, double y)
{
    return dy * y * (1 - y);
}

static double silu(double x)
{
    return x * sigmoid(x);
}

static double silu_backward(double dy, double x)
{
    double s = sigmoid(x);
    return dy * s * (1 + x * (1 - s));
}

/* Howard et al., "Searching for MobileNetV3" (2019). */
static double hardswish(double x)
{
    return x * relu6(x + 3) / 6;
}

static double hardswish_backward(double dy, double x)
{
    return x < -3 ? 0 : x > 3 ? dy : dy * (x / 3 + 0.5);
}

/* The kernels of one function and of its gradient. */
#define DEFINE(name)                                                                               \
    static double name##_of(double x, const yki_attrs *attrs)                                      \
    {                                                                                              \
        (void)attrs;                                                                               \
        return name(x);                                                                            \
    }                                                                                              \
    static yk_status ref_##name(const yki_kernel *kernel, const yki_kernel_args *run)              \
    {                                                                                              \
        yki_ref_map(kernel, run, name##_of);                                                       \
        return YK_OK;                                                                              \
    }                                                                                              \
    static yk_status ref_##name##_backward(const yki_kernel *kernel, const yki_kernel_args *run)   \
    {                                                                                              \
        yki_ref_map2(kernel, run, name##_backward);                                                \
        return YK_OK;                                                                              \
    }                                                                                              \
    const yki_kernel_impl yki_ref_##name = {.op = &yki_op_##name,                                  \
                                            .inplace = 1,                                          \
                                            .supports = yki_ref_supports,                          \
                                            .prepare = yki_ref_prepare,                            \
                                            .run = ref_##name};                                    \
    const yki_kernel_impl yki_ref_##name##_backward = {.op = &yki_op_##name##_backward,            \
                                                       .inplace = 1,                               \
                                                       .supports = yki_ref_supports,               \
                                                       .prepare = yki_ref_prepare,                 \
                                                       .run = ref_##name##_backward}
DEFINE(relu);
DEFINE(relu6);
DEFINE(gelu);
DEFINE(sigmoid);
DEFINE(silu);
DEFINE(hardswish);

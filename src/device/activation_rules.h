/*
 * Functions of one number and their slopes, each slope below its function: relu, relu6, gelu,
 * sigmoid, silu, hardswish, tanh, leaky_relu, elu, abs, pow, clamp. What backward reads besides dy
 * is the function's result y or its argument x, as the gradient rule (graph/activation.c) says. NaN
 * passes, as in PyTorch.
 *
 * Inline functions of YKI_REAL, with YKI_RULE(name) for their names; included once for each type.
 * In C that is double alone, for which exp() and erf() are.
 */
#include "graph/fused.h"

YKI_HOST_DEVICE YKI_REAL YKI_RULE(relu)(YKI_REAL x)
{
    return x < 0 ? 0 : x;
}

YKI_HOST_DEVICE YKI_REAL YKI_RULE(relu_backward)(YKI_REAL dy, YKI_REAL y)
{
    return y <= 0 ? 0 : dy;
}

YKI_HOST_DEVICE YKI_REAL YKI_RULE(relu6)(YKI_REAL x)
{
    return x < 0 ? 0 : x > 6 ? 6 : x;
}

YKI_HOST_DEVICE YKI_REAL YKI_RULE(relu6_backward)(YKI_REAL dy, YKI_REAL y)
{
    return y <= 0 || y >= 6 ? 0 : dy;
}

/* The normal distribution function. */
YKI_HOST_DEVICE YKI_REAL YKI_RULE(phi)(YKI_REAL x)
{
    return (YKI_REAL)0.5 * (1 + erf(x * (YKI_REAL)0.70710678118654752440)); /* sqrt(1/2) */
}

/* x Phi(x) (Hendrycks and Gimpel 2016). */
YKI_HOST_DEVICE YKI_REAL YKI_RULE(gelu)(YKI_REAL x)
{
    return x * YKI_RULE(phi)(x);
}

YKI_HOST_DEVICE YKI_REAL YKI_RULE(gelu_backward)(YKI_REAL dy, YKI_REAL x)
{
    YKI_REAL density = exp((YKI_REAL)-0.5 * x * x) / (YKI_REAL)2.5066282746310002; /* sqrt(2 pi) */
    return dy * (YKI_RULE(phi)(x) + x * density);
}

YKI_HOST_DEVICE YKI_REAL YKI_RULE(sigmoid)(YKI_REAL x)
{
    return 1 / (1 + exp(-x));
}

YKI_HOST_DEVICE YKI_REAL YKI_RULE(sigmoid_backward)(YKI_REAL dy, YKI_REAL y)
{
    return dy * y * (1 - y);
}

YKI_HOST_DEVICE YKI_REAL YKI_RULE(silu)(YKI_REAL x)
{
    return x * YKI_RULE(sigmoid)(x);
}

YKI_HOST_DEVICE YKI_REAL YKI_RULE(silu_backward)(YKI_REAL dy, YKI_REAL x)
{
    YKI_REAL s = YKI_RULE(sigmoid)(x);
    return dy * s * (1 + x * (1 - s));
}

/* Howard et al., "Searching for MobileNetV3" (2019). */
YKI_HOST_DEVICE YKI_REAL YKI_RULE(hardswish)(YKI_REAL x)
{
    return x * YKI_RULE(relu6)(x + 3) / 6;
}

YKI_HOST_DEVICE YKI_REAL YKI_RULE(hardswish_backward)(YKI_REAL dy, YKI_REAL x)
{
    return x < -3 ? 0 : x > 3 ? dy : dy * (x / 3 + (YKI_REAL)0.5);
}

YKI_HOST_DEVICE YKI_REAL YKI_RULE(tanh)(YKI_REAL x)
{
    return tanh(x);
}

YKI_HOST_DEVICE YKI_REAL YKI_RULE(tanh_backward)(YKI_REAL dy, YKI_REAL y)
{
    return dy * (1 - y * y);
}

YKI_HOST_DEVICE YKI_REAL YKI_RULE(leaky_relu)(YKI_REAL x, YKI_REAL slope)
{
    return x > 0 ? x : slope * x;
}

YKI_HOST_DEVICE YKI_REAL YKI_RULE(leaky_relu_backward)(YKI_REAL dy, YKI_REAL y, YKI_REAL slope)
{
    return y > 0 ? dy : slope * dy;
}

YKI_HOST_DEVICE YKI_REAL YKI_RULE(elu)(YKI_REAL x, YKI_REAL alpha)
{
    return x > 0 ? x : alpha * expm1(x);
}

YKI_HOST_DEVICE YKI_REAL YKI_RULE(elu_backward)(YKI_REAL dy, YKI_REAL x, YKI_REAL alpha)
{
    return x > 0 ? dy : dy * (alpha * exp(x));
}

YKI_HOST_DEVICE YKI_REAL YKI_RULE(abs)(YKI_REAL x)
{
    return fabs(x);
}

YKI_HOST_DEVICE YKI_REAL YKI_RULE(abs_backward)(YKI_REAL dy, YKI_REAL x)
{
    return x > 0 ? dy : x < 0 ? -dy : 0;
}

/* Products and roots for these exponents, as in PyTorch: pow() is slow, and has other results for
 * -0 and -infinity. */
YKI_HOST_DEVICE YKI_REAL YKI_RULE(pow)(YKI_REAL x, YKI_REAL exponent)
{
    if (exponent == 2)
        return x * x;
    if (exponent == 3)
        return x * x * x;
    if (exponent == -1)
        return 1 / x;
    if (exponent == -2)
        return 1 / (x * x);
    if (exponent == (YKI_REAL)0.5)
        return sqrt(x);
    if (exponent == (YKI_REAL)-0.5)
        return 1 / sqrt(x);
    return pow(x, exponent);
}

YKI_HOST_DEVICE YKI_REAL YKI_RULE(pow_backward)(YKI_REAL dy, YKI_REAL x, YKI_REAL exponent)
{
    return exponent == 0 ? 0 : dy * (exponent * YKI_RULE(pow)(x, exponent - 1));
}

YKI_HOST_DEVICE YKI_REAL YKI_RULE(clamp)(YKI_REAL x, YKI_REAL least, YKI_REAL most)
{
    return x < least ? least : x > most ? most : x;
}

YKI_HOST_DEVICE YKI_REAL YKI_RULE(clamp_backward)(YKI_REAL dy, YKI_REAL x, YKI_REAL least,
                                                  YKI_REAL most)
{
    return x >= least && x <= most ? dy : 0;
}

/* What batch_norm does last. */
YKI_HOST_DEVICE YKI_REAL YKI_RULE(fused)(yki_fused activation, YKI_REAL x)
{
    switch (activation) {
    case YKI_FUSED_NONE:
        return x;
    case YKI_FUSED_RELU:
        return YKI_RULE(relu)(x);
    case YKI_FUSED_RELU6:
        return YKI_RULE(relu6)(x);
    case YKI_FUSED_SILU:
        return YKI_RULE(silu)(x);
    case YKI_FUSED_HARDSWISH:
        return YKI_RULE(hardswish)(x);
    }
    return x;
}

YKI_HOST_DEVICE YKI_REAL YKI_RULE(fused_backward)(yki_fused activation, YKI_REAL dy, YKI_REAL x)
{
    switch (activation) {
    case YKI_FUSED_NONE:
        return dy;
    case YKI_FUSED_RELU:
        return YKI_RULE(relu_backward)(dy, x);
    case YKI_FUSED_RELU6:
        return YKI_RULE(relu6_backward)(dy, x);
    case YKI_FUSED_SILU:
        return YKI_RULE(silu_backward)(dy, x);
    case YKI_FUSED_HARDSWISH:
        return YKI_RULE(hardswish_backward)(dy, x);
    }
    return dy;
}

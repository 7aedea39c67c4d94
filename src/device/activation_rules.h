/*
 * Activation functions and their slopes, each slope below its function: relu, relu6, gelu, sigmoid,
 * silu, hardswish. What backward reads besides dy is the function's result y or its argument x, as
 * the gradient rule (graph/activation.c) says. NaN passes, as in PyTorch.
 */
#ifndef YKI_ACTIVATION_RULES_H
#define YKI_ACTIVATION_RULES_H

#include <math.h>

#include "base/inline.h"

YKI_RULE YKI_REAL yki_relu(YKI_REAL x)
{
    return x < 0 ? 0 : x;
}

YKI_RULE YKI_REAL yki_relu_backward(YKI_REAL dy, YKI_REAL y)
{
    return y <= 0 ? 0 : dy;
}

YKI_RULE YKI_REAL yki_relu6(YKI_REAL x)
{
    return x < 0 ? 0 : x > 6 ? 6 : x;
}

YKI_RULE YKI_REAL yki_relu6_backward(YKI_REAL dy, YKI_REAL y)
{
    return y <= 0 || y >= 6 ? 0 : dy;
}

/* The normal distribution function. */
YKI_RULE YKI_REAL yki_phi(YKI_REAL x)
{
    return (YKI_REAL)0.5 * (1 + erf(x * (YKI_REAL)0.70710678118654752440)); /* sqrt(1/2) */
}

/* x Phi(x) (Hendrycks and Gimpel 2016). */
YKI_RULE YKI_REAL yki_gelu(YKI_REAL x)
{
    return x * yki_phi(x);
}

YKI_RULE YKI_REAL yki_gelu_backward(YKI_REAL dy, YKI_REAL x)
{
    YKI_REAL density =
        exp((YKI_REAL)-0.5 * x * x) / (YKI_REAL)2.50662827463100050242; /* sqrt(2 pi) */
    return dy * (yki_phi(x) + x * density);
}

YKI_RULE YKI_REAL yki_sigmoid(YKI_REAL x)
{
    return 1 / (1 + exp(-x));
}

YKI_RULE YKI_REAL yki_sigmoid_backward(YKI_REAL dy, YKI_REAL y)
{
    return dy * y * (1 - y);
}

YKI_RULE YKI_REAL yki_silu(YKI_REAL x)
{
    return x * yki_sigmoid(x);
}

YKI_RULE YKI_REAL yki_silu_backward(YKI_REAL dy, YKI_REAL x)
{
    YKI_REAL s = yki_sigmoid(x);
    return dy * s * (1 + x * (1 - s));
}

/* Howard et al., "Searching for MobileNetV3" (2019). */
YKI_RULE YKI_REAL yki_hardswish(YKI_REAL x)
{
    return x * yki_relu6(x + 3) / 6;
}

YKI_RULE YKI_REAL yki_hardswish_backward(YKI_REAL dy, YKI_REAL x)
{
    return x < -3 ? 0 : x > 3 ? dy : dy * (x / 3 + (YKI_REAL)0.5);
}

#endif

/* Functions of one number and their gradients; the arithmetic is in activation_rules.h. */

#include "device/ref/ref.h"

#include <math.h>

#define YKI_REAL       double
#define YKI_RULE(name) name##_rule
#include "device/activation_rules.h"

/* The kernel of one function of x; alpha and beta are there. */
#define FUNCTION(name, function)                                                                   \
    static double name##_of(double x, const yki_attrs *attrs)                                      \
    {                                                                                              \
        const double alpha = attrs->alpha, beta = attrs->beta;                                     \
        (void)alpha, (void)beta;                                                                   \
        return function;                                                                           \
    }                                                                                              \
    static yk_status ref_##name(const yki_kernel *kernel, const yki_kernel_args *run)              \
    {                                                                                              \
        yki_ref_map(kernel, run, name##_of);                                                       \
        return YK_OK;                                                                              \
    }                                                                                              \
    YKI_REF_IMPL(name, 1)
/* Likewise, with that of its gradient, a function of a and b. */
#define DEFINE(name, function, gradient)                                                           \
    FUNCTION(name, function);                                                                      \
    static double name##_slope(double a, double b, const yki_attrs *attrs)                         \
    {                                                                                              \
        const double alpha = attrs->alpha, beta = attrs->beta;                                     \
        (void)alpha, (void)beta;                                                                   \
        return gradient;                                                                           \
    }                                                                                              \
    static yk_status ref_##name##_backward(const yki_kernel *kernel, const yki_kernel_args *run)   \
    {                                                                                              \
        yki_ref_map2(kernel, run, name##_slope);                                                   \
        return YK_OK;                                                                              \
    }                                                                                              \
    YKI_REF_IMPL(name##_backward, 1)
#define ACTIVATION(name) DEFINE(name, name##_rule(x), name##_backward_rule(a, b))

ACTIVATION(relu);
ACTIVATION(relu6);
ACTIVATION(gelu);
ACTIVATION(sigmoid);
ACTIVATION(silu);
ACTIVATION(hardswish);
ACTIVATION(tanh);
ACTIVATION(abs);
DEFINE(leaky_relu, leaky_relu_rule(x, alpha), leaky_relu_backward_rule(a, b, alpha));
DEFINE(elu, elu_rule(x, alpha), elu_backward_rule(a, b, alpha));
DEFINE(pow, pow_rule(x, alpha), pow_backward_rule(a, b, alpha));
DEFINE(clamp, clamp_rule(x, alpha, beta), clamp_backward_rule(a, b, alpha, beta));
FUNCTION(exp, exp(x));
FUNCTION(log, log(x));
FUNCTION(sin, sin(x));
FUNCTION(cos, cos(x));

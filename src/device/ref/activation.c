/* Activation functions and their gradients; the arithmetic is in activation_rules.h. */

#include "device/ref/ref.h"

#define YKI_REAL       double
#define YKI_RULE(name) name
#include "device/activation_rules.h"

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

/* Operators that work element by element: relu, gelu, add, scale, dropout, cast, reorder. */
#include "device/ref/ref.h"

#include <math.h>
#include <string.h>

#include "graph/dropout.h"

/* ---- one value in, one value out ------------------------------------------------------------- */

typedef double (*unary_fn)(double x, const yki_attrs *attrs);

static void map(const yki_kernel *kernel, const yki_kernel_args *run, unary_fn f)
{
    yk_tensor x = yki_ref_in(kernel, run, 0), y = yki_ref_out(kernel, run, 0);
    int64_t count = yk_tensor_count(&x);
    for (int64_t i = 0; i < count; i++)
        yki_ref_set(&y, i, f(yki_ref_get(&x, i), yki_ref_attrs(kernel)));
}

typedef double (*binary_fn)(double a, double b);

static void map2(const yki_kernel *kernel, const yki_kernel_args *run, binary_fn f)
{
    yk_tensor a = yki_ref_in(kernel, run, 0), b = yki_ref_in(kernel, run, 1);
    yk_tensor y = yki_ref_out(kernel, run, 0);
    int64_t count = yk_tensor_count(&a);
    for (int64_t i = 0; i < count; i++)
        yki_ref_set(&y, i, f(yki_ref_get(&a, i), yki_ref_get(&b, i)));
}

/* ---- relu: NaN passes, as in PyTorch --------------------------------------------------------- */

static double relu_of(double x, const yki_attrs *attrs)
{
    (void)attrs;
    return x < 0 ? 0 : x;
}

static yk_status ref_relu(const yki_kernel *kernel, const yki_kernel_args *run)
{
    map(kernel, run, relu_of);
    return YK_OK;
}

static double relu_slope(double dy, double y)
{
    return y <= 0 ? 0 : dy;
}

static yk_status ref_relu_backward(const yki_kernel *kernel, const yki_kernel_args *run)
{
    map2(kernel, run, relu_slope);
    return YK_OK;
}

/* ---- gelu: x * Phi(x), Phi the normal distribution function (Hendrycks and Gimpel 2016) ------ */

static double ref_phi(double x)
{
    return 0.5 * (1 + erf(x * sqrt(0.5)));
}

static double gelu_of(double x, const yki_attrs *attrs)
{
    (void)attrs;
    return x * ref_phi(x);
}

static yk_status ref_gelu(const yki_kernel *kernel, const yki_kernel_args *run)
{
    map(kernel, run, gelu_of);
    return YK_OK;
}

static double gelu_slope(double dy, double x)
{
    double density = exp(-0.5 * x * x) / sqrt(2 * acos(-1));
    return dy * (ref_phi(x) + x * density);
}

static yk_status ref_gelu_backward(const yki_kernel *kernel, const yki_kernel_args *run)
{
    map2(kernel, run, gelu_slope);
    return YK_OK;
}

/* ---- add, scale ------------------------------------------------------------------------------ */

static double sum_of(double a, double b)
{
    return a + b;
}

static yk_status ref_add(const yki_kernel *kernel, const yki_kernel_args *run)
{
    map2(kernel, run, sum_of);
    return YK_OK;
}

static double scaled(double x, const yki_attrs *attrs)
{
    return attrs->alpha * x;
}

static yk_status ref_scale(const yki_kernel *kernel, const yki_kernel_args *run)
{
    map(kernel, run, scaled);
    return YK_OK;
}

/* ---- dropout: forward and backward are one linear map ---------------------------------------- */

static yk_status ref_dropout(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const yki_attrs *a = yki_ref_attrs(kernel);
    yk_tensor x = yki_ref_in(kernel, run, YKI_DROPOUT_X),
              y = yki_ref_out(kernel, run, YKI_DROPOUT_Y);
    bool training = yki_ref_training(kernel);
    int64_t count = yk_tensor_count(&x);
    for (int64_t i = 0; i < count; i++) {
        double factor = 1;
        if (training)
            factor = yki_dropout_keep(run->seed, run->step, a->salt, (uint64_t)i, a->p)
                         ? 1 / (1 - a->p)
                         : 0;
        yki_ref_set(&y, i, factor * yki_ref_get(&x, i));
    }
    return YK_OK;
}

/* ---- cast, reorder --------------------------------------------------------------------------- */

static double same(double x, const yki_attrs *attrs)
{
    (void)attrs;
    return x;
}

static yk_status ref_cast(const yki_kernel *kernel, const yki_kernel_args *run)
{
    map(kernel, run, same);
    return YK_OK;
}

static yk_status ref_reorder(const yki_kernel *kernel, const yki_kernel_args *run)
{
    yk_tensor x = yki_ref_in(kernel, run, YKI_REORDER_X); /* both are plain: a copy */
    memmove(run->out[YKI_REORDER_Y], x.data, yk_tensor_bytes(&x));
    return YK_OK;
}

#define IMPL(name, function, support, place)                                                       \
    const yki_kernel_impl yki_ref_##name = {.op = &yki_op_##name,                                  \
                                            .inplace = place,                                      \
                                            .supports = support,                                   \
                                            .prepare = yki_ref_prepare,                            \
                                            .run = function}
IMPL(relu, ref_relu, yki_ref_supports, 1);
IMPL(relu_backward, ref_relu_backward, yki_ref_supports, 1);
IMPL(gelu, ref_gelu, yki_ref_supports, 1);
IMPL(gelu_backward, ref_gelu_backward, yki_ref_supports, 1);
IMPL(add, ref_add, yki_ref_supports, 1);
IMPL(scale, ref_scale, yki_ref_supports, 1);
IMPL(dropout, ref_dropout, yki_ref_supports, 1);
IMPL(dropout_backward, ref_dropout, yki_ref_supports, 1);
IMPL(cast, ref_cast, yki_ref_supports, 0);
IMPL(reorder, ref_reorder, yki_ref_supports, 0);

/* amax and amin, which a NaN passes through, and their gradient. */
#include "device/middle.h"
#include "device/ref/ref.h"

#include <math.h>

static yki_middle middle_of(const yki_kernel *kernel, const yk_tensor *x)
{
    yki_operand operand = {.ndim = x->ndim};
    for (int d = 0; d < x->ndim; d++)
        operand.dims[d] = x->dims[d];
    return yki_middle_of(&operand, yki_ref_attrs(kernel)->dim, 1);
}

/* The first of the elements of x that element `i` of y is made of. */
static int64_t begin_of(const yki_middle *m, int64_t i)
{
    return i / m->inner * m->size * m->inner + i % m->inner;
}

/* The largest of x times the sign, times the sign. */
static void extremes(const yki_kernel *kernel, const yki_kernel_args *run, double sign)
{
    yk_tensor x = yki_ref_in(kernel, run, YKI_AMAX_X), y = yki_ref_out(kernel, run, YKI_AMAX_Y);
    const yki_middle m = middle_of(kernel, &x);
    for (int64_t i = 0; i < m.outer * m.inner; i++) {
        const int64_t begin = begin_of(&m, i);
        double best = sign * yki_ref_get(&x, begin);
        for (int64_t j = 1; j < m.size; j++) {
            const double next = sign * yki_ref_get(&x, begin + j * m.inner);
            best = next > best || isnan(next) ? next : best;
        }
        yki_ref_set(&y, i, sign * best);
    }
}

static yk_status ref_amax(const yki_kernel *kernel, const yki_kernel_args *run)
{
    extremes(kernel, run, 1);
    return YK_OK;
}

static yk_status ref_amin(const yki_kernel *kernel, const yki_kernel_args *run)
{
    extremes(kernel, run, -1);
    return YK_OK;
}

/* A NaN in y is none of x, so that all of dx are 0 / 0, as in PyTorch. */
static yk_status ref_amax_backward(const yki_kernel *kernel, const yki_kernel_args *run)
{
    yk_tensor dy = yki_ref_in(kernel, run, YKI_AMAX_BACKWARD_DY);
    yk_tensor x = yki_ref_in(kernel, run, YKI_AMAX_BACKWARD_X);
    yk_tensor y = yki_ref_in(kernel, run, YKI_AMAX_BACKWARD_Y);
    yk_tensor dx = yki_ref_out(kernel, run, YKI_AMAX_BACKWARD_DX);
    const yki_middle m = middle_of(kernel, &x);
    for (int64_t i = 0; i < m.outer * m.inner; i++) {
        const int64_t begin = begin_of(&m, i), end = begin + m.size * m.inner;
        const double best = yki_ref_get(&y, i);
        double equal = 0;
        for (int64_t at = begin; at < end; at += m.inner)
            equal += yki_ref_get(&x, at) == best;
        for (int64_t at = begin; at < end; at += m.inner)
            yki_ref_set(&dx, at, (yki_ref_get(&x, at) == best ? yki_ref_get(&dy, i) : 0) / equal);
    }
    return YK_OK;
}

YKI_REF_IMPL(amax, 0);
YKI_REF_IMPL(amin, 0);
YKI_REF_IMPL(amax_backward, 0);

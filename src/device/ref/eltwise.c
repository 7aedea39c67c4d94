/* Operators that work element by element: scale, add_scalar, dropout, randn_like, cast, reorder. */
#include "device/ref/ref.h"

#include <string.h>

#include "graph/dropout.h"
#include "graph/randn.h"

/* ---- scale, add_scalar ----------------------------------------------------------------------- */

static double scaled(double x, const yki_attrs *attrs)
{
    return attrs->alpha * x;
}

static yk_status ref_scale(const yki_kernel *kernel, const yki_kernel_args *run)
{
    yki_ref_map(kernel, run, scaled);
    return YK_OK;
}

static double shifted(double x, const yki_attrs *attrs)
{
    return x + attrs->alpha;
}

static yk_status ref_add_scalar(const yki_kernel *kernel, const yki_kernel_args *run)
{
    yki_ref_map(kernel, run, shifted);
    return YK_OK;
}

/* ---- dropout: forward and backward are one linear map ---------------------------------------- */

static yk_status ref_dropout(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const yki_attrs *a = yki_ref_attrs(kernel);
    yk_tensor x = yki_ref_in(kernel, run, YKI_DROPOUT_X),
              y = yki_ref_out(kernel, run, YKI_DROPOUT_Y);
    bool training = yki_ref_training(kernel);
    yki_dropout_draw draw =
        yki_dropout_draw_of(run->scalars->seed, run->scalars->step, a->salt, a->p);
    int64_t count = yk_tensor_count(&x);
    for (int64_t i = 0; i < count; i++) {
        double factor = 1;
        if (training)
            factor = yki_dropout_keeps(&draw, (uint64_t)i) ? 1 / (1 - a->p) : 0;
        yki_ref_set(&y, i, factor * yki_ref_get(&x, i));
    }
    return YK_OK;
}

/* ---- randn_like ------------------------------------------------------------------------------ */

static yk_status ref_randn_like(const yki_kernel *kernel, const yki_kernel_args *run)
{
    yk_tensor y = yki_ref_out(kernel, run, YKI_RANDN_LIKE_Y);
    yki_randn draw =
        yki_randn_of(run->scalars->seed, run->scalars->step, yki_ref_attrs(kernel)->salt);
    int64_t count = yk_tensor_count(&y);
    for (int64_t i = 0; i < count; i++)
        yki_ref_set(&y, i, yki_randn_at(&draw, (uint64_t)i));
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
    yki_ref_map(kernel, run, same);
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
IMPL(scale, ref_scale, yki_ref_supports, 1);
IMPL(add_scalar, ref_add_scalar, yki_ref_supports, 1);
IMPL(dropout, ref_dropout, yki_ref_supports, 1);
IMPL(dropout_backward, ref_dropout, yki_ref_supports, 1);
IMPL(randn_like, ref_randn_like, yki_ref_supports, 1);
IMPL(cast, ref_cast, yki_ref_supports, 0);
IMPL(reorder, ref_reorder, yki_ref_supports, 0);

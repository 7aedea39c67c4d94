/* concat, slice and pad: moving parts of a dimension. */
#include "device/ref/ref.h"

/* Copies `count` places of dimension dim, from `from` of x to `to` of y. */
static void copy_part(const yk_tensor *x, int64_t from, const yk_tensor *y, int64_t to,
                      int64_t count, int64_t dim)
{
    int64_t before = 1, after = 1;
    for (int64_t i = 0; i < x->ndim; i++) {
        before *= i < dim ? x->dims[i] : 1;
        after *= i > dim ? x->dims[i] : 1;
    }
    for (int64_t n = 0; n < before; n++)
        for (int64_t i = 0; i < count * after; i++)
            yki_ref_set(y, (n * y->dims[dim] + to) * after + i,
                        yki_ref_get(x, (n * x->dims[dim] + from) * after + i));
}

static yk_status ref_concat(const yki_kernel *kernel, const yki_kernel_args *run)
{
    yk_tensor y = yki_ref_out(kernel, run, YKI_CONCAT_Y);
    const int64_t dim = yki_ref_attrs(kernel)->dim;
    for (int64_t i = 0, to = 0; i < YKI_CONCAT_INPUTS; i++) {
        yk_tensor x = yki_ref_in(kernel, run, (int)i);
        if (x.ndim < 0)
            break;
        copy_part(&x, 0, &y, to, x.dims[dim], dim);
        to += x.dims[dim];
    }
    return YK_OK;
}

static yk_status ref_slice(const yki_kernel *kernel, const yki_kernel_args *run)
{
    yk_tensor x = yki_ref_in(kernel, run, YKI_SLICE_X);
    yk_tensor y = yki_ref_out(kernel, run, YKI_SLICE_Y);
    const yki_attrs *attrs = yki_ref_attrs(kernel);
    copy_part(&x, attrs->first, &y, 0, attrs->count, attrs->dim);
    return YK_OK;
}

static yk_status ref_pad(const yki_kernel *kernel, const yki_kernel_args *run)
{
    yk_tensor x = yki_ref_in(kernel, run, YKI_PAD_X);
    yk_tensor y = yki_ref_out(kernel, run, YKI_PAD_Y);
    const yki_attrs *attrs = yki_ref_attrs(kernel);
    for (int64_t i = 0; i < yk_tensor_count(&y); i++)
        yki_ref_set(&y, i, 0);
    copy_part(&x, 0, &y, attrs->first, x.dims[attrs->dim], attrs->dim);
    return YK_OK;
}

const yki_kernel_impl yki_ref_concat = {.op = &yki_op_concat,
                                        .supports = yki_ref_supports,
                                        .prepare = yki_ref_prepare,
                                        .run = ref_concat};
const yki_kernel_impl yki_ref_slice = {.op = &yki_op_slice,
                                       .supports = yki_ref_supports,
                                       .prepare = yki_ref_prepare,
                                       .run = ref_slice};
const yki_kernel_impl yki_ref_pad = {
    .op = &yki_op_pad, .supports = yki_ref_supports, .prepare = yki_ref_prepare, .run = ref_pad};

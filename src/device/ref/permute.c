/* permute: y[i] is the element of x at the same place in its own order of dimensions. */
#include "device/ref/ref.h"

static yk_status ref_permute(const yki_kernel *kernel, const yki_kernel_args *run)
{
    yk_tensor x = yki_ref_in(kernel, run, YKI_PERMUTE_X);
    yk_tensor y = yki_ref_out(kernel, run, YKI_PERMUTE_Y);
    int64_t stride[YK_MAX_DIMS], product = 1, count = yk_tensor_count(&y);
    for (int d = x.ndim - 1; d >= 0; d--) {
        stride[d] = product;
        product *= x.dims[d];
    }
    for (int64_t i = 0; i < count; i++) {
        int64_t at = 0, rest = i;
        for (int d = y.ndim - 1; d >= 0; d--) {
            at += rest % y.dims[d] * stride[yki_ref_attrs(kernel)->dims[d]];
            rest /= y.dims[d];
        }
        yki_ref_set(&y, i, yki_ref_get(&x, at));
    }
    return YK_OK;
}

YKI_REF_IMPL(permute, 0);

/* concat along channels, slice and pad: operands are (N, C, ...). */
#include "device/ref/ref.h"

/* Copies `channels` channels of every sample, from channel `from` of x to channel `to` of y. */
static void copy_channels(const yk_tensor *x, int64_t from, const yk_tensor *y, int64_t to,
                          int64_t channels)
{
    int64_t pixels = 1;
    for (int i = 2; i < x->ndim; i++)
        pixels *= x->dims[i];
    for (int64_t n = 0; n < x->dims[0]; n++)
        for (int64_t i = 0; i < channels * pixels; i++)
            yki_ref_set(y, (n * y->dims[1] + to) * pixels + i,
                        yki_ref_get(x, (n * x->dims[1] + from) * pixels + i));
}

static yk_status ref_concat(const yki_kernel *kernel, const yki_kernel_args *run)
{
    yk_tensor y = yki_ref_out(kernel, run, YKI_CONCAT_Y);
    for (int64_t i = 0, to = 0; i < YKI_CONCAT_INPUTS; i++) {
        yk_tensor x = yki_ref_in(kernel, run, (int)i);
        if (x.ndim < 0)
            break;
        copy_channels(&x, 0, &y, to, x.dims[1]);
        to += x.dims[1];
    }
    return YK_OK;
}

static yk_status ref_slice(const yki_kernel *kernel, const yki_kernel_args *run)
{
    yk_tensor x = yki_ref_in(kernel, run, YKI_SLICE_X);
    yk_tensor y = yki_ref_out(kernel, run, YKI_SLICE_Y);
    copy_channels(&x, yki_ref_attrs(kernel)->first_channel, &y, 0, y.dims[1]);
    return YK_OK;
}

static yk_status ref_pad(const yki_kernel *kernel, const yki_kernel_args *run)
{
    yk_tensor x = yki_ref_in(kernel, run, YKI_PAD_X);
    yk_tensor y = yki_ref_out(kernel, run, YKI_PAD_Y);
    for (int64_t i = 0; i < yk_tensor_count(&y); i++)
        yki_ref_set(&y, i, 0);
    copy_channels(&x, 0, &y, yki_ref_attrs(kernel)->first_channel, x.dims[1]);
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

/* linear and its gradients; flatten and its inverse, which only move values. */
#include "device/ref/ref.h"

#include <string.h>

static yk_status ref_linear(const yki_kernel *kernel, const yki_kernel_args *run)
{
    yk_tensor x = yki_ref_in(kernel, run, YKI_LINEAR_X);           /* (N, I) */
    yk_tensor weight = yki_ref_in(kernel, run, YKI_LINEAR_WEIGHT); /* (O, I) */
    yk_tensor bias = yki_ref_in(kernel, run, YKI_LINEAR_BIAS);     /* (O) or absent */
    yk_tensor y = yki_ref_out(kernel, run, YKI_LINEAR_Y);          /* (N, O) */
    int64_t batch = x.dims[0], inputs = x.dims[1], outputs = weight.dims[0];
    for (int64_t n = 0; n < batch; n++)
        for (int64_t o = 0; o < outputs; o++) {
            double sum = bias.data ? yki_ref_get(&bias, o) : 0;
            for (int64_t i = 0; i < inputs; i++)
                sum += yki_ref_get(&x, n * inputs + i) * yki_ref_get(&weight, o * inputs + i);
            yki_ref_set(&y, n * outputs + o, sum);
        }
    return YK_OK;
}

static yk_status ref_linear_backward_data(const yki_kernel *kernel, const yki_kernel_args *run)
{
    yk_tensor dy = yki_ref_in(kernel, run, YKI_LINEAR_BACKWARD_DATA_DY);         /* (N, O) */
    yk_tensor weight = yki_ref_in(kernel, run, YKI_LINEAR_BACKWARD_DATA_WEIGHT); /* (O, I) */
    yk_tensor dx = yki_ref_out(kernel, run, YKI_LINEAR_BACKWARD_DATA_DX);        /* (N, I) */
    int64_t batch = dy.dims[0], outputs = weight.dims[0], inputs = weight.dims[1];
    for (int64_t n = 0; n < batch; n++)
        for (int64_t i = 0; i < inputs; i++) {
            double sum = 0;
            for (int64_t o = 0; o < outputs; o++)
                sum += yki_ref_get(&dy, n * outputs + o) * yki_ref_get(&weight, o * inputs + i);
            yki_ref_set(&dx, n * inputs + i, sum);
        }
    return YK_OK;
}

static yk_status ref_linear_backward_weight(const yki_kernel *kernel, const yki_kernel_args *run)
{
    yk_tensor x = yki_ref_in(kernel, run, YKI_LINEAR_BACKWARD_WEIGHT_X);              /* (N, I) */
    yk_tensor dy = yki_ref_in(kernel, run, YKI_LINEAR_BACKWARD_WEIGHT_DY);            /* (N, O) */
    yk_tensor dweight = yki_ref_out(kernel, run, YKI_LINEAR_BACKWARD_WEIGHT_DWEIGHT); /* (O, I) */
    yk_tensor dbias =
        yki_ref_out(kernel, run, YKI_LINEAR_BACKWARD_WEIGHT_DBIAS); /* (O) or absent */
    int64_t batch = x.dims[0], inputs = x.dims[1], outputs = dy.dims[1];
    for (int64_t o = 0; o < outputs; o++) {
        for (int64_t i = 0; i < inputs; i++) {
            double sum = 0;
            for (int64_t n = 0; n < batch; n++)
                sum += yki_ref_get(&dy, n * outputs + o) * yki_ref_get(&x, n * inputs + i);
            yki_ref_set(&dweight, o * inputs + i, sum);
        }
        double sum = 0;
        for (int64_t n = 0; n < batch; n++)
            sum += yki_ref_get(&dy, n * outputs + o);
        if (dbias.data)
            yki_ref_set(&dbias, o, sum);
    }
    return YK_OK;
}

const yki_kernel_impl yki_ref_linear = {.op = &yki_op_linear,
                                        .supports = yki_ref_supports,
                                        .prepare = yki_ref_prepare,
                                        .run = ref_linear};
const yki_kernel_impl yki_ref_linear_backward_data = {.op = &yki_op_linear_backward_data,
                                                      .supports = yki_ref_supports,
                                                      .prepare = yki_ref_prepare,
                                                      .run = ref_linear_backward_data};
const yki_kernel_impl yki_ref_linear_backward_weight = {.op = &yki_op_linear_backward_weight,
                                                        .supports = yki_ref_supports,
                                                        .prepare = yki_ref_prepare,
                                                        .run = ref_linear_backward_weight};

/* ---- flatten, reshape: in row-major order both leave every element where it is --------------- */

static yk_status same_bytes(const yki_kernel *kernel, const yki_kernel_args *run)
{
    yk_tensor x = yki_ref_in(kernel, run, 0);
    memmove(run->out[0], x.data, yk_tensor_bytes(&x));
    return YK_OK;
}

const yki_kernel_impl yki_ref_flatten = {.op = &yki_op_flatten,
                                         .inplace = 1,
                                         .supports = yki_ref_supports,
                                         .prepare = yki_ref_prepare,
                                         .run = same_bytes};
const yki_kernel_impl yki_ref_reshape = {.op = &yki_op_reshape,
                                         .inplace = 1,
                                         .supports = yki_ref_supports,
                                         .prepare = yki_ref_prepare,
                                         .run = same_bytes};

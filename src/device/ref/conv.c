/*
 * conv2d and conv_transpose2d, and their gradients, by definition. Shapes: x (N, C, H, W), weight
 * (K, C / groups, R, S), y (N, K, P, Q). Output row p reads input row p * stride - padding + r *
 * dilation, and columns likewise.
 */
#include <stdlib.h>

#include "device/ref/ref.h"

/* What the sums multiply, as doubles. */
typedef struct conv_factors {
    yk_tensor first, second;
} conv_factors;

static void free_factors(conv_factors *factors)
{
    free(factors->first.data);
    free(factors->second.data);
}

/* Two operands of this run. Call free_factors() even if this fails. */
static yk_status read_factors(const yki_kernel *kernel, const yki_kernel_args *run, int first,
                              int second, conv_factors *factors)
{
    *factors = (conv_factors){{.data = NULL}, {.data = NULL}};
    YK_TRY(yki_ref_in_f64(kernel, run, first, &factors->first));
    return yki_ref_in_f64(kernel, run, second, &factors->second);
}

/* The row that begins with element (n, c, h, 0) of a factor. */
static inline const double *row_of(const yk_tensor *factor, int64_t n, int64_t c, int64_t h)
{
    return (const double *)factor->data + yki_ref_at(factor, n, c, h, 0);
}

/* The sum for one output element: filter k of its group applied to the window at (n, p, q). */
static double window(const yk_tensor *x, const yk_tensor *weight, const yki_attrs *a, int64_t n,
                     int64_t k, int64_t p, int64_t q)
{
    int64_t first = k / (weight->dims[0] / a->groups) * weight->dims[1];
    double sum = 0;
    for (int64_t c = 0; c < weight->dims[1]; c++)
        for (int64_t r = 0; r < weight->dims[2]; r++) {
            int64_t h = p * a->stride[0] - a->padding[0] + r * a->dilation[0];
            if (h < 0 || h >= x->dims[2])
                continue;
            const double *row = row_of(x, n, first + c, h), *taps = row_of(weight, k, c, r);
            for (int64_t s = 0; s < weight->dims[3]; s++) {
                int64_t w = q * a->stride[1] - a->padding[1] + s * a->dilation[1];
                if (w >= 0 && w < x->dims[3])
                    sum += row[w] * taps[s];
            }
        }
    return sum;
}

/* Of each channel of y as it is stored. */
static void sum_channels(const yk_tensor *y, const yk_tensor *sums)
{
    int64_t channels = y->dims[1], pixels = y->dims[2] * y->dims[3];
    for (int64_t k = 0; k < channels; k++) {
        double sum = 0, squares = 0;
        for (int64_t n = 0; n < y->dims[0]; n++)
            for (int64_t pixel = 0; pixel < pixels; pixel++) {
                double value = yki_ref_get(y, (n * channels + k) * pixels + pixel);
                sum += value;
                squares += value * value;
            }
        yki_ref_set(sums, k, sum);
        yki_ref_set(sums, channels + k, squares);
    }
}

static yk_status prepare_conv2d(yki_device *device, const yki_kernel_desc *desc,
                                yki_kernel **kernel)
{
    YK_TRY(yki_ref_prepare(device, desc, kernel));
    (*kernel)->sums = desc->out_count > YKI_CONV2D_SUMS && desc->out[YKI_CONV2D_SUMS].ndim >= 0;
    return YK_OK;
}

/* y; bias may be absent. */
static void convolve(const conv_factors *f, const yki_attrs *a, const yk_tensor *bias,
                     const yk_tensor *y)
{
    for (int64_t n = 0; n < y->dims[0]; n++)
        for (int64_t k = 0; k < y->dims[1]; k++)
            for (int64_t p = 0; p < y->dims[2]; p++)
                for (int64_t q = 0; q < y->dims[3]; q++) {
                    double sum = window(&f->first, &f->second, a, n, k, p, q);
                    yki_ref_set(y, yki_ref_at(y, n, k, p, q),
                                sum + (bias->data ? yki_ref_get(bias, k) : 0));
                }
}

static yk_status ref_conv2d(const yki_kernel *kernel, const yki_kernel_args *run)
{
    yk_tensor bias = yki_ref_in(kernel, run, YKI_CONV2D_BIAS);  /* (K) or absent */
    yk_tensor y = yki_ref_out(kernel, run, YKI_CONV2D_Y);       /* (N, K, P, Q) */
    yk_tensor sums = yki_ref_out(kernel, run, YKI_CONV2D_SUMS); /* (2, K) or absent */
    conv_factors f; /* (N, C, H, W) and (K, C / groups, R, S) */
    yk_status status = read_factors(kernel, run, YKI_CONV2D_X, YKI_CONV2D_WEIGHT, &f);
    if (!status)
        convolve(&f, yki_ref_attrs(kernel), &bias, &y);
    if (!status && sums.data)
        sum_channels(&y, &sums);
    free_factors(&f);
    return status;
}

/* Along dimension d: the output pixel whose window has input pixel i at filter tap r; -1 if there
 * is none. */
static int64_t ref_conv_output_of(const yki_attrs *a, int d, int64_t i, int64_t r, int64_t size)
{
    int64_t from = i + a->padding[d] - r * a->dilation[d];
    if (from < 0 || from % a->stride[d] || from / a->stride[d] >= size)
        return -1;
    return from / a->stride[d];
}

/* The gradient of one input element: the sum over all outputs of its group whose window has it. */
static double ref_conv_collect(const yk_tensor *dy, const yk_tensor *weight, const yki_attrs *a,
                               int64_t n, int64_t c, int64_t h, int64_t w)
{
    int64_t filters = weight->dims[0] / a->groups;
    int64_t first = c / weight->dims[1] * filters, in_group = c % weight->dims[1];
    double sum = 0;
    for (int64_t r = 0; r < weight->dims[2]; r++) {
        int64_t p = ref_conv_output_of(a, 0, h, r, dy->dims[2]);
        for (int64_t s = 0; p >= 0 && s < weight->dims[3]; s++) {
            int64_t q = ref_conv_output_of(a, 1, w, s, dy->dims[3]);
            for (int64_t k = first; q >= 0 && k < first + filters; k++)
                sum += row_of(dy, n, k, p)[q] * row_of(weight, k, in_group, r)[s];
        }
    }
    return sum;
}

/* dx, of which bias (C), which conv_transpose2d may have, is a part. */
static void collect_all(const conv_factors *f, const yki_attrs *a, const yk_tensor *bias,
                        const yk_tensor *dx)
{
    for (int64_t n = 0; n < dx->dims[0]; n++)
        for (int64_t c = 0; c < dx->dims[1]; c++)
            for (int64_t h = 0; h < dx->dims[2]; h++)
                for (int64_t w = 0; w < dx->dims[3]; w++) {
                    double sum = ref_conv_collect(&f->first, &f->second, a, n, c, h, w);
                    yki_ref_set(dx, yki_ref_at(dx, n, c, h, w),
                                sum + (bias->data ? yki_ref_get(bias, c) : 0));
                }
}

static yk_status ref_conv2d_backward_data(const yki_kernel *kernel, const yki_kernel_args *run)
{
    yk_tensor dx = yki_ref_out(kernel, run, YKI_CONV2D_BACKWARD_DATA_DX); /* (N, C, H, W) */
    conv_factors f; /* (N, K, P, Q) and (K, C / groups, R, S) */
    yk_status status =
        read_factors(kernel, run, YKI_CONV2D_BACKWARD_DATA_DY, YKI_CONV2D_BACKWARD_DATA_WEIGHT, &f);
    if (!status)
        collect_all(&f, yki_ref_attrs(kernel), &(yk_tensor){.data = NULL}, &dx);
    free_factors(&f);
    return status;
}

static yk_status ref_conv_transpose2d(const yki_kernel *kernel, const yki_kernel_args *run)
{
    yk_tensor bias = yki_ref_in(kernel, run, YKI_CONV_TRANSPOSE2D_BIAS); /* (C) or absent */
    yk_tensor y = yki_ref_out(kernel, run, YKI_CONV_TRANSPOSE2D_Y);      /* (N, C, H, W) */
    conv_factors f; /* (N, K, P, Q) and (K, C / groups, R, S) */
    yk_status status =
        read_factors(kernel, run, YKI_CONV_TRANSPOSE2D_X, YKI_CONV_TRANSPOSE2D_WEIGHT, &f);
    if (!status)
        collect_all(&f, yki_ref_attrs(kernel), &bias, &y);
    free_factors(&f);
    return status;
}

/* The gradient of one weight: each output of filter k times the input that it has multiplied. */
static double correlate(const yk_tensor *x, const yk_tensor *dy, const yki_attrs *a, int64_t k,
                        int64_t c, int64_t r, int64_t s)
{
    double sum = 0;
    for (int64_t n = 0; n < dy->dims[0]; n++)
        for (int64_t p = 0; p < dy->dims[2]; p++) {
            int64_t h = p * a->stride[0] - a->padding[0] + r * a->dilation[0];
            if (h < 0 || h >= x->dims[2])
                continue;
            const double *gradients = row_of(dy, n, k, p), *row = row_of(x, n, c, h);
            for (int64_t q = 0; q < dy->dims[3]; q++) {
                int64_t w = q * a->stride[1] - a->padding[1] + s * a->dilation[1];
                if (w >= 0 && w < x->dims[3])
                    sum += gradients[q] * row[w];
            }
        }
    return sum;
}

static void ref_conv2d_backward_bias(const yk_tensor *dy, const yk_tensor *dbias)
{
    for (int64_t k = 0; k < dy->dims[1]; k++) {
        double sum = 0;
        for (int64_t n = 0; n < dy->dims[0]; n++)
            for (int64_t p = 0; p < dy->dims[2]; p++)
                for (int64_t q = 0; q < dy->dims[3]; q++)
                    sum += yki_ref_get(dy, yki_ref_at(dy, n, k, p, q));
        yki_ref_set(dbias, k, sum);
    }
}

static void correlate_all(const conv_factors *f, const yki_attrs *a, const yk_tensor *dweight)
{
    for (int64_t k = 0; k < dweight->dims[0]; k++) {
        int64_t first = k / (dweight->dims[0] / a->groups) * dweight->dims[1];
        for (int64_t c = 0; c < dweight->dims[1]; c++)
            for (int64_t r = 0; r < dweight->dims[2]; r++)
                for (int64_t s = 0; s < dweight->dims[3]; s++)
                    yki_ref_set(dweight, yki_ref_at(dweight, k, c, r, s),
                                correlate(&f->first, &f->second, a, k, first + c, r, s));
    }
}

static yk_status ref_conv2d_backward_weight(const yki_kernel *kernel, const yki_kernel_args *run)
{
    yk_tensor dweight =
        yki_ref_out(kernel, run, YKI_CONV2D_BACKWARD_WEIGHT_DWEIGHT); /* (K, C / groups, R, S) */
    yk_tensor dbias =
        yki_ref_out(kernel, run, YKI_CONV2D_BACKWARD_WEIGHT_DBIAS); /* (K) or absent */
    conv_factors f; /* (N, C, H, W) and (N, K, P, Q) */
    yk_status status =
        read_factors(kernel, run, YKI_CONV2D_BACKWARD_WEIGHT_X, YKI_CONV2D_BACKWARD_WEIGHT_DY, &f);
    if (!status)
        correlate_all(&f, yki_ref_attrs(kernel), &dweight);
    if (!status && dbias.data)
        ref_conv2d_backward_bias(&f.second, &dbias);
    free_factors(&f);
    return status;
}

static yk_status ref_conv_transpose2d_backward_bias(const yki_kernel *kernel,
                                                    const yki_kernel_args *run)
{
    yk_tensor dy =
        yki_ref_in(kernel, run, YKI_CONV_TRANSPOSE2D_BACKWARD_BIAS_DY); /* (N, K, P, Q) */
    yk_tensor dbias = yki_ref_out(kernel, run, YKI_CONV_TRANSPOSE2D_BACKWARD_BIAS_DBIAS); /* (K) */
    ref_conv2d_backward_bias(&dy, &dbias);
    return YK_OK;
}

const yki_kernel_impl yki_ref_conv2d = {.op = &yki_op_conv2d,
                                        .supports = yki_ref_supports,
                                        .prepare = prepare_conv2d,
                                        .run = ref_conv2d};
const yki_kernel_impl yki_ref_conv2d_backward_data = {.op = &yki_op_conv2d_backward_data,
                                                      .supports = yki_ref_supports,
                                                      .prepare = yki_ref_prepare,
                                                      .run = ref_conv2d_backward_data};
const yki_kernel_impl yki_ref_conv2d_backward_weight = {.op = &yki_op_conv2d_backward_weight,
                                                        .supports = yki_ref_supports,
                                                        .prepare = yki_ref_prepare,
                                                        .run = ref_conv2d_backward_weight};
YKI_REF_IMPL(conv_transpose2d, 0);
YKI_REF_IMPL(conv_transpose2d_backward_bias, 0);

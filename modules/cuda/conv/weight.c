/* Gradients of a convolution's weight and bias: x, dy -> dweight, [dbias]. See conv.c. */
#include "bias.h"
#include "conv/kernel.h"
#include "implementations.h"
#include "libraries.h"

bool yki_conv_supports_backward_weight(const yki_device *device, const yki_kernel_desc *desc)
{
    (void)device;
    return yki_conv_supports(&desc->in[YKI_CONV2D_BACKWARD_WEIGHT_X],
                             &desc->out[YKI_CONV2D_BACKWARD_WEIGHT_DWEIGHT],
                             &desc->in[YKI_CONV2D_BACKWARD_WEIGHT_DY]);
}

/* A convolution whose filters have one tap multiplies matrices. For the gradients of weights,
 * cuBLASLt's algorithms are faster than cuDNN's engines of f32, and need no compiler. */
bool yki_conv_is_product(const yki_conv *k)
{
    const yki_attrs *attrs = &k->cuda.attrs;
    return k->weight.dims[2] * k->weight.dims[3] == 1 && yki_is_square(attrs) &&
           attrs->stride[0] == 1 && attrs->padding[0] == 0 && attrs->groups == 1 &&
           yki_operand_count(&k->y) > 0;
}

/* dweight (K, C) = dy^T x */
static yk_status prepare_product(yki_conv *k)
{
    const yki_cublas *cublas;
    bool found;
    const yki_cublas_shape shape = {.dtype = k->x.dtype,
                                    .result = k->weight.dtype,
                                    .rows = k->y.dims[1],
                                    .inner = yki_cuda_rows(&k->y),
                                    .columns = k->x.dims[1],
                                    .transpose_a = true};
    YK_TRY(yki_cuda_need_cublas(k->cuda.device, &cublas));
    YK_TRY(yki_cublas_prepare(&k->product, cublas, &shape, &found));
    if (!found)
        return yki_cublas_no_algorithm(&shape);
    k->workspace_at = yki_cuda_reserve(&k->cuda, k->product.workspace);
    return YK_OK;
}

static yk_status multiply(const yki_conv *k, const void *x, const void *dy, void *dweight,
                          const yki_kernel_args *run)
{
    const yki_cublas_terms terms = {.a = dy, .b = x, .c = dweight, .scale = 1};
    char *scratch = run->scratch;
    return yki_cublas_run(&k->product, &terms, scratch ? scratch + k->workspace_at : NULL,
                          k->cuda.device->launcher->handle_of(run->stream));
}

/* The gradient that the plan makes may have another order, more channels, or 16 bits. */
static yk_status prepare_gradient(yki_conv *k)
{
    yk_dtype made = k->conv.narrow ? k->conv.dtype : k->weight.dtype;
    if (made == k->weight.dtype && yki_conv_is_same_order(k) && !yki_conv_has_more_outputs(k))
        return YK_OK;
    k->weight_at =
        yki_cuda_reserve(&k->cuda, (size_t)yki_conv_count(k->conv.w) * yk_dtype_size(made));
    if (yki_conv_is_same_order(k) && made != k->weight.dtype)
        return yki_cuda_convert_find(&k->cuda, TRANSPOSE, made, k->weight.dtype);
    if (k->folds)
        return yki_cuda_find(&k->cuda, TRANSPOSE, "unfold_filters", made, true);
    const char *name = made == YK_F64    ? "transpose_8"
                       : made == YK_F32  ? "transpose_4"
                       : made == YK_BF16 ? "transpose_bf16_f32"
                                         : "transpose_f16_f32";
    return yki_cuda_find_exactly(&k->cuda, TRANSPOSE, name);
}

void yki_conv_describe_backward_weight(yki_conv *k)
{
    const yki_kernel_desc *desc = &k->cuda.desc;
    k->x = desc->in[YKI_CONV2D_BACKWARD_WEIGHT_X];
    k->weight = desc->out[YKI_CONV2D_BACKWARD_WEIGHT_DWEIGHT];
    k->y = desc->in[YKI_CONV2D_BACKWARD_WEIGHT_DY];
    yki_conv_describe(k, YKI_CUDNN_BACKWARD_WEIGHT);
}

static yk_status prepare_by_plan(yki_conv *k)
{
    YK_TRY(yki_conv_prepare_plan(k, false, NULL));
    YK_TRY(yki_conv_prepare_copies(k));
    return prepare_gradient(k);
}

static yk_status prepare_backward_weight(yki_conv *k)
{
    yki_conv_describe_backward_weight(k);
    YK_TRY(yki_conv_is_product(k) ? prepare_product(k) : prepare_by_plan(k));
    if (k->cuda.desc.out[YKI_CONV2D_BACKWARD_WEIGHT_DBIAS].ndim < 0)
        return YK_OK;
    k->partial_at = yki_cuda_reserve(&k->cuda, yki_cuda_bias_gradient_bytes(&k->y));
    return yki_cuda_bias_gradient_find(&k->cuda, REDUCE, &k->y, false);
}

static yk_status create_backward_weight(yki_device *device, const yki_kernel_desc *desc,
                                        yki_kernel **kernel)
{
    return yki_conv_create(device, desc, prepare_backward_weight, kernel);
}

static yk_status restore_order(const yki_conv *k, const void *made, void *dweight,
                               const yki_kernel_args *run)
{
    if (yki_conv_is_same_order(k) && k->conv.narrow)
        return yki_cuda_convert(&k->cuda, TRANSPOSE, made, dweight, yki_conv_count(k->weight.dims),
                                run);
    if (k->folds)
        return yki_conv_fold_filters(k, made, dweight, run);
    const int32_t taps = (int32_t)yki_conv_taps(k);
    yki_cuda_transpose_args args = {.in = made,
                                    .out = dweight,
                                    .batch = k->weight.dims[0],
                                    .rows = taps,
                                    .columns = (int32_t)k->weight.dims[1],
                                    .in_pitch = (int32_t)k->conv.w[1],
                                    .out_pitch = taps};
    return yki_cuda_launch(&k->cuda, TRANSPOSE, yki_cuda_grid_of_transpose(&args), &args,
                           sizeof args, run);
}

/* With copies of operands that have more channels than they have. */
static yk_status run_plan(const yki_conv *k, void *x, void *dy, void *dweight,
                          const yki_kernel_args *run)
{
    char *scratch = run->scratch;
    void *x_used = yki_conv_has_more_inputs(k) ? scratch + k->x_at : x;
    void *dy_used = yki_conv_has_more_outputs(k) ? scratch + k->y_at : dy;
    void *made = k->cuda.stage[TRANSPOSE] ? scratch + k->weight_at : dweight;
    if (x_used != x)
        YK_TRY(yki_conv_widen_x(k, x, x_used, run));
    if (dy_used != dy)
        YK_TRY(yki_conv_pad(k, &k->y, k->conv.y, dy, dy_used, run));
    YK_TRY(yki_conv_execute(k, (yki_cudnn_conv_memory){.x = x_used, .w = made, .y = dy_used}, run));
    return made == dweight ? YK_OK : restore_order(k, made, dweight, run);
}

static yk_status run_backward_weight(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const yki_conv *k = (const yki_conv *)kernel;
    void *x = run->in[YKI_CONV2D_BACKWARD_WEIGHT_X], *dy = run->in[YKI_CONV2D_BACKWARD_WEIGHT_DY];
    void *dweight = run->out[YKI_CONV2D_BACKWARD_WEIGHT_DWEIGHT];
    void *dbias = yki_cuda_out(&k->cuda, run, YKI_CONV2D_BACKWARD_WEIGHT_DBIAS);
    YK_TRY(k->plan ? run_plan(k, x, dy, dweight, run) : multiply(k, x, dy, dweight, run));
    if (!dbias)
        return YK_OK;
    return yki_cuda_bias_gradient(&k->cuda, REDUCE, &k->y, dy, NULL, dbias,
                                  (char *)run->scratch + k->partial_at, run);
}
YKI_CONV(conv2d_backward_weight, yki_conv_supports_backward_weight, create_backward_weight,
         run_backward_weight);

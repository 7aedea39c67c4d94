/*
 * conv2d and its gradients, one of which is conv_transpose2d, by cuDNN. Activations have their
 * channels last; a weight, which is an f32 parameter (K, C / groups, R, S), is packed once per
 * step: its taps before its channels, in the type of the activations.
 *
 * Engines of 16 bits want channels in eights. Where they are not, as in the first layer of most
 * networks, the plan is that of a convolution with more channels: inputs are copied with zeros as
 * those that are missing, and outputs are copied without them. With stride 2, pixels become these
 * channels (fold.h).
 */
#include <string.h>

#include "bias.h"
#include "conv/kernel.h"
#include "implementations.h"
#include "libraries.h"

/* ---- forward: x, weight, [bias] -> y, [sums] ------------------------------------------------- */

static bool supports(const yki_device *device, const yki_kernel_desc *desc)
{
    (void)device;
    return yki_conv_supports(&desc->in[YKI_CONV2D_X], &desc->in[YKI_CONV2D_WEIGHT],
                             &desc->out[YKI_CONV2D_Y]);
}

static void describe_forward(yki_conv *k)
{
    const yki_kernel_desc *desc = &k->cuda.desc;
    k->x = desc->in[YKI_CONV2D_X];
    k->weight = desc->in[YKI_CONV2D_WEIGHT];
    k->y = desc->out[YKI_CONV2D_Y];
    yki_conv_describe(k, YKI_CUDNN_FORWARD);
}

static bool is_biased(const yki_conv *k)
{
    return k->cuda.desc.in[YKI_CONV2D_BIAS].ndim >= 0;
}

static const yki_operand *sums_of(const yki_conv *k)
{
    const yki_kernel_desc *desc = &k->cuda.desc;
    return desc->out_count > YKI_CONV2D_SUMS ? &desc->out[YKI_CONV2D_SUMS] : NULL;
}

static yk_status prepare_forward(yki_conv *k)
{
    describe_forward(k);
    YK_TRY(yki_conv_prepare_plan(k, is_biased(k), sums_of(k)));
    YK_TRY(yki_conv_prepare_copies(k));
    YK_TRY(yki_conv_prepare_pack(k, YKI_CONV2D_WEIGHT));
    return k->add_bias ? yki_cuda_bias_add_find(&k->cuda, ADD, &k->y) : YK_OK;
}

static yk_status create(yki_device *device, const yki_kernel_desc *desc, yki_kernel **kernel)
{
    return yki_conv_create(device, desc, prepare_forward, kernel);
}

static yk_status run_conv2d(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const yki_conv *k = (const yki_conv *)kernel;
    char *scratch = run->scratch;
    void *x = run->in[YKI_CONV2D_X], *y = run->out[YKI_CONV2D_Y];
    void *bias = yki_cuda_in(&k->cuda, run, YKI_CONV2D_BIAS);
    void *x_used = yki_conv_has_more_inputs(k) ? scratch + k->x_at : x;
    void *y_used = yki_conv_has_more_outputs(k) ? scratch + k->y_at : y;
    if (x_used != x)
        YK_TRY(yki_conv_widen_x(k, x, x_used, run));
    yki_cudnn_conv_memory memory = {
        .x = x_used, .w = run->in[YKI_CONV2D_WEIGHT], .y = y_used, .bias = bias};
    if (k->conv.sums) {
        memory.sum = run->out[YKI_CONV2D_SUMS];
        memory.squares = (float *)memory.sum + k->y.dims[1];
    }
    YK_TRY(yki_conv_execute(k, memory, run));
    if (y_used != y)
        YK_TRY(yki_conv_crop(k, &k->y, k->conv.y, y_used, y, run));
    return k->add_bias ? yki_cuda_bias_add(&k->cuda, ADD, &k->y, y, bias, run) : YK_OK;
}
YKI_CONV(conv2d, supports, create, run_conv2d);

/* ---- gradient of x: dy, weight -> dx, and conv_transpose2d: x, weight, [bias] -> y ----------- */

/* The operands of both have the same numbers; those below are named as the gradient's. */

static bool supports_backward_data(const yki_device *device, const yki_kernel_desc *desc)
{
    (void)device;
    return yki_conv_supports(&desc->out[YKI_CONV2D_BACKWARD_DATA_DX],
                             &desc->in[YKI_CONV2D_BACKWARD_DATA_WEIGHT],
                             &desc->in[YKI_CONV2D_BACKWARD_DATA_DY]);
}

static void describe_backward_data(yki_conv *k)
{
    const yki_kernel_desc *desc = &k->cuda.desc;
    k->x = desc->out[YKI_CONV2D_BACKWARD_DATA_DX];
    k->weight = desc->in[YKI_CONV2D_BACKWARD_DATA_WEIGHT];
    k->y = desc->in[YKI_CONV2D_BACKWARD_DATA_DY];
    yki_conv_describe(k, YKI_CUDNN_BACKWARD_DATA);
}

static yk_status prepare_backward_data(yki_conv *k)
{
    const yki_kernel_desc *desc = &k->cuda.desc;
    describe_backward_data(k);
    YK_TRY(yki_conv_prepare_plan(k, false, NULL));
    YK_TRY(yki_conv_prepare_copies(k));
    YK_TRY(yki_conv_prepare_pack(k, YKI_CONV2D_BACKWARD_DATA_WEIGHT));
    k->add_bias =
        desc->op == &yki_op_conv_transpose2d && desc->in[YKI_CONV_TRANSPOSE2D_BIAS].ndim >= 0;
    return k->add_bias ? yki_cuda_bias_add_find(&k->cuda, ADD, &k->x) : YK_OK;
}

static yk_status create_backward_data(yki_device *device, const yki_kernel_desc *desc,
                                      yki_kernel **kernel)
{
    return yki_conv_create(device, desc, prepare_backward_data, kernel);
}

static yk_status run_backward_data(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const yki_conv *k = (const yki_conv *)kernel;
    char *scratch = run->scratch;
    void *dx = run->out[YKI_CONV2D_BACKWARD_DATA_DX], *dy = run->in[YKI_CONV2D_BACKWARD_DATA_DY];
    void *dx_made = yki_conv_has_more_inputs(k) ? scratch + k->x_at : dx;
    void *dy_used = yki_conv_has_more_outputs(k) ? scratch + k->y_at : dy;
    if (dy_used != dy)
        YK_TRY(yki_conv_pad(k, &k->y, k->conv.y, dy, dy_used, run));
    const yki_cudnn_conv_memory memory = {
        .x = dx_made, .w = run->in[YKI_CONV2D_BACKWARD_DATA_WEIGHT], .y = dy_used};
    YK_TRY(yki_conv_execute(k, memory, run));
    if (dx_made != dx)
        YK_TRY(yki_conv_crop(k, &k->x, k->conv.x, dx_made, dx, run));
    if (!k->add_bias)
        return YK_OK;
    return yki_cuda_bias_add(&k->cuda, ADD, &k->x, dx, run->in[YKI_CONV_TRANSPOSE2D_BIAS], run);
}
YKI_CONV(conv2d_backward_data, supports_backward_data, create_backward_data, run_backward_data);
YKI_CONV(conv_transpose2d, supports_backward_data, create_backward_data, run_backward_data);

/* ---- foresight: the plans that are asked for first ------------------------------------------- */

static void foresee(yki_conv *k, bool bias, const yki_operand *sums)
{
    k->conv.bias = bias && !yki_conv_has_more_outputs(k);
    k->conv.sums = yki_conv_wants_sums(k, sums);
    if (k->conv.sums) {
        yki_cuda_conv_foresee(k->cuda.device, k->cudnn, &k->conv);
        if (!k->cuda.device->measures)
            return; /* then sums are taken where there are any */
    }
    k->conv.sums = false;
    yki_cuda_conv_foresee(k->cuda.device, k->cudnn, &k->conv);
}

static void foresee_gradient(yki_conv *k)
{
    foresee(k, false, NULL);
    k->conv.narrow = yki_conv_is_narrow(k);
    if (k->conv.narrow && k->cuda.device->measures)
        yki_cuda_conv_foresee(k->cuda.device, k->cudnn, &k->conv);
}

static void foresee_one(yki_conv *k)
{
    const yki_device *device = &k->cuda.device->base;
    const yki_kernel_desc *desc = &k->cuda.desc;
    if (desc->op == &yki_op_conv2d && supports(device, desc)) {
        describe_forward(k);
        foresee(k, is_biased(k), sums_of(k));
    } else if ((desc->op == &yki_op_conv2d_backward_data || desc->op == &yki_op_conv_transpose2d) &&
               supports_backward_data(device, desc)) {
        describe_backward_data(k);
        foresee(k, false, NULL);
    } else if (desc->op == &yki_op_conv2d_backward_weight &&
               yki_conv_supports_backward_weight(device, desc)) {
        yki_conv_describe_backward_weight(k);
        if (!yki_conv_is_product(k))
            foresee_gradient(k);
    }
}

void yki_cuda_foresee(yki_device *device, const yki_kernel_desc *desc)
{
    yki_conv k = {.plan = NULL};
    if (!desc) {
        yki_cuda_conv_foreseen((yki_cuda_device *)device);
        return;
    }
    if (strncmp(desc->op->name, "conv", 4) != 0)
        return;
    yki_cuda_kernel_init(&k.cuda, device, desc);
    if (yki_cuda_need_cudnn(k.cuda.device, &k.cudnn) == YK_OK) /* else preparing says so */
        foresee_one(&k);
}

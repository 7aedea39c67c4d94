/*
 * batch_norm, torch.nn.BatchNorm2d's arithmetic (Ioffe and Szegedy 2015): biased variance to
 * normalise, unbiased in the running statistics, which the node updates in place.
 */
#include "graph/operators.h"

#include <math.h>

#include "base/options.h"

/* What the kernels write. */
static yk_status expect_buffers(const yki_node *node)
{
    for (int i = YKI_BATCH_NORM_RUNNING_MEAN; i <= YKI_BATCH_NORM_NUM_BATCHES_TRACKED; i++)
        if (node->in[i] && node->in[i]->kind != YKI_BUFFER)
            return yki_error(YK_ERROR_INVALID_ARGUMENT, "%s is not a buffer: see yk_buffer",
                             node->op->in[i].name);
    return YK_OK;
}

/* num_batches_tracked, absent or what the kernels count in. */
static yk_status expect_counter(const yk_value *batches)
{
    char text[96];
    if (!batches || (batches->dtype == YK_I64 && batches->ndim == 0))
        return YK_OK;
    return yki_error(YK_ERROR_INVALID_SHAPE, "num_batches_tracked is %s %s, expected () int64",
                     yki_shape_text(batches, text, sizeof text), yk_dtype_name(batches->dtype));
}

yk_status yki_infer_batch_norm(const yki_node *node, yki_shape *out)
{
    char text[96];
    const yk_value *x = node->in[YKI_BATCH_NORM_X];
    YK_TRY(yki_expect_float(node, YKI_BATCH_NORM_RUNNING_VAR + 1));
    if (x->ndim != 2 && x->ndim != 4)
        return yki_error(YK_ERROR_INVALID_SHAPE,
                         "input has shape %s, expected (N, C), (N, C, L) or (N, C, H, W)",
                         yki_shape_text(x, text, sizeof text));
    for (int i = YKI_BATCH_NORM_WEIGHT; i <= YKI_BATCH_NORM_RUNNING_VAR; i++)
        YK_TRY(yki_expect_vector(node, i, x->dims[1]));
    YK_TRY(expect_buffers(node));
    YK_TRY(expect_counter(node->in[YKI_BATCH_NORM_NUM_BATCHES_TRACKED]));
    if (!(node->attrs.eps > 0 && isfinite(node->attrs.eps)) ||
        !(node->attrs.momentum >= 0 && node->attrs.momentum <= 1))
        return yki_error(
            YK_ERROR_INVALID_ARGUMENT,
            "eps %g, momentum %g: expected a finite eps above 0 and a momentum from 0 to 1",
            node->attrs.eps, node->attrs.momentum);
    out[YKI_BATCH_NORM_Y] = yki_shape_of(x);
    out[YKI_BATCH_NORM_MEAN] = out[YKI_BATCH_NORM_INVSTD] =
        (yki_shape){.dtype = yki_accumulate_dtype(x->dtype), .ndim = 1, .dims = {x->dims[1]}};
    return YK_OK;
}

yk_status yki_gradient_batch_norm(yk_graph *graph, const yki_node *node, yk_value *const *dout,
                                  const bool *needs, yk_value **din)
{
    yk_value *const *of = node->in;
    yk_value *x = of[YKI_BATCH_NORM_X], *residual = of[YKI_BATCH_NORM_RESIDUAL];
    yk_value *weight = of[YKI_BATCH_NORM_WEIGHT], *bias = of[YKI_BATCH_NORM_BIAS];
    bool needs_y = residual && node->attrs.activation; /* otherwise its slope follows from x */
    bool needs_residual = residual && needs[YKI_BATCH_NORM_RESIDUAL];
    yk_value *in[YKI_BATCH_NORM_BACKWARD_INPUTS] = {
        [YKI_BATCH_NORM_BACKWARD_X] = x,
        [YKI_BATCH_NORM_BACKWARD_DY] = dout[YKI_BATCH_NORM_Y],
        [YKI_BATCH_NORM_BACKWARD_WEIGHT] = weight,
        [YKI_BATCH_NORM_BACKWARD_BIAS] = bias,
        [YKI_BATCH_NORM_BACKWARD_MEAN] = node->out[YKI_BATCH_NORM_MEAN],
        [YKI_BATCH_NORM_BACKWARD_INVSTD] = node->out[YKI_BATCH_NORM_INVSTD],
        [YKI_BATCH_NORM_BACKWARD_Y] = needs_y ? node->out[YKI_BATCH_NORM_Y] : NULL};
    yki_shape shapes[YKI_BATCH_NORM_BACKWARD_OUTPUTS] = {
        [YKI_BATCH_NORM_BACKWARD_DX] = yki_shape_of(x),
        [YKI_BATCH_NORM_BACKWARD_DWEIGHT] = yki_shape_of(weight),
        [YKI_BATCH_NORM_BACKWARD_DBIAS] = yki_shape_of(bias),
        [YKI_BATCH_NORM_BACKWARD_DRESIDUAL] =
            needs_residual ? yki_shape_of(residual) : yki_shape_none()};
    const yki_node *made = yki_append(graph, &yki_op_batch_norm_backward, &node->attrs, in, shapes);
    if (!made)
        return YK_ERROR_OUT_OF_MEMORY;
    if (needs[YKI_BATCH_NORM_X])
        din[YKI_BATCH_NORM_X] = made->out[YKI_BATCH_NORM_BACKWARD_DX];
    if (needs[YKI_BATCH_NORM_WEIGHT])
        din[YKI_BATCH_NORM_WEIGHT] = made->out[YKI_BATCH_NORM_BACKWARD_DWEIGHT];
    if (needs[YKI_BATCH_NORM_BIAS])
        din[YKI_BATCH_NORM_BIAS] = made->out[YKI_BATCH_NORM_BACKWARD_DBIAS];
    din[YKI_BATCH_NORM_RESIDUAL] = made->out[YKI_BATCH_NORM_BACKWARD_DRESIDUAL];
    return YK_OK;
}

/* Sequences (N, C, L) are images of one row. */
yk_value *yk_batch_norm(yk_value *x, yk_value *weight, yk_value *bias, yk_value *running_mean,
                        yk_value *running_var, const yk_batch_norm_options *options)
{
    yk_batch_norm_options o;
    yk_status status =
        YKI_READ_OPTIONS(&o, options, yk_batch_norm_options, YK_BATCH_NORM_OPTIONS_INIT);
    if (status != YK_OK)
        return yki_emit_error(x, "batch_norm", status);
    yki_attrs attrs = {
        .eps = o.eps, .momentum = o.momentum, .batch_statistics = o.batch_statistics};
    yk_value *row = yki_as_row(x);
    yk_value *in[YKI_BATCH_NORM_INPUTS] = {[YKI_BATCH_NORM_X] = row ? row : x,
                                           [YKI_BATCH_NORM_WEIGHT] = weight,
                                           [YKI_BATCH_NORM_BIAS] = bias,
                                           [YKI_BATCH_NORM_RUNNING_MEAN] = running_mean,
                                           [YKI_BATCH_NORM_RUNNING_VAR] = running_var,
                                           [YKI_BATCH_NORM_NUM_BATCHES_TRACKED] =
                                               o.num_batches_tracked};
    return yki_of_row(yki_emit(&yki_op_batch_norm, &attrs, in), row);
}

/*
 * batch_norm, torch.nn.BatchNorm2d's arithmetic (Ioffe and Szegedy 2015): biased variance to
 * normalise, unbiased in the running statistics, which the node updates in place.
 */
#include "base/options.h"
#include "graph/ops.h"

enum { X, WEIGHT, BIAS, RUNNING_MEAN, RUNNING_VAR, BATCHES, RESIDUAL, INPUTS };

/* num_batches_tracked, absent or what the kernels count in. */
static yk_status expect_counter(const yk_value *batches)
{
    char text[96];
    if (!batches || (batches->dtype == YK_I64 && batches->ndim == 0))
        return YK_OK;
    return yki_error(YK_ERROR_INVALID_SHAPE, "num_batches_tracked is %s %s, expected () int64",
                     yki_shape_text(batches, text, sizeof text), yk_dtype_name(batches->dtype));
}

static yk_status infer_batch_norm(const yki_node *node, yki_shape *out)
{
    static const char *const names[] = {"input", "weight", "bias", "running_mean", "running_var"};
    const yk_value *x = node->in[X];
    YK_TRY(yki_expect_float(node, RUNNING_VAR + 1));
    if (x->ndim != 2)
        YK_TRY(yki_expect_dims(node, X, "input", 4));
    for (int i = WEIGHT; i <= RUNNING_VAR; i++) {
        if (!node->in[i])
            return yki_error(YK_ERROR_INVALID_ARGUMENT, "%s is missing", names[i]);
        YK_TRY(yki_expect_vector(node, i, names[i], x->dims[1]));
    }
    YK_TRY(expect_counter(node->in[BATCHES]));
    if (!(node->attrs.eps > 0) || !(node->attrs.momentum >= 0 && node->attrs.momentum <= 1))
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "eps %g, momentum %g", node->attrs.eps,
                         node->attrs.momentum);
    out[0] = yki_shape_of(x);
    out[1] = (yki_shape){.dtype = yki_accumulate_dtype(x->dtype), .ndim = 1, .dims = {x->dims[1]}};
    out[2] = out[1];
    return YK_OK;
}

static yk_status gradient_batch_norm(yk_graph *graph, const yki_node *node, yk_value *const *dout,
                                     const bool *needs, yk_value **din)
{
    yk_value *residual = node->in[RESIDUAL];
    bool needs_y = residual && node->attrs.relu; /* else relu's mask follows from x */
    yk_value *in[] = {node->in[X],
                      dout[0],
                      node->in[WEIGHT],
                      node->in[BIAS],
                      node->out[1],
                      node->out[2],
                      needs_y ? node->out[0] : NULL,
                      NULL};
    yki_shape shapes[] = {yki_shape_of(node->in[X]), yki_shape_of(node->in[WEIGHT]),
                          yki_shape_of(node->in[BIAS]),
                          residual && needs[RESIDUAL] ? yki_shape_of(residual) : yki_shape_none()};
    yki_node *made = yki_append(graph, &yki_op_batch_norm_backward, &node->attrs, 8, in, 4, shapes);
    if (!made)
        return YK_ERROR_OUT_OF_MEMORY;
    for (int i = X; i <= BIAS; i++)
        din[i] = needs[i] ? made->out[i] : NULL;
    din[RESIDUAL] = made->out[3];
    return YK_OK;
}

const yki_op yki_op_batch_norm = {.name = "batch_norm",
                                  .required = 1,
                                  .activations = 1,
                                  .out_count = 3,
                                  .infer = infer_batch_norm,
                                  .gradient = gradient_batch_norm};
const yki_op yki_op_batch_norm_backward = {.name = "batch_norm_backward", .out_count = 4};

yk_value *yk_batch_norm(yk_value *x, yk_value *weight, yk_value *bias, yk_value *running_mean,
                        yk_value *running_var, const yk_batch_norm_options *options)
{
    yk_batch_norm_options o;
    if (YKI_READ_OPTIONS(&o, options, yk_batch_norm_options, YK_BATCH_NORM_OPTIONS_INIT) != YK_OK)
        return yki_emit_error(x, &yki_op_batch_norm);
    yki_attrs attrs = {.eps = o.eps, .momentum = o.momentum};
    yk_value *in[INPUTS] = {x,   weight, bias, running_mean, running_var, o.num_batches_tracked,
                            NULL};
    return yki_emit(&yki_op_batch_norm, &attrs, INPUTS, in);
}

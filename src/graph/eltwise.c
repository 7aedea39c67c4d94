/* Operators that work element by element: relu, gelu, add, scale, cast, dropout. */
#include "graph/ops.h"

/* ---- relu, gelu: the gradient needs dy and what was kept ------------------------------------ */

static yk_status gradient_relu(yk_graph *graph, const yki_node *node, yk_value *const *dout,
                               const bool *needs, yk_value **din)
{
    if (needs[0])
        din[0] = yki_append_like(graph, &yki_op_relu_backward, NULL, 2,
                                 (yk_value *[]){dout[0], node->out[0]}, node->in[0]);
    return YK_OK;
}

static yk_status gradient_gelu(yk_graph *graph, const yki_node *node, yk_value *const *dout,
                               const bool *needs, yk_value **din)
{
    if (needs[0])
        din[0] = yki_append_like(graph, &yki_op_gelu_backward, NULL, 2,
                                 (yk_value *[]){dout[0], node->in[0]}, node->in[0]);
    return YK_OK;
}

const yki_op yki_op_relu = {.name = "relu",
                            .required = 1,
                            .activations = 1,
                            .out_count = 1,
                            .infer = yki_infer_same,
                            .gradient = gradient_relu};
const yki_op yki_op_relu_backward = {.name = "relu_backward", .out_count = 1};
const yki_op yki_op_gelu = {.name = "gelu",
                            .required = 1,
                            .activations = 1,
                            .out_count = 1,
                            .infer = yki_infer_same,
                            .gradient = gradient_gelu};
const yki_op yki_op_gelu_backward = {.name = "gelu_backward", .out_count = 1};

yk_value *yk_relu(yk_value *x)
{
    return yki_emit_one(x, &yki_op_relu, NULL);
}

yk_value *yk_gelu(yk_value *x)
{
    return yki_emit_one(x, &yki_op_gelu, NULL);
}

/* ---- add: the gradient passes to both sides as it is ----------------------------------------- */

static yk_status infer_add(const yki_node *node, yki_shape *out)
{
    const yk_value *a = node->in[0], *b = node->in[1];
    bool same = a->ndim == b->ndim && a->dtype == b->dtype;
    for (int i = 0; same && i < a->ndim; i++)
        same = a->dims[i] == b->dims[i];
    char at[96], bt[96];
    if (!same)
        return yki_error(YK_ERROR_INVALID_SHAPE, "%s %s and %s %s differ",
                         yki_shape_text(a, at, sizeof at), yk_dtype_name(a->dtype),
                         yki_shape_text(b, bt, sizeof bt), yk_dtype_name(b->dtype));
    return yki_infer_same(node, out);
}

static yk_status gradient_add(yk_graph *graph, const yki_node *node, yk_value *const *dout,
                              const bool *needs, yk_value **din)
{
    (void)graph, (void)node;
    for (int i = 0; i < 2; i++)
        din[i] = needs[i] ? dout[0] : NULL;
    return YK_OK;
}

const yki_op yki_op_add = {.name = "add",
                           .required = 2,
                           .activations = 2,
                           .out_count = 1,
                           .infer = infer_add,
                           .gradient = gradient_add};

yk_value *yk_add(yk_value *a, yk_value *b)
{
    return yki_emit(&yki_op_add, &(yki_attrs){0}, 2, (yk_value *[]){a, b});
}

/* ---- scale, cast ----------------------------------------------------------------------------- */

static yk_status gradient_scale(yk_graph *graph, const yki_node *node, yk_value *const *dout,
                                const bool *needs, yk_value **din)
{
    if (needs[0])
        din[0] = yki_append_like(graph, &yki_op_scale, &node->attrs, 1, dout, node->in[0]);
    return YK_OK;
}

static yk_status gradient_cast(yk_graph *graph, const yki_node *node, yk_value *const *dout,
                               const bool *needs, yk_value **din)
{
    if (needs[0])
        din[0] = yki_append_like(graph, &yki_op_cast, NULL, 1, dout, node->in[0]);
    return YK_OK;
}

const yki_op yki_op_scale = {.name = "scale",
                             .required = 1,
                             .activations = 1,
                             .out_count = 1,
                             .infer = yki_infer_same,
                             .gradient = gradient_scale};
const yki_op yki_op_cast = {.name = "cast", .out_count = 1, .gradient = gradient_cast};
const yki_op yki_op_reorder = {.name = "reorder", .out_count = 1};

yk_value *yk_scale(yk_value *x, double alpha)
{
    return yki_emit_one(x, &yki_op_scale, &(yki_attrs){.alpha = alpha});
}

/* ---- dropout: the mask is a function of (seed, step, salt, element), so none is kept --------- */

static yk_status infer_dropout(const yki_node *node, yki_shape *out)
{
    if (!(node->attrs.p >= 0 && node->attrs.p < 1))
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "p is %g, expected 0 <= p < 1", node->attrs.p);
    return yki_infer_same(node, out);
}

static yk_status gradient_dropout(yk_graph *graph, const yki_node *node, yk_value *const *dout,
                                  const bool *needs, yk_value **din)
{
    if (needs[0])
        din[0] =
            yki_append_like(graph, &yki_op_dropout_backward, &node->attrs, 1, dout, node->in[0]);
    return YK_OK;
}

const yki_op yki_op_dropout = {.name = "dropout",
                               .required = 1,
                               .activations = 1,
                               .out_count = 1,
                               .infer = infer_dropout,
                               .gradient = gradient_dropout};
const yki_op yki_op_dropout_backward = {.name = "dropout_backward", .out_count = 1};

yk_value *yk_dropout(yk_value *x, double p)
{
    uint64_t salt = x && x->valid ? (uint64_t)x->graph->node_count : 0;
    return yki_emit_one(x, &yki_op_dropout, &(yki_attrs){.p = p, .salt = salt});
}

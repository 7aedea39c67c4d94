/* max_pool2d, avg_pool2d (zeros of the padding are counted) and the global average. */
#include "graph/ops.h"

static yk_status infer_window(const yki_node *node, yki_shape *out)
{
    const yki_attrs *a = &node->attrs;
    const yk_value *x = node->in[0];
    YK_TRY(yki_expect_float(node, 1));
    YK_TRY(yki_expect_dims(node, 0, "input", 4));
    if (!yki_in_range(a->kernel, 1) || !yki_in_range(a->stride, 1) ||
        !yki_in_range(a->padding, 0) || 2 * a->padding > a->kernel)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "kernel %lld, stride %lld, padding %lld (at most half the kernel)",
                         (long long)a->kernel, (long long)a->stride, (long long)a->padding);
    out[0] = yki_shape_of(x);
    for (int i = 2; i < 4; i++) {
        int64_t room = x->dims[i] + 2 * a->padding - a->kernel;
        char text[96];
        if (room < 0)
            return yki_error(YK_ERROR_INVALID_SHAPE, "kernel %lld is larger than input %s",
                             (long long)a->kernel, yki_shape_text(x, text, sizeof text));
        out[0].dims[i] = room / a->stride + 1;
    }
    return YK_OK;
}

static yk_status infer_max_pool2d(const yki_node *node, yki_shape *out)
{
    YK_TRY(infer_window(node, out));
    out[1] = out[0];
    out[1].dtype = YK_I32;
    return YK_OK;
}

static yk_status gradient_max_pool2d(yk_graph *graph, const yki_node *node, yk_value *const *dout,
                                     const bool *needs, yk_value **din)
{
    if (needs[0])
        din[0] = yki_append_like(graph, &yki_op_max_pool2d_backward, &node->attrs, 2,
                                 (yk_value *[]){dout[0], node->out[1]}, node->in[0]);
    return YK_OK;
}

static yk_status gradient_avg_pool2d(yk_graph *graph, const yki_node *node, yk_value *const *dout,
                                     const bool *needs, yk_value **din)
{
    if (needs[0])
        din[0] =
            yki_append_like(graph, &yki_op_avg_pool2d_backward, &node->attrs, 1, dout, node->in[0]);
    return YK_OK;
}

static yk_status infer_global(const yki_node *node, yki_shape *out)
{
    YK_TRY(yki_expect_float(node, 1));
    YK_TRY(yki_expect_dims(node, 0, "input", 4));
    out[0] = yki_shape_of(node->in[0]);
    out[0].dims[2] = out[0].dims[3] = 1;
    return YK_OK;
}

static yk_status gradient_global(yk_graph *graph, const yki_node *node, yk_value *const *dout,
                                 const bool *needs, yk_value **din)
{
    if (needs[0])
        din[0] =
            yki_append_like(graph, &yki_op_global_avg_pool2d_backward, NULL, 1, dout, node->in[0]);
    return YK_OK;
}

const yki_op yki_op_max_pool2d = {.name = "max_pool2d",
                                  .required = 1,
                                  .activations = 1,
                                  .out_count = 2,
                                  .infer = infer_max_pool2d,
                                  .gradient = gradient_max_pool2d};
const yki_op yki_op_max_pool2d_backward = {.name = "max_pool2d_backward", .out_count = 1};
const yki_op yki_op_avg_pool2d = {.name = "avg_pool2d",
                                  .required = 1,
                                  .activations = 1,
                                  .out_count = 1,
                                  .infer = infer_window,
                                  .gradient = gradient_avg_pool2d};
const yki_op yki_op_avg_pool2d_backward = {.name = "avg_pool2d_backward", .out_count = 1};
const yki_op yki_op_global_avg_pool2d = {.name = "global_avg_pool2d",
                                         .required = 1,
                                         .activations = 1,
                                         .out_count = 1,
                                         .infer = infer_global,
                                         .gradient = gradient_global};
const yki_op yki_op_global_avg_pool2d_backward = {.name = "global_avg_pool2d_backward",
                                                  .out_count = 1};

yk_value *yk_max_pool2d(yk_value *x, int64_t kernel, int64_t stride, int64_t padding)
{
    return yki_emit_one(x, &yki_op_max_pool2d,
                        &(yki_attrs){.kernel = kernel, .stride = stride, .padding = padding});
}

yk_value *yk_avg_pool2d(yk_value *x, int64_t kernel, int64_t stride, int64_t padding)
{
    return yki_emit_one(x, &yki_op_avg_pool2d,
                        &(yki_attrs){.kernel = kernel, .stride = stride, .padding = padding});
}

yk_value *yk_global_avg_pool2d(yk_value *x)
{
    return yki_emit_one(x, &yki_op_global_avg_pool2d, NULL);
}

/* See problem.h. */
#include "problem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/operators.h"

static bool read_shape(const char *text, shape *s)
{
    for (s->ndim = 0; s->ndim < YK_MAX_DIMS; s->ndim++) {
        char *end;
        s->dims[s->ndim] = strtoll(text, &end, 10);
        if (end == text)
            return false;
        if (*end != 'x')
            return s->ndim++, *end == '\0';
        text = end + 1;
    }
    return false;
}

bool read_problem(const char *line, problem *p)
{
    char dtype[WORD], way[WORD], x[WORD], other[WORD];
    if (sscanf(line, "%63s %63s %63s %63s %63s", p->name, dtype, way, x, other) != 5)
        return false;
    p->dtype = strcmp(dtype, "bf16") == 0 ? YK_BF16 : YK_F32;
    p->backward = strcmp(way, "backward") == 0;
    return read_shape(x, &p->x) && read_shape(other, &p->other);
}

/* ---- operators ------------------------------------------------------------------------------- */

static yk_value *input(yk_graph *graph, const char *name, yk_dtype dtype, const shape *s)
{
    return yk_input(graph, name, dtype, s->ndim, s->dims);
}

static yk_value *cross_entropy(yk_value *x, const problem *p, bool weighted, bool soft,
                               double smoothing)
{
    yk_graph *graph = yk_value_graph(x);
    shape labels = {p->x.ndim - 1, {p->x.dims[0], p->x.dims[2], p->x.dims[3]}};
    yk_value *weight =
        weighted ? yk_buffer(graph, "class_weight", YK_F32, 1, &p->x.dims[1], YK_INIT_ONES) : NULL;
    yk_cross_entropy_options options = YK_CROSS_ENTROPY_OPTIONS_INIT;
    options.weight = weight;
    options.label_smoothing = smoothing;
    return yk_cross_entropy(
        x, soft ? input(graph, "labels", YK_F32, &p->x) : input(graph, "labels", YK_I32, &labels),
        &options);
}

static yk_value *bce(yk_value *x, yk_value *target, yk_value *pos_weight)
{
    yk_binary_cross_entropy_options options = YK_BINARY_CROSS_ENTROPY_OPTIONS_INIT;
    options.pos_weight = pos_weight;
    return yk_binary_cross_entropy_with_logits(x, target, &options);
}

static yk_value *layer_norm(yk_value *x, const problem *p)
{
    yk_graph *graph = yk_value_graph(x);
    const shape *s = &p->other;
    return yk_layer_norm(
        x, yk_parameter(graph, "weight", YK_F32, s->ndim, s->dims, YK_INIT_ONES, 0),
        yk_parameter(graph, "bias", YK_F32, s->ndim, s->dims, YK_INIT_ZEROS, 0), 1e-5);
}

static yk_value *rms_norm(yk_value *x, const problem *p)
{
    return yk_rms_norm(x,
                       yk_parameter(yk_value_graph(x), "weight", YK_F32, p->other.ndim,
                                    p->other.dims, YK_INIT_ONES, 0),
                       1e-5);
}

/* `other`: the heads. */
static yk_value *rotary(yk_value *x, const problem *p)
{
    yk_rotary_embedding_options options = YK_ROTARY_EMBEDDING_OPTIONS_INIT;
    options.num_heads = p->other.dims[0];
    return yk_rotary_embedding(x, &options);
}

/* size: rows and columns of the result. */
static yk_value *interpolate(yk_value *x, const int64_t *size, yk_interpolate_mode mode)
{
    yk_interpolate_options options = YK_INTERPOLATE_OPTIONS_INIT;
    options.mode = mode;
    return yk_interpolate(x, size[0], size[1], &options);
}

/* Of queries, keys and values in x; other: the heads, and those of keys and values if there are
 * fewer. */
static yk_value *attention(yk_value *x, const problem *p, bool is_causal, double dropout_p)
{
    yk_attention_options options = YK_ATTENTION_OPTIONS_INIT;
    options.num_heads = p->other.dims[0];
    options.num_kv_heads = p->other.ndim > 1 ? p->other.dims[1] : 0;
    options.is_causal = is_causal;
    options.dropout_p = dropout_p;
    return yk_scaled_dot_product_attention(x, NULL, NULL, &options);
}

/* Of queries x; other: the heads, and how many keys and values there are. */
static yk_value *cross_attention(yk_value *x, const problem *p)
{
    yk_graph *graph = yk_value_graph(x);
    const shape keys = {3, {p->x.dims[0], p->other.dims[1], p->x.dims[2]}};
    yk_attention_options options = YK_ATTENTION_OPTIONS_INIT;
    options.num_heads = p->other.dims[0];
    return yk_scaled_dot_product_attention(x, input(graph, "k", YK_F32, &keys),
                                           input(graph, "v", YK_F32, &keys), &options);
}

static yk_value *parameter(yk_graph *graph, const char *name, const shape *s)
{
    return yk_parameter(graph, name, YK_F32, s->ndim, s->dims, YK_INIT_KAIMING_UNIFORM, 0);
}

/* other: the filters, the sides of their kernels, stride and padding. */
static yk_value *conv2d(yk_value *x, const problem *p, int64_t groups)
{
    const int64_t *o = p->other.dims;
    const shape weight = {4, {o[0], p->x.dims[1] / groups, o[1], o[1]}};
    yk_conv2d_options options = YK_CONV2D_OPTIONS_INIT;
    options.stride = o[2];
    options.padding = o[3];
    options.groups = groups;
    return yk_conv2d(x, parameter(yk_value_graph(x), "weight", &weight), NULL, &options);
}

/* x (N, C, 1, T); other: the filters and their length. */
static yk_value *conv1d(yk_value *x, const problem *p)
{
    const shape weight = {4, {p->other.dims[0], p->x.dims[1], 1, p->other.dims[1]}};
    return yk_conv2d(x, parameter(yk_value_graph(x), "weight", &weight), NULL, NULL);
}

/* x (N, C, 1, T); other: the windows, their stride, and the padding. */
static yk_value *max_pool1d(yk_value *x, const int64_t *o)
{
    yk_pool2d_options options = YK_POOL2D_OPTIONS_INIT;
    options.column_kernel = o[0];
    options.column_stride = o[1];
    options.column_padding = o[2];
    return yk_max_pool2d_with(x, &options);
}

/* other: as of conv2d. */
static yk_value *conv_transpose2d(yk_value *x, const problem *p)
{
    const int64_t *o = p->other.dims;
    const shape weight = {4, {p->x.dims[1], o[0], o[1], o[1]}}, bias = {1, {o[0]}};
    yk_conv_transpose2d_options options = YK_CONV_TRANSPOSE2D_OPTIONS_INIT;
    options.stride = o[2];
    options.padding = o[3];
    yk_graph *graph = yk_value_graph(x);
    return yk_conv_transpose2d(
        x, parameter(graph, "weight", &weight),
        yk_parameter(graph, "bias", YK_F32, bias.ndim, bias.dims, YK_INIT_ZEROS, 0), &options);
}

/* other: the outputs. */
static yk_value *linear(yk_value *x, const problem *p)
{
    const int64_t out = p->other.dims[0];
    const shape weight = {2, {out, p->x.dims[p->x.ndim - 1]}};
    yk_graph *graph = yk_value_graph(x);
    return yk_linear(x, parameter(graph, "weight", &weight),
                     yk_parameter(graph, "bias", YK_F32, 1, &out, YK_INIT_ZEROS, 0));
}

static yk_value *group_norm(yk_value *x, const problem *p)
{
    yk_graph *graph = yk_value_graph(x);
    int64_t dims[YK_MAX_DIMS];
    yk_value_shape(x, dims);
    return yk_group_norm(x, p->other.dims[0],
                         yk_parameter(graph, "weight", YK_F32, 1, &dims[1], YK_INIT_ONES, 0),
                         yk_parameter(graph, "bias", YK_F32, 1, &dims[1], YK_INIT_ZEROS, 0), 1e-5);
}

/* q k^T, as a node. */
static yk_value *matmul_turned(yk_value *q, yk_value *k)
{
    return yki_emit(&yki_op_matmul, &(yki_attrs){.heads = 1, .transpose_b = true},
                    (yk_value *[]){q, k});
}

/* To be compared with group_norm. */
static yk_value *batch_norm(yk_value *x)
{
    return yk_nn_batch_norm(x, "bn");
}

/* Of the planner: x in another layout, and of autocast: in another dtype. */
static yk_value *converted(yk_value *x, const yki_op *op)
{
    yk_value *y = yki_append_like(yk_value_graph(x), op, NULL, &x, x);
    if (op == &yki_op_cast)
        y->dtype = YK_BF16;
    return y;
}

#define OPERATOR(of, call)                                                                         \
    if (strcmp(p->name, of) == 0)                                                                  \
    return call
#define OTHER      input(graph, "other", YK_F32, &p->other)
#define TARGET     input(graph, "target", YK_F32, &p->x)
#define PAIR(a, b) ((yk_value *[]){a, b})
#define POS_WEIGHT yk_buffer(graph, "pos_weight", YK_F32, 1, &p->x.dims[1], YK_INIT_ONES)

/* Of elements, and of their order and sums; NULL of any other name. */
static yk_value *build_of_elements(yk_graph *graph, yk_value *x, const problem *p)
{
    const int64_t *o = p->other.dims;
    OPERATOR("relu", yk_relu(x));
    OPERATOR("relu6", yk_relu6(x));
    OPERATOR("gelu", yk_gelu(x));
    OPERATOR("sigmoid", yk_sigmoid(x));
    OPERATOR("silu", yk_silu(x));
    OPERATOR("hardswish", yk_hardswish(x));
    OPERATOR("tanh", yk_tanh(x));
    OPERATOR("leaky_relu", yk_leaky_relu(x, 0.01));
    OPERATOR("elu", yk_elu(x, 1));
    OPERATOR("sin", yk_sin(x));
    OPERATOR("cos", yk_cos(x));
    OPERATOR("exp", yk_exp(x));
    OPERATOR("log", yk_log(x));
    OPERATOR("abs", yk_abs(x));
    OPERATOR("square", yk_pow(x, 2));
    OPERATOR("sqrt", yk_sqrt(x));
    OPERATOR("clamp", yk_clamp(x, -0.5, 0.5));
    OPERATOR("scale", yk_scale(x, 0.5));
    OPERATOR("add_scalar", yk_add_scalar(x, 0.5));
    OPERATOR("dropout", yk_dropout(x, 0.5));
    OPERATOR("randn_like", yk_randn_like(x));
    OPERATOR("add", yk_add(x, OTHER));
    OPERATOR("subtract", yk_subtract(x, OTHER));
    OPERATOR("multiply", yk_multiply(x, OTHER));
    OPERATOR("divide", yk_divide(x, OTHER));
    OPERATOR("concat", yk_concat(PAIR(x, OTHER), 2, 1));
    OPERATOR("slice", yk_slice(x, o[0], o[1], o[2]));
    OPERATOR("pad", yk_pad(x, o[0], o[1], o[2]));
    OPERATOR("permute", yk_permute(x, p->other.ndim, o));
    OPERATOR("sum", yki_emit(&yki_op_sum, &(yki_attrs){.dim = o[0]}, &x));
    OPERATOR("amax", yki_emit(&yki_op_amax, &(yki_attrs){.dim = o[0]}, &x));
    OPERATOR("mean_all", yk_reduce_loss(x, YK_LOSS_MEAN));
    return NULL;
}

yk_value *build(yk_graph *graph, const problem *p)
{
    const bool has_indices = strcmp(p->name, "embedding") == 0;
    yk_value *x = input(graph, "x", has_indices ? YK_I32 : YK_F32, &p->x);
    const int64_t *o = p->other.dims;
    yk_value *of_elements = build_of_elements(graph, x, p);
    if (of_elements)
        return of_elements;
    OPERATOR("embedding", yk_embedding(x, parameter(graph, "weight", &p->other)));
    OPERATOR("take_along_dim", yk_take_along_dim(x, input(graph, "index", YK_I32, &p->other), 1));
    OPERATOR("linear", linear(x, p));
    OPERATOR("conv1d", conv1d(x, p));
    OPERATOR("conv2d", conv2d(x, p, 1));
    OPERATOR("conv2d_depthwise", conv2d(x, p, p->x.dims[1]));
    OPERATOR("conv_transpose2d", conv_transpose2d(x, p));
    OPERATOR("max_pool2d", yk_max_pool2d(x, o[0], o[1], o[2]));
    OPERATOR("max_pool1d", max_pool1d(x, o));
    OPERATOR("avg_pool2d", yk_avg_pool2d(x, o[0], o[1], o[2]));
    OPERATOR("global_avg_pool2d", yk_global_avg_pool2d(x));
    OPERATOR("adaptive_avg_pool2d", yk_adaptive_avg_pool2d(x, o[0], o[1]));
    OPERATOR("interpolate_nearest", interpolate(x, o, YK_INTERPOLATE_NEAREST));
    OPERATOR("interpolate_bilinear", interpolate(x, o, YK_INTERPOLATE_BILINEAR));
    OPERATOR("softmax", yk_softmax(x));
    OPERATOR("log_softmax", yk_log_softmax(x));
    OPERATOR("layer_norm", layer_norm(x, p));
    OPERATOR("rms_norm", rms_norm(x, p));
    OPERATOR("rotary", rotary(x, p));
    OPERATOR("attention", attention(x, p, false, 0));
    OPERATOR("attention_causal", attention(x, p, true, 0));
    OPERATOR("attention_dropout", attention(x, p, false, 0.1));
    OPERATOR("attention_cross", cross_attention(x, p));
    OPERATOR("group_norm", group_norm(x, p));
    OPERATOR("batch_norm", batch_norm(x));
    OPERATOR("matmul", yk_matmul(x, OTHER));
    OPERATOR("matmul_turned", matmul_turned(x, OTHER));
    OPERATOR("cross_entropy", cross_entropy(x, p, false, false, 0));
    OPERATOR("cross_entropy_smoothed", cross_entropy(x, p, false, false, 0.1));
    OPERATOR("cross_entropy_weighted", cross_entropy(x, p, true, false, 0));
    OPERATOR("cross_entropy_soft", cross_entropy(x, p, false, true, 0));
    OPERATOR("mse_loss", yk_mse_loss(x, TARGET, YK_LOSS_MEAN));
    OPERATOR("l1_loss", yk_l1_loss(x, TARGET, YK_LOSS_MEAN));
    OPERATOR("smooth_l1_loss", yk_smooth_l1_loss(x, TARGET, 1, YK_LOSS_MEAN));
    OPERATOR("bce", bce(x, TARGET, NULL));
    OPERATOR("bce_weighted", bce(x, TARGET, POS_WEIGHT));
    OPERATOR("cast", converted(x, &yki_op_cast));
    OPERATOR("to_plain", converted(x, &yki_op_reorder));
    OPERATOR("to_blocked", converted(x, &yki_op_reorder));
    return NULL;
}

/*
 * Scaled dot-product attention (Vaswani et al. 2017) of several heads, which lie side by side in
 * the rows of q, k and v, or of one value that has all three side by side. So nothing is permuted,
 * and the scores of all pairs of tokens are no value: kernels make them, and backward makes them
 * again from the logarithms of the sums of their exponentials (Dao et al. 2022).
 */
#include "graph/operators.h"

#include <math.h>

#include "base/options.h"

/* q, k and v in one value: k and v are absent. */
static bool is_packed(const yki_node *node)
{
    return !node->in[YKI_ATTENTION_K] && !node->in[YKI_ATTENTION_V];
}

/* The last dimension is divided into so many parts of one size. */
static yk_status expect_divisible(const yki_node *node, int input, int64_t parts)
{
    char text[96];
    const yk_value *value = node->in[input];
    if (value->dims[2] % parts == 0)
        return YK_OK;
    return yki_error(
        YK_ERROR_INVALID_SHAPE, "%s has shape %s, whose last dimension is not divisible by %lld%s",
        node->op->in[input].name, yki_shape_text(value, text, sizeof text),
        (long long)node->attrs.heads, is_packed(node) ? " heads of three parts" : " heads");
}

/* q (N, T, E), k (N, S, E), v (N, S, F). */
static yk_status expect_three(const yki_node *node)
{
    const yk_value *q = node->in[YKI_ATTENTION_Q], *k = node->in[YKI_ATTENTION_K];
    const yk_value *v = node->in[YKI_ATTENTION_V];
    char qt[96], kt[96], vt[96];
    if (!k || !v)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "key and value are either both given or both "
                                                    "NULL");
    YK_TRY(yki_expect_dims(node, YKI_ATTENTION_K, 3));
    YK_TRY(yki_expect_dims(node, YKI_ATTENTION_V, 3));
    if (k->dims[0] == q->dims[0] && v->dims[0] == q->dims[0] && k->dims[2] == q->dims[2] &&
        v->dims[1] == k->dims[1])
        return expect_divisible(node, YKI_ATTENTION_V, node->attrs.heads);
    return yki_error(YK_ERROR_INVALID_SHAPE, "query %s, key %s and value %s do not fit each other",
                     yki_shape_text(q, qt, sizeof qt), yki_shape_text(k, kt, sizeof kt),
                     yki_shape_text(v, vt, sizeof vt));
}

/* attn_mask: (N, heads, T, S), where each size may be 1, and the first ones may be missing. */
static yk_status expect_mask(const yki_node *node)
{
    const yk_value *q = node->in[YKI_ATTENTION_Q], *mask = node->in[YKI_ATTENTION_MASK];
    const yk_value *keys = is_packed(node) ? q : node->in[YKI_ATTENTION_K];
    const yk_value scores = {.ndim = 4,
                             .dims = {q->dims[0], node->attrs.heads, q->dims[1], keys->dims[1]}};
    char here[96], there[96];
    bool fits = true;
    for (int d = 1; mask && d <= mask->ndim; d++) {
        const int64_t size = mask->dims[mask->ndim - d];
        fits = fits && (size == 1 || size == scores.dims[scores.ndim - d]);
    }
    if (fits)
        return YK_OK;
    return yki_error(YK_ERROR_INVALID_SHAPE, "attn_mask %s cannot be broadcast to the scores %s",
                     yki_shape_text(mask, here, sizeof here),
                     yki_shape_text(&scores, there, sizeof there));
}

yk_status yki_infer_scaled_dot_product_attention(const yki_node *node, yki_shape *out)
{
    const yk_value *q = node->in[YKI_ATTENTION_Q], *v = node->in[YKI_ATTENTION_V];
    const yki_attrs *a = &node->attrs;
    bool packed = is_packed(node);
    if (!yki_in_range(a->heads, 1))
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "num_heads is %lld, expected at least 1",
                         (long long)a->heads);
    if (!isfinite(a->alpha))
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "scale is %g, expected a finite number",
                         a->alpha);
    if (!(a->p >= 0 && a->p < 1))
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "dropout_p is %g, expected 0 <= dropout_p < 1",
                         a->p);
    YK_TRY(yki_expect_float(node, YKI_ATTENTION_INPUTS));
    YK_TRY(yki_expect_dims(node, YKI_ATTENTION_Q, 3));
    if (!packed)
        YK_TRY(expect_three(node));
    YK_TRY(expect_divisible(node, YKI_ATTENTION_Q, packed ? 3 * a->heads : a->heads));
    YK_TRY(expect_mask(node));
    out[YKI_ATTENTION_Y] = yki_shape_of(q);
    out[YKI_ATTENTION_Y].dims[2] = packed ? q->dims[2] / 3 : v->dims[2];
    out[YKI_ATTENTION_LOG_SUMS] = (yki_shape){.dtype = yki_accumulate_dtype(q->dtype),
                                              .ndim = 3,
                                              .dims = {q->dims[0], a->heads, q->dims[1]}};
    return YK_OK;
}

yk_status yki_gradient_scaled_dot_product_attention(yk_graph *graph, const yki_node *node,
                                                    yk_value *const *dout, const bool *needs,
                                                    yk_value **din)
{
    yk_value *in[] = {node->in[YKI_ATTENTION_Q],  node->in[YKI_ATTENTION_K],
                      node->in[YKI_ATTENTION_V],  node->in[YKI_ATTENTION_MASK],
                      node->out[YKI_ATTENTION_Y], node->out[YKI_ATTENTION_LOG_SUMS],
                      dout[YKI_ATTENTION_Y]};
    yki_shape shapes[YKI_ATTENTION_BACKWARD_OUTPUTS];
    for (int i = 0; i < YKI_ATTENTION_BACKWARD_OUTPUTS; i++) /* dq, dk, dv, as the inputs */
        shapes[i] = in[i] ? yki_shape_of(in[i]) : yki_shape_none();
    const yki_node *made =
        yki_append(graph, &yki_op_scaled_dot_product_attention_backward, &node->attrs, in, shapes);
    if (!made)
        return YK_ERROR_OUT_OF_MEMORY;
    for (int i = 0; i < YKI_ATTENTION_BACKWARD_OUTPUTS; i++)
        din[i] = needs[i] ? made->out[i] : NULL;
    return YK_OK;
}

/* 1 / sqrt(E / heads), unless the program says otherwise. What does not fit is reported later. */
static double scale_of(const yk_value *q, bool packed, const yk_attention_options *options)
{
    int64_t dims[YK_MAX_DIMS], heads = options->num_heads;
    if (!isnan(options->scale))
        return options->scale;
    if (yk_value_shape(q, dims) != 3 || heads < 1)
        return 1;
    return sqrt((double)heads * (packed ? 3 : 1) / (double)dims[2]);
}

yk_value *yk_scaled_dot_product_attention(yk_value *q, yk_value *k, yk_value *v,
                                          const yk_attention_options *options)
{
    yk_attention_options o;
    if (YKI_READ_OPTIONS(&o, options, yk_attention_options, YK_ATTENTION_OPTIONS_INIT) != YK_OK)
        return yki_emit_error(q, "scaled_dot_product_attention");
    yki_attrs attrs = {.heads = o.num_heads,
                       .causal = o.is_causal,
                       .alpha = scale_of(q, !k && !v, &o),
                       .p = o.dropout_p,
                       .salt = q && q->valid ? (uint64_t)q->graph->node_count : 0};
    return yki_emit(&yki_op_scaled_dot_product_attention, &attrs,
                    (yk_value *[]){q, k, v, o.attn_mask});
}

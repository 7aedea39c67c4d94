/*
 * Scaled dot-product attention (Vaswani et al. 2017) of several heads, which lie side by side in
 * the rows of q, k and v, or of one value that has all three side by side. So nothing is permuted,
 * and the scores of all pairs of tokens are no value: kernels make them, and backward makes them
 * again from the logarithms of the sums of their exponentials (Dao et al. 2022). k and v may have
 * fewer heads than q, each for several heads of q in a row (Ainslie et al. 2023).
 */
#include "graph/operators.h"

#include <math.h>
#include <stdio.h>

#include "base/options.h"

/* q, k and v in one value: k and v are absent. */
static bool is_packed(const yki_node *node)
{
    return !node->in[YKI_ATTENTION_K] && !node->in[YKI_ATTENTION_V];
}

/* The heads in a row of an input: where q has all three, also those of keys and values. */
static int64_t heads_in(const yki_node *node, int input)
{
    const yki_attrs *a = &node->attrs;
    if (is_packed(node))
        return a->heads + 2 * a->kv_heads;
    return input == YKI_ATTENTION_Q ? a->heads : a->kv_heads;
}

/* The last dimension is divided into heads of one size. */
static yk_status expect_heads(const yki_node *node, int input)
{
    char text[96], parts[96] = "";
    const yk_value *value = node->in[input];
    const yki_attrs *a = &node->attrs;
    const int64_t heads = heads_in(node, input);
    if (value->dims[2] % heads == 0)
        return YK_OK;
    if (is_packed(node))
        snprintf(parts, sizeof parts, ": %lld of queries, %lld of keys and %lld of values",
                 (long long)a->heads, (long long)a->kv_heads, (long long)a->kv_heads);
    return yki_error(YK_ERROR_INVALID_SHAPE,
                     "%s has shape %s, whose last dimension is not divisible by %lld heads%s",
                     node->op->in[input].name, yki_shape_text(value, text, sizeof text),
                     (long long)heads, parts);
}

/* The heads of keys and queries have as many columns. */
static bool keys_fit(const yki_node *node)
{
    const yk_value *q = node->in[YKI_ATTENTION_Q], *k = node->in[YKI_ATTENTION_K];
    const int64_t heads = node->attrs.heads, kv_heads = node->attrs.kv_heads;
    if (heads == kv_heads)
        return k->dims[2] == q->dims[2];
    return k->dims[2] * heads == q->dims[2] * kv_heads;
}

/* q (N, T, heads D), k (N, S, kv_heads D), v (N, S, kv_heads V). */
static yk_status expect_three(const yki_node *node)
{
    const yk_value *q = node->in[YKI_ATTENTION_Q], *k = node->in[YKI_ATTENTION_K];
    const yk_value *v = node->in[YKI_ATTENTION_V];
    const yki_attrs *a = &node->attrs;
    char qt[96], kt[96], vt[96], heads[96] = "";
    if (!k || !v)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "key and value are either both given or both "
                                                    "NULL");
    YK_TRY(yki_expect_dims(node, YKI_ATTENTION_K, 3));
    YK_TRY(yki_expect_dims(node, YKI_ATTENTION_V, 3));
    if (k->dims[0] == q->dims[0] && v->dims[0] == q->dims[0] && v->dims[1] == k->dims[1] &&
        keys_fit(node))
        return expect_heads(node, YKI_ATTENTION_V);
    if (a->heads != a->kv_heads)
        snprintf(heads, sizeof heads, " with %lld heads of queries and %lld of keys and values",
                 (long long)a->heads, (long long)a->kv_heads);
    return yki_error(YK_ERROR_INVALID_SHAPE,
                     "query %s, key %s and value %s do not fit each other%s",
                     yki_shape_text(q, qt, sizeof qt), yki_shape_text(k, kt, sizeof kt),
                     yki_shape_text(v, vt, sizeof vt), heads);
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
    if (!yki_in_range(a->heads, 1))
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "num_heads is %lld, expected at least 1",
                         (long long)a->heads);
    if (a->kv_heads < 1 || a->heads % a->kv_heads)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "num_kv_heads is %lld, expected a divisor of num_heads, %lld, or 0",
                         (long long)a->kv_heads, (long long)a->heads);
    if (!isfinite(a->alpha))
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "scale is %g, expected a finite number",
                         a->alpha);
    if (!(a->p >= 0 && a->p < 1))
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "dropout_p is %g, expected 0 <= dropout_p < 1",
                         a->p);
    YK_TRY(yki_expect_float(node, YKI_ATTENTION_INPUTS));
    YK_TRY(yki_expect_dims(node, YKI_ATTENTION_Q, 3));
    if (!is_packed(node))
        YK_TRY(expect_three(node));
    YK_TRY(expect_heads(node, YKI_ATTENTION_Q));
    YK_TRY(expect_mask(node));
    out[YKI_ATTENTION_Y] = yki_shape_of(q);
    const int64_t columns = (is_packed(node) ? q : v)->dims[2];
    out[YKI_ATTENTION_Y].dims[2] = columns / heads_in(node, YKI_ATTENTION_V) * a->heads;
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

/* 1 / sqrt(D), unless the program says otherwise. What does not fit is reported later. */
static double scale_of(const yk_value *q, bool packed, int64_t kv_heads,
                       const yk_attention_options *options)
{
    int64_t dims[YK_MAX_DIMS];
    if (!isnan(options->scale))
        return options->scale;
    if (yk_value_shape(q, dims) != 3 || options->num_heads < 1 || kv_heads < 1)
        return 1;
    return sqrt(((double)options->num_heads + (packed ? 2 * (double)kv_heads : 0)) /
                (double)dims[2]);
}

yk_value *yk_scaled_dot_product_attention(yk_value *q, yk_value *k, yk_value *v,
                                          const yk_attention_options *options)
{
    yk_attention_options o;
    yk_status status =
        YKI_READ_OPTIONS(&o, options, yk_attention_options, YK_ATTENTION_OPTIONS_INIT);
    if (status != YK_OK)
        return yki_emit_error(q, "scaled_dot_product_attention", status);
    const int64_t kv_heads = o.num_kv_heads ? o.num_kv_heads : o.num_heads;
    yki_attrs attrs = {.heads = o.num_heads,
                       .kv_heads = kv_heads,
                       .causal = o.is_causal,
                       .alpha = scale_of(q, !k && !v, kv_heads, &o),
                       .p = o.dropout_p,
                       .salt = q && q->valid ? (uint64_t)q->graph->node_count : 0};
    return yki_emit(&yki_op_scaled_dot_product_attention, &attrs,
                    (yk_value *[]){q, k, v, o.attn_mask});
}

/* See families.h: losses, softmax, log_softmax, maxima, norms of rows, attention, embeddings. */
#include "families.h"

#include <math.h>

#include "harness.h"

/* ---- cross_entropy --------------------------------------------------------------------------- */

static const conformance_case cross_entropy_cases[] = {
    {.x = {1, 2}},
    {.x = {3, 10}},
    {.x = {5, 10}, .smoothing = 0.1},
    {.x = {7, 17}, .sum = true},
    {.x = {4, 100}, .sum = true, .smoothing = 0.2},
    {.x = {130, 10}, .smoothing = 1},
    {.x = {30, 5}, .ignored = 2},
    {.x = {30, 5}, .ignored = 2, .weighted = true, .smoothing = 0.1},
    {.x = {9, 17}, .weighted = true, .sum = true},
    {.x = {300, 32}, .ignored = 1, .spread = 8},
    {.x = {130, 33}, .smoothing = 1},
    {.x = {30, 40}, .ignored = 2, .weighted = true, .smoothing = 0.1},
    {.x = {9, 37}, .weighted = true, .sum = true},
    {.x = {2, 3, 4, 5}},
    {.x = {2, 5, 70}, .ignored = 1},
    {.x = {2, 21, 9, 7}, .ignored = 3, .spread = 8},
    {.x = {3, 16, 5, 5}, .weighted = true, .smoothing = 0.2},
    {.x = {2, 7, 33, 40}, .ignored = 1, .weighted = true, .sum = true, .smoothing = 0.3},
    {.x = {2, 6, 45}, .weighted = true},
    {.x = {2, 5, 3, 4, 2}, .ignored = 1, .weighted = true}, /* voxels */
    {.x = {5, 6, 1, 1}, .smoothing = 0.1},
    {.x = {2, 21, 17, 19}, .ignored = 3, .smoothing = 0.1}, /* strips */
    {.x = {2, 7, 5}, .classes = 5, .last = true},
    {.x = {3, 5, 70}, .classes = 70, .last = true, .ignored = 1, .smoothing = 0.1},
    {.x = {2, 33, 6}, .classes = 6, .last = true, .weighted = true, .sum = true},
    {.x = {4, 10}, .last = true},
    {.x = {30, 5}, .ignored = 2, .smoothing = 0.1, .wide = true},
    {.x = {130, 50}, .ignored = 1, .weighted = true, .wide = true},
    {.x = {2, 21, 17, 19}, .ignored = 3, .wide = true},
    {.x = {3, 5, 70}, .classes = 70, .last = true, .ignored = 1, .wide = true},
    {.x = {2, 100, 1100}, .ignored = 1},
};

/* With the labels given. */
static yk_value *cross_entropy_of(const conformance_case *c, yk_value *logits, yk_value *labels)
{
    yk_cross_entropy_options options = YK_CROSS_ENTROPY_OPTIONS_INIT;
    options.label_smoothing = c->smoothing;
    options.reduction = c->sum ? YK_LOSS_SUM : YK_LOSS_MEAN;
    options.class_dim = c->last ? -1 : 1;
    if (c->weighted)
        options.weight =
            yk_buffer(yk_value_graph(logits), "class_weight", yk_value_dtype(logits), 1,
                      &c->x[c->last ? conformance_rank(c->x) - 1 : 1], YK_INIT_ONES);
    if (c->ignored)
        options.ignore_index = c->ignored;
    return yk_cross_entropy(logits, labels, &options);
}

static yk_value *build_cross_entropy(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    yk_value *logits = conformance_x(graph, c, dtype);
    const int64_t dims[] = {c->x[0], c->x[c->last ? 1 : 2], c->x[3], c->x[4], c->x[5]};
    const yk_dtype classes = c->wide ? YK_I64 : YK_I32;
    return cross_entropy_of(c, logits,
                            yk_input(graph, "labels", classes, conformance_rank(c->x) - 1, dims));
}

/* Labels that are numbers from -1 to 1: the rule holds for any. */
static const conformance_case soft_cross_entropy_cases[] = {
    {.x = {1, 2}},
    {.x = {5, 10}, .smoothing = 0.1},
    {.x = {7, 17}, .sum = true},
    {.x = {130, 10}, .smoothing = 1},
    {.x = {4, 100}},
    {.x = {9, 11}, .weighted = true, .smoothing = 0.1},
    {.x = {9, 41}, .weighted = true, .smoothing = 0.1},
    {.x = {2, 17, 5, 4}, .smoothing = 0.1},
    {.x = {2, 4, 6}, .weighted = true},
    {.x = {2, 33, 17, 19}, .weighted = true, .smoothing = 0.1, .sum = true},
    {.x = {2, 70, 1030}, .weighted = true},
    {.x = {3, 9, 17}, .last = true, .weighted = true, .smoothing = 0.1},
};

static yk_value *build_soft_cross_entropy(yk_graph *graph, const conformance_case *c,
                                          yk_dtype dtype)
{
    yk_value *logits = conformance_x(graph, c, dtype);
    return cross_entropy_of(c, logits,
                            yk_input(graph, "labels", dtype, conformance_rank(c->x), c->x));
}

FAMILY(cross_entropy, build_cross_entropy);
FAMILY(soft_cross_entropy, build_soft_cross_entropy);

/* ---- softmax, log_softmax, layer_norm, rms_norm: never in 16 bit ----------------------------- */

static const conformance_case row_cases[] = {
    {.x = {1, 2}},       {.x = {3, 17}, .spread = 8},  {.x = {5, 64}},
    {.x = {2, 7, 33}},   {.x = {40, 9, 100}},          {.x = {6}},
    {.x = {2, 3, 5, 4}}, {.x = {2, 20, 5, 7}}, /* the latter is blocked on cpu */
    {.x = {200, 48}},    {.x = {4, 9}, .spread = 300}, {.x = {2, 3, 4, 2, 9}},
};

/* Norms over several dimensions. */
static const conformance_case wide_row_cases[] = {
    {.x = {2, 3, 5}, .other = {3, 5}},
    {.x = {2, 20, 5, 7}, .other = {5, 7}},
    {.x = {2, 20, 5, 7}, .other = {20, 5, 7}},
    {.x = {2, 3, 4, 5}, .other = {3, 4, 5}},
};

static yk_value *build_softmax(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    return yk_softmax(conformance_x(graph, c, dtype));
}

static yk_value *build_log_softmax(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    return yk_log_softmax(conformance_x(graph, c, dtype));
}

static yk_value *build_layer_norm(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    yk_value *x = conformance_x(graph, c, dtype);
    const int64_t *dims = c->other[0] ? c->other : &x->dims[x->ndim - 1];
    int ndim = c->other[0] ? conformance_rank(dims) : 1;
    return yk_layer_norm(x, conformance_parameter(graph, "weight", dtype, ndim, dims),
                         conformance_parameter(graph, "bias", dtype, ndim, dims), 1e-2);
}

static yk_value *build_rms_norm(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    yk_value *x = conformance_x(graph, c, dtype);
    const int64_t *dims = c->other[0] ? c->other : &x->dims[x->ndim - 1];
    int ndim = c->other[0] ? conformance_rank(dims) : 1;
    return yk_rms_norm(x, conformance_parameter(graph, "weight", dtype, ndim, dims), 1e-2);
}

FAMILY_OF(softmax, build_softmax, row_cases);
FAMILY_OF(log_softmax, build_log_softmax, row_cases);
FAMILY_OF(layer_norm, build_layer_norm, row_cases);

FAMILY_OF(layer_norm_wide, build_layer_norm, wide_row_cases);
FAMILY_OF(rms_norm, build_rms_norm, row_cases);
FAMILY_OF(rms_norm_wide, build_rms_norm, wide_row_cases);

/* ---- mse_loss: never in 16 bit --------------------------------------------------------------- */

static const conformance_case mse_loss_cases[] = {
    {.x = {1, 1}},       {.x = {3, 10}},       {.x = {5, 17}, .sum = true}, {.x = {70, 130}},
    {.x = {2, 3, 4, 5}}, {.x = {2, 17, 6, 5}}, {.x = {4, 40, 7, 9}},        {.x = {2, 16, 12, 12}},
};

static yk_value *build_mse_loss(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    yk_value *x = conformance_x(graph, c, dtype);
    yki_shape shape = yki_shape_of(x);
    return yk_mse_loss(x, yk_input(graph, "target", dtype, shape.ndim, shape.dims),
                       c->sum ? YK_LOSS_SUM : YK_LOSS_MEAN);
}

FAMILY(mse_loss, build_mse_loss);

/* ---- reduce_loss, sum: likewise -------------------------------------------------------------- */

static yk_value *build_reduce_loss(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    return yk_reduce_loss(conformance_x(graph, c, dtype), c->sum ? YK_LOSS_SUM : YK_LOSS_MEAN);
}

FAMILY_OF(reduce_loss, build_reduce_loss, mse_loss_cases);

/* `filters`: the dimension. The node that yk_sum appends first. */
static const conformance_case sum_cases[] = {
    {.x = {1, 1}, .filters = 1},          {.x = {3, 17}, .filters = 1},
    {.x = {2, 3, 5, 4}, .filters = 1},    {.x = {2, 3, 5, 4}, .filters = 2},
    {.x = {2, 3, 4, 2, 5}, .filters = 2}, {.x = {2, 3, 2, 4, 3, 5}, .filters = 4},
    {.x = {2, 40, 5, 7}, .filters = 1},   {.x = {2, 40, 5, 7}, .filters = 3},
    {.x = {3, 2000}, .filters = 1},       {.x = {2, 300, 24}, .filters = 1},
    {.x = {2, 24, 300}, .filters = 2},    {.x = {4, 64, 6, 6}, .filters = 2},
};

static yk_value *build_sum(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    return yki_emit_one(conformance_x(graph, c, dtype), &yki_op_sum,
                        &(yki_attrs){.dim = c->filters});
}

FAMILY(sum, build_sum);

/* ---- amax, amin ------------------------------------------------------------------------------ */

/* The node that yk_amax appends first. The dimension is not 0, but of a value without a batch. */
static const conformance_case amax_cases[] = {
    {.x = {1, 1}, .dim = 1},
    {.x = {3, 17}, .dim = 1},
    {.x = {2, 3, 4, 2, 5, 3}, .dim = 3, .ties = true},
    {.x = {7, 200}, .dim = 1, .ties = true},
    {.x = {6}, .dim = 0},
    {.x = {5, 9}, .dim = 0},
    {.x = {3, 70, 45}, .dim = 1},
    {.x = {2, 13, 200}, .dim = 1, .ties = true},
    {.x = {2, 5, 3}, .dim = 1},
    {.x = {2, 24, 33}, .dim = 2},
    {.x = {2, 3, 5, 4}, .dim = 1},
    {.x = {2, 3, 5, 4}, .dim = 2},
    {.x = {2, 3, 5, 4}, .dim = 3},
    {.x = {2, 40, 5, 7}, .dim = 1},
    {.x = {2, 40, 5, 7}, .dim = 1, .ties = true}, /* padded channels are none of them */
    {.x = {2, 40, 5, 7}, .dim = 2},
    {.x = {2, 40, 5, 7}, .dim = 3, .ties = true},
    {.x = {1, 64, 20, 17}, .dim = 1},
    {.x = {64, 2, 520}, .dim = 1, .ties = true}, /* enough for columns on cuda */
    {.x = {64, 3, 67}, .dim = 1},
};

static yk_value *build_amax(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    return yki_emit_one(conformance_x(graph, c, dtype), &yki_op_amax, &(yki_attrs){.dim = c->dim});
}

static yk_value *build_amin(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    return yki_emit_one(conformance_x(graph, c, dtype), &yki_op_amin, &(yki_attrs){.dim = c->dim});
}

FAMILY(amax, build_amax);
FAMILY_OF(amin, build_amin, amax_cases);

/* ---- smooth_l1_loss, binary_cross_entropy_with_logits: never in 16 bit ----------------------- */

/* alpha: beta. Differences are up to 2 spreads; 0.3 spreads lie between. */
static const conformance_case smooth_l1_loss_cases[] = {
    {.x = {1, 1}, .alpha = 1},
    {.x = {3, 10}, .alpha = 0},
    {.x = {5, 17}, .alpha = 0.5, .sum = true},
    {.x = {70, 130}, .alpha = 0.25},
    {.x = {2, 3, 4, 5}, .alpha = 1, .spread = 4},
    {.x = {4, 40, 7, 9}, .alpha = 0, .sum = true},
    {.x = {2, 17, 6, 5}, .alpha = 0.3},
};

static yk_value *build_smooth_l1_loss(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    yk_value *x = conformance_x(graph, c, dtype);
    yki_shape shape = yki_shape_of(x);
    return yk_smooth_l1_loss(x, yk_input(graph, "target", dtype, shape.ndim, shape.dims), c->alpha,
                             c->sum ? YK_LOSS_SUM : YK_LOSS_MEAN);
}

/* filters: how many weights there are. */
static const conformance_case bce_cases[] = {
    {.x = {1}},
    {.x = {3, 17}, .spread = 8},
    {.x = {5, 17}, .filters = 17, .sum = true},
    {.x = {70, 130}, .filters = 1, .spread = 8},
    {.x = {2, 3, 4, 5}, .filters = 3},
    {.x = {2, 6, 45}, .filters = 6},
    {.x = {4, 40, 7, 9}, .spread = 8},
    {.x = {4, 40, 7, 9}, .filters = 40},
    {.x = {2, 16, 12, 13}, .sum = true},
};

static yk_value *build_bce(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    yk_value *x = conformance_x(graph, c, dtype), *weight = NULL;
    yki_shape shape = yki_shape_of(x);
    if (c->filters)
        weight = yk_buffer(graph, "pos_weight", dtype, 1, &c->filters, YK_INIT_ONES);
    return yk_binary_cross_entropy_with_logits(
        x, yk_input(graph, "target", dtype, shape.ndim, shape.dims),
        YK_WITH(yk_binary_cross_entropy_options, YK_BINARY_CROSS_ENTROPY_OPTIONS_INIT,
                o.pos_weight = weight, o.reduction = c->sum ? YK_LOSS_SUM : YK_LOSS_MEAN));
}

FAMILY(smooth_l1_loss, build_smooth_l1_loss);
FAMILY_OF(bce, build_bce, bce_cases);

/* ---- scaled_dot_product_attention ------------------------------------------------------------ */

/* x: the queries, or with `other` absent queries, keys and values in one; other: the keys; filters:
 * the columns of values; alpha: the scale, 0 for the usual one; p: dropout's; mask: the
 * mask's sizes. */
static const conformance_case attention_cases[] = {
    {.x = {1, 1, 1}, .other = {1, 1, 1}, .filters = 1, .heads = 1, .floor = 1}, /* of one key */
    {.x = {2, 5, 8}, .other = {2, 7, 8}, .filters = 6, .heads = 2},
    {.x = {2, 7, 12}, .other = {2, 5, 12}, .filters = 8, .heads = 4, .causal = true},
    {.x = {1, 5, 6}, .other = {1, 9, 6}, .filters = 40, .heads = 1, .causal = true},
    {.x = {2, 6, 24}, .heads = 2},
    {.x = {3, 9, 36}, .heads = 3, .causal = true},
    {.x = {2, 50, 48}, .heads = 1, .causal = true, .alpha = 0.7},
    {.x = {1, 100, 240}, .heads = 2, .causal = true},
    {.x = {2, 33, 192}, .heads = 2},
    {.x = {1, 60, 70}, .other = {1, 70, 70}, .filters = 130, .heads = 1},
    {.x = {2, 4, 6}, .heads = 1, .causal = true, .spread = 3},
    {.x = {2, 5, 8}, .other = {2, 7, 8}, .filters = 6, .heads = 2, .p = 0.5},
    {.x = {3, 9, 36}, .heads = 3, .causal = true, .p = 0.3},
    {.x = {2, 53, 48}, .heads = 2, .p = 0.1},
    {.x = {1, 6, 4}, .other = {1, 1100, 4}, .filters = 3, .heads = 1, .p = 0.2},
    {.x = {2, 5, 12}, .heads = 2, .p = 0.5, .evaluation = true},
    {.x = {2, 9, 12}, .heads = 2, .mask = {2, 1, 1, 9}},
    {.x = {3, 5, 8}, .other = {3, 7, 8}, .filters = 6, .heads = 2, .mask = {5, 7}, .p = 0.2},
    {.x = {3, 53, 36}, .heads = 6, .causal = true, .mask = {3, 6, 53, 53}},
    {.x = {2, 6, 66}, .heads = 11, .mask = {2, 11, 6, 1}},
    {.x = {2, 6, 18}, .heads = 3, .mask = {3, 1, 6}},
    {.x = {2, 5, 24}, .other = {2, 7, 12}, .filters = 6, .heads = 4, .kv_heads = 2},
    {.x = {1, 6, 24}, .other = {1, 4, 4}, .filters = 3, .heads = 6, .kv_heads = 1, .causal = true},
    {.x = {2, 9, 48}, .heads = 4, .kv_heads = 2, .causal = true, .p = 0.3},
    {.x = {3, 53, 60}, .heads = 6, .kv_heads = 2, .causal = true, .mask = {3, 6, 53, 53}},
    {.x = {1, 50, 80}, .heads = 8, .kv_heads = 1, .mask = {8, 1, 50}},
    {.x = {2, 33, 320}, .heads = 6, .kv_heads = 2, .alpha = 0.7},
};

static yk_value *build_attention(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    yk_value *q = conformance_x(graph, c, dtype), *k = NULL, *v = NULL, *mask = NULL;
    if (c->other[0]) {
        const int64_t values[] = {c->other[0], c->other[1], c->filters};
        k = yk_input(graph, "k", dtype, 3, c->other);
        v = yk_input(graph, "v", dtype, 3, values);
    }
    if (c->mask[0])
        mask = yk_input(graph, "mask", dtype, conformance_rank(c->mask), c->mask);
    return yk_scaled_dot_product_attention(
        q, k, v,
        YK_WITH(yk_attention_options, YK_ATTENTION_OPTIONS_INIT, o.num_heads = c->heads,
                o.num_kv_heads = c->kv_heads, o.is_causal = c->causal,
                o.scale = c->alpha > 0 ? c->alpha : NAN, o.dropout_p = c->p, o.attn_mask = mask));
}

FAMILY(attention, build_attention);

/* Rows of 16 bits begin at multiples of 16 bytes, as tensor cores need them: several tiles of
 * queries and keys, and heads of each width. */
static const conformance_case flash_attention_cases[] = {
    {.x = {1, 1, 8}, .other = {1, 1, 8}, .filters = 8, .heads = 1, .floor = 1},
    {.x = {2, 53, 48}, .heads = 2, .p = 0.1},
    {.x = {3, 9, 144}, .heads = 3, .causal = true, .p = 0.3},
    {.x = {1, 140, 384}, .heads = 2, .causal = true},
    {.x = {2, 65, 96}, .heads = 2, .alpha = 0.7, .spread = 3},
    {.x = {1, 70, 128}, .other = {1, 140, 128}, .filters = 64, .heads = 1},
    {.x = {2, 140, 16}, .other = {2, 70, 16}, .filters = 48, .heads = 2, .causal = true, .p = 0.3},
    {.x = {1, 70, 16}, .other = {1, 270, 16}, .filters = 16, .heads = 2, .causal = true},
    {.x = {1, 40, 192}, .other = {1, 70, 192}, .filters = 64, .heads = 2, .mask = {2, 40, 70}},
    {.x = {2, 140, 24}, .heads = 1, .mask = {2, 1, 1, 140}, .p = 0.1},
    {.x = {2, 5, 48}, .heads = 2, .p = 0.5, .evaluation = true},
    {.x = {2, 140, 128}, .heads = 4, .kv_heads = 2, .causal = true},
    {.x = {1, 70, 96}, .other = {1, 140, 16}, .filters = 24, .heads = 6, .kv_heads = 1, .p = 0.2},
    {.x = {1, 140, 64},
     .other = {1, 70, 32},
     .filters = 64,
     .heads = 4,
     .kv_heads = 2,
     .causal = true,
     .mask = {1, 4, 140, 70}},
    {.x = {1, 70, 320}, .heads = 3, .kv_heads = 1, .mask = {3, 1, 70}},
};
FAMILY(flash_attention, build_attention);

/* ---- rotary_embedding ------------------------------------------------------------------------ */

/* filters: rotary_dim; alpha: the base, 0 for the usual one; padding: first_position. */
static const conformance_case rotary_cases[] = {
    {.x = {1, 1, 2}, .heads = 1},
    {.x = {2, 7, 12}, .heads = 2},
    {.x = {2, 7, 12}, .heads = 2, .interleaved = true},
    {.x = {3, 50, 96}, .heads = 2, .padding = 1000},
    {.x = {3, 50, 96}, .heads = 1, .interleaved = true, .alpha = 500000},
    {.x = {2, 9, 33}, .heads = 3, .filters = 6},
    {.x = {2, 9, 33}, .heads = 3, .filters = 8, .interleaved = true, .padding = 5},
    {.x = {2, 70, 600}, .heads = 2},
    {.x = {2, 70, 600}, .heads = 2, .interleaved = true, .filters = 290},
};

static yk_value *build_rotary(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    return yk_rotary_embedding(
        conformance_x(graph, c, dtype),
        YK_WITH(yk_rotary_embedding_options, YK_ROTARY_EMBEDDING_OPTIONS_INIT,
                o.num_heads = c->heads, o.interleaved = c->interleaved, o.rotary_dim = c->filters,
                o.base = c->alpha > 0 ? c->alpha : 10000, o.first_position = c->padding));
}

FAMILY(rotary, build_rotary);

/* ---- embedding: never in 16 bit -------------------------------------------------------------- */

/* x: the indices; classes, filters: the rows and columns of the weight. */
static const conformance_case embedding_cases[] = {
    {.x = {1}, .classes = 1, .filters = 1},
    {.x = {5}, .classes = 3, .filters = 17},
    {.x = {2, 7}, .classes = 65, .filters = 24},
    {.x = {4, 33}, .classes = 10, .filters = 300},
    {.x = {40, 50}, .classes = 7, .filters = 130},
    {.x = {49}, .classes = 9, .filters = 3, .wide = true},
    {.x = {6, 33}, .classes = 70, .filters = 24, .wide = true},
    {.x = {3, 700}, .classes = 1, .filters = 2},
    {.x = {2, 80}, .classes = 3000, .filters = 9},
    {.x = {9, 700}, .classes = 2, .filters = 3},
};

static yk_value *build_embedding(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    yk_value *indices =
        yk_input(graph, "x", c->wide ? YK_I64 : YK_I32, conformance_rank(c->x), c->x);
    const int64_t dims[] = {c->classes, c->filters};
    return yk_embedding(indices, conformance_parameter(graph, "weight", dtype, 2, dims));
}

FAMILY(embedding, build_embedding);

/* ---- take_along_dim -------------------------------------------------------------------------- */

/* other: the index, which is shared if it is plain; classes: the size of dim. */
static const conformance_case take_cases[] = {
    {.x = {5, 3}, .dim = 1, .classes = 3, .other = {5}},
    {.x = {5, 70}, .dim = 1, .classes = 70, .other = {5, 1}, .wide = true},
    {.x = {4, 9}, .dim = 1, .classes = 9, .other = {4, 30}},
    {.x = {3, 7, 17}, .dim = 1, .classes = 7, .other = {3, 5}},
    {.x = {3, 7, 24}, .dim = 1, .classes = 7, .other = {3, 40}, .wide = true},
    {.x = {3, 7, 16}, .dim = 1, .classes = 7, .other = {3}},
    {.x = {3, 7, 2}, .dim = 1, .classes = 7, .other = {3, 5}}, /* two of 16 bits: a float's size */
    {.x = {3, 7, 10}, .dim = 2, .classes = 10, .other = {3, 7}},
    {.x = {2, 5, 33, 8}, .dim = 2, .classes = 33, .other = {2, 5, 9}},
    {.x = {6, 4}, .dim = 0, .classes = 6, .other = {11}},
    {.x = {2, 3, 9}, .dim = 2, .classes = 9, .other = {9}, .plain = true},
    {.x = {2, 17, 6, 5}, .dim = 2, .classes = 6, .other = {8}, .plain = true, .wide = true},
    {.x = {2, 3, 2, 2, 5, 4}, .dim = 4, .classes = 5, .other = {3}, .plain = true},
};

static yk_value *build_take(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    yk_value *x = conformance_x(graph, c, dtype);
    yk_value *index =
        yk_input(graph, "index", c->wide ? YK_I64 : YK_I32, conformance_rank(c->other), c->other);
    return c->plain ? yk_index_select(x, c->dim, index) : yk_take_along_dim(x, index, c->dim);
}

FAMILY(take, build_take);

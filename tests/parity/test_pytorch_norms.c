/* Norms, softmax, attention and embeddings: see operator_compare.h. */
#include "harness.h"
#include "operator_compare.h"

static yk_value *build_batch_norm(operator_case *c)
{
    yk_value *x = operator_image_or_features(c);
    int64_t dims[YK_MAX_DIMS];
    yk_value_shape(x, dims);
    const int64_t *channels = &dims[1];
    c->training =
        !operator_once_in(&c->dice, 3) && (x->ndim == 2 || dims[0] * dims[2] * dims[3] > 1);
    return yk_batch_norm(
        x, operator_parameter(c, "weight", 1, channels), operator_parameter(c, "bias", 1, channels),
        yk_buffer(c->graph, "running_mean", YK_F32, 1, channels, YK_INIT_ZEROS),
        yk_buffer(c->graph, "running_var", YK_F32, 1, channels, YK_INIT_ONES),
        YK_WITH(yk_batch_norm_options, YK_BATCH_NORM_OPTIONS_INIT,
                o.eps = operator_once_in(&c->dice, 2) ? 1e-5 : 1e-3,
                o.momentum = 0.1 * (double)operator_between(&c->dice, 1, 9),
                o.num_batches_tracked =
                    yk_buffer(c->graph, "num_batches_tracked", YK_I64, 0, NULL, YK_INIT_ZEROS)));
}

YK_TEST(batch_norm_is_pytorchs)
{
    operator_compare("batch_norm", 4, build_batch_norm);
}

/* 1 to 4 dimensions. */
static yk_value *rows_of(operator_case *c)
{
    operator_dice *dice = &c->dice;
    int64_t dims[] = {operator_between(dice, 4, 40), operator_between(dice, 4, 20),
                      operator_between(dice, 4, 9), operator_between(dice, 4, 30)};
    return operator_input(c, "x", (int)operator_between(dice, 1, 4), dims);
}

static yk_value *build_softmax(operator_case *c)
{
    return yk_softmax(rows_of(c));
}

YK_TEST(softmax_is_pytorchs)
{
    operator_compare("softmax", 22, build_softmax);
}

static yk_value *build_log_softmax(operator_case *c)
{
    return yk_log_softmax(rows_of(c));
}

YK_TEST(log_softmax_is_pytorchs)
{
    operator_compare("log_softmax", 52, build_log_softmax);
}

static yk_value *build_layer_norm(operator_case *c)
{
    yk_value *x = rows_of(c);
    int ndim = (int)operator_between(&c->dice, 1, x->ndim);
    const int64_t *dims = &x->dims[x->ndim - ndim];
    return yk_layer_norm(x, operator_parameter(c, "weight", ndim, dims),
                         operator_parameter(c, "bias", ndim, dims), 1e-3);
}

YK_TEST(layer_norm_is_pytorchs)
{
    operator_compare("layer_norm", 23, build_layer_norm);
}

static yk_value *build_rms_norm(operator_case *c)
{
    yk_value *x = rows_of(c);
    int ndim = (int)operator_between(&c->dice, 1, x->ndim);
    return yk_rms_norm(x, operator_parameter(c, "weight", ndim, &x->dims[x->ndim - ndim]), 1e-3);
}

YK_TEST(rms_norm_is_pytorchs)
{
    operator_compare("rms_norm", 49, build_rms_norm);
}

/* Groups of `least` channels or more. */
static int64_t draw_groups(operator_dice *dice, int64_t channels, int64_t least)
{
    int64_t groups = operator_once_in(dice, 5) ? channels : operator_between(dice, 1, channels);
    while (channels % groups || channels / groups < least)
        groups--;
    return groups;
}

/* Images, (N, C) or (N, C, L). Groups have several values: dx of one or two is all but 0, the
 * difference of numbers as large as dy. */
static yk_value *build_group_norm(operator_case *c)
{
    operator_dice *dice = &c->dice;
    const int64_t dims[] = {operator_between(dice, 1, 6), operator_between(dice, 5, 50),
                            operator_between(dice, 5, 90)};
    const int ndim = (int)operator_between(dice, 2, 4);
    yk_value *x = ndim == 4 ? operator_image(c, 3) : operator_input(c, "x", ndim, dims);
    const int64_t *channels = &x->dims[1], least = ndim == 2 ? 5 : 1;
    const int64_t groups = draw_groups(dice, *channels, least);
    if (operator_once_in(dice, 4)) /* PyTorch's gradient needs both or neither */
        return yk_group_norm(x, groups, NULL, NULL, 1e-3);
    return yk_group_norm(x, groups, operator_parameter(c, "weight", 1, channels),
                         operator_parameter(c, "bias", 1, channels), 1e-3);
}

YK_TEST(group_norm_is_pytorchs)
{
    operator_compare("group_norm", 47, build_group_norm);
}

static int64_t draw_head_width(operator_dice *dice)
{
    return operator_once_in(dice, 5) ? 32 << operator_between(dice, 1, 3)
                                     : operator_between(dice, 1, 40);
}

/* Self-attention of one value, or of three. */
static yk_value *build_attention(operator_case *c)
{
    operator_dice *dice = &c->dice;
    bool packed = operator_once_in(dice, 2);
    int64_t kv_heads = operator_between(dice, 1, 4), width = draw_head_width(dice);
    int64_t heads = kv_heads * (operator_once_in(dice, 2) ? 1 : operator_between(dice, 2, 3));
    int64_t q[] = {operator_between(dice, 1, 3), operator_between(dice, 1, 70),
                   (heads + (packed ? 2 * kv_heads : 0)) * width};
    int64_t k[] = {q[0], operator_between(dice, 1, 70), kv_heads * width};
    int64_t v[] = {q[0], k[1], kv_heads * draw_head_width(dice)};
    yk_attention_options options = YK_ATTENTION_OPTIONS_INIT;
    options.num_heads = heads;
    if (kv_heads < heads)
        options.num_kv_heads = kv_heads;
    options.is_causal = operator_once_in(dice, 2);
    if (operator_once_in(dice, 3))
        options.scale = 0.02 * (double)operator_between(dice, 1, 5);
    if (operator_once_in(dice, 3))
        options.dropout_p = 0.1 * (double)operator_between(dice, 1, 9);
    c->training = !operator_once_in(dice, 4);
    if (operator_once_in(dice, 2)) {
        int64_t mask[] = {q[0], heads, q[1], packed ? q[1] : k[1]};
        for (int d = 0; d < 4; d++)
            mask[d] = operator_once_in(dice, 2) ? mask[d] : 1;
        options.attn_mask = operator_input(c, "mask", 4, mask);
    }
    yk_value *x = operator_input(c, "x", 3, q);
    if (packed)
        return yk_scaled_dot_product_attention(x, NULL, NULL, &options);
    yk_value *keys = operator_input(c, "k", 3, k);
    return yk_scaled_dot_product_attention(x, keys, operator_input(c, "v", 3, v), &options);
}

/* Gradients of a query that sees little but one key are differences of numbers that are close. */
YK_TEST(scaled_dot_product_attention_is_pytorchs)
{
    operator_compare_within("scaled_dot_product_attention", 1e-4, 28, build_attention);
}

static yk_value *build_rotary(operator_case *c)
{
    operator_dice *dice = &c->dice;
    yk_rotary_embedding_options options = YK_ROTARY_EMBEDDING_OPTIONS_INIT;
    int64_t width = 2 * operator_between(dice, 1, 64);
    options.num_heads = operator_between(dice, 1, 4);
    options.interleaved = operator_once_in(dice, 2);
    if (operator_once_in(dice, 3))
        options.rotary_dim = 2 * operator_between(dice, 1, width / 2);
    if (operator_once_in(dice, 3))
        options.base = 500000;
    if (operator_once_in(dice, 3))
        options.first_position = operator_between(dice, 1, 20);
    const int64_t dims[] = {operator_between(dice, 1, 3), operator_between(dice, 1, 40),
                            options.num_heads * width};
    return yk_rotary_embedding(operator_input(c, "x", 3, dims), &options);
}

/* PyTorch's powers in f32 differ by one unit in the last place, which positions multiply. */
YK_TEST(rotary_embedding_is_llamas)
{
    operator_compare_within("rotary_embedding", 3e-5, 50, build_rotary);
}

/* Indices are below the columns of x. */
static yk_value *build_embedding(operator_case *c)
{
    operator_dice *dice = &c->dice;
    int64_t x[] = {operator_between(dice, 1, 9), operator_between(dice, 1, 40)};
    int64_t weight[] = {x[1] + operator_between(dice, 0, 9), operator_between(dice, 1, 70)};
    return yk_embedding(yk_input(c->graph, "x", YK_I32, 2, x),
                        operator_parameter(c, "weight", 2, weight));
}

YK_TEST(embedding_is_pytorchs)
{
    operator_compare("embedding", 29, build_embedding);
}

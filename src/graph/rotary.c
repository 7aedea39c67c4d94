/*
 * Rotary position embedding (Su et al. 2021): pairs of columns of each head are turned by angles
 * that are proportional to the token's position. A rotation is undone by the negative angles, so
 * the gradient is the same operator with attrs.inverse.
 */
#include "graph/operators.h"

#include <math.h>

#include "base/options.h"

/* Positions beyond are no longer whole numbers in float32. */
static const int64_t most_positions = 1 << 24;

static yk_status expect_options(const yki_attrs *a)
{
    if (!yki_in_range(a->heads, 1))
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "num_heads is %lld, expected at least 1",
                         (long long)a->heads);
    if (!(a->alpha > 0 && isfinite(a->alpha)))
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "base is %g, expected a finite number above 0",
                         a->alpha);
    if (a->first < 0 || a->first > most_positions)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "first_position is %lld, expected 0 to %lld",
                         (long long)a->first, (long long)most_positions);
    return YK_OK;
}

/* The columns of a head are divided into pairs, the last ones left out. */
static yk_status expect_pairs(const yki_node *node)
{
    char text[96];
    const yk_value *x = node->in[YKI_ROTARY_EMBEDDING_X];
    const int64_t heads = node->attrs.heads, dims = node->attrs.rotary;
    if (x->dims[2] % heads != 0)
        return yki_error(YK_ERROR_INVALID_SHAPE,
                         "input has shape %s, whose last dimension is not divisible by %lld heads",
                         yki_shape_text(x, text, sizeof text), (long long)heads);
    if (dims < 2 || dims % 2 != 0 || dims > x->dims[2] / heads)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "rotary_dim is %lld, expected an even number from 2 to the %lld columns "
                         "of a head",
                         (long long)dims, (long long)(x->dims[2] / heads));
    return YK_OK;
}

yk_status yki_infer_rotary_embedding(const yki_node *node, yki_shape *out)
{
    const yk_value *x = node->in[YKI_ROTARY_EMBEDDING_X];
    YK_TRY(yki_expect_float(node, YKI_ROTARY_EMBEDDING_INPUTS));
    YK_TRY(yki_expect_dims(node, YKI_ROTARY_EMBEDDING_X, 3));
    YK_TRY(expect_options(&node->attrs));
    YK_TRY(expect_pairs(node));
    if (x->dims[1] > most_positions - node->attrs.first)
        return yki_error(YK_ERROR_INVALID_SHAPE, "positions end at %lld, expected at most %lld",
                         (long long)(node->attrs.first + x->dims[1]), (long long)most_positions);
    return yki_infer_same(node, out);
}

yk_status yki_gradient_rotary_embedding(yk_graph *graph, const yki_node *node,
                                        yk_value *const *dout, const bool *needs, yk_value **din)
{
    yki_attrs attrs = node->attrs;
    attrs.inverse = !attrs.inverse;
    if (needs[YKI_ROTARY_EMBEDDING_X])
        din[YKI_ROTARY_EMBEDDING_X] = yki_append_like(graph, &yki_op_rotary_embedding, &attrs,
                                                      (yk_value *[]){dout[YKI_ROTARY_EMBEDDING_Y]},
                                                      node->in[YKI_ROTARY_EMBEDDING_X]);
    return YK_OK;
}

/* All columns of a head, unless the program says otherwise. What does not fit is reported later. */
static int64_t rotary_dim_of(const yk_value *x, const yk_rotary_embedding_options *options)
{
    int64_t dims[YK_MAX_DIMS];
    if (options->rotary_dim != 0 || yk_value_shape(x, dims) != 3 || options->num_heads < 1)
        return options->rotary_dim;
    return dims[2] / options->num_heads;
}

yk_value *yk_rotary_embedding(yk_value *x, const yk_rotary_embedding_options *options)
{
    yk_rotary_embedding_options o;
    yk_status status = YKI_READ_OPTIONS(&o, options, yk_rotary_embedding_options,
                                        YK_ROTARY_EMBEDDING_OPTIONS_INIT);
    if (status != YK_OK)
        return yki_emit_error(x, "rotary_embedding", status);
    return yki_emit_one(x, &yki_op_rotary_embedding,
                        &(yki_attrs){.heads = o.num_heads,
                                     .alpha = o.base,
                                     .rotary = rotary_dim_of(x, &o),
                                     .interleaved = o.interleaved,
                                     .first = o.first_position});
}

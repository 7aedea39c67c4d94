/* What moves, joins, cuts or adds up values: see operator_compare.h. */
#include "harness.h"
#include "operator_compare.h"

static yk_value *build_sum(operator_case *c)
{
    yk_value *x = operator_image_or_features(c);
    int64_t dim = operator_between(&c->dice, 1, x->ndim - 1);
    return yki_emit_one(x, &yki_op_sum, &(yki_attrs){.dim = dim});
}

YK_TEST(sum_is_pytorchs)
{
    operator_compare("sum", 45, build_sum);
}

static yk_value *build_amax(operator_case *c)
{
    yk_value *x = operator_image_or_features(c);
    int64_t dim = operator_between(&c->dice, 1, x->ndim - 1);
    return yki_emit_one(x, &yki_op_amax, &(yki_attrs){.dim = dim});
}

YK_TEST(amax_is_pytorchs)
{
    operator_compare("amax", 53, build_amax);
}

static yk_value *build_amin(operator_case *c)
{
    yk_value *x = operator_image_or_features(c);
    int64_t dim = operator_between(&c->dice, 1, x->ndim - 1);
    return yki_emit_one(x, &yki_op_amin, &(yki_attrs){.dim = dim});
}

YK_TEST(amin_is_pytorchs)
{
    operator_compare("amin", 54, build_amin);
}

/* Most often channels. */
static int64_t any_dim(operator_case *c, const yk_value *x)
{
    return operator_once_in(&c->dice, 2) ? 1 : operator_between(&c->dice, 0, x->ndim - 1);
}

static yk_value *build_concat(operator_case *c)
{
    static const char *const names[] = {"b", "c", "d", "e", "f", "g", "h"};
    yk_value *values[8] = {operator_image_or_features(c)};
    int count = (int)operator_between(&c->dice, 2, 8);
    int64_t dims[YK_MAX_DIMS], dim = any_dim(c, values[0]);
    int ndim = yk_value_shape(values[0], dims);
    for (int i = 1; i < count; i++) {
        dims[dim] = operator_between(&c->dice, 1, dim == 1 ? 40 : 9);
        values[i] = operator_input(c, names[i - 1], ndim, dims);
    }
    return yk_concat(values, count, dim);
}

YK_TEST(concat_is_pytorchs)
{
    operator_compare("concat", 24, build_concat);
}

static yk_value *build_flatten(operator_case *c)
{
    return yk_flatten(operator_image_or_features(c));
}

YK_TEST(flatten_is_pytorchs)
{
    operator_compare("flatten", 9, build_flatten);
}

/* (N, C H W) to an image. */
static yk_value *build_reshape(operator_case *c)
{
    operator_dice *dice = &c->dice;
    int64_t dims[] = {YK_BATCH, operator_between(dice, 1, 50), operator_between(dice, 1, 9),
                      operator_between(dice, 1, 9)};
    int64_t x[] = {operator_between(dice, 1, 5), dims[1] * dims[2] * dims[3]};
    return yk_reshape(operator_input(c, "x", 2, x), 4, dims);
}

YK_TEST(reshape_is_pytorchs)
{
    operator_compare("reshape", 26, build_reshape);
}

static yk_value *build_permute(operator_case *c)
{
    operator_dice *dice = &c->dice;
    int64_t dims[YK_MAX_DIMS], order[] = {0, 1, 2, 3};
    int ndim = (int)operator_between(dice, 2, 4);
    for (int d = 0; d < ndim; d++) {
        int64_t other = operator_between(dice, d, ndim - 1), kept = order[d];
        dims[d] = operator_between(dice, 1, 20);
        order[d] = order[other];
        order[other] = kept;
    }
    return yk_permute(operator_input(c, "x", ndim, dims), ndim, order);
}

YK_TEST(permute_is_pytorchs)
{
    operator_compare("permute", 31, build_permute);
}

/* A part of one of the value's dimensions. */
static int64_t draw_part(operator_case *c, const yk_value *x, int64_t *first, int64_t *count)
{
    int64_t dims[YK_MAX_DIMS], dim = any_dim(c, x);
    yk_value_shape(x, dims);
    *first = operator_between(&c->dice, 0, dims[dim] - 1);
    *count = operator_between(&c->dice, 1, dims[dim] - *first);
    return dim;
}

static yk_value *build_slice(operator_case *c)
{
    int64_t first, count;
    yk_value *x = operator_image_or_features(c);
    int64_t dim = draw_part(c, x, &first, &count);
    return yk_slice(x, dim, first, count);
}

YK_TEST(slice_is_pytorchs)
{
    operator_compare("slice", 32, build_slice);
}

static yk_value *build_pad(operator_case *c)
{
    int64_t before, after;
    yk_value *x = operator_image_or_features(c);
    int64_t dim = draw_part(c, x, &before, &after);
    return yk_pad(x, dim, before, after);
}

YK_TEST(pad_is_pytorchs)
{
    operator_compare("pad", 33, build_pad);
}

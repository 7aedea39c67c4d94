/* Activations, arithmetic and dropout, element by element: see operator_compare.h. */
#include "harness.h"
#include "operator_compare.h"

static yk_value *build_relu(operator_case *c)
{
    c->ties = operator_once_in(&c->dice, 3); /* zeros among them */
    return yk_relu(operator_image_or_features(c));
}

YK_TEST(relu_is_pytorchs)
{
    operator_compare("relu", 5, build_relu);
}

static yk_value *build_gelu(operator_case *c)
{
    return yk_gelu(operator_image_or_features(c));
}

YK_TEST(gelu_is_pytorchs)
{
    operator_compare("gelu", 6, build_gelu);
}

static yk_value *build_relu6(operator_case *c)
{
    return yk_relu6(operator_image_or_features(c));
}

YK_TEST(relu6_is_pytorchs)
{
    operator_compare("relu6", 16, build_relu6);
}

static yk_value *build_sigmoid(operator_case *c)
{
    return yk_sigmoid(operator_image_or_features(c));
}

YK_TEST(sigmoid_is_pytorchs)
{
    operator_compare("sigmoid", 17, build_sigmoid);
}

static yk_value *build_silu(operator_case *c)
{
    return yk_silu(operator_image_or_features(c));
}

YK_TEST(silu_is_pytorchs)
{
    operator_compare("silu", 18, build_silu);
}

static yk_value *build_hardswish(operator_case *c)
{
    return yk_hardswish(operator_image_or_features(c));
}

YK_TEST(hardswish_is_pytorchs)
{
    operator_compare("hardswish", 19, build_hardswish);
}

static yk_value *build_tanh(operator_case *c)
{
    return yk_tanh(operator_image_or_features(c));
}

YK_TEST(tanh_is_pytorchs)
{
    operator_compare("tanh", 26, build_tanh);
}

static yk_value *build_leaky_relu(operator_case *c)
{
    c->ties = operator_once_in(&c->dice, 3);
    yk_value *x = operator_image_or_features(c);
    return yk_leaky_relu(x, 0.1 * (double)operator_between(&c->dice, 0, 12));
}

YK_TEST(leaky_relu_is_pytorchs)
{
    operator_compare("leaky_relu", 27, build_leaky_relu);
}

static yk_value *build_elu(operator_case *c)
{
    yk_value *x = operator_image_or_features(c);
    return yk_elu(x, 0.25 * (double)operator_between(&c->dice, -2, 6));
}

YK_TEST(elu_is_pytorchs)
{
    operator_compare("elu", 54, build_elu);
}

static yk_value *build_sin(operator_case *c)
{
    return yk_sin(operator_image_or_features(c));
}

static yk_value *build_cos(operator_case *c)
{
    return yk_cos(operator_image_or_features(c));
}

YK_TEST(sin_and_cos_are_pytorchs)
{
    operator_compare("sin", 55, build_sin);
    operator_compare("cos", 56, build_cos);
}

/* What a value of these sizes can be added to: some sizes become 1, or are missing at the front. */
static yk_value *broadcast_side(operator_case *c, const yk_value *x)
{
    int64_t dims[YK_MAX_DIMS];
    int missing = operator_once_in(&c->dice, 3) ? (int)operator_between(&c->dice, 1, x->ndim) : 0;
    for (int d = missing; d < x->ndim; d++)
        dims[d - missing] = operator_once_in(&c->dice, 3) ? 1 : x->dims[d];
    return operator_input(c, "other", x->ndim - missing, dims);
}

static yk_value *build_add(operator_case *c)
{
    yk_value *x = operator_image_or_features(c), *other = broadcast_side(c, x);
    return operator_once_in(&c->dice, 2) ? yk_add(x, other) : yk_add(other, x);
}

/* PyTorch adds up gradients of what was broadcast in f32, which is 1.3e-5 from f64 where they all
 * but cancel. */
YK_TEST(add_is_pytorchs)
{
    operator_compare_within("add", 1e-4, 7, build_add);
}

static yk_value *build_multiply(operator_case *c)
{
    yk_value *x = operator_image_or_features(c), *other = broadcast_side(c, x);
    return operator_once_in(&c->dice, 2) ? yk_multiply(x, other) : yk_multiply(other, x);
}

YK_TEST(multiply_is_pytorchs)
{
    operator_compare_within("multiply", 1e-4, 21, build_multiply);
}

static yk_value *build_exp(operator_case *c)
{
    return yk_exp(operator_image_or_features(c));
}

YK_TEST(exp_is_pytorchs)
{
    operator_compare("exp", 33, build_exp);
}

static yk_value *build_log(operator_case *c)
{
    return yk_log(operator_above(c));
}

YK_TEST(log_is_pytorchs)
{
    operator_compare("log", 34, build_log);
}

static yk_value *build_abs(operator_case *c)
{
    c->ties = operator_once_in(&c->dice, 3);
    return yk_abs(operator_image_or_features(c));
}

YK_TEST(abs_is_pytorchs)
{
    operator_compare("abs", 35, build_abs);
}

static const double exponents[] = {0, 1, 2, 3, -1, -2, 0.5, -0.5, 1.5, -1.5, 2.4, 1.0 / 3};
enum { EXPONENTS = sizeof exponents / sizeof *exponents };

static yk_value *build_pow(operator_case *c)
{
    yk_value *x = operator_above(c);
    return yk_pow(x, exponents[operator_between(&c->dice, 0, EXPONENTS - 1)]);
}

YK_TEST(pow_is_pytorchs)
{
    operator_compare("pow", 36, build_pow);
}

/* Bounds that are met in a third of the cases. */
static yk_value *build_clamp(operator_case *c)
{
    c->ties = operator_once_in(&c->dice, 3);
    yk_value *x = operator_image_or_features(c);
    double min = -0.5 * (double)operator_between(&c->dice, 0, 2);
    return yk_clamp(x, min, min + 0.5 * (double)operator_between(&c->dice, 0, 4));
}

YK_TEST(clamp_is_pytorchs)
{
    operator_compare("clamp", 37, build_clamp);
}

static yk_value *build_add_scalar(operator_case *c)
{
    yk_value *x = operator_image_or_features(c);
    return yk_add_scalar(x, 0.3 * (double)operator_between(&c->dice, -9, 9));
}

YK_TEST(add_scalar_is_pytorchs)
{
    operator_compare("add_scalar", 38, build_add_scalar);
}

static yk_value *build_subtract(operator_case *c)
{
    yk_value *x = operator_image_or_features(c), *other = broadcast_side(c, x);
    return operator_once_in(&c->dice, 2) ? yk_subtract(x, other) : yk_subtract(other, x);
}

YK_TEST(subtract_is_pytorchs)
{
    operator_compare_within("subtract", 1e-4, 31, build_subtract);
}

static yk_value *build_divide(operator_case *c)
{
    yk_value *b = operator_above(c), *other = broadcast_side(c, b);
    return yk_divide(other, b);
}

YK_TEST(divide_is_pytorchs)
{
    operator_compare_within("divide", 1e-4, 32, build_divide);
}

/* Sides that are often equal, or without numbers in common. */
static yk_value *two_sides(operator_case *c, yk_value *(*function)(yk_value *, yk_value *))
{
    c->ties = operator_once_in(&c->dice, 2);
    yk_value *x = operator_image_or_features(c), *other = broadcast_side(c, x);
    return operator_once_in(&c->dice, 2) ? function(x, other) : function(other, x);
}

static yk_value *build_maximum(operator_case *c)
{
    return two_sides(c, yk_maximum);
}

static yk_value *build_minimum(operator_case *c)
{
    return two_sides(c, yk_minimum);
}

static yk_value *build_greater(operator_case *c)
{
    return two_sides(c, yk_greater);
}

static yk_value *build_greater_equal(operator_case *c)
{
    return two_sides(c, yk_greater_equal);
}

/* Numbers that are multiples of 1/2, so that some of the mask's are 0; also the other way round. */
static yk_value *build_masked_fill(operator_case *c)
{
    c->ties = true;
    yk_value *x = operator_image_or_features(c), *other = broadcast_side(c, x);
    const yki_attrs attrs = {.alpha = 0.75, .beta = operator_once_in(&c->dice, 2)};
    return yki_emit(&yki_op_masked_fill, &attrs, (yk_value *[]){x, other});
}

YK_TEST(choices_are_pytorchs)
{
    operator_compare_within("maximum", 1e-4, 45, build_maximum);
    operator_compare_within("minimum", 1e-4, 46, build_minimum);
    operator_compare("greater", 47, build_greater);
    operator_compare("greater_equal", 48, build_greater_equal);
    operator_compare_within("masked_fill", 1e-4, 49, build_masked_fill);
}

static yk_value *build_special_exp(operator_case *c)
{
    c->special = true;
    return build_exp(c);
}

static yk_value *build_special_log(operator_case *c)
{
    c->special = true;
    return build_log(c);
}

static yk_value *build_special_abs(operator_case *c)
{
    c->special = true;
    return yk_abs(operator_image_or_features(c));
}

static yk_value *build_special_pow(operator_case *c)
{
    c->special = true;
    return build_pow(c);
}

static yk_value *build_special_clamp(operator_case *c)
{
    yk_value *y = build_clamp(c);
    c->special = true;
    return y;
}

/* Of one shape: PyTorch adds up gradients in another order, in which infinities meet. */
static yk_value *build_special_divide(operator_case *c)
{
    yk_value *b = operator_above(c);
    c->special = true;
    return yk_divide(operator_input(c, "other", b->ndim, b->dims), b);
}

static yk_value *special_sides(operator_case *c, yk_value *(*function)(yk_value *, yk_value *))
{
    yk_value *x = operator_image_or_features(c);
    c->special = true;
    return function(x, operator_input(c, "other", x->ndim, x->dims));
}

static yk_value *build_special_maximum(operator_case *c)
{
    return special_sides(c, yk_maximum);
}

static yk_value *build_special_greater(operator_case *c)
{
    return special_sides(c, yk_greater);
}

static yk_value *build_special_greater_equal(operator_case *c)
{
    return special_sides(c, yk_greater_equal);
}

static yk_value *fill_with_three_quarters(yk_value *x, yk_value *mask)
{
    return yk_masked_fill(x, mask, 0.75);
}

static yk_value *build_special_masked_fill(operator_case *c)
{
    return special_sides(c, fill_with_three_quarters);
}

YK_TEST(special_choices_are_pytorchs)
{
    operator_compare("maximum", 50, build_special_maximum);
    operator_compare("greater", 51, build_special_greater);
    operator_compare("greater_equal", 52, build_special_greater_equal);
    operator_compare("masked_fill", 53, build_special_masked_fill);
}

YK_TEST(special_numbers_are_pytorchs)
{
    operator_compare("exp", 39, build_special_exp);
    operator_compare("log", 40, build_special_log);
    operator_compare("abs", 41, build_special_abs);
    operator_compare("pow", 42, build_special_pow);
    operator_compare("clamp", 43, build_special_clamp);
    operator_compare("divide", 44, build_special_divide);
}

static yk_value *build_scale(operator_case *c)
{
    yk_value *x = operator_image_or_features(c);
    return yk_scale(x, 0.3 * (double)operator_between(&c->dice, -9, 9));
}

YK_TEST(scale_is_pytorchs)
{
    operator_compare("scale", 8, build_scale);
}

static yk_value *build_dropout(operator_case *c)
{
    c->training = !operator_once_in(&c->dice, 3);
    yk_value *x = operator_image_or_features(c);
    return yk_dropout(x, 0.1 * (double)operator_between(&c->dice, 0, 9));
}

YK_TEST(dropout_is_pytorchs)
{
    operator_compare("dropout", 10, build_dropout);
}

/* Convolutions, linear layers, products of matrices and pooling: see operator_compare.h. */
#include "harness.h"
#include "operator_compare.h"

static yk_value *build_conv2d(operator_case *c)
{
    operator_dice *dice = &c->dice;
    bool deep = operator_once_in(dice, 6); /* depthwise, or with a multiplier */
    int64_t groups = operator_once_in(dice, 3) ? operator_between(dice, 2, deep ? 40 : 5) : 1;
    int64_t channels = deep && groups > 1 ? 1 : operator_between(dice, 1, 48 / groups);
    int64_t filters = operator_between(dice, 1, deep && groups > 1 ? 2 : 48 / groups);
    int64_t rows = operator_between(dice, 1, 5), columns = rows;
    if (operator_once_in(dice, 4))
        columns = operator_between(dice, 1, 7);
    yk_conv2d_options options = YK_CONV2D_OPTIONS_INIT;
    options.stride = operator_between(dice, 1, 3);
    options.padding = operator_between(dice, 0, 3);
    options.dilation = operator_once_in(dice, 3) ? operator_between(dice, 2, 3) : 1;
    options.groups = groups;
    int64_t padding = options.padding, dilation = options.dilation; /* of columns */
    if (operator_once_in(dice, 3)) {
        options.column_stride = operator_between(dice, 1, 3);
        options.column_padding = padding = operator_between(dice, 0, 3);
        options.column_dilation = dilation = operator_between(dice, 1, 2);
    }
    int64_t least[] = {options.dilation * (rows - 1) + 1 - 2 * options.padding,
                       dilation * (columns - 1) + 1 - 2 * padding};
    int64_t x[] = {operator_between(dice, 1, 4), groups * channels};
    int64_t dims[] = {x[0], x[1], (least[0] < 1 ? 1 : least[0]) + operator_between(dice, 0, 12),
                      (least[1] < 1 ? 1 : least[1]) + operator_between(dice, 0, 12)};
    int64_t weight[] = {groups * filters, channels, rows, columns};
    bool bias = operator_once_in(dice, 2);
    return yk_conv2d(operator_input(c, "x", 4, dims), operator_parameter(c, "weight", 4, weight),
                     bias ? operator_parameter(c, "bias", 1, weight) : NULL, &options);
}

YK_TEST(conv2d_is_pytorchs)
{
    operator_compare("conv2d", 1, build_conv2d);
}

static yk_value *build_conv_transpose2d(operator_case *c)
{
    operator_dice *dice = &c->dice;
    int64_t groups = operator_once_in(dice, 4) ? operator_between(dice, 2, 8) : 1;
    int64_t x[] = {operator_between(dice, 1, 4), groups * operator_between(dice, 1, 48 / groups),
                   operator_between(dice, 1, 7), operator_between(dice, 1, 7)};
    int64_t filters = operator_between(dice, 1, 48 / groups), rows = operator_between(dice, 1, 5);
    int64_t weight[] = {x[1], filters, rows,
                        operator_once_in(dice, 4) ? operator_between(dice, 1, 5) : rows};
    yk_conv_transpose2d_options options = YK_CONV_TRANSPOSE2D_OPTIONS_INIT;
    options.stride = operator_between(dice, 1, 3);
    options.output_padding = operator_between(dice, 0, options.stride - 1);
    options.dilation = operator_once_in(dice, 3) ? operator_between(dice, 2, 3) : 1;
    options.groups = groups;
    int64_t least = rows < weight[3] ? rows : weight[3];
    options.padding = operator_between(dice, 0, options.dilation * (least - 1) / 2);
    if (operator_once_in(dice, 3)) {
        options.column_stride = operator_between(dice, 1, 3);
        options.column_output_padding = operator_between(dice, 0, options.column_stride - 1);
        options.column_dilation = operator_between(dice, 1, 3);
        options.column_padding =
            operator_between(dice, 0, options.column_dilation * (weight[3] - 1) / 2);
    }
    int64_t all = groups * filters;
    bool bias = operator_once_in(dice, 2);
    return yk_conv_transpose2d(operator_input(c, "x", 4, x),
                               operator_parameter(c, "weight", 4, weight),
                               bias ? operator_parameter(c, "bias", 1, &all) : NULL, &options);
}

YK_TEST(conv_transpose2d_is_pytorchs)
{
    operator_compare("conv_transpose2d", 25, build_conv_transpose2d);
}

/* What oneDNN runs with Winograd's algorithm. */
static yk_value *build_winograd(operator_case *c)
{
    operator_dice *dice = &c->dice;
    int64_t dims[] = {operator_between(dice, 16, 20), operator_between(dice, 16, 48),
                      operator_between(dice, 3, 10), operator_between(dice, 3, 10)};
    int64_t weight[] = {operator_between(dice, 16, 48), dims[1], 3, 3};
    bool bias = operator_once_in(dice, 2);
    return yk_conv2d(operator_input(c, "x", 4, dims), operator_parameter(c, "weight", 4, weight),
                     bias ? operator_parameter(c, "bias", 1, weight) : NULL,
                     YK_WITH(yk_conv2d_options, YK_CONV2D_OPTIONS_INIT,
                             o.padding = operator_between(dice, 0, 1)));
}

YK_TEST(conv2d_with_winograd_is_pytorchs)
{
    operator_compare_winograd(2, build_winograd);
}

static yk_value *build_linear(operator_case *c)
{
    operator_dice *dice = &c->dice;
    int64_t dims[] = {operator_between(dice, 1, 64), operator_between(dice, 1, 300), 0};
    int ndim = operator_once_in(dice, 3) ? 3 : 2;
    dims[2] = operator_between(dice, 1, 50);
    int64_t weight[] = {operator_between(dice, 1, 100), dims[ndim - 1]};
    bool bias = operator_once_in(dice, 2);
    return yk_linear(operator_input(c, "x", ndim, dims), operator_parameter(c, "weight", 2, weight),
                     bias ? operator_parameter(c, "bias", 1, weight) : NULL);
}

YK_TEST(linear_is_pytorchs)
{
    operator_compare("linear", 3, build_linear);
}

/* (N, M, K) and (N, K, P), or the same of several heads; either side may be transposed. */
static yk_value *build_matmul(operator_case *c)
{
    operator_dice *dice = &c->dice;
    const int64_t samples = operator_between(dice, 1, 20), rows = operator_between(dice, 1, 30),
                  inner = operator_between(dice, 1, 30), columns = operator_between(dice, 1, 30);
    const yki_attrs attrs = {.heads = operator_once_in(dice, 2) ? 1 : operator_between(dice, 2, 6),
                             .transpose_a = operator_once_in(dice, 2),
                             .transpose_b = operator_once_in(dice, 2)};
    const int64_t a[] = {samples, attrs.heads * (attrs.transpose_a ? inner : rows),
                         attrs.transpose_a ? rows : inner};
    const int64_t b[] = {samples, attrs.heads * (attrs.transpose_b ? columns : inner),
                         attrs.transpose_b ? inner : columns};
    yk_value *sides[] = {operator_input(c, "x", 3, a), operator_input(c, "other", 3, b)};
    return yki_emit(&yki_op_matmul, &attrs, sides);
}

YK_TEST(matmul_is_pytorchs)
{
    operator_compare("matmul", 48, build_matmul);
}

typedef yk_value *(*pool_fn)(yk_value *x, const yk_pool2d_options *options);

/* Padding is at most half the kernel, as PyTorch demands. */
static yk_value *build_pool(operator_case *c, pool_fn pool)
{
    operator_dice *dice = &c->dice;
    c->ties = operator_once_in(dice, 3);
    yk_pool2d_options options = YK_POOL2D_OPTIONS_INIT;
    int64_t kernel = operator_between(dice, 1, 5), least;
    options.kernel = kernel;
    options.stride = operator_between(dice, 1, kernel + 1);
    options.padding = operator_between(dice, 0, kernel / 2);
    least = kernel - 2 * options.padding;
    if (operator_once_in(dice, 3)) {
        options.column_kernel = kernel = operator_between(dice, 1, 6);
        options.column_stride = operator_between(dice, 1, 3);
        options.column_padding = operator_between(dice, 0, kernel / 2);
        kernel -= 2 * options.column_padding;
        least = kernel > least ? kernel : least;
    }
    options.ceil_mode = operator_once_in(dice, 2);
    options.count_include_pad = operator_once_in(dice, 2);
    return pool(operator_image(c, least > 0 ? least : 1), &options);
}

static yk_value *build_max_pool2d(operator_case *c)
{
    return build_pool(c, yk_max_pool2d_with);
}

YK_TEST(max_pool2d_is_pytorchs)
{
    operator_compare("max_pool2d", 11, build_max_pool2d);
}

static yk_value *build_avg_pool2d(operator_case *c)
{
    return build_pool(c, yk_avg_pool2d_with);
}

YK_TEST(avg_pool2d_is_pytorchs)
{
    operator_compare("avg_pool2d", 12, build_avg_pool2d);
}

static yk_value *build_global_avg_pool2d(operator_case *c)
{
    return yk_global_avg_pool2d(operator_image(c, 1));
}

YK_TEST(global_avg_pool2d_is_pytorchs)
{
    operator_compare("global_avg_pool2d", 13, build_global_avg_pool2d);
}

static yk_value *build_adaptive_avg_pool2d(operator_case *c)
{
    yk_value *x = operator_image(c, 1);
    int64_t rows = operator_between(&c->dice, 1, 9), columns = operator_between(&c->dice, 1, 9);
    return yk_adaptive_avg_pool2d(x, rows == x->dims[2] ? rows + 1 : rows, columns);
}

YK_TEST(adaptive_avg_pool2d_is_pytorchs)
{
    operator_compare("adaptive_avg_pool2d", 25, build_adaptive_avg_pool2d);
}

static yk_value *build_interpolate(operator_case *c)
{
    yk_value *x = operator_image(c, 1);
    int64_t rows = operator_between(&c->dice, 1, 24), columns = operator_between(&c->dice, 1, 24);
    bool bilinear = !operator_once_in(&c->dice, 3);
    bool align_corners = bilinear && operator_once_in(&c->dice, 2);
    return yk_interpolate(
        x, rows, columns,
        YK_WITH(yk_interpolate_options, YK_INTERPOLATE_OPTIONS_INIT,
                o.mode = bilinear ? YK_INTERPOLATE_BILINEAR : YK_INTERPOLATE_NEAREST,
                o.align_corners = align_corners));
}

YK_TEST(interpolate_is_pytorchs)
{
    operator_compare("interpolate", 55, build_interpolate);
}

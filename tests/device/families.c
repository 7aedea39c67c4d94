/* See families.h: linear layers, shapes, batch_norm, pools, and what is element by element. */
#include "families.h"

#include <math.h>

#include "harness.h"

/* ---- linear, flatten ------------------------------------------------------------------------- */

static const conformance_case linear_cases[] = {
    {.x = {1, 1}, .filters = 1},
    {.x = {1, 17}, .filters = 10, .bias = true},
    {.x = {5, 64}, .filters = 10, .bias = true},
    {.x = {7, 40}, .filters = 24},
    {.x = {33, 512}, .filters = 100, .bias = true},
    {.x = {2, 5, 40}, .filters = 24, .bias = true},
    {.x = {3, 33, 64}, .filters = 70},
    {.x = {4, 1, 17}, .filters = 1, .bias = true},
};

static yk_value *build_linear(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    int64_t dims[] = {c->filters, c->x[conformance_rank(c->x) - 1]};
    yk_value *x = conformance_x(graph, c, dtype);
    yk_value *weight = conformance_parameter(graph, "weight", dtype, 2, dims);
    yk_value *bias = c->bias ? conformance_parameter(graph, "bias", dtype, 1, dims) : NULL;
    return yk_linear(x, weight, bias);
}

static const conformance_case flatten_cases[] = {
    {.x = {1, 1, 1, 1}},    {.x = {2, 3, 4, 5}},       {.x = {2, 16, 1, 1}}, {.x = {3, 17, 1, 1}},
    {.x = {2, 40, 3, 2}},   {.x = {1, 24, 4, 4}},      {.x = {2, 64, 2, 3}}, {.x = {3, 7}},
    {.x = {2, 4, 5, 2, 6}}, {.x = {2, 4, 2, 2, 3, 5}},
};

static yk_value *build_flatten(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    return yk_flatten(conformance_x(graph, c, dtype));
}

/* The node that yk_reshape appends: of rows. */
static const conformance_case reshape_cases[] = {
    {.x = {1, 1}, .other = {1, 1, 1, 1}},
    {.x = {2, 60}, .other = {2, 3, 4, 5}},
    {.x = {2, 16}, .other = {2, 16, 1, 1}},
    {.x = {3, 17}, .other = {3, 17, 1, 1}},
    {.x = {2, 240}, .other = {2, 40, 3, 2}},
    {.x = {1, 384}, .other = {1, 24, 4, 4}},
    {.x = {3, 14}, .other = {3, 7, 2}},
    {.x = {5}, .other = {5, 1, 1}},
    {.x = {4, 1}, .other = {4}},
    {.x = {2, 240}, .other = {2, 4, 5, 2, 6}},
    {.x = {2, 240}, .other = {2, 4, 2, 2, 3, 5}},
};

static yk_value *build_reshape(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    return yk_reshape(conformance_x(graph, c, dtype), conformance_rank(c->other), c->other);
}

/* `other`: the order, counted from 1. */
static const conformance_case permute_cases[] = {
    {.x = {7}, .other = {1}},
    {.x = {3, 17}, .other = {2, 1}},
    {.x = {2, 5, 33}, .other = {1, 3, 2}},
    {.x = {4, 40, 3}, .other = {3, 1, 2}},
    {.x = {2, 3, 5, 4}, .other = {1, 3, 4, 2}}, /* the channels last, as in Swin, and back */
    {.x = {2, 5, 4, 24}, .other = {1, 4, 2, 3}},
    {.x = {2, 20, 5, 7}, .other = {1, 3, 2, 4}}, /* tokens and heads */
    {.x = {3, 17, 6, 40}, .other = {4, 3, 2, 1}},
    {.x = {2, 20, 5, 7}, .other = {1, 2, 3, 4}},
    {.x = {2, 70, 130}, .other = {1, 3, 2}}, /* whole vectors, and their ends */
    {.x = {2, 16, 24, 33}, .other = {1, 3, 2, 4}},
    {.x = {2, 37, 16, 24}, .other = {1, 3, 4, 2}},
    {.x = {6, 21, 16, 5}, .other = {3, 2, 1, 4}}, /* the channels stay */
    {.x = {3, 40, 1, 1}, .other = {3, 1, 4, 2}},
    {.x = {2, 5, 3, 4, 7}, .other = {1, 3, 5, 2, 4}},
    {.x = {2, 3, 2, 2, 5, 7}, .other = {1, 2, 5, 3, 6, 4}},  /* pixel_shuffle */
    {.x = {2, 3, 4, 5, 2, 6}, .other = {1, 3, 5, 4, 6, 2}},  /* patches as rows */
    {.x = {2, 3, 8, 3, 8, 16}, .other = {1, 2, 4, 3, 5, 6}}, /* windows */
};

static yk_value *build_permute(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    int64_t order[YK_MAX_DIMS];
    for (int d = 0; d < YK_MAX_DIMS; d++)
        order[d] = c->other[d] - 1;
    return yk_permute(conformance_x(graph, c, dtype), conformance_rank(c->other), order);
}

FAMILY(permute, build_permute);
FAMILY(linear, build_linear);
FAMILY(reshape, build_reshape);
FAMILY(flatten, build_flatten);

/* ---- batch_norm: every fusion, in training and in evaluation --------------------------------- */

/* The forms a shape is tried in. */
#define NORM_FORMS(least, ...)                                                                     \
    {.x = __VA_ARGS__, .floor = least},                                                            \
        {.x = __VA_ARGS__, .floor = least, .activation = YKI_FUSED_RELU},                          \
        {.x = __VA_ARGS__, .floor = least, .activation = YKI_FUSED_RELU, .y = true, .dy2 = true},  \
        {.x = __VA_ARGS__, .floor = least, .activation = YKI_FUSED_RELU, .residual = true},        \
        {.x = __VA_ARGS__,                                                                         \
         .floor = least,                                                                           \
         .activation = YKI_FUSED_RELU,                                                             \
         .residual = true,                                                                         \
         .dy2 = true},                                                                             \
        {.x = __VA_ARGS__, .floor = least, .residual = true, .dy2 = true},                         \
        {.x = __VA_ARGS__, .floor = least, .dy2 = true},                                           \
        {.x = __VA_ARGS__, .floor = least, .activation = YKI_FUSED_RELU6, .spread = 4},            \
        {.x = __VA_ARGS__,                                                                         \
         .floor = least,                                                                           \
         .activation = YKI_FUSED_RELU6,                                                            \
         .residual = true,                                                                         \
         .dy2 = true,                                                                              \
         .spread = 4},                                                                             \
        {.x = __VA_ARGS__, .floor = 4 * least, .activation = YKI_FUSED_SILU, .spread = 4},         \
        {.x = __VA_ARGS__,                                                                         \
         .floor = 4 * least,                                                                       \
         .activation = YKI_FUSED_SILU,                                                             \
         .dy2 = true,                                                                              \
         .spread = 4},                                                                             \
        {.x = __VA_ARGS__, .floor = 4 * least, .activation = YKI_FUSED_HARDSWISH, .spread = 4},    \
        {.x = __VA_ARGS__,                                                                         \
         .floor = 4 * least,                                                                       \
         .evaluation = true,                                                                       \
         .activation = YKI_FUSED_HARDSWISH,                                                        \
         .dy2 = true,                                                                              \
         .spread = 4},                                                                             \
        {.x = __VA_ARGS__, .floor = least, .evaluation = true},                                    \
        {.x = __VA_ARGS__,                                                                         \
         .floor = least,                                                                           \
         .evaluation = true,                                                                       \
         .activation = YKI_FUSED_RELU,                                                             \
         .dy2 = true},                                                                             \
    {                                                                                              \
        .x = __VA_ARGS__, .floor = least, .evaluation = true, .activation = YKI_FUSED_RELU,        \
        .residual = true                                                                           \
    }

/*
 * With two values a channel dx is nearly nothing, the difference of things as large as dy: errors
 * are relative to those, which a larger spread makes larger. Elsewhere a floor of 1 allows for the
 * same in a single channel.
 */
static const conformance_case batch_norm_cases[] = {
    NORM_FORMS(1, {2, 3, 4, 5}),  NORM_FORMS(8, {2, 16, 1, 1}), NORM_FORMS(1, {1, 17, 5, 3}),
    NORM_FORMS(1, {3, 24, 4, 4}), NORM_FORMS(1, {4, 40, 3, 7}), NORM_FORMS(1, {2, 64, 8, 8}),
    NORM_FORMS(1, {6, 5}),        NORM_FORMS(1, {5, 40}),
};

static yk_value *build_batch_norm(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    static const int64_t scalar[1];
    yki_attrs attrs = {.eps = 1e-5, .momentum = 0.1, .activation = c->activation};
    const int64_t *channels = &c->x[1];
    yk_value *x = conformance_x(graph, c, dtype);
    yki_shape shape = yki_shape_of(x);
    yk_value *in[YKI_BATCH_NORM_INPUTS] = {
        x,
        conformance_parameter(graph, "weight", dtype, 1, channels),
        conformance_parameter(graph, "bias", dtype, 1, channels),
        yk_buffer(graph, "running_mean", dtype, 1, channels, YK_INIT_ZEROS),
        yk_buffer(graph, "running_var", dtype, 1, channels, YK_INIT_ONES),
        yk_buffer(graph, "num_batches_tracked", YK_I64, 0, scalar, YK_INIT_ZEROS),
        c->residual ? yk_input(graph, "residual", dtype, shape.ndim, shape.dims) : NULL,
    };
    return yki_emit(&yki_op_batch_norm, &attrs, in);
}

FAMILY(batch_norm, build_batch_norm);

/* The node that recomputing appends: no user builds it, and it has no gradient. */
static yk_value *build_batch_norm_apply(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    yki_attrs attrs = {.activation = c->activation};
    const int64_t *channels = &c->x[1];
    yk_value *x = conformance_x(graph, c, dtype);
    yki_shape shape = yki_shape_of(x);
    yk_value *in[] = {
        x,
        conformance_parameter(graph, "weight", dtype, 1, channels),
        conformance_parameter(graph, "bias", dtype, 1, channels),
        yk_buffer(graph, "mean", dtype, 1, channels, YK_INIT_ZEROS),
        yk_buffer(graph, "invstd", dtype, 1, channels, YK_INIT_ONES),
        c->residual ? yk_input(graph, "residual", dtype, shape.ndim, shape.dims) : NULL,
    };
    return yki_append_like(graph, &yki_op_batch_norm_apply, &attrs, in, x);
}

FAMILY_OF(batch_norm_apply, build_batch_norm_apply, batch_norm_cases);

/* ---- pooling --------------------------------------------------------------------------------- */

static const conformance_case pool_cases[] = {
    {.x = {2, 3, 6, 6}, .kernel = {2}, .stride = 2},
    {.x = {2, 16, 7, 5}, .kernel = {3}, .stride = 2, .padding = 1},
    {.x = {2, 17, 7, 5}, .kernel = {3}, .stride = 2, .padding = 1, .ties = true},
    {.x = {1, 24, 8, 8}, .kernel = {3}, .stride = 3},
    {.x = {2, 40, 5, 6}, .kernel = {3}, .stride = 1, .padding = 1},
    {.x = {2, 40, 5, 6}, .kernel = {3}, .stride = 1, .padding = 1, .ties = true},
    {.x = {3, 16, 9, 7}, .kernel = {2}, .stride = 4}, /* stride beyond kernel */
    {.x = {1, 32, 1, 1}, .kernel = {1}, .stride = 1},
    {.x = {2, 5, 4, 4}, .kernel = {2}, .stride = 1, .padding = 1},
    {.x = {2, 64, 14, 12}, .kernel = {3}, .stride = 2, .padding = 1},
    {.x = {1, 16, 22, 11}, .kernel = {3}, .stride = 2, .padding = 1, .ties = true},
    {.x = {2, 16, 23, 9}, .kernel = {2}, .stride = 2, .padding = 1, .ties = true},
    {.x = {1, 16, 17, 19}, .kernel = {17}, .stride = 1}, /* indices of more than a byte */
    {.x = {2, 16, 7, 8}, .kernel = {1, 3}, .stride = 1, .column_stride = 2, .column_padding = 1},
    {.x = {2, 24, 5, 9}, .kernel = {1, 2}, .stride = 1, .column_stride = 2, .ties = true},
    {.x = {2, 16, 1, 9}, .kernel = {1, 2}, .stride = 1, .column_stride = 2, .column_padding = 1},
    {.x = {2, 16, 7, 11}, .kernel = {2, 3}, .stride = 1, .column_stride = 2, .column_padding = 1},
    {.x = {2, 16, 8, 12}, .kernel = {3}, .stride = 3, .column_stride = 2, .ties = true},
    {.x = {2, 24, 9, 5}, .kernel = {4, 1}, .stride = 2, .padding = 2, .column_padding = NO_COLUMNS},
    {.x = {2, 3, 6, 7}, .kernel = {2, 3}, .stride = 2, .column_stride = 1, .ties = true},
    {.x = {2, 16, 7, 8}, .kernel = {2}, .stride = 2, .column_stride = 3},
    {.x = {2, 40, 6, 7}, .kernel = {3}, .stride = 2, .padding = 1, .column_padding = NO_COLUMNS},
    {.x = {1, 8, 3, 130}, .kernel = {2, 129}, .stride = 1}, /* 258 places */
    {.x = {1, 16, 3, 130}, .kernel = {2, 128}, .stride = 1},
    {.x = {2, 16, 8, 12}, .kernel = {3}, .stride = 2, .ceil_mode = true},
    {.x = {2, 40, 8, 11}, .kernel = {3}, .stride = 2, .ceil_mode = true, .ties = true},
    {.x = {2, 16, 7, 9}, .kernel = {2}, .stride = 2, .ceil_mode = true, .ties = true},
    {.x = {2, 3, 7, 9}, .kernel = {2}, .stride = 2, .padding = 1, .ceil_mode = true},
    {.x = {2, 17, 8, 7}, .kernel = {3}, .stride = 2, .padding = 1, .ceil_mode = true},
    {.x = {2, 24, 7, 8}, .kernel = {3}, .stride = 3, .ceil_mode = true},
    {.x = {2, 16, 8, 10}, .kernel = {2}, .stride = 3, .ceil_mode = true}, /* last window too far */
    {.x = {2, 16, 2, 1}, .kernel = {3}, .stride = 2, .padding = 1, .ceil_mode = true},
    {.x = {2, 8, 1, 12}, .kernel = {1, 3}, .stride = 1, .column_stride = 2, .ceil_mode = true},
    {.x = {2, 40, 9, 7}, .kernel = {4, 5}, .stride = 3, .padding = 2, .ceil_mode = true},
    {.x = {2, 40, 5, 6}, .kernel = {3}, .stride = 1, .padding = 1, .skips_padding = true},
    {.x = {2, 17, 7, 5}, .kernel = {3}, .stride = 2, .padding = 1, .skips_padding = true},
    {.x = {2, 3, 8, 7},
     .kernel = {3},
     .stride = 2,
     .padding = 1,
     .ceil_mode = true,
     .skips_padding = true},
};

static const conformance_case global_cases[] = {
    {.x = {1, 1, 1, 1}},  {.x = {2, 3, 4, 5}},  {.x = {2, 16, 4, 4}},
    {.x = {1, 17, 3, 5}}, {.x = {3, 40, 1, 1}}, {.x = {2, 64, 7, 7}},
};

static yk_pool2d_options pool_options(const conformance_case *c)
{
    yk_pool2d_options options = YK_POOL2D_OPTIONS_INIT;
    options.kernel = c->kernel[0];
    options.stride = c->stride;
    options.padding = c->padding;
    options.column_kernel = conformance_columns(c->kernel[1]);
    options.column_stride = conformance_columns(c->column_stride);
    options.column_padding = conformance_columns(c->column_padding);
    options.ceil_mode = c->ceil_mode;
    options.count_include_pad = !c->skips_padding;
    return options;
}

static yk_value *build_max_pool2d(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    const yk_pool2d_options options = pool_options(c);
    return yk_max_pool2d_with(conformance_x(graph, c, dtype), &options);
}

static yk_value *build_avg_pool2d(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    const yk_pool2d_options options = pool_options(c);
    return yk_avg_pool2d_with(conformance_x(graph, c, dtype), &options);
}

static yk_value *build_global(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    return yk_global_avg_pool2d(conformance_x(graph, c, dtype));
}

FAMILY_OF(max_pool2d, build_max_pool2d, pool_cases);
FAMILY_OF(avg_pool2d, build_avg_pool2d, pool_cases);
FAMILY(global, build_global);

/* `kernel`: rows and columns of the result. */
static const conformance_case adaptive_cases[] = {
    {.x = {2, 3, 6, 5}, .kernel = {4, 3}},   {.x = {2, 16, 7, 9}, .kernel = {7, 2}},
    {.x = {1, 17, 10, 8}, .kernel = {7, 7}}, {.x = {2, 40, 3, 5}, .kernel = {7, 7}},
    {.x = {3, 32, 1, 1}, .kernel = {2, 3}},  {.x = {2, 24, 8, 8}, .kernel = {4, 2}},
};

static yk_value *build_adaptive(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    return yk_adaptive_avg_pool2d(conformance_x(graph, c, dtype), c->kernel[0], c->kernel[1]);
}

FAMILY(adaptive, build_adaptive);

/* `kernel` likewise; bilinear, with corners that keep their places in some. */
static const conformance_case interpolate_cases[] = {
    {.x = {2, 3, 6, 5}, .kernel = {12, 10}},
    {.x = {2, 16, 7, 9}, .kernel = {21, 4}},
    {.x = {1, 17, 10, 8}, .kernel = {4, 3}},
    {.x = {2, 40, 3, 5}, .kernel = {7, 7}},
    {.x = {3, 32, 1, 1}, .kernel = {2, 3}},
    {.x = {1, 1, 5, 40}, .kernel = {1, 70}},
    {.x = {2, 3, 6, 5}, .kernel = {12, 10}, .bilinear = true},
    {.x = {2, 16, 7, 9}, .kernel = {21, 4}, .bilinear = true},
    {.x = {1, 17, 10, 8}, .kernel = {4, 3}, .bilinear = true},
    {.x = {2, 40, 3, 5}, .kernel = {7, 7}, .bilinear = true},
    {.x = {3, 32, 1, 1}, .kernel = {2, 3}, .bilinear = true},
    {.x = {1, 1, 5, 40}, .kernel = {1, 70}, .bilinear = true},
    {.x = {2, 3, 6, 5}, .kernel = {12, 10}, .bilinear = true, .align_corners = true},
    {.x = {2, 16, 7, 9}, .kernel = {21, 4}, .bilinear = true, .align_corners = true},
    {.x = {1, 17, 10, 8}, .kernel = {4, 3}, .bilinear = true, .align_corners = true},
    {.x = {3, 32, 1, 1}, .kernel = {2, 3}, .bilinear = true, .align_corners = true},
    {.x = {1, 8, 5, 4}, .kernel = {1, 4}, .bilinear = true, .align_corners = true},
};

static yk_value *build_interpolate(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    return yk_interpolate(
        conformance_x(graph, c, dtype), c->kernel[0], c->kernel[1],
        YK_WITH(yk_interpolate_options, YK_INTERPOLATE_OPTIONS_INIT,
                o.mode = c->bilinear ? YK_INTERPOLATE_BILINEAR : YK_INTERPOLATE_NEAREST,
                o.align_corners = c->align_corners));
}

FAMILY(interpolate, build_interpolate);

/* ---- element by element ---------------------------------------------------------------------- */

static const conformance_case element_cases[] = {
    {.x = {1, 1}, .alpha = 0.5, .p = 0.5},
    {.x = {3, 17}, .alpha = -2, .p = 0.1},
    {.x = {2, 3, 5, 4}, .alpha = 1.5, .p = 0.3},
    {.x = {2, 16, 3, 3}, .alpha = 0.125, .p = 0.5},
    {.x = {1, 24, 1, 1}, .alpha = 3, .p = 0.9},
    {.x = {2, 40, 5, 7}, .alpha = -1, .p = 0.2},
    {.x = {2, 40, 5, 7}, .alpha = 1, .p = 0.2, .evaluation = true},
    {.x = {4, 64, 6, 6}, .alpha = 1.0 / 9, .p = 0},
    {.x = {2, 3, 2, 4, 3, 5}, .alpha = -0.5, .p = 0.4},
};

static yk_value *build_relu(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    return yk_relu(conformance_x(graph, c, dtype));
}

static yk_value *build_gelu(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    return yk_gelu(conformance_x(graph, c, dtype));
}

static yk_value *build_relu6(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    return yk_relu6(conformance_x(graph, c, dtype));
}

static yk_value *build_sigmoid(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    return yk_sigmoid(conformance_x(graph, c, dtype));
}

static yk_value *build_silu(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    return yk_silu(conformance_x(graph, c, dtype));
}

static yk_value *build_hardswish(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    return yk_hardswish(conformance_x(graph, c, dtype));
}

static yk_value *build_tanh(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    return yk_tanh(conformance_x(graph, c, dtype));
}

static yk_value *build_leaky_relu(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    return yk_leaky_relu(conformance_x(graph, c, dtype), fabs(c->alpha));
}

static yk_value *build_elu(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    return yk_elu(conformance_x(graph, c, dtype), c->alpha);
}

static yk_value *build_sin(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    return yk_sin(conformance_x(graph, c, dtype));
}

static yk_value *build_cos(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    return yk_cos(conformance_x(graph, c, dtype));
}

static yk_value *build_abs(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    return yk_abs(conformance_x(graph, c, dtype));
}

static yk_value *build_exp(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    return yk_exp(conformance_x(graph, c, dtype));
}

/* The engine draws such an input from 1/4 to 9/4. */
static yk_value *positive(yk_graph *graph, const int64_t *dims, yk_dtype dtype)
{
    return yk_input(graph, "positive", dtype, conformance_rank(dims), dims);
}

static yk_value *build_log(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    return yk_log(positive(graph, c->x, dtype));
}

static yk_value *build_pow(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    return yk_pow(positive(graph, c->x, dtype), c->alpha);
}

static yk_value *build_clamp(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    double bound = fabs(c->alpha);
    return yk_clamp(conformance_x(graph, c, dtype), -0.4 * bound, 0.2 + bound / 4);
}

static yk_value *build_add_scalar(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    return yk_add_scalar(conformance_x(graph, c, dtype), c->alpha);
}

/* Of x's own shape unless the case says otherwise. */
static yk_value *other_side(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    const int64_t *dims = c->other[0] ? c->other : c->x;
    return yk_input(graph, "b", dtype, conformance_rank(dims), dims);
}

static yk_value *apply_to_sides(yk_value *(*function)(yk_value *, yk_value *), yk_graph *graph,
                                const conformance_case *c, yk_dtype dtype)
{
    yk_value *a = conformance_x(graph, c, dtype);
    return function(a, other_side(graph, c, dtype));
}

static yk_value *build_add(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    return apply_to_sides(yk_add, graph, c, dtype);
}

static yk_value *build_multiply(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    return apply_to_sides(yk_multiply, graph, c, dtype);
}

static yk_value *build_subtract(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    return apply_to_sides(yk_subtract, graph, c, dtype);
}

static yk_value *build_divide(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    yk_value *a = conformance_x(graph, c, dtype);
    return yk_divide(a, positive(graph, c->other[0] ? c->other : c->x, dtype));
}

/* Plain and blocked, either side smaller, both smaller than the result. */
static const conformance_case broadcast_cases[] = {
    {.x = {2, 3, 5, 4}, .other = {1}},
    {.x = {2, 3, 5, 4}, .other = {3, 1, 1}},
    {.x = {2, 3, 5, 4}, .other = {4}},
    {.x = {3, 40, 5, 7}, .other = {3, 40, 1, 1}}, /* squeeze and excitation */
    {.x = {3, 40, 5, 7}, .other = {40, 1, 1}},
    {.x = {3, 40, 5, 7}, .other = {3, 1, 5, 7}},
    {.x = {3, 40, 5, 7}, .other = {1, 40, 1, 7}},
    {.x = {3, 40, 5, 7}, .other = {5, 1}},
    {.x = {40, 1, 1}, .other = {2, 40, 3, 3}},
    {.x = {2, 24, 1, 3}, .other = {2, 1, 4, 1}},
    {.x = {2, 24, 1, 3}, .other = {1, 24, 4, 1}},
    {.x = {5, 300}, .other = {300}},
    {.x = {5, 1}, .other = {1, 7}},
    {.x = {3, 1, 6}, .other = {4, 1}},
    {.x = {1}, .other = {9}},
    {.x = {16, 64, 9, 9}, .other = {64, 1, 1}},
    /* Sums in parts, of few channels and of short rows; more than a piece or a chunk has. */
    {.x = {8, 40, 17, 19}, .other = {1}},
    {.x = {9, 10, 33, 31}, .other = {10, 1, 1}},
    {.x = {2, 3, 50, 60}, .other = {3, 1, 1}},
    {.x = {2, 40, 30, 20}, .other = {2, 1, 30, 20}},
    {.x = {3, 48, 11, 13}, .other = {3, 1, 11, 13}}, /* a number of each pixel, in whole blocks */
    {.x = {2, 1, 11, 13}, .other = {2, 48, 11, 13}},
    {.x = {2, 160, 5, 7}, .other = {2, 1, 5, 7}},
    {.x = {3, 40, 20, 20}, .other = {40, 20, 20}},
    {.x = {70, 3, 5, 4}, .other = {70, 3, 1, 1}}, /* matrices of many samples */
    {.x = {66, 16, 3, 7}, .other = {66, 16, 1, 1}},
    {.x = {64, 9, 6}, .other = {64, 1, 6}},
    {.x = {83, 2, 50}, .other = {2, 1}}, /* few sums, of what lies in many places */
    {.x = {3, 2, 19, 2, 36}, .other = {2, 1, 2, 1}},
    {.x = {1, 10, 1, 1}, .other = {10, 1, 1}},
    {.x = {700, 10}, .other = {10}},
    {.x = {3, 5000}, .other = {5000}},
    {.x = {3, 5000}, .other = {3, 1}},
    {.x = {2, 3, 4, 5, 6}, .other = {3, 1, 5, 1}},
    {.x = {2, 1, 4, 1, 6, 3}, .other = {2, 3, 1, 5, 6, 1}},
    {.x = {4, 1, 1, 3}, .other = {2, 3, 1, 5, 2, 1}},
};

/* Few elements: central differences of sides that differ by less than a step are not gradients. */
static const conformance_case choice_cases[] = {
    {.x = {1, 1}},
    {.x = {3, 17}},
    {.x = {2, 24, 3, 3}},
    {.x = {3, 40, 5, 7}, .other = {40, 1, 1}},
    {.x = {3, 40, 5, 7}, .other = {3, 1, 5, 7}},
    {.x = {2, 24, 1, 3}, .other = {2, 1, 4, 1}},
    {.x = {40, 1, 1}, .other = {2, 40, 3, 3}},
    {.x = {5, 300}, .other = {300}},
    {.x = {5, 1}, .other = {1, 7}},
    {.x = {70, 3, 5, 4}, .other = {70, 3, 1, 1}},
};

/* Sides that are often equal, of one shape and of others. alpha and p: of compare. */
static const conformance_case tied_cases[] = {
    {.x = {1, 1}, .ties = true, .alpha = 1},
    {.x = {3, 17}, .ties = true, .alpha = 0.5, .p = 1},
    {.x = {2, 3, 5, 4}, .ties = true},
    {.x = {2, 24, 3, 3}, .ties = true, .alpha = 1},
    {.x = {4, 64, 6, 6}, .ties = true, .alpha = -2, .p = -2},
    {.x = {3, 40, 5, 7}, .other = {40, 1, 1}, .ties = true, .alpha = 0.5, .p = 1},
    {.x = {2, 24, 1, 3}, .other = {2, 1, 4, 1}, .ties = true, .alpha = 1},
    {.x = {5, 1}, .other = {1, 7}, .ties = true},
    {.x = {3, 5000}, .other = {3, 1}, .ties = true, .alpha = 1},
};

static yk_value *build_maximum(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    return apply_to_sides(yk_maximum, graph, c, dtype);
}

static yk_value *build_minimum(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    return apply_to_sides(yk_minimum, graph, c, dtype);
}

static yk_value *build_compare(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    yk_value *a = conformance_x(graph, c, dtype), *b = other_side(graph, c, dtype);
    return yki_emit(&yki_op_compare, &(yki_attrs){.alpha = c->alpha, .beta = c->p},
                    (yk_value *[]){a, b});
}

static yk_value *flags(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    const int64_t *dims = c->other[0] ? c->other : c->x;
    return yk_input(graph, "flags", dtype, conformance_rank(dims), dims);
}

static yk_value *build_masked_fill(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    yk_value *x = conformance_x(graph, c, dtype);
    return yk_masked_fill(x, flags(graph, c, dtype), 0.75);
}

/* What is filled is the other half: a part of yk_where(). */
static yk_value *build_kept(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    yk_value *x = conformance_x(graph, c, dtype);
    return yki_emit(&yki_op_masked_fill, &(yki_attrs){.alpha = -1.5, .beta = 1},
                    (yk_value *[]){x, flags(graph, c, dtype)});
}

/* `filters`: the size of the other sides in dimension `dim`. */
static const conformance_case concat_cases[] = {
    {.x = {2, 3, 3, 4}, .dim = 1, .filters = 5, .values = 3},
    {.x = {2, 16, 3, 4}, .dim = 1, .filters = 17, .values = 5},
    {.x = {2, 3, 4}, .dim = 1, .filters = 2, .values = 8},
    {.x = {2, 3, 4, 2, 3}, .dim = 2, .filters = 5, .values = 3},
    {.x = {2, 3, 4, 2, 3, 7}, .dim = 5, .filters = 2},
    {.x = {3, 5}, .dim = 1, .filters = 7},
    {.x = {1, 3, 4, 5}, .dim = 1, .filters = 2},
    {.x = {2, 16, 3, 4}, .dim = 1, .filters = 32},
    {.x = {2, 3, 5, 4}, .dim = 1, .filters = 16},
    {.x = {2, 24, 3, 4}, .dim = 1, .filters = 17},
    {.x = {2, 9, 3, 4}, .dim = 1, .filters = 8},
    {.x = {3, 64, 6, 6}, .dim = 1, .filters = 3},
    {.x = {3, 5, 7}, .dim = 1, .filters = 9},
    {.x = {2, 3, 4}, .dim = 2, .filters = 5, .values = 3},
    {.x = {2, 3, 4, 5}, .dim = 2, .filters = 1, .values = 8},
    {.x = {2, 20, 4, 5}, .dim = 2, .filters = 7, .values = 3},
    {.x = {2, 3, 4, 5}, .dim = 3, .filters = 2, .values = 3},
    {.x = {3, 33, 4, 5}, .dim = 3, .filters = 8},
    {.x = {3, 16, 8, 8}, .dim = 3, .filters = 8},
    {.x = {3, 5}, .dim = 0, .filters = 2, .values = 4},
    {.x = {3}, .dim = 0, .filters = 4},
    {.x = {3, 20, 2, 2}, .dim = 0, .filters = 2},
};

static yk_value *build_concat(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    yk_value *a = conformance_x(graph, c, dtype);
    yk_value *values[YKI_CONCAT_INPUTS] = {a};
    yki_shape shape = yki_shape_of(a);
    shape.dims[c->dim] = c->filters;
    int count = c->values ? c->values : 2;
    for (int i = 1; i < count; i++)
        values[i] =
            yk_input(graph, (const char[]){(char)('a' + i), 0}, dtype, shape.ndim, shape.dims);
    return yk_concat(values, count, c->dim);
}

/* `other`: where the part begins, and its size. */
static const conformance_case slice_cases[] = {
    {.x = {3, 5}, .dim = 1, .other = {0, 1}},
    {.x = {2, 65, 24}, .dim = 1, .other = {0, 1}},
    {.x = {2, 3, 5, 2, 3, 7}, .dim = 2, .other = {1, 3}},
    {.x = {2, 16, 32}, .dim = 1, .other = {8, 8}},
    {.x = {2, 5, 3, 4}, .dim = 1, .other = {1, 3}},
    {.x = {2, 40, 3, 4}, .dim = 1, .other = {16, 16}},
    {.x = {3, 40, 5, 4}, .dim = 1, .other = {7, 33}},
    {.x = {2, 16, 3, 4}, .dim = 1, .other = {0, 16}},
    {.x = {2, 5, 24}, .dim = 2, .other = {7, 8}},
    {.x = {2, 5, 6, 4}, .dim = 2, .other = {2, 3}},
    {.x = {2, 40, 6, 4}, .dim = 2, .other = {1, 5}},
    {.x = {2, 5, 3, 9}, .dim = 3, .other = {8, 1}},
    {.x = {3, 40, 3, 16}, .dim = 3, .other = {0, 15}},
    {.x = {6, 5}, .dim = 0, .other = {2, 3}},
    {.x = {6, 17, 3, 2}, .dim = 0, .other = {5, 1}},
};

static yk_value *build_slice(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    return yk_slice(conformance_x(graph, c, dtype), c->dim, c->other[0], c->other[1]);
}

/* `other`: the zeros before and after. */
static const conformance_case pad_cases[] = {
    {.x = {3, 5}, .dim = 1, .other = {1, 0}},
    {.x = {2, 64, 24}, .dim = 1, .other = {1, 0}},
    {.x = {2, 3, 5, 2, 3}, .dim = 3, .other = {1, 3}},
    {.x = {2, 16, 32}, .dim = 1, .other = {8, 8}},
    {.x = {2, 5, 3, 4}, .dim = 1, .other = {1, 3}},
    {.x = {2, 16, 3, 4}, .dim = 1, .other = {16, 8}},
    {.x = {3, 33, 5, 4}, .dim = 1, .other = {7, 0}},
    {.x = {2, 16, 3, 4}, .dim = 1, .other = {0, 16}},
    {.x = {2, 16, 3, 4}, .dim = 1},
    {.x = {2, 5, 24}, .dim = 2, .other = {7, 8}},
    {.x = {2, 5, 6, 4}, .dim = 2, .other = {2, 0}},
    {.x = {2, 40, 6, 4}, .dim = 2, .other = {1, 5}},
    {.x = {2, 5, 3, 9}, .dim = 3, .other = {0, 1}},
    {.x = {3, 40, 3, 16}, .dim = 3, .other = {8, 8}},
    {.x = {6, 5}, .dim = 0, .other = {2, 3}},
    {.x = {6, 17, 3, 2}, .dim = 0, .other = {1, 0}},
};

static yk_value *build_pad(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    return yk_pad(conformance_x(graph, c, dtype), c->dim, c->other[0], c->other[1]);
}

FAMILY(slice, build_slice);
FAMILY(pad, build_pad);

static yk_value *build_scale(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    return yk_scale(conformance_x(graph, c, dtype), c->alpha);
}

static yk_value *build_dropout(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    return yk_dropout(conformance_x(graph, c, dtype), c->p);
}

static yk_value *build_randn_like(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    return yk_randn_like(conformance_x(graph, c, dtype));
}

/* Never in 16 bit. */
FAMILY_OF(randn_like, build_randn_like, element_cases);

FAMILY_OF(broadcast_add, build_add, broadcast_cases);
FAMILY_OF(broadcast_subtract, build_subtract, broadcast_cases);
FAMILY_OF(broadcast_multiply, build_multiply, broadcast_cases);
FAMILY_OF(broadcast_divide, build_divide, broadcast_cases);

FAMILY_OF(maximum, build_maximum, choice_cases);
FAMILY_OF(minimum, build_minimum, choice_cases);
FAMILY_OF(masked_fill, build_masked_fill, broadcast_cases);
FAMILY_OF(kept, build_kept, broadcast_cases);
FAMILY_OF(tied_maximum, build_maximum, tied_cases);
FAMILY_OF(tied_minimum, build_minimum, tied_cases);
FAMILY_OF(compare, build_compare, tied_cases);

/* For functions whose bends lie beyond 1: inputs from -8 to 8. */
static const conformance_case wide_cases[] = {
    {.x = {1, 1}, .spread = 8},        {.x = {3, 17}, .spread = 8},
    {.x = {2, 3, 5, 4}, .spread = 8},  {.x = {2, 16, 3, 3}, .spread = 8},
    {.x = {1, 24, 1, 1}, .spread = 8}, {.x = {2, 40, 5, 7}, .spread = 8},
    {.x = {4, 64, 6, 6}, .spread = 8},
};
enum { WIDE_CASES = sizeof wide_cases / sizeof *wide_cases };

/* alpha: the exponent. Those that are products and roots, and others. */
static const conformance_case pow_cases[] = {
    {.x = {1, 1}, .alpha = 2},           {.x = {3, 17}, .alpha = 3},
    {.x = {2, 3, 5, 4}, .alpha = 0.5},   {.x = {2, 16, 3, 3}, .alpha = -0.5},
    {.x = {1, 24, 1, 1}, .alpha = -1},   {.x = {2, 40, 5, 7}, .alpha = -2},
    {.x = {2, 40, 5, 7}, .alpha = -1.7}, {.x = {2, 24, 3, 3}, .alpha = 0},
    {.x = {2, 24, 3, 3}, .alpha = 1},    {.x = {2, 24, 3, 3}, .alpha = 1.5},
    {.x = {4, 64, 6, 6}, .alpha = 2.5},
};

enum { ELEMENT_CASES = sizeof element_cases / sizeof *element_cases };
const conformance_family families_elementwise[FAMILIES_ELEMENTWISE] = {
    {build_relu, element_cases, ELEMENT_CASES},
    {build_gelu, element_cases, ELEMENT_CASES},
    {build_add, element_cases, ELEMENT_CASES},
    {build_scale, element_cases, ELEMENT_CASES},
    {build_multiply, element_cases, ELEMENT_CASES},
    {build_concat, concat_cases, sizeof concat_cases / sizeof *concat_cases},
    {build_dropout, element_cases, ELEMENT_CASES},
    {build_relu6, wide_cases, WIDE_CASES},
    {build_sigmoid, wide_cases, WIDE_CASES},
    {build_silu, wide_cases, WIDE_CASES},
    {build_hardswish, wide_cases, WIDE_CASES},
    {build_tanh, wide_cases, WIDE_CASES},
    {build_leaky_relu, element_cases, ELEMENT_CASES},
    {build_elu, element_cases, ELEMENT_CASES},
    {build_sin, wide_cases, WIDE_CASES},
    {build_cos, wide_cases, WIDE_CASES},
    {build_abs, element_cases, ELEMENT_CASES},
    {build_exp, wide_cases, WIDE_CASES},
    {build_log, element_cases, ELEMENT_CASES},
    {build_pow, pow_cases, sizeof pow_cases / sizeof *pow_cases},
    {build_clamp, element_cases, ELEMENT_CASES},
    {build_add_scalar, element_cases, ELEMENT_CASES},
    {build_subtract, element_cases, ELEMENT_CASES},
    {build_divide, element_cases, ELEMENT_CASES},
};

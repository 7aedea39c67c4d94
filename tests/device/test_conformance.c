/* Every operator on every device: the tables of cases, and one test a family and device. */
#include <string.h>

#include "conformance.h"
#include "harness.h"

#define FAMILY(name, builder)                                                                      \
    static const conformance_family name = {builder, name##_cases,                                 \
                                            sizeof name##_cases / sizeof *name##_cases}

/* Thread counts differ so that each is seen with something, also more threads than cores. */
static const conformance_setting ref_f32 = {
    .device = "ref", .dtype = YK_F32, .threads = 1, .tolerance = 1e-6};
static const conformance_setting cpu_f32 = {
    .device = "cpu", .dtype = YK_F32, .threads = 3, .tolerance = 1e-5};
static const conformance_setting cpu_winograd = {
    .device = "cpu", .dtype = YK_F32, .threads = 2, .tolerance = 1e-3, .winograd = true};
static const conformance_setting cpu_bf16 = {
    .device = "cpu", .dtype = YK_BF16, .threads = 1, .tolerance = 1e-2};
static const conformance_setting cpu_winograd_f16 = {
    .device = "cpu", .dtype = YK_F16, .threads = 2, .tolerance = 4e-3, .winograd = true};
static const conformance_setting cpu_winograd_bf16 = {
    .device = "cpu", .dtype = YK_BF16, .threads = 2, .tolerance = 1e-2, .winograd = true};

static const conformance_setting cpu_f16 = {
    .device = "cpu", .dtype = YK_F16, .threads = 2, .tolerance = 2e-3};
static const conformance_setting ref_bf16 = {
    .device = "ref", .dtype = YK_BF16, .threads = 1, .tolerance = 1e-2};
static const conformance_setting ref_f16 = {
    .device = "ref", .dtype = YK_F16, .threads = 1, .tolerance = 2e-3};

static void on_ref(const conformance_family *family)
{
    conformance_gradients(family);
    conformance_device(family, &ref_f32);
}

static void on_ref_in_16_bit(const conformance_family *family)
{
    conformance_device(family, &ref_bf16);
    conformance_device(family, &ref_f16);
}

static void on_cpu(const conformance_family *family)
{
    conformance_device(family, &cpu_f32);
}

static void on_cpu_in_bf16(const conformance_family *family)
{
    conformance_device(family, &cpu_bf16);
}

static void on_cpu_in_f16(const conformance_family *family)
{
    conformance_device(family, &cpu_f16);
}

/* ---- conv2d ---------------------------------------------------------------------------------- */

static const conformance_case conv2d_cases[] = {
    {.x = {1, 3, 8, 8}, .filters = 5, .kernel = {3}, .padding = 1, .bias = true},
    {.x = {2, 3, 9, 7}, .filters = 16, .kernel = {3}, .padding = 1},
    {.x = {2, 16, 6, 6}, .filters = 16, .kernel = {3}, .padding = 1, .bias = true},
    {.x = {2, 17, 5, 8}, .filters = 24, .kernel = {3}, .padding = 1, .bias = true},
    {.x = {3, 24, 6, 5}, .filters = 17, .kernel = {3}, .stride = 2, .padding = 1},
    {.x = {2, 40, 4, 4}, .filters = 8, .kernel = {1}, .bias = true},
    {.x = {2, 16, 7, 7}, .filters = 40, .kernel = {1}, .stride = 2},
    {.x = {2, 5, 9, 9}, .filters = 17, .kernel = {1}, .stride = 3, .bias = true},
    {.x = {2, 32, 7, 6}, .filters = 16, .kernel = {2}, .stride = 3}, /* stride beyond kernel */
    {.x = {1, 16, 1, 1}, .filters = 32, .kernel = {1}},
    {.x = {1, 40, 1, 1}, .filters = 24, .kernel = {3}, .padding = 1, .bias = true},
    {.x = {2, 3, 17, 13}, .filters = 16, .kernel = {7}, .stride = 2, .padding = 3},
    {.x = {2, 16, 9, 8}, .filters = 16, .kernel = {3}, .padding = 2, .dilation = 2, .bias = true},
    {.x = {2, 24, 11, 9}, .filters = 40, .kernel = {3}, .stride = 2, .padding = 3, .dilation = 3},
    {.x = {2, 32, 6, 6}, .filters = 32, .kernel = {3}, .padding = 1, .groups = 2, .bias = true},
    {.x = {2, 24, 5, 6}, .filters = 40, .kernel = {3}, .padding = 1, .groups = 8},
    {.x = {2, 16, 6, 5}, .filters = 16, .kernel = {3}, .padding = 1, .groups = 16, .bias = true},
    {.x = {2, 17, 6, 5}, .filters = 34, .kernel = {3}, .padding = 1, .groups = 17},
    {.x = {2, 6, 6, 5}, .filters = 9, .kernel = {3}, .padding = 1, .groups = 3, .bias = true},
    /* Groups narrower than a vector, as in ResNeXt; the last is not merged evenly. */
    {.x = {2, 32, 6, 5}, .filters = 32, .kernel = {3}, .padding = 1, .groups = 8, .bias = true},
    {.x = {3, 64, 7, 5}, .filters = 64, .kernel = {3}, .stride = 2, .padding = 1, .groups = 8},
    {.x = {2, 16, 4, 5}, .filters = 16, .kernel = {3}, .padding = 1, .groups = 8, .bias = true},
    {.x = {2, 24, 4, 5}, .filters = 24, .kernel = {3}, .padding = 1, .groups = 6},
    /* Depthwise, as in MobileNetV2. */
    {.x = {2, 32, 7, 6}, .filters = 32, .kernel = {3}, .padding = 1, .groups = 32},
    {.x = {2, 96, 7, 6}, .filters = 96, .kernel = {3}, .stride = 2, .padding = 1, .groups = 96},
    {.x = {2, 24, 5, 6}, .filters = 24, .kernel = {3}, .padding = 1, .groups = 24, .bias = true},
    {.x = {2, 16, 6, 9}, .filters = 24, .kernel = {3, 1}, .bias = true},
    {.x = {2, 3, 9, 8}, .filters = 24, .kernel = {2}, .bias = true},
    {.x = {1, 64, 14, 10}, .filters = 48, .kernel = {5}, .stride = 2, .padding = 2},
};

/* What Winograd takes: 3x3, stride 1, and enough samples and channels. */
static const conformance_case winograd_cases[] = {
    {.x = {16, 16, 12, 12}, .filters = 32, .kernel = {3}, .padding = 1},
    {.x = {17, 32, 8, 7}, .filters = 32, .kernel = {3}, .padding = 1, .bias = true},
    {.x = {18, 40, 9, 7}, .filters = 24, .kernel = {3}, .padding = 1},
    {.x = {32, 64, 4, 4}, .filters = 64, .kernel = {3}, .padding = 1},
};

/* What the device's own Winograd takes: channels in 64s, 64 tiles of 4x4 for two threads. */
static const conformance_case winograd64_cases[] = {
    {.x = {66, 64, 4, 3}, .filters = 128, .kernel = {3}, .padding = 1},
    {.x = {17, 128, 5, 6}, .filters = 64, .kernel = {3}, .padding = 1},
    {.x = {33, 64, 5, 7}, .filters = 64, .kernel = {3}},
    {.x = {17, 64, 5, 3}, .filters = 64, .kernel = {3}, .padding = 2},
    {.x = {66, 64, 1, 2}, .filters = 64, .kernel = {3}, .padding = 1},
    /* Few tiles and many channels: a thread sums whole pairs of the weights' gradient. */
    {.x = {64, 192, 1, 2}, .filters = 192, .kernel = {3}, .padding = 1},
};

/* Stride 2 and channels in 64s: gradients of the device's own, in f32 from 256 channels on. */
static const conformance_case strided64_cases[] = {
    {.x = {3, 256, 7, 6}, .filters = 64, .kernel = {3}, .stride = 2, .padding = 1},
    {.x = {11, 256, 5, 5}, .filters = 64, .kernel = {2}, .stride = 2},
    {.x = {5, 64, 8, 9}, .filters = 128, .kernel = {3}, .stride = 2, .padding = 1},
    {.x = {6, 128, 6, 5}, .filters = 64, .kernel = {1}, .stride = 2},
    {.x = {2, 64, 1, 1}, .filters = 64, .kernel = {3}, .stride = 2, .padding = 1},
    {.x = {2, 64, 4, 6}, .filters = 64, .kernel = {1, 3}, .stride = 2, .padding = 1},
};

/* More than a stage of f32 takes: two chunks of eight images each. */
static const conformance_case chunked_cases[] = {
    {.x = {16, 16, 128, 96}, .filters = 1, .kernel = {1}, .bias = true},
};

static yk_value *build_conv2d(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    int64_t groups = c->groups ? c->groups : 1;
    int64_t columns = c->kernel[1] ? c->kernel[1] : c->kernel[0];
    int64_t dims[] = {c->filters, c->x[1] / groups, c->kernel[0], columns};
    yk_value *x = conformance_x(graph, c, dtype);
    yk_value *weight = conformance_parameter(graph, "weight", dtype, 4, dims);
    yk_value *bias = c->bias ? conformance_parameter(graph, "bias", dtype, 1, dims) : NULL;
    return yk_conv2d(x, weight, bias,
                     YK_WITH(yk_conv2d_options, YK_CONV2D_OPTIONS_INIT,
                             o.stride = c->stride ? c->stride : 1, o.padding = c->padding,
                             o.dilation = c->dilation ? c->dilation : 1,
                             o.groups = c->groups ? c->groups : 1));
}

FAMILY(conv2d, build_conv2d);
FAMILY(winograd, build_conv2d);
FAMILY(winograd64, build_conv2d);
FAMILY(strided64, build_conv2d);
FAMILY(chunked, build_conv2d);

YK_TEST(ref_conv2d)
{
    on_ref(&conv2d);
}

YK_TEST(cpu_conv2d)
{
    on_cpu(&conv2d);
}

YK_TEST(cpu_conv2d_winograd)
{
    conformance_device(&winograd, &cpu_winograd);
    conformance_device(&winograd64, &cpu_winograd);
    conformance_device(&conv2d, &cpu_winograd);
}

YK_TEST(cpu_conv2d_winograd_bf16)
{
    if (!yk_cpu_has_bf16())
        skip_because("this processor has no bf16 arithmetic");
    conformance_device(&winograd64, &cpu_winograd_bf16);
}

/* The same shapes with the switch off: to the accuracy of direct convolution. */
YK_TEST(cpu_conv2d_without_winograd)
{
    on_cpu(&winograd);
}

YK_TEST(cpu_conv2d_winograd_f16)
{
    conformance_device(&winograd64, &cpu_winograd_f16);
}

YK_TEST(cpu_conv2d_strided)
{
    on_cpu(&strided64);
    on_cpu_in_f16(&strided64);
    on_cpu_in_bf16(&strided64);
}

YK_TEST(cpu_conv2d_bf16)
{
    on_cpu_in_bf16(&conv2d);
    on_cpu_in_bf16(&winograd);
}

YK_TEST(cpu_conv2d_f16)
{
    on_cpu_in_f16(&conv2d);
    on_cpu_in_f16(&winograd);
    on_cpu_in_f16(&chunked);
}

/* ---- linear, flatten ------------------------------------------------------------------------- */

static const conformance_case linear_cases[] = {
    {.x = {1, 1}, .filters = 1},
    {.x = {1, 17}, .filters = 10, .bias = true},
    {.x = {5, 64}, .filters = 10, .bias = true},
    {.x = {7, 40}, .filters = 24},
    {.x = {33, 512}, .filters = 100, .bias = true},
};

static yk_value *build_linear(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    int64_t dims[] = {c->filters, c->x[1]};
    yk_value *x = conformance_x(graph, c, dtype);
    yk_value *weight = conformance_parameter(graph, "weight", dtype, 2, dims);
    yk_value *bias = c->bias ? conformance_parameter(graph, "bias", dtype, 1, dims) : NULL;
    return yk_linear(x, weight, bias);
}

static const conformance_case flatten_cases[] = {
    {.x = {1, 1, 1, 1}},  {.x = {2, 3, 4, 5}},  {.x = {2, 16, 1, 1}}, {.x = {3, 17, 1, 1}},
    {.x = {2, 40, 3, 2}}, {.x = {1, 24, 4, 4}}, {.x = {2, 64, 2, 3}}, {.x = {3, 7}},
};

static yk_value *build_flatten(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    return yk_flatten(conformance_x(graph, c, dtype));
}

FAMILY(linear, build_linear);
FAMILY(flatten, build_flatten);

YK_TEST(ref_linear)
{
    on_ref(&linear);
    on_ref(&flatten);
}

YK_TEST(cpu_linear)
{
    on_cpu(&linear);
    on_cpu(&flatten);
}

YK_TEST(cpu_linear_bf16)
{
    on_cpu_in_bf16(&linear);
    on_cpu_in_bf16(&flatten);
}

YK_TEST(cpu_linear_f16)
{
    on_cpu_in_f16(&linear);
    on_cpu_in_f16(&flatten);
}

/* ---- batch_norm: every fusion, in training and in evaluation --------------------------------- */

/* The forms a shape is tried in. */
#define NORM_FORMS(least, ...)                                                                     \
    {.x = __VA_ARGS__, .floor = least}, {.x = __VA_ARGS__, .floor = least, .relu = true},          \
        {.x = __VA_ARGS__, .floor = least, .relu = true, .y = true, .dy2 = true},                  \
        {.x = __VA_ARGS__, .floor = least, .relu = true, .residual = true},                        \
        {.x = __VA_ARGS__, .floor = least, .relu = true, .residual = true, .dy2 = true},           \
        {.x = __VA_ARGS__, .floor = least, .residual = true, .dy2 = true},                         \
        {.x = __VA_ARGS__, .floor = least, .dy2 = true},                                           \
        {.x = __VA_ARGS__, .floor = least, .relu = true, .relu6 = true, .spread = 4},              \
        {.x = __VA_ARGS__,                                                                         \
         .floor = least,                                                                           \
         .relu = true,                                                                             \
         .relu6 = true,                                                                            \
         .residual = true,                                                                         \
         .dy2 = true,                                                                              \
         .spread = 4},                                                                             \
        {.x = __VA_ARGS__, .floor = least, .evaluation = true},                                    \
        {.x = __VA_ARGS__, .floor = least, .evaluation = true, .relu = true, .dy2 = true},         \
    {                                                                                              \
        .x = __VA_ARGS__, .floor = least, .evaluation = true, .relu = true, .residual = true       \
    }

/*
 * With two values a channel dx is nearly nothing, the difference of things as large as dy: errors
 * are relative to those. Elsewhere a floor of 1 allows for the same in a single channel.
 */
static const conformance_case batch_norm_cases[] = {
    NORM_FORMS(1, {2, 3, 4, 5}),  NORM_FORMS(8, {2, 16, 1, 1}), NORM_FORMS(1, {1, 17, 5, 3}),
    NORM_FORMS(1, {3, 24, 4, 4}), NORM_FORMS(1, {4, 40, 3, 7}), NORM_FORMS(1, {2, 64, 8, 8}),
    NORM_FORMS(1, {6, 5}),        NORM_FORMS(1, {5, 40}),
};

static yk_value *build_batch_norm(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    static const int64_t scalar[1];
    yki_attrs attrs = {.eps = 1e-5, .momentum = 0.1, .relu = c->relu, .relu6 = c->relu6};
    const int64_t *channels = &c->x[1];
    yk_value *x = conformance_x(graph, c, dtype);
    yki_shape shape = yki_shape_of(x);
    yk_value *in[] = {
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

YK_TEST(ref_batch_norm)
{
    on_ref(&batch_norm);
}

YK_TEST(cpu_batch_norm)
{
    on_cpu(&batch_norm);
}

YK_TEST(cpu_batch_norm_bf16)
{
    on_cpu_in_bf16(&batch_norm);
}

YK_TEST(cpu_batch_norm_f16)
{
    on_cpu_in_f16(&batch_norm);
}

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
};

static const conformance_case global_cases[] = {
    {.x = {1, 1, 1, 1}},  {.x = {2, 3, 4, 5}},  {.x = {2, 16, 4, 4}},
    {.x = {1, 17, 3, 5}}, {.x = {3, 40, 1, 1}}, {.x = {2, 64, 7, 7}},
};

static yk_value *build_max_pool2d(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    return yk_max_pool2d(conformance_x(graph, c, dtype), c->kernel[0], c->stride, c->padding);
}

static yk_value *build_avg_pool2d(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    return yk_avg_pool2d(conformance_x(graph, c, dtype), c->kernel[0], c->stride, c->padding);
}

static yk_value *build_global(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    return yk_global_avg_pool2d(conformance_x(graph, c, dtype));
}

static const conformance_family max_pool2d = {build_max_pool2d, pool_cases,
                                              sizeof pool_cases / sizeof *pool_cases};
static const conformance_family avg_pool2d = {build_avg_pool2d, pool_cases,
                                              sizeof pool_cases / sizeof *pool_cases};
FAMILY(global, build_global);

YK_TEST(ref_pool)
{
    on_ref(&max_pool2d);
    on_ref(&avg_pool2d);
    on_ref(&global);
}

YK_TEST(cpu_max_pool2d)
{
    on_cpu(&max_pool2d);
}

YK_TEST(cpu_max_pool2d_bf16)
{
    on_cpu_in_bf16(&max_pool2d);
}

YK_TEST(cpu_max_pool2d_f16)
{
    on_cpu_in_f16(&max_pool2d);
}

YK_TEST(cpu_avg_pool2d)
{
    on_cpu(&avg_pool2d);
    on_cpu(&global);
}

YK_TEST(cpu_avg_pool2d_bf16)
{
    on_cpu_in_bf16(&avg_pool2d);
    on_cpu_in_bf16(&global);
}

YK_TEST(cpu_avg_pool2d_f16)
{
    on_cpu_in_f16(&avg_pool2d);
    on_cpu_in_f16(&global);
}

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

static yk_value *build_add(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    yk_value *a = conformance_x(graph, c, dtype);
    yki_shape shape = yki_shape_of(a);
    return yk_add(a, yk_input(graph, "b", dtype, shape.ndim, shape.dims));
}

static yk_value *build_multiply(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    yk_value *a = conformance_x(graph, c, dtype);
    yki_shape shape = yki_shape_of(a);
    return yk_multiply(a, yk_input(graph, "b", dtype, shape.ndim, shape.dims));
}

/* `filters`: the channels of the right side. */
static const conformance_case concat_cases[] = {
    {.x = {3, 5}, .filters = 7},         {.x = {1, 3, 4, 5}, .filters = 2},
    {.x = {2, 16, 3, 4}, .filters = 32}, {.x = {2, 3, 5, 4}, .filters = 16},
    {.x = {2, 24, 3, 4}, .filters = 17}, {.x = {2, 9, 3, 4}, .filters = 8},
    {.x = {3, 64, 6, 6}, .filters = 3},
};

static yk_value *build_concat(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    yk_value *a = conformance_x(graph, c, dtype);
    yki_shape shape = yki_shape_of(a);
    shape.dims[1] = c->filters;
    return yk_concat(a, yk_input(graph, "b", dtype, shape.ndim, shape.dims));
}

static yk_value *build_scale(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    return yk_scale(conformance_x(graph, c, dtype), c->alpha);
}

static yk_value *build_dropout(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    return yk_dropout(conformance_x(graph, c, dtype), c->p);
}

/* For functions whose bends lie beyond 1: inputs from -8 to 8. */
static const conformance_case wide_cases[] = {
    {.x = {1, 1}, .spread = 8},        {.x = {3, 17}, .spread = 8},
    {.x = {2, 3, 5, 4}, .spread = 8},  {.x = {2, 16, 3, 3}, .spread = 8},
    {.x = {1, 24, 1, 1}, .spread = 8}, {.x = {2, 40, 5, 7}, .spread = 8},
    {.x = {4, 64, 6, 6}, .spread = 8},
};
enum { WIDE_CASES = sizeof wide_cases / sizeof *wide_cases };

enum { ELEMENT_CASES = sizeof element_cases / sizeof *element_cases };
static const conformance_family elementwise[] = {
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
};
enum { ELEMENTWISE = sizeof elementwise / sizeof *elementwise };

YK_TEST(ref_elementwise)
{
    for (int i = 0; i < ELEMENTWISE; i++)
        on_ref(&elementwise[i]);
}

YK_TEST(cpu_elementwise)
{
    for (int i = 0; i < ELEMENTWISE; i++)
        on_cpu(&elementwise[i]);
}

YK_TEST(cpu_elementwise_bf16)
{
    for (int i = 0; i < ELEMENTWISE; i++)
        on_cpu_in_bf16(&elementwise[i]);
}

YK_TEST(cpu_elementwise_f16)
{
    for (int i = 0; i < ELEMENTWISE; i++)
        on_cpu_in_f16(&elementwise[i]);
}

YK_TEST(ref_in_16_bit)
{
    on_ref_in_16_bit(&conv2d);
    on_ref_in_16_bit(&linear);
    on_ref_in_16_bit(&flatten);
    on_ref_in_16_bit(&batch_norm);
    on_ref_in_16_bit(&max_pool2d);
    on_ref_in_16_bit(&avg_pool2d);
    on_ref_in_16_bit(&global);
    for (int i = 0; i < ELEMENTWISE; i++)
        on_ref_in_16_bit(&elementwise[i]);
}

/* ---- cross_entropy: never in 16 bit ---------------------------------------------------------- */

static const conformance_case cross_entropy_cases[] = {
    {.x = {1, 2}},
    {.x = {3, 10}},
    {.x = {5, 10}, .smoothing = 0.1},
    {.x = {7, 17}, .sum = true},
    {.x = {4, 100}, .sum = true, .smoothing = 0.2},
    {.x = {130, 10}, .smoothing = 1},
};

static yk_value *build_cross_entropy(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    yk_value *logits = conformance_x(graph, c, dtype);
    yk_value *labels = yk_input(graph, "labels", YK_I32, 1, c->x);
    return yk_cross_entropy(logits, labels,
                            YK_WITH(yk_cross_entropy_options, YK_CROSS_ENTROPY_OPTIONS_INIT,
                                    o.label_smoothing = c->smoothing,
                                    o.reduction = c->sum ? YK_LOSS_SUM : YK_LOSS_MEAN));
}

/* Labels that are numbers from -1 to 1: the rule holds for any. */
static const conformance_case soft_cross_entropy_cases[] = {
    {.x = {1, 2}},
    {.x = {5, 10}, .smoothing = 0.1},
    {.x = {7, 17}, .sum = true},
    {.x = {130, 10}, .smoothing = 1},
    {.x = {4, 100}},
};

static yk_value *build_soft_cross_entropy(yk_graph *graph, const conformance_case *c,
                                          yk_dtype dtype)
{
    yk_value *logits = conformance_x(graph, c, dtype);
    yk_value *shares = yk_input(graph, "labels", dtype, 2, c->x);
    return yk_cross_entropy(logits, shares,
                            YK_WITH(yk_cross_entropy_options, YK_CROSS_ENTROPY_OPTIONS_INIT,
                                    o.label_smoothing = c->smoothing,
                                    o.reduction = c->sum ? YK_LOSS_SUM : YK_LOSS_MEAN));
}

FAMILY(cross_entropy, build_cross_entropy);
FAMILY(soft_cross_entropy, build_soft_cross_entropy);

YK_TEST(ref_cross_entropy)
{
    on_ref(&cross_entropy);
    on_ref(&soft_cross_entropy);
}

YK_TEST(cpu_cross_entropy)
{
    on_cpu(&cross_entropy);
    on_cpu(&soft_cross_entropy);
}

/* ---- softmax, layer_norm: never in 16 bit ---------------------------------------------------- */

static const conformance_case row_cases[] = {
    {.x = {1, 2}},     {.x = {3, 17}, .spread = 8}, {.x = {5, 64}},
    {.x = {2, 7, 33}}, {.x = {40, 9, 100}},
};

static yk_value *build_softmax(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    return yk_softmax(conformance_x(graph, c, dtype));
}

static yk_value *build_layer_norm(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    yk_value *x = conformance_x(graph, c, dtype);
    const int64_t *length = &x->dims[x->ndim - 1];
    return yk_layer_norm(x, conformance_parameter(graph, "weight", dtype, 1, length),
                         conformance_parameter(graph, "bias", dtype, 1, length), 1e-2);
}

static const conformance_family rows[] = {
    {build_softmax, row_cases, sizeof row_cases / sizeof *row_cases},
    {build_layer_norm, row_cases, sizeof row_cases / sizeof *row_cases},
};

YK_TEST(ref_rows)
{
    on_ref(&rows[0]);
    on_ref(&rows[1]);
}

YK_TEST(cpu_rows)
{
    on_cpu(&rows[0]);
    on_cpu(&rows[1]);
}

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

YK_TEST(ref_mse_loss)
{
    on_ref(&mse_loss);
}

YK_TEST(cpu_mse_loss)
{
    on_cpu(&mse_loss);
}

/* ---- the list of operators ------------------------------------------------------------------- */

YK_TEST(every_operator_has_a_row)
{
    static const conformance_family *const families[] = {
        &conv2d, &linear,        &flatten,  &batch_norm, &max_pool2d, &avg_pool2d,
        &global, &cross_entropy, &mse_loss, &rows[0],    &rows[1]};
    bool seen[YKI_OPERATORS] = {false};
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        conformance_mark(families[i], seen);
    for (size_t i = 0; i < sizeof elementwise / sizeof *elementwise; i++)
        conformance_mark(&elementwise[i], seen);
    for (size_t i = 0; i < YKI_OPERATORS; i++) {
        const yki_op *op = yki_operators[i];
        bool elsewhere = op == &yki_op_cast || op == &yki_op_reorder; /* in test_layout.c */
        if (!seen[i] && !elsewhere)
            fail_msg("%s has no row in the conformance suite", op->name);
    }
}

/* See families.h. */
#include "families.h"

#include <math.h>

#include "harness.h"

#define FAMILY(name, builder)                                                                      \
    const conformance_family family_##name = {builder, name##_cases,                               \
                                              sizeof name##_cases / sizeof *name##_cases}

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
    {.x = {2, 4, 9, 8}, .filters = 10, .kernel = {3}, .stride = 2}, /* first layers of stride 2 */
    {.x = {3, 1, 8, 11}, .filters = 24, .kernel = {2}, .stride = 2, .padding = 2},
    {.x = {2, 2, 10, 7}, .filters = 8, .kernel = {5}, .stride = 2, .padding = 1, .bias = true},
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
    /* Groups of 2, 4 and 8 channels: several strips and units, paddings, part blocks. */
    {.x = {1, 32, 65, 3}, .filters = 32, .kernel = {3}, .padding = 1, .groups = 8, .bias = true},
    {.x = {2, 40, 5, 29}, .filters = 40, .kernel = {3}, .padding = 1, .groups = 10, .bias = true},
    {.x = {3, 24, 7, 13}, .filters = 24, .kernel = {3}, .groups = 3},
    {.x = {2, 48, 4, 3}, .filters = 48, .kernel = {3}, .padding = 2, .groups = 24, .bias = true},
    {.x = {2, 64, 1, 1}, .filters = 64, .kernel = {3}, .padding = 1, .groups = 8},
    {.x = {3, 32, 9, 31}, .filters = 32, .kernel = {3}, .stride = 2, .padding = 1, .groups = 8},
    {.x = {1, 32, 5, 131},
     .filters = 32,
     .kernel = {3},
     .stride = 2,
     .padding = 1,
     .groups = 4,
     .bias = true},
    {.x = {2, 16, 66, 62}, .filters = 16, .kernel = {3}, .stride = 2, .padding = 2, .groups = 4},
    /* Groups of whole vectors: strips that end in the middle of a row, or behind one. */
    {.x = {3, 64, 9, 31}, .filters = 64, .kernel = {3}, .stride = 2, .padding = 1, .groups = 2},
    {.x = {2, 128, 13, 14}, .filters = 128, .kernel = {3}, .stride = 2, .padding = 1, .groups = 2},
    {.x = {2, 32, 8, 7}, .filters = 64, .kernel = {3}, .padding = 1, .groups = 2, .bias = true},
    {.x = {1, 32, 11, 9}, .filters = 32, .kernel = {3}, .stride = 3, .padding = 2, .dilation = 2},
    /* Depthwise, as in MobileNetV2. */
    {.x = {2, 32, 7, 6}, .filters = 32, .kernel = {3}, .padding = 1, .groups = 32},
    {.x = {2, 96, 7, 6}, .filters = 96, .kernel = {3}, .stride = 2, .padding = 1, .groups = 96},
    {.x = {3, 20, 8, 9}, .filters = 20, .kernel = {3}, .stride = 2, .groups = 20},
    {.x = {2, 40, 2, 1}, .filters = 40, .kernel = {3}, .stride = 2, .padding = 2, .groups = 40},
    {.x = {2, 24, 5, 6}, .filters = 24, .kernel = {3}, .padding = 1, .groups = 24, .bias = true},
    {.x = {5, 40, 2, 1}, .filters = 40, .kernel = {3}, .padding = 1, .groups = 40},
    {.x = {2, 40, 5, 29}, .filters = 40, .kernel = {3}, .padding = 1, .groups = 40, .bias = true},
    {.x = {1, 24, 65, 16}, .filters = 24, .kernel = {3}, .groups = 24},
    /* of more columns than the rows that are kept in the cache have */
    {.x = {1, 16, 4, 131}, .filters = 16, .kernel = {3}, .padding = 1, .groups = 16, .bias = true},
    {.x = {1, 16, 3, 61}, .filters = 16, .kernel = {3}, .padding = 2, .groups = 8},
    {.x = {2, 24, 9, 8}, .filters = 24, .kernel = {5}, .padding = 1, .groups = 24},
    /* of other sizes, as in EfficientNet and ConvNeXt, and dilated ones */
    {.x = {3, 24, 9, 7}, .filters = 24, .kernel = {5}, .padding = 2, .groups = 24, .bias = true},
    {.x = {2, 40, 11, 9}, .filters = 40, .kernel = {5}, .stride = 2, .padding = 2, .groups = 40},
    {.x = {2, 16, 6, 9}, .filters = 16, .kernel = {7}, .padding = 3, .groups = 16},
    {.x = {2, 24, 5, 13}, .filters = 24, .kernel = {2, 9}, .padding = 1, .groups = 24},
    {.x = {2, 24, 9, 8}, .filters = 24, .kernel = {3}, .padding = 3, .dilation = 3, .groups = 24},
    /* Few channels, or groups of a few, next to many. */
    {.x = {3, 6, 12, 12}, .filters = 16, .kernel = {5}, .bias = true},
    {.x = {2, 64, 5, 6}, .filters = 10, .kernel = {1}, .bias = true},
    {.x = {2, 3, 8, 8}, .filters = 24, .kernel = {2}},
    {.x = {2, 8, 7, 6}, .filters = 32, .kernel = {3}, .stride = 2, .padding = 1},
    {.x = {2, 32, 6, 5}, .filters = 8, .kernel = {3}, .padding = 1, .groups = 4, .bias = true},
    {.x = {2, 12, 7, 6}, .filters = 9, .kernel = {3}, .padding = 1, .bias = true},
    {.x = {2, 6, 7, 6}, .filters = 24, .kernel = {3}, .stride = 2, .padding = 1},
    {.x = {2, 12, 7, 6}, .filters = 12, .kernel = {3}, .padding = 1, .groups = 12, .bias = true},
    /* Groups of which the last ones do not fill a vector. */
    {.x = {2, 24, 7, 5}, .filters = 24, .kernel = {3}, .stride = 2, .groups = 3, .bias = true},
    {.x = {2, 40, 5, 6}, .filters = 40, .kernel = {1}, .groups = 10, .bias = true},
    {.x = {2, 8, 5, 6}, .filters = 8, .kernel = {3}, .padding = 1, .groups = 2},
    /* Groups that end within vectors, as in RegNet and ShuffleNet. */
    {.x = {2, 72, 5, 6}, .filters = 72, .kernel = {3}, .padding = 1, .groups = 3, .bias = true},
    {.x = {2, 36, 6, 5}, .filters = 36, .kernel = {3}, .stride = 2, .padding = 1, .groups = 4},
    {.x = {2, 60, 4, 5}, .filters = 30, .kernel = {1}, .groups = 3, .bias = true},
    {.x = {3, 34, 4, 5}, .filters = 96, .kernel = {1}, .groups = 2},
    {.x = {2, 8, 6, 5}, .filters = 32, .kernel = {3}, .padding = 1, .groups = 4},
    {.x = {2, 20, 6, 6}, .filters = 50, .kernel = {3}, .padding = 1, .groups = 10},
    {.x = {2, 16, 9, 12},
     .filters = 16,
     .kernel = {3, 5},
     .padding = 2,
     .dilation = 2,
     .groups = 16},
    {.x = {3, 16, 9, 11}, .filters = 16, .kernel = {5}, .stride = 2, .padding = 2, .groups = 16},
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

/* Winograd's algorithm for stride 2: channels in 64s, and enough tiles of 4x4 results. */
static const conformance_case halving64_cases[] = {
    {.x = {66, 64, 8, 7}, .filters = 128, .kernel = {3}, .stride = 2, .padding = 1},
    {.x = {17, 128, 13, 15}, .filters = 64, .kernel = {3}, .stride = 2, .padding = 1},
    {.x = {11, 64, 21, 15}, .filters = 64, .kernel = {3}, .stride = 2, .padding = 1},
    /* Many pairs of channels: a thread sums whole pairs of the weights' gradient. */
    {.x = {64, 64, 5, 7}, .filters = 512, .kernel = {3}, .stride = 2, .padding = 1},
};

/* Stride 1 with other numbers of channels, and with a bias. */
static const conformance_case minimal_cases[] = {
    {.x = {64, 24, 4, 3}, .filters = 40, .kernel = {3}, .padding = 1},
    {.x = {17, 96, 5, 6}, .filters = 144, .kernel = {3}, .padding = 1, .bias = true},
    {.x = {16, 17, 5, 7}, .filters = 70, .kernel = {3}, .padding = 1, .bias = true},
    {.x = {2, 40, 7, 8}, .filters = 24, .kernel = {3}, .padding = 1}, /* 8 tiles */
    {.x = {66, 64, 8, 7}, .filters = 64, .kernel = {3}, .stride = 2, .padding = 1, .bias = true},
};

/* 1x1 with stride 1, and activations beyond the caches: channels in any number of vectors, several
 * groups of results and tiles of the weights' gradient, more inputs than are multiplied at a time,
 * and pieces of images. The last has few pixels, and tiles of the weights' gradient are small. */
static const conformance_case pointwise_cases[] = {
    {.x = {113, 144, 7, 8}, .filters = 24, .kernel = {1}},
    {.x = {228, 272, 4, 4}, .filters = 16, .kernel = {1}},
    {.x = {28, 48, 24, 25}, .filters = 17, .kernel = {1}, .bias = true},
    {.x = {228, 16, 4, 4}, .filters = 272, .kernel = {1}},
    {.x = {113, 176, 7, 8}, .filters = 40, .kernel = {1}},
    {.x = {40, 100, 3, 3}, .filters = 200, .kernel = {1}},
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

/* ---- conv_transpose2d ------------------------------------------------------------------------ */

static const conformance_case conv_transpose2d_cases[] = {
    /* DCGAN's generator, with fewer channels: from 1x1 to 4x4, doubling, and to three channels. */
    {.x = {3, 20, 1, 1}, .filters = 32, .kernel = {4}, .bias = true},
    {.x = {2, 64, 4, 4}, .filters = 32, .kernel = {4}, .stride = 2, .padding = 1},
    {.x = {2, 16, 8, 8}, .filters = 3, .kernel = {4}, .stride = 2, .padding = 1, .bias = true},
    /* U-Net's, an autoencoder's. */
    {.x = {2, 32, 5, 6}, .filters = 16, .kernel = {2}, .stride = 2, .bias = true},
    {.x = {2, 8, 4, 3},
     .filters = 16,
     .kernel = {3},
     .stride = 2,
     .padding = 1,
     .output_padding = 1,
     .bias = true},
    {.x = {3, 17, 5, 4}, .filters = 24, .kernel = {3}, .stride = 3, .output_padding = 2},
    {.x = {2, 24, 6, 5}, .filters = 40, .kernel = {3}, .padding = 1, .bias = true},
    {.x = {2, 40, 4, 5}, .filters = 8, .kernel = {1}, .bias = true},
    {.x = {2, 16, 5, 5}, .filters = 24, .kernel = {1}, .stride = 2, .output_padding = 1},
    {.x = {1, 3, 7, 5}, .filters = 5, .kernel = {5}, .stride = 2, .padding = 2, .bias = true},
    {.x = {2, 16, 4, 5}, .filters = 16, .kernel = {2, 4}, .stride = 3, .bias = true}, /* gaps */
    {.x = {2, 16, 5, 6}, .filters = 17, .kernel = {3}, .padding = 2, .dilation = 2, .bias = true},
    {.x = {1, 24, 4, 4},
     .filters = 16,
     .kernel = {3},
     .stride = 2,
     .padding = 1,
     .dilation = 3,
     .output_padding = 1},
    {.x = {2, 32, 4, 5}, .filters = 64, .kernel = {4}, .stride = 2, .padding = 1, .groups = 4},
    {.x = {2, 6, 5, 4}, .filters = 9, .kernel = {3}, .groups = 3, .bias = true},
    {.x = {2, 24, 5, 6},
     .filters = 24,
     .kernel = {4},
     .stride = 2,
     .padding = 1,
     .groups = 24,
     .bias = true}, /* depthwise, as in bilinear upsampling */
    {.x = {2, 1, 3, 3}, .filters = 1, .kernel = {3}, .bias = true},
    {.x = {33, 8, 1, 1}, .filters = 20, .kernel = {1}, .bias = true}, /* as linear */
};

/* What the cpu device computes otherwise than small ones: by Winograd's algorithm, in parts. */
static const conformance_case large_conv_transpose2d_cases[] = {
    {.x = {17, 32, 8, 7}, .filters = 32, .kernel = {3}, .padding = 1, .bias = true},
    {.x = {40, 48, 14, 13}, .filters = 48, .kernel = {2}, .stride = 2, .bias = true},
};

static yk_value *build_conv_transpose2d(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    int64_t groups = c->groups ? c->groups : 1;
    int64_t columns = c->kernel[1] ? c->kernel[1] : c->kernel[0];
    int64_t dims[] = {c->x[1], c->filters / groups, c->kernel[0], columns};
    yk_value *x = conformance_x(graph, c, dtype);
    yk_value *weight = conformance_parameter(graph, "weight", dtype, 4, dims);
    yk_value *bias = c->bias ? conformance_parameter(graph, "bias", dtype, 1, &c->filters) : NULL;
    return yk_conv_transpose2d(
        x, weight, bias,
        YK_WITH(yk_conv_transpose2d_options, YK_CONV_TRANSPOSE2D_OPTIONS_INIT,
                o.stride = c->stride ? c->stride : 1, o.padding = c->padding,
                o.output_padding = c->output_padding, o.dilation = c->dilation ? c->dilation : 1,
                o.groups = groups));
}

FAMILY(conv_transpose2d, build_conv_transpose2d);
FAMILY(large_conv_transpose2d, build_conv_transpose2d);

/* What fusion asks for where a batch_norm follows. */
static const conformance_case conv2d_sums_cases[] = {
    {.x = {3, 8, 6, 5}, .filters = 16, .kernel = {3}, .padding = 1},
    {.x = {2, 3, 9, 9}, .filters = 8, .kernel = {7}, .stride = 2, .padding = 3, .bias = true},
    {.x = {2, 16, 4, 4}, .filters = 24, .kernel = {1}, .stride = 2},
    {.x = {2, 16, 4, 4}, .filters = 16, .kernel = {3}, .padding = 1, .groups = 4},
    {.x = {2, 5, 4, 4}, .filters = 6, .kernel = {3}},
};

static yk_value *build_conv2d_sums(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    yk_value *y = build_conv2d(graph, c, dtype);
    yki_shape shape = {.dtype = yki_sums_dtype(dtype), .ndim = 2, .dims = {2, c->filters}};
    yk_value *sums = yki_value_create(graph, YKI_ACTIVATION, &shape);
    sums->producer = y->producer;
    y->producer->out[YKI_CONV2D_SUMS] = sums;
    return y;
}

FAMILY(conv2d_sums, build_conv2d_sums);
FAMILY(winograd, build_conv2d);
FAMILY(winograd64, build_conv2d);
FAMILY(strided64, build_conv2d);
FAMILY(halving64, build_conv2d);
FAMILY(minimal, build_conv2d);
FAMILY(pointwise, build_conv2d);
FAMILY(chunked, build_conv2d);

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
    {.x = {1, 1, 1, 1}},  {.x = {2, 3, 4, 5}},  {.x = {2, 16, 1, 1}}, {.x = {3, 17, 1, 1}},
    {.x = {2, 40, 3, 2}}, {.x = {1, 24, 4, 4}}, {.x = {2, 64, 2, 3}}, {.x = {3, 7}},
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
    yki_attrs attrs = {.relu = c->relu, .relu6 = c->relu6};
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

const conformance_family family_batch_norm_apply = {
    build_batch_norm_apply, batch_norm_cases, sizeof batch_norm_cases / sizeof *batch_norm_cases};

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

const conformance_family family_max_pool2d = {build_max_pool2d, pool_cases,
                                              sizeof pool_cases / sizeof *pool_cases};
const conformance_family family_avg_pool2d = {build_avg_pool2d, pool_cases,
                                              sizeof pool_cases / sizeof *pool_cases};
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

static yk_value *build_tanh(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    return yk_tanh(conformance_x(graph, c, dtype));
}

static yk_value *build_leaky_relu(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    return yk_leaky_relu(conformance_x(graph, c, dtype), fabs(c->alpha));
}

/* Of x's own shape unless the case says otherwise. */
static yk_value *other_side(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    const int64_t *dims = c->other[0] ? c->other : c->x;
    return yk_input(graph, "b", dtype, conformance_rank(dims), dims);
}

static yk_value *build_add(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    yk_value *a = conformance_x(graph, c, dtype);
    return yk_add(a, other_side(graph, c, dtype));
}

static yk_value *build_multiply(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    yk_value *a = conformance_x(graph, c, dtype);
    return yk_multiply(a, other_side(graph, c, dtype));
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
    {.x = {3, 40, 20, 20}, .other = {40, 20, 20}},
    {.x = {1, 10, 1, 1}, .other = {10, 1, 1}},
    {.x = {700, 10}, .other = {10}},
    {.x = {3, 5000}, .other = {5000}},
    {.x = {3, 5000}, .other = {3, 1}},
};

/* `filters`: the channels of the right side. */
static const conformance_case concat_cases[] = {
    {.x = {2, 3, 3, 4}, .filters = 5, .values = 3},
    {.x = {2, 16, 3, 4}, .filters = 17, .values = 5},
    {.x = {2, 3, 4}, .filters = 2, .values = 8},
    {.x = {3, 5}, .filters = 7},
    {.x = {1, 3, 4, 5}, .filters = 2},
    {.x = {2, 16, 3, 4}, .filters = 32},
    {.x = {2, 3, 5, 4}, .filters = 16},
    {.x = {2, 24, 3, 4}, .filters = 17},
    {.x = {2, 9, 3, 4}, .filters = 8},
    {.x = {3, 64, 6, 6}, .filters = 3},
    {.x = {3, 5, 7}, .filters = 9},
};

static yk_value *build_concat(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    yk_value *a = conformance_x(graph, c, dtype);
    yk_value *values[YKI_CONCAT_INPUTS] = {a};
    yki_shape shape = yki_shape_of(a);
    shape.dims[1] = c->filters;
    int count = c->values ? c->values : 2;
    for (int i = 1; i < count; i++)
        values[i] =
            yk_input(graph, (const char[]){(char)('a' + i), 0}, dtype, shape.ndim, shape.dims);
    return yk_concat(values, count);
}

/* `other`: the first channel, and how many. */
static const conformance_case slice_cases[] = {
    {.x = {3, 5}, .other = {0, 1}},          {.x = {2, 65, 24}, .other = {0, 1}},
    {.x = {2, 16, 32}, .other = {8, 8}},     {.x = {2, 5, 3, 4}, .other = {1, 3}},
    {.x = {2, 40, 3, 4}, .other = {16, 16}}, {.x = {3, 40, 5, 4}, .other = {7, 33}},
    {.x = {2, 16, 3, 4}, .other = {0, 16}},
};

static yk_value *build_slice(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    return yk_slice(conformance_x(graph, c, dtype), c->other[0], c->other[1]);
}

/* `other`: channels before and after. */
static const conformance_case pad_cases[] = {
    {.x = {3, 5}, .other = {1, 0}},         {.x = {2, 64, 24}, .other = {1, 0}},
    {.x = {2, 16, 32}, .other = {8, 8}},    {.x = {2, 5, 3, 4}, .other = {1, 3}},
    {.x = {2, 16, 3, 4}, .other = {16, 8}}, {.x = {3, 33, 5, 4}, .other = {7, 0}},
    {.x = {2, 16, 3, 4}, .other = {0, 16}}, {.x = {2, 16, 3, 4}},
};

static yk_value *build_pad(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    return yk_pad(conformance_x(graph, c, dtype), c->other[0], c->other[1]);
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

const conformance_family family_broadcast_add = {build_add, broadcast_cases,
                                                 sizeof broadcast_cases / sizeof *broadcast_cases};
const conformance_family family_broadcast_multiply = {
    build_multiply, broadcast_cases, sizeof broadcast_cases / sizeof *broadcast_cases};

/* For functions whose bends lie beyond 1: inputs from -8 to 8. */
static const conformance_case wide_cases[] = {
    {.x = {1, 1}, .spread = 8},        {.x = {3, 17}, .spread = 8},
    {.x = {2, 3, 5, 4}, .spread = 8},  {.x = {2, 16, 3, 3}, .spread = 8},
    {.x = {1, 24, 1, 1}, .spread = 8}, {.x = {2, 40, 5, 7}, .spread = 8},
    {.x = {4, 64, 6, 6}, .spread = 8},
};
enum { WIDE_CASES = sizeof wide_cases / sizeof *wide_cases };

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
};

/* ---- cross_entropy: never in 16 bit ---------------------------------------------------------- */

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
    {.x = {2, 3, 4, 5}},
    {.x = {2, 5, 70}, .ignored = 1},
    {.x = {2, 21, 9, 7}, .ignored = 3, .spread = 8},
    {.x = {3, 16, 5, 5}, .weighted = true, .smoothing = 0.2},
    {.x = {2, 7, 33, 40}, .ignored = 1, .weighted = true, .sum = true, .smoothing = 0.3},
    {.x = {2, 6, 45}, .weighted = true},
    {.x = {5, 6, 1, 1}, .smoothing = 0.1},
    {.x = {2, 21, 17, 19}, .ignored = 3, .smoothing = 0.1}, /* strips */
    {.x = {2, 7, 5}, .classes = 5, .last = true},
    {.x = {3, 5, 70}, .classes = 70, .last = true, .ignored = 1, .smoothing = 0.1},
    {.x = {2, 33, 6}, .classes = 6, .last = true, .weighted = true, .sum = true},
    {.x = {4, 10}, .last = true},
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
    const int64_t dims[] = {c->x[0], c->x[c->last ? 1 : 2], c->x[3]};
    return cross_entropy_of(c, logits,
                            yk_input(graph, "labels", YK_I32, conformance_rank(c->x) - 1, dims));
}

/* Labels that are numbers from -1 to 1: the rule holds for any. */
static const conformance_case soft_cross_entropy_cases[] = {
    {.x = {1, 2}},
    {.x = {5, 10}, .smoothing = 0.1},
    {.x = {7, 17}, .sum = true},
    {.x = {130, 10}, .smoothing = 1},
    {.x = {4, 100}},
    {.x = {9, 11}, .weighted = true, .smoothing = 0.1},
    {.x = {2, 17, 5, 4}, .smoothing = 0.1},
    {.x = {2, 4, 6}, .weighted = true},
    {.x = {2, 33, 17, 19}, .weighted = true, .smoothing = 0.1, .sum = true},
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

/* ---- softmax, layer_norm: never in 16 bit ---------------------------------------------------- */

static const conformance_case row_cases[] = {
    {.x = {1, 2}},       {.x = {3, 17}, .spread = 8}, {.x = {5, 64}},
    {.x = {2, 7, 33}},   {.x = {40, 9, 100}},         {.x = {6}},
    {.x = {2, 3, 5, 4}}, {.x = {2, 20, 5, 7}}, /* the latter is blocked on cpu */
    {.x = {200, 48}},
};

/* layer_norm over several dimensions. */
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

static yk_value *build_layer_norm(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    yk_value *x = conformance_x(graph, c, dtype);
    const int64_t *dims = c->other[0] ? c->other : &x->dims[x->ndim - 1];
    int ndim = c->other[0] ? conformance_rank(dims) : 1;
    return yk_layer_norm(x, conformance_parameter(graph, "weight", dtype, ndim, dims),
                         conformance_parameter(graph, "bias", dtype, ndim, dims), 1e-2);
}

const conformance_family family_softmax = {build_softmax, row_cases,
                                           sizeof row_cases / sizeof *row_cases};
const conformance_family family_layer_norm = {build_layer_norm, row_cases,
                                              sizeof row_cases / sizeof *row_cases};

const conformance_family family_layer_norm_wide = {build_layer_norm, wide_row_cases,
                                                   sizeof wide_row_cases / sizeof *wide_row_cases};

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

/* ---- smooth_l1_loss, binary_cross_entropy_with_logits: likewise -------------------------------
 */

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
const conformance_family family_bce = {build_bce, bce_cases, sizeof bce_cases / sizeof *bce_cases};

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
    return yk_scaled_dot_product_attention(q, k, v,
                                           YK_WITH(yk_attention_options, YK_ATTENTION_OPTIONS_INIT,
                                                   o.num_heads = c->heads, o.is_causal = c->causal,
                                                   o.scale = c->alpha > 0 ? c->alpha : NAN,
                                                   o.dropout_p = c->p, o.attn_mask = mask));
}

FAMILY(attention, build_attention);

/* ---- embedding: never in 16 bit -------------------------------------------------------------- */

/* x: the indices; classes, filters: the rows and columns of the weight. */
static const conformance_case embedding_cases[] = {
    {.x = {1}, .classes = 1, .filters = 1},        {.x = {5}, .classes = 3, .filters = 17},
    {.x = {2, 7}, .classes = 65, .filters = 24},   {.x = {4, 33}, .classes = 10, .filters = 300},
    {.x = {40, 50}, .classes = 7, .filters = 130},
};

static yk_value *build_embedding(yk_graph *graph, const conformance_case *c, yk_dtype dtype)
{
    yk_value *indices = yk_input(graph, "x", YK_I32, conformance_rank(c->x), c->x);
    const int64_t dims[] = {c->classes, c->filters};
    return yk_embedding(indices, conformance_parameter(graph, "weight", dtype, 2, dims));
}

FAMILY(embedding, build_embedding);

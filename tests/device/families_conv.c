/* See families.h: convolutions. */
#include "families.h"

#include "harness.h"

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
    {.x = {2, 32, 7, 6}, .filters = 16, .kernel = {2}, .stride = 3},  /* stride beyond kernel */
    {.x = {2, 40, 6, 18}, .filters = 72, .kernel = {2}, .stride = 2}, /* patches */
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
    {.x = {2, 16, 6, 9}, .filters = 16, .kernel = {7}, .padding = 3, .groups = 16, .bias = true},
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
    /* Windows that are not square: Inception's pairs of 1x7 and 7x1, and what kernels of 3x3, of
     * stride 1 and 2, of groups and of single channels must leave to others. */
    {.x = {2, 32, 9, 8}, .filters = 24, .kernel = {1, 7}, .column_padding = 3, .bias = true},
    {.x = {2, 24, 9, 8},
     .filters = 32,
     .kernel = {7, 1},
     .padding = 3,
     .column_padding = NO_COLUMNS},
    {.x = {3, 3, 1, 40}, .filters = 16, .kernel = {1, 5}, .column_stride = 2, .column_padding = 2},
    {.x = {2, 16, 7, 9}, .filters = 32, .kernel = {3}, .padding = 1, .column_padding = NO_COLUMNS},
    {.x = {17, 64, 8, 7}, .filters = 64, .kernel = {3}, .padding = 1, .column_padding = 2},
    {.x = {17, 64, 8, 9}, .filters = 64, .kernel = {3}, .padding = 1, .column_stride = 2},
    {.x = {3, 256, 7, 6},
     .filters = 64,
     .kernel = {3},
     .stride = 2,
     .padding = 1,
     .column_stride = 1},
    {.x = {2, 16, 9, 12}, .filters = 8, .kernel = {3}, .padding = 1, .column_dilation = 2},
    {.x = {2, 32, 9, 8}, .filters = 16, .kernel = {1}, .column_stride = 2, .bias = true},
    {.x = {2, 32, 7, 6}, .filters = 16, .kernel = {1}, .column_padding = 1},
    {.x = {2, 32, 8, 9},
     .filters = 32,
     .kernel = {3},
     .stride = 2,
     .padding = 1,
     .groups = 8,
     .column_stride = 1},
    {.x = {2, 64, 8, 9},
     .filters = 64,
     .kernel = {3},
     .stride = 2,
     .padding = 1,
     .groups = 2,
     .column_padding = NO_COLUMNS},
    {.x = {2, 24, 9, 8},
     .filters = 24,
     .kernel = {3},
     .stride = 2,
     .padding = 1,
     .groups = 24,
     .column_padding = 2},
    {.x = {2, 24, 9, 8},
     .filters = 24,
     .kernel = {3},
     .padding = 1,
     .groups = 24,
     .column_dilation = 2,
     .bias = true},
    {.x = {2, 24, 9, 8}, .filters = 24, .kernel = {5, 1}, .groups = 24, .column_stride = 3},
    {.x = {2, 4, 9, 8}, .filters = 10, .kernel = {3}, .stride = 2, .column_padding = 1},
    {.x = {2, 3, 9, 8},
     .filters = 16,
     .kernel = {5},
     .stride = 2,
     .padding = 2,
     .column_stride = 3},
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
    {.x = {17, 64, 5, 7}, .filters = 64, .kernel = {3}, .padding = 1, .column_padding = 2},
    {.x = {17, 64, 5, 7}, .filters = 64, .kernel = {3}, .padding = 1, .column_stride = 2},
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
    {.x = {3, 256, 7, 6}, .filters = 64, .kernel = {2}, .stride = 2, .column_stride = 1},
    {.x = {3, 256, 7, 6}, .filters = 64, .kernel = {3}, .stride = 2, .column_padding = 1},
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
                             o.groups = c->groups ? c->groups : 1,
                             o.column_stride = conformance_columns(c->column_stride),
                             o.column_padding = conformance_columns(c->column_padding),
                             o.column_dilation = conformance_columns(c->column_dilation)));
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
    {.x = {2, 280, 3, 13}, .filters = 80, .kernel = {2}, .stride = 2, .bias = true},
    {.x = {2, 20, 4, 9}, .filters = 24, .kernel = {3}, .stride = 3},
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
    {.x = {2, 16, 1, 9}, .filters = 24, .kernel = {1, 4}, .column_stride = 2, .column_padding = 1},
    {.x = {2, 24, 5, 6},
     .filters = 16,
     .kernel = {3},
     .stride = 2,
     .padding = 1,
     .output_padding = 1,
     .column_stride = 3,
     .column_padding = NO_COLUMNS,
     .column_output_padding = 2,
     .bias = true},
    {.x = {2, 8, 5, 6},
     .filters = 16,
     .kernel = {3, 2},
     .padding = 1,
     .column_padding = NO_COLUMNS,
     .column_dilation = 2},
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
                o.groups = groups, o.column_stride = conformance_columns(c->column_stride),
                o.column_padding = conformance_columns(c->column_padding),
                o.column_output_padding = conformance_columns(c->column_output_padding),
                o.column_dilation = conformance_columns(c->column_dilation)));
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

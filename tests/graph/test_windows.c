/* Windows that are not square: shapes, parameters of layers, errors. */
#include <yoke/nn.h>

#include "graph/graph.h"
#include "graph/interpolate.h"
#include "harness.h"

static yk_value *image(yk_graph *graph, int64_t rows, int64_t columns)
{
    return yk_input(graph, "x", YK_F32, 4, (int64_t[]){YK_BATCH, 16, rows, columns});
}

static void expect_dims(const yk_value *value, int64_t second, int64_t rows, int64_t columns)
{
    int64_t dims[YK_MAX_DIMS];
    assert_int_equal(yk_value_shape(value, dims), 4);
    assert_int_equal(dims[1], second);
    assert_int_equal(dims[2], rows);
    assert_int_equal(dims[3], columns);
}

static void expect_error(yk_graph *graph, const char *text)
{
    assert_contains(graph->error, text);
    yk_graph_destroy(graph);
}

/* As in Inception: 1x7, then 7x1. */
YK_TEST(a_layers_kernel_may_be_wide_or_high)
{
    yk_graph *graph = yk_graph_create();
    yk_conv2d_options wide = YK_CONV2D_OPTIONS_INIT, high = YK_CONV2D_OPTIONS_INIT;
    wide.column_kernel = 7;
    wide.column_padding = 3;
    high.column_kernel = 1;
    high.padding = 3;
    high.column_padding = 0;
    yk_value *y = yk_nn_conv2d(image(graph, 17, 12), "wide", 24, 1, &wide);
    expect_dims(y, 24, 17, 12);
    expect_dims(yk_nn_conv2d_bias(y, "high", 8, 7, &high), 8, 17, 12);
    expect_dims(graph->nodes[0]->in[1], 16, 1, 7);
    expect_dims(graph->nodes[1]->in[1], 24, 7, 1);
    yk_graph_destroy(graph);
}

YK_TEST(windows_move_down_and_across_by_their_own_steps)
{
    yk_graph *graph = yk_graph_create();
    yk_conv2d_options options = YK_CONV2D_OPTIONS_INIT;
    options.stride = 2;
    options.padding = 1;
    options.column_stride = 3;
    options.column_dilation = 2;
    expect_dims(yk_nn_conv2d(image(graph, 9, 20), "conv", 8, 3, &options), 8, 5, 6);
    yk_conv_transpose2d_options turned = YK_CONV_TRANSPOSE2D_OPTIONS_INIT;
    turned.stride = 2;
    turned.column_kernel = 4;
    turned.column_stride = 3;
    turned.column_padding = 1;
    turned.column_output_padding = 2;
    yk_value *small = yk_adaptive_avg_pool2d(graph->nodes[0]->in[0], 5, 6);
    expect_dims(yk_nn_conv_transpose2d(small, "up", 8, 2, &turned), 8, 10, 19);
    yk_graph_destroy(graph);
}

/* MaxPool2d((1, 2)) moves by its own size, as PyTorch's does. */
YK_TEST(pools_move_by_their_windows_unless_told_otherwise)
{
    yk_graph *graph = yk_graph_create();
    yk_value *x = image(graph, 9, 20);
    yk_pool2d_options options = YK_POOL2D_OPTIONS_INIT;
    options.column_kernel = 2;
    expect_dims(yk_max_pool2d_with(x, &options), 16, 9, 10);
    options.kernel = 3;
    options.column_stride = 1;
    expect_dims(yk_avg_pool2d_with(x, &options), 16, 3, 19);
    options.stride = 2;
    options.column_stride = -1;
    options.padding = 1;
    options.column_padding = 0;
    expect_dims(yk_max_pool2d_with(x, &options), 16, 5, 10);
    yk_graph_destroy(graph);
}

/* PyTorch's rule: a last window that would begin after the image is left out. */
YK_TEST(pools_may_reach_beyond_the_padding)
{
    static const struct {
        int64_t size, kernel, stride, padding, windows;
    } cases[] = {{8, 3, 2, 0, 4}, {7, 3, 2, 0, 3}, {8, 3, 2, 1, 5}, {7, 2, 2, 1, 4},
                 {8, 2, 3, 0, 3}, {7, 2, 3, 0, 3}, {9, 2, 4, 1, 3}, {2, 3, 2, 0, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        yk_graph *graph = yk_graph_create();
        yk_pool2d_options options = YK_POOL2D_OPTIONS_INIT;
        options.kernel = cases[i].kernel;
        options.stride = cases[i].stride;
        options.padding = cases[i].padding;
        options.ceil_mode = true;
        yk_value *x = image(graph, cases[i].size, cases[i].size);
        expect_dims(yk_max_pool2d_with(x, &options), 16, cases[i].windows, cases[i].windows);
        expect_dims(yk_avg_pool2d_with(x, &options), 16, cases[i].windows, cases[i].windows);
        yk_graph_destroy(graph);
    }
    yk_graph *graph = yk_graph_create();
    yk_pool2d_options options = YK_POOL2D_OPTIONS_INIT;
    options.kernel = 5;
    options.stride = 2;
    options.ceil_mode = true;
    expect_dims(yk_max_pool2d_with(image(graph, 4, 8), &options), 16, 1, 3);
    yk_graph_destroy(graph);
    graph = yk_graph_create();
    yk_max_pool2d_with(image(graph, 3, 8), &options);
    expect_error(graph, "kernel 5 is larger than input (N, 16, 3, 8)");
}

/* A program that knows only the fields that the struct began with. */
YK_TEST(older_programs_have_square_windows)
{
    yk_graph *graph = yk_graph_create();
    yk_conv2d_options options = YK_CONV2D_OPTIONS_INIT;
    options.size = offsetof(yk_conv2d_options, column_kernel);
    options.padding = 2;
    options.column_kernel = options.column_padding = 77;
    expect_dims(yk_nn_conv2d(image(graph, 6, 7), "conv", 8, 5, &options), 8, 6, 7);
    yk_graph_destroy(graph);
}

YK_TEST(a_mistake_in_columns_names_both_sizes)
{
    yk_graph *graph = yk_graph_create();
    yk_conv2d_options options = YK_CONV2D_OPTIONS_INIT;
    options.column_stride = 0;
    yk_nn_conv2d(image(graph, 6, 7), "conv", 8, 3, &options);
    expect_error(graph, "conv2d: stride 1x0, padding 0, dilation 1, groups 1: expected 1 or more");

    graph = yk_graph_create();
    yk_pool2d_options pool = YK_POOL2D_OPTIONS_INIT;
    pool.kernel = 2;
    pool.padding = 1;
    pool.column_kernel = 1;
    yk_avg_pool2d_with(image(graph, 6, 7), &pool);
    expect_error(graph, "kernel 2x1, stride 2x1, padding 1: expected 1 or more, and a padding from "
                        "0 to half the kernel");

    graph = yk_graph_create();
    pool = (yk_pool2d_options)YK_POOL2D_OPTIONS_INIT;
    pool.column_kernel = 8;
    yk_max_pool2d_with(image(graph, 6, 7), &pool);
    expect_error(graph, "kernel 1x8 is larger than input (N, 16, 6, 7)");
}

YK_TEST(a_kernel_that_is_not_the_weights_is_refused)
{
    yk_graph *graph = yk_graph_create();
    yk_value *weight =
        yk_parameter(graph, "weight", YK_F32, 4, (int64_t[]){8, 16, 3, 3}, YK_INIT_ZEROS, 0);
    yk_conv2d_options options = YK_CONV2D_OPTIONS_INIT;
    options.column_kernel = 5;
    yk_conv2d(image(graph, 6, 7), weight, NULL, &options);
    expect_error(graph, "conv2d: column_kernel is 5, but the weight has kernels of 3x3");
}

/* What an output has of an input is the same, whichever of both is asked. */
static void compare_parts(const yki_axis *axis)
{
    for (int64_t output = 0; output < axis->outputs; output++) {
        const yki_taps taps = yki_taps_of(axis, output);
        for (int64_t input = 0; input < axis->inputs; input++) {
            const int64_t part = input == taps.first       ? axis->divisor - taps.part
                                 : input == taps.first + 1 ? taps.part
                                                           : 0;
            assert_int_equal(yki_part_of(axis, output, input), part);
        }
    }
}

YK_TEST(interpolated_pixels_have_parts_of_their_neighbours)
{
    for (int64_t inputs = 1; inputs < 10; inputs++)
        for (int64_t outputs = 1; outputs < 14; outputs++)
            for (int way = 0; way < 3; way++) {
                const yki_axis axis = yki_axis_of(way > 0, way > 1, inputs, outputs);
                compare_parts(&axis);
            }
}

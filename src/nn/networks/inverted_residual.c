/* See inverted_residual.h. */
#include "nn/networks/inverted_residual.h"

#include <stdio.h>

#include "nn/layers.h"

static yk_value *conv_norm(yk_value *x, const char *conv, const char *norm,
                           const yki_conv_norm *layer)
{
    yk_conv2d_options options = YK_CONV2D_OPTIONS_INIT;
    options.stride = layer->stride;
    options.padding = layer->kernel / 2;
    options.groups = layer->groups;
    x = yk_nn_conv2d(x, conv, layer->channels, layer->kernel, &options);
    x = yk_nn_batch_norm_with(x, norm, layer->norm);
    return layer->activation ? layer->activation(x) : x;
}

yk_value *yki_nn_named_conv_norm(yk_value *x, const char *name, const yki_conv_norm *layer)
{
    yk_graph *graph = yk_value_graph(x);
    yk_scope_push(graph, name);
    x = conv_norm(x, "0", "1", layer);
    yk_scope_pop(graph);
    return x;
}

yk_value *yki_nn_conv_norm(yk_value *x, int number, const yki_conv_norm *layer)
{
    yk_graph *graph = yk_value_graph(x);
    yki_scope_push_number(graph, number);
    x = conv_norm(x, "0", "1", layer);
    yk_scope_pop(graph);
    return x;
}

yk_value *yki_nn_flat_conv_norm(yk_value *x, int number, const yki_conv_norm *layer)
{
    char conv[16], norm[16];
    snprintf(conv, sizeof conv, "%d", number);
    snprintf(norm, sizeof norm, "%d", number + 1);
    return conv_norm(x, conv, norm, layer);
}

static yk_value *excite(yk_value *x, int number, const yki_inverted_residual *block)
{
    static const yki_layer_init init = {YK_INIT_KAIMING_NORMAL_FAN_OUT, true,
                                        YK_INIT_ZEROS_AFTER_DRAW};
    char name[16];
    snprintf(name, sizeof name, "%d", number);
    return yki_nn_squeeze_excitation(x, name, block->squeezed, block->excitation, init);
}

/* What a block adds. (N, C, H, W) -> (N, channels, H / stride, W / stride) */
static yk_value *branch(yk_value *x, const yki_inverted_residual *block)
{
    const int64_t groups = block->fused ? 1 : block->expanded;
    const bool widens = block->expanded != yki_channels_of(x);
    const yki_conv_norm widen = {block->expanded, 1, 1, 1, block->norm, block->activation};
    const yki_conv_norm filter = {block->expanded, block->kernel, block->stride,
                                  groups,          block->norm,   block->activation};
    const yki_conv_norm narrow = {block->channels, 1, 1, 1, block->norm, NULL};
    int index = 0;
    if (widens && !block->fused)
        x = yki_nn_conv_norm(x, index++, &widen);
    x = yki_nn_conv_norm(x, index++, &filter);
    if (block->squeezed > 0)
        x = excite(x, index++, block);
    return widens || !block->fused ? yki_nn_conv_norm(x, index, &narrow) : x;
}

yk_value *yki_nn_inverted_residual(yk_value *x, int number, const yki_inverted_residual *block)
{
    yk_graph *graph = yk_value_graph(x);
    yki_scope_push_number(graph, number);
    yk_scope_push(graph, "block");
    yk_value *y = branch(x, block);
    yk_scope_pop(graph);
    if (block->stride == 1 && block->channels == yki_channels_of(x))
        y = yk_add(x, block->drop > 0 ? yk_nn_stochastic_depth(y, block->drop) : y);
    yk_scope_pop(graph);
    return y;
}

yk_value *yki_nn_dropout_classifier(yk_value *features, int64_t classes, double dropout,
                                    yk_init weight)
{
    const yki_layer_init init = {weight, true, YK_INIT_ZEROS_AFTER_DRAW};
    yk_value *x = yk_dropout(yk_flatten(yk_global_avg_pool2d(features)), dropout);
    yk_graph *graph = yk_value_graph(x);
    yk_scope_push(graph, "classifier");
    x = yki_nn_linear(x, "1", classes, init);
    yk_scope_pop(graph);
    return x;
}

int64_t yki_nn_round_channels(double channels)
{
    const int64_t rounded = (int64_t)(channels + 4) / 8 * 8;
    return (double)rounded < 0.9 * channels ? rounded + 8 : rounded;
}

/* See drawn_graph.h. */
#include "drawn_graph.h"

#include <math.h>
#include <stdlib.h>

#include <yoke/functional.h>

#include "base/random.h"
#include "graph/operators.h"
#include "graph/recurrent.h"
#include "harness.h"
#include "tensor/element.h"

/* eps of all norms, which therefore magnify nothing more than tenfold. With 1e-5 it is 316 times
 * for each norm of a row of them, and where the exact gradient is zero, as that of a bias before
 * another norm, what three of them make of f32's rounding is more than 1. */
#define LEAST_VAR 1e-2

enum { MOST_VALUES = 60, MOST_EMBEDDED = 3, MOST_COMPARED = 2, OPERATORS = 12 };

/* A graph that is being drawn, and the activations that its operators may read. */
typedef struct drawing {
    uint64_t seed, draws;
    yk_dtype dtype;
    yk_graph *graph;
    bool has_tokens; /* and operators of them */
    int inputs;
    yk_value *values[MOST_VALUES];
    int count;
} drawing;

/* ---- draws ----------------------------------------------------------------------------------- */

static int64_t between(drawing *d, int64_t low, int64_t high)
{
    return low + (int64_t)(yki_hash3(d->seed, 0, d->draws++) % (uint64_t)(high - low + 1));
}

static bool once_in(drawing *d, int64_t n)
{
    return between(d, 1, n) == 1;
}

/* Most often one of the last. */
static yk_value *any_value(drawing *d)
{
    int first = once_in(d, 3) || d->count < 3 ? 0 : d->count - 3;
    return d->values[between(d, first, d->count - 1)];
}

/* Another of the same shape, or the value itself. */
static yk_value *partner(drawing *d, yk_value *x)
{
    yk_value *other = any_value(d);
    return yki_same_dims(x, other) ? other : x;
}

static yk_value *parameter(drawing *d, int ndim, const int64_t *dims)
{
    char name[24];
    snprintf(name, sizeof name, "p%zu", d->graph->value_count);
    return yk_parameter(d->graph, name, d->dtype, ndim, dims, YK_INIT_ZEROS, 0);
}

static yk_value *buffer(drawing *d, int64_t size, yk_init init)
{
    char name[24];
    snprintf(name, sizeof name, "b%zu", d->graph->value_count);
    return yk_buffer(d->graph, name, d->dtype, 1, &size, init);
}

static yk_value *input(drawing *d, yk_dtype dtype, int ndim, const int64_t *dims)
{
    char name[24];
    snprintf(name, sizeof name, "x%zu", d->graph->value_count);
    d->inputs++;
    return yk_input(d->graph, name, dtype, ndim, dims);
}

/* ---- operators ------------------------------------------------------------------------------- */

static yk_value *activation(drawing *d, yk_value *x)
{
    static yk_value *(*const functions[])(yk_value *) = {
        yk_relu, yk_relu6, yk_gelu, yk_sigmoid, yk_silu, yk_hardswish, yk_tanh, yk_sin, yk_cos};
    enum { FUNCTIONS = sizeof functions / sizeof *functions };
    int which = (int)between(d, 0, FUNCTIONS + 1);
    return which < FUNCTIONS    ? functions[which](x)
           : which == FUNCTIONS ? yk_leaky_relu(x, 0.2)
                                : yk_elu(x, once_in(d, 2) ? 1 : -0.7);
}

/* Powers, logarithms and quotients of numbers that they are fine for. */
static yk_value *curve(drawing *d, yk_value *x)
{
    switch (between(d, 0, 4)) {
    case 0:
        return yk_exp(yk_clamp(x, -2, 1));
    case 1:
        return yk_log(yk_add_scalar(yk_abs(x), 0.5));
    case 2:
        return yk_pow(yk_add_scalar(yk_pow(x, 2), 0.3), once_in(d, 2) ? 0.5 : -0.7);
    case 3:
        return yk_subtract(partner(d, x), x);
    default:
        return yk_divide(x, yk_add_scalar(yk_exp(yk_clamp(partner(d, x), -1, 1)), 0.1));
    }
}

/* Numbers of two values of one shape. Inputs are what is compared: they are the same to the bit
 * wherever a graph is computed. */
static yk_value *chosen(drawing *d, yk_value *x)
{
    yk_value *other = partner(d, x);
    if (once_in(d, 2))
        return once_in(d, 2) ? yk_maximum(x, other) : yk_minimum(x, other);
    yk_value *a = input(d, d->dtype, x->ndim, x->dims), *b = input(d, d->dtype, x->ndim, x->dims);
    yk_value *mask = once_in(d, 2) ? yk_greater(a, b) : yk_greater_equal(b, a);
    return once_in(d, 2) ? yk_where(mask, x, other) : yk_masked_fill(x, mask, 0.5);
}

/* Alone, or with what fusion takes in. */
static yk_value *norm(drawing *d, yk_value *x)
{
    int64_t channels = x->dims[1];
    yk_value *residual = partner(d, x), *weight = parameter(d, 1, &channels);
    yk_value *bias = parameter(d, 1, &channels), *mean = buffer(d, channels, YK_INIT_ZEROS);
    bool evaluates = once_in(d, 4);
    if (evaluates)
        yk_eval_push(d->graph);
    x = yk_batch_norm(
        x, weight, bias, mean, buffer(d, channels, YK_INIT_ONES),
        YK_WITH(yk_batch_norm_options, YK_BATCH_NORM_OPTIONS_INIT, o.eps = LEAST_VAR));
    if (evaluates) {
        x = once_in(d, 2) ? yk_dropout(x, 0.5) : x;
        yk_eval_pop(d->graph);
    }
    if (once_in(d, 3)) /* others may read it, too */
        d->values[d->count++] = x;
    if (once_in(d, 2))
        x = once_in(d, 2) ? yk_add(x, residual) : yk_add(residual, x);
    return once_in(d, 2) ? x : once_in(d, 2) ? yk_relu(x) : yk_relu6(x);
}

static yk_value *convolution(drawing *d, yk_value *x)
{
    yk_conv2d_options options = YK_CONV2D_OPTIONS_INIT;
    int64_t filters = once_in(d, 3) ? x->dims[1] : between(d, 1, 20), side = between(d, 0, 1);
    options.stride = between(d, 1, 2);
    options.padding = side;
    options.groups = filters == x->dims[1] && once_in(d, 3) ? filters : 1;
    int64_t across = once_in(d, 3) ? between(d, 0, 2) : side;
    if (across != side) {
        options.column_stride = between(d, 1, 2);
        options.column_padding = across;
    }
    const int64_t dims[] = {filters, x->dims[1] / options.groups, 2 * side + 1, 2 * across + 1};
    yk_value *weight = parameter(d, 4, dims);
    return yk_conv2d(x, weight, once_in(d, 2) ? parameter(d, 1, dims) : NULL, &options);
}

static yk_value *transposed_convolution(drawing *d, yk_value *x)
{
    yk_conv_transpose2d_options options = YK_CONV_TRANSPOSE2D_OPTIONS_INIT;
    int64_t filters = between(d, 1, 12), kernel = between(d, 1, 3);
    options.stride = between(d, 1, 2);
    options.padding = between(d, 0, (kernel - 1) / 2);
    options.output_padding = between(d, 0, options.stride - 1);
    const int64_t dims[] = {x->dims[1], filters, kernel, kernel};
    yk_value *weight = parameter(d, 4, dims);
    return yk_conv_transpose2d(x, weight, once_in(d, 2) ? parameter(d, 1, &filters) : NULL,
                               &options);
}

/* The weight may be a product itself. */
static yk_value *linear_to(drawing *d, yk_value *x, int64_t outputs)
{
    const int64_t dims[] = {outputs, x->dims[x->ndim - 1]}, rank = between(d, 1, 3);
    yk_value *bias = once_in(d, 2) ? parameter(d, 1, dims) : NULL;
    if (!once_in(d, 4))
        return yk_linear(x, parameter(d, 2, dims), bias);
    yk_value *up = parameter(d, 2, (int64_t[]){dims[0], rank});
    yk_value *down = parameter(d, 2, (int64_t[]){rank, dims[1]});
    return yk_linear(x, yk_matmul(up, down), bias);
}

static yk_value *linear(drawing *d, yk_value *x)
{
    return linear_to(d, x, between(d, 1, 20));
}

/* With a parameter that is broadcast, or another value. */
static yk_value *combination(drawing *d, yk_value *x)
{
    yk_value *other = partner(d, x);
    int64_t dims[YK_MAX_DIMS];
    int ndim = (int)between(d, 1, x->ndim - 1);
    for (int i = 0; i < ndim; i++)
        dims[i] = once_in(d, 2) ? 1 : x->dims[x->ndim - ndim + i];
    if (once_in(d, 2))
        other = parameter(d, ndim, dims);
    return once_in(d, 2) ? yk_add(x, other) : yk_multiply(other, x);
}

static yk_value *pool(drawing *d, yk_value *x)
{
    int64_t least = x->dims[2] < x->dims[3] ? x->dims[2] : x->dims[3];
    int64_t kernel = between(d, 1, least < 3 ? least : 3), stride = between(d, 1, 3);
    int64_t padding = between(d, 0, kernel / 2);
    if (once_in(d, 3))
        return yk_adaptive_avg_pool2d(x, between(d, 2, 5), between(d, 2, 5));
    if (once_in(d, 3)) {
        yk_pool2d_options options = YK_POOL2D_OPTIONS_INIT;
        options.kernel = kernel;
        options.padding = padding;
        options.column_kernel = between(d, 1, least < 4 ? least : 4);
        options.column_padding = between(d, 0, options.column_kernel / 2);
        options.ceil_mode = once_in(d, 2);
        options.count_include_pad = once_in(d, 2);
        return once_in(d, 2) ? yk_max_pool2d_with(x, &options) : yk_avg_pool2d_with(x, &options);
    }
    return once_in(d, 2) ? yk_max_pool2d(x, kernel, stride, padding)
                         : yk_avg_pool2d(x, kernel, stride, padding);
}

/* By pixels between the pixels, or by more channels, where the sizes permit it. */
static yk_value *resized(drawing *d, yk_value *x)
{
    if (x->dims[1] % 4 == 0 && once_in(d, 2))
        return yk_pixel_shuffle(x, 2);
    if (x->dims[1] <= 20 && x->dims[2] % 3 == 0 && x->dims[3] % 3 == 0)
        return yk_pixel_unshuffle(x, 3);
    const bool bilinear = once_in(d, 2), align_corners = bilinear && once_in(d, 2);
    return yk_interpolate(
        x, between(d, 1, 9), between(d, 1, 9),
        YK_WITH(yk_interpolate_options, YK_INTERPOLATE_OPTIONS_INIT,
                o.mode = bilinear ? YK_INTERPOLATE_BILINEAR : YK_INTERPOLATE_NEAREST,
                o.align_corners = align_corners));
}

static yk_value *normalised_groups(drawing *d, yk_value *x)
{
    const int64_t *channels = &x->dims[1];
    int64_t groups = between(d, 1, *channels);
    while (*channels % groups)
        groups--;
    if (once_in(d, 4)) /* PyTorch's gradient needs both or neither */
        return yk_group_norm(x, groups, NULL, NULL, LEAST_VAR);
    yk_value *weight = parameter(d, 1, channels);
    return yk_group_norm(x, groups, weight, parameter(d, 1, channels), LEAST_VAR);
}

static yk_value *normalised_rows(drawing *d, yk_value *x)
{
    const int64_t *last = &x->dims[x->ndim - 1];
    if (once_in(d, 3))
        return normalised_groups(d, x);
    if (once_in(d, 2))
        return once_in(d, 2) ? yk_softmax(x) : yk_log_softmax(x);
    yk_value *weight = parameter(d, 1, last);
    if (once_in(d, 2))
        return yk_rms_norm(x, weight, LEAST_VAR);
    return yk_layer_norm(x, weight, parameter(d, 1, last), LEAST_VAR);
}

static yk_value *joined(drawing *d, yk_value *x)
{
    yk_value *values[] = {x, partner(d, x), x};
    int64_t dim = once_in(d, 2) ? 1 : between(d, 1, x->ndim - 1);
    if (x->dims[dim] > (dim == 1 ? 64 : 12))
        return yk_slice(x, dim, between(d, 0, 4), x->dims[dim] / 2);
    return yk_concat(values, (int)between(d, 1, 3), dim);
}

/* Parts of a dimension in another order; they may leave gaps and overlap. */
static yk_value *shuffled(drawing *d, yk_value *x)
{
    yk_value *values[4];
    int64_t dim = between(d, 1, x->ndim - 1), size = x->dims[dim];
    int count = (int)between(d, 1, 4);
    for (int i = 0; i < count; i++) {
        int64_t first = between(d, 0, size - 1), rest = size - first;
        values[i] = yk_slice(x, dim, first, between(d, 1, rest < 8 ? rest : 8));
        values[i] = once_in(d, 2) ? activation(d, values[i]) : values[i];
    }
    return yk_concat(values, count, dim);
}

/* ---- of tokens (N, T, C) --------------------------------------------------------------------- */

static yk_value *turned(drawing *d, yk_value *x)
{
    int64_t order[YK_MAX_DIMS];
    for (int i = 0; i < x->ndim; i++)
        order[i] = i;
    for (int i = x->ndim - 1; i > 1; i--) {
        int64_t other = between(d, 1, i), dim = order[i];
        order[i] = order[other];
        order[other] = dim;
    }
    return yk_permute(x, x->ndim, order);
}

/* With other dimensions, but the same elements in their order. */
static yk_value *reshaped(drawing *d, yk_value *x)
{
    int64_t dims[YK_MAX_DIMS] = {YK_BATCH}, left = 1;
    int ndim = (int)between(d, 2, once_in(d, 3) ? YK_MAX_DIMS : 4);
    for (int i = 1; i < x->ndim; i++)
        left *= x->dims[i];
    for (int i = 1; i < ndim - 1; i++) {
        dims[i] = between(d, 1, left < 12 ? left : 12);
        while (left % dims[i])
            dims[i]--;
        left /= dims[i];
    }
    dims[ndim - 1] = left;
    return yk_reshape(x, ndim, dims);
}

static yk_value *rotated(drawing *d, yk_value *x, int64_t heads)
{
    yk_rotary_embedding_options options = YK_ROTARY_EMBEDDING_OPTIONS_INIT;
    options.num_heads = heads;
    options.base = 100;
    options.interleaved = once_in(d, 2);
    options.first_position = between(d, 0, 3);
    options.rotary_dim = 2 * between(d, 1, x->dims[2] / heads / 2);
    return yk_rotary_embedding(x, &options);
}

/* What is added to scores (N, heads, T, S), or what can be broadcast to it: it hides some of them,
 * and now and then all of a query. It is not trained. */
static yk_value *mask_of(drawing *d, int64_t heads, int64_t queries, int64_t keys)
{
    int64_t dims[] = {YK_BATCH, heads, queries, keys};
    for (int i = 1; i < 4; i++)
        dims[i] = once_in(d, 2) ? 1 : dims[i];
    yk_value *x = once_in(d, 3) && d->inputs <= MOST_COMPARED
                      ? input(d, d->dtype, 4, dims)
                      : yk_detach(parameter(d, 3, dims + 1));
    yk_value *other = yk_scale(x, -1);
    return yk_masked_fill(x, once_in(d, 2) ? yk_greater(x, other) : yk_greater(other, x),
                          -INFINITY);
}

/* Queries of x, and keys and values of another sequence or of x itself. */
static yk_value *attention(drawing *d, yk_value *x)
{
    yk_attention_options options = YK_ATTENTION_OPTIONS_INIT;
    int64_t kv_heads = between(d, 1, 2), heads = kv_heads * between(d, 1, 2);
    int64_t size = between(d, 1, 9);
    options.num_heads = heads;
    options.num_kv_heads = kv_heads;
    options.is_causal = once_in(d, 2);
    if (once_in(d, 3))
        options.attn_mask = mask_of(d, heads, x->dims[1], x->dims[1]);
    if (once_in(d, 2))
        return yk_scaled_dot_product_attention(linear_to(d, x, (heads + 2 * kv_heads) * size), NULL,
                                               NULL, &options);
    yk_value *other = any_value(d);
    other = other->ndim == 3 ? other : x;
    yk_value *q = linear_to(d, x, heads * size), *k = linear_to(d, other, kv_heads * size);
    yk_value *v = once_in(d, 2) ? k : linear_to(d, other, kv_heads * between(d, 1, 5));
    if (size > 1 && once_in(d, 2)) {
        q = rotated(d, q, heads);
        k = rotated(d, k, kv_heads);
    }
    if (options.attn_mask)
        options.attn_mask = mask_of(d, heads, x->dims[1], other->dims[1]);
    return yk_scaled_dot_product_attention(q, k, v, &options);
}

/* x and another value of the same shape or x, one of them turned. */
static yk_value *product(drawing *d, yk_value *x)
{
    yk_value *other = partner(d, x);
    int64_t order[YK_MAX_DIMS] = {0, 1, 2, 3, 4, 5};
    order[x->ndim - 2] = x->ndim - 1;
    order[x->ndim - 1] = x->ndim - 2;
    yk_value *swapped = yk_permute(x, x->ndim, order);
    if (once_in(d, 3)) /* others may read it, too */
        d->values[d->count++] = swapped;
    yk_value *y = once_in(d, 2) ? yk_matmul(swapped, other) : yk_matmul(other, swapped);
    return yk_scale(y, 0.25);
}

static yk_value *reduced(drawing *d, yk_value *x)
{
    int64_t dim = between(d, 1, x->ndim - 1);
    if (once_in(d, 2))
        return once_in(d, 2) ? yk_amax(x, dim) : yk_amin(x, dim);
    return once_in(d, 2) ? yk_mean(x, dim) : yk_sum(x, dim);
}

/* Of a sequence (N, T, C), what a layer gives its gates (N, T, gates S), and what they begin with.
 */
static yki_recurrent_layer layer_of(drawing *d, yk_value *x, int64_t gates, int64_t size)
{
    const int64_t input_dims[] = {gates * size, x->dims[2]}, hidden[] = {gates * size, size};
    yki_recurrent_layer layer = {.reverse = once_in(d, 2)};
    layer.from_input = yk_linear(x, parameter(d, 2, input_dims), parameter(d, 1, input_dims));
    layer.weight = parameter(d, 2, hidden);
    layer.bias = parameter(d, 1, hidden);
    if (x->dims[1] > 1 && once_in(d, 2) && d->inputs <= MOST_COMPARED) { /* 1 and some more */
        yk_value *any = input(d, d->dtype, 2, (int64_t[]){YK_BATCH, x->dims[1] - 1});
        layer.lengths = yk_add_scalar(yk_sum(yk_greater(any, yk_scale(any, -1)), 1), 1);
    }
    yk_value *first = yk_reshape(yk_slice(x, 1, 0, 1), 2, (int64_t[]){YK_BATCH, x->dims[2]});
    if (once_in(d, 2))
        layer.h0 = linear_to(d, first, size);
    if (gates == 4 && once_in(d, 2))
        layer.c0 = linear_to(d, first, size);
    return layer;
}

/* The outputs, which nothing may read, and the last states, which others may. */
static yk_value *recurrent(drawing *d, yk_value *x)
{
    const int64_t size = between(d, 1, 9), gates = between(d, 3, 4);
    const yki_recurrent_layer layer = layer_of(d, x, gates, size);
    yk_value *h_n, *c_n = NULL;
    yk_value *y = gates == 4 ? yki_lstm(&layer, &h_n, &c_n) : yki_gru(&layer, &h_n);
    if (once_in(d, 3)) /* others may read it, too */
        d->values[d->count++] = y;
    if (c_n && once_in(d, 2))
        d->values[d->count++] = c_n;
    return once_in(d, 2) ? y : h_n;
}

/* Of words, which are few. */
static yk_value *embedded(drawing *d)
{
    const int64_t indices[] = {YK_BATCH, between(d, 1, 9)},
                  weight[] = {DRAWN_CLASSES, between(d, 1, 12)};
    yk_value *words = input(d, YK_I32, 2, indices);
    return yk_embedding(words, parameter(d, 2, weight));
}

static yk_value *draw_token_operator(drawing *d, yk_value *x)
{
    bool is_sequence = x->ndim == 3;
    switch (between(d, 0, 6)) {
    case 0:
        return turned(d, x);
    case 1:
        return is_sequence ? attention(d, x) : reshaped(d, x);
    case 2:
        return x->ndim > 2 ? product(d, x) : reshaped(d, x);
    case 3:
        return x->ndim > 2 ? reduced(d, x) : reshaped(d, x);
    case 4:
        return yk_pad(x, between(d, 1, x->ndim - 1), between(d, 0, 2), between(d, 0, 2));
    case 5:
        return once_in(d, 3) && d->inputs <= MOST_EMBEDDED ? embedded(d) : linear(d, x);
    default:
        return is_sequence ? recurrent(d, x) : reshaped(d, x);
    }
}

static yk_value *draw_operator(drawing *d, yk_value *x)
{
    bool is_image = x->ndim == 4;
    if (d->has_tokens && once_in(d, x->ndim == 3 ? 2 : 4))
        return draw_token_operator(d, x);
    switch (between(d, 0, 10)) {
    case 0:
    case 1:
        return activation(d, x);
    case 10:
        return once_in(d, 3) && d->inputs <= MOST_COMPARED ? chosen(d, x) : curve(d, x);
    case 2:
    case 3:
        return x->ndim == 2 || is_image ? norm(d, x) : normalised_rows(d, x);
    case 4:
    case 5:
        return is_image ? convolution(d, x) : linear(d, x);
    case 6:
        return !is_image       ? linear(d, x)
               : once_in(d, 4) ? transposed_convolution(d, x)
               : once_in(d, 3) ? resized(d, x)
                               : pool(d, x);
    case 7:
        return combination(d, x);
    case 8:
        return once_in(d, 3)   ? yk_add(x, yk_detach(partner(d, x)))
               : once_in(d, 2) ? normalised_rows(d, x)
                               : yk_scale(x, -1.5);
    default:
        if (x->ndim > 2 && once_in(d, 3))
            return yk_flatten(x);
        return once_in(d, 2) ? shuffled(d, x) : joined(d, x);
    }
}

/* Labels for each token. */
static yk_value *draw_token_loss(drawing *d, yk_value *x)
{
    yk_cross_entropy_options options = YK_CROSS_ENTROPY_OPTIONS_INIT;
    options.class_dim = -1;
    yk_value *labels = input(d, YK_I32, 2, (int64_t[]){YK_BATCH, x->dims[1]});
    return yk_cross_entropy(linear_to(d, x, DRAWN_CLASSES), labels, &options);
}

/* A loss of the value, which is an activation. */
static yk_value *draw_loss(drawing *d, yk_value *x)
{
    x = x->ndim > 3 ? yk_flatten(x) : x;
    if (once_in(d, 3))
        return yk_mse_loss(x, input(d, d->dtype, x->ndim, x->dims), YK_LOSS_MEAN);
    if (once_in(d, 3))
        return yk_binary_cross_entropy_with_logits(x, input(d, d->dtype, x->ndim, x->dims), NULL);
    if (once_in(d, 3))
        return yk_reduce_loss(yk_multiply(x, x), YK_LOSS_MEAN);
    if (x->ndim == 3 && once_in(d, 2))
        return draw_token_loss(d, x);
    x = x->ndim == 3 ? yk_flatten(x) : x;
    const int64_t dims[] = {DRAWN_CLASSES, x->dims[1]}, batch = YK_BATCH;
    yk_value *logits = yk_linear(x, parameter(d, 2, dims), NULL);
    return yk_cross_entropy(logits, input(d, YK_I32, 1, &batch), NULL);
}

yk_value *drawn_graph(uint64_t seed, yk_dtype dtype, yk_value **last)
{
    drawing drawn = {.seed = seed, .dtype = dtype}, *d = &drawn;
    const int64_t dims[] = {YK_BATCH, between(d, 1, 20), between(d, 3, 9), between(d, 3, 9)};
    d->graph = yk_graph_create();
    d->has_tokens = once_in(d, 2);
    d->values[d->count++] = input(d, d->dtype, 4, dims);
    if (d->has_tokens && once_in(d, 2)) /* of tokens alone */
        d->values[0] =
            yk_reshape(d->values[0], 3, (int64_t[]){YK_BATCH, dims[1], dims[2] * dims[3]});
    for (int64_t left = between(d, 3, OPERATORS); left > 0; left--) {
        yk_value *y = draw_operator(d, any_value(d));
        d->values[d->count++] = y;
    }
    if (last)
        *last = d->values[d->count - 1];
    yk_value *loss = draw_loss(d, d->values[d->count - 1]);
    return once_in(d, 2) ? yk_add(loss, yk_scale(draw_loss(d, any_value(d)), 0.5)) : loss;
}

/* ---- describing it --------------------------------------------------------------------------- */

static void describe_value(FILE *file, const yk_value *value)
{
    static const char *const kinds[] = {
        [YKI_INPUT] = "input", [YKI_PARAMETER] = "parameter", [YKI_BUFFER] = "buffer"};
    if (value->kind == YKI_ACTIVATION)
        return;
    fprintf(file, "%s %d %d", kinds[value->kind], value->id, value->dtype == YK_I32);
    for (int i = 0; i < value->ndim; i++)
        fprintf(file, " %lld", (long long)value->dims[i]);
    fputc('\n', file);
}

static void describe_node(FILE *file, const yki_node *node)
{
    const yki_attrs *a = &node->attrs;
    const double attributes[] = {a->evaluates,
                                 (double)a->kernel[0],
                                 (double)a->kernel[1],
                                 (double)a->stride[0],
                                 (double)a->stride[1],
                                 (double)a->padding[0],
                                 (double)a->padding[1],
                                 (double)a->dilation[0],
                                 (double)a->dilation[1],
                                 (double)a->groups,
                                 (double)a->rows,
                                 (double)a->columns,
                                 (double)a->dim,
                                 (double)a->first,
                                 (double)a->count,
                                 (double)a->output_padding[0],
                                 (double)a->output_padding[1],
                                 a->ceil_mode,
                                 a->count_include_pad,
                                 (double)a->heads,
                                 (double)a->kv_heads,
                                 (double)a->rotary,
                                 a->causal,
                                 a->transpose_a,
                                 a->transpose_b,
                                 a->interleaved,
                                 a->bilinear,
                                 a->align_corners,
                                 a->reverse,
                                 a->alpha,
                                 a->beta,
                                 a->eps,
                                 a->ndim};
    fprintf(file, "node %d %s", node->out[0]->id, node->op->name);
    for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++)
        fprintf(file, " %.17g", attributes[i]);
    for (int i = 0; i < a->ndim; i++)
        fprintf(file, " %lld", (long long)a->dims[i]);
    for (int i = 0; i < node->in_count; i++)
        fprintf(file, " %d", node->in[i] ? node->in[i]->id : -1);
    fputc('\n', file);
    for (int i = 1; i <= node->op->more_results; i++)
        fprintf(file, "output %d %d %d\n", node->out[i]->id, node->out[0]->id, i);
}

void drawn_graph_describe(FILE *file, const yk_value *loss)
{
    const yk_graph *graph = loss->graph;
    for (size_t i = 0; i < graph->value_count; i++)
        describe_value(file, graph->values[i]);
    for (size_t n = 0; n < graph->node_count; n++)
        describe_node(file, graph->nodes[n]);
    fprintf(file, "loss %d\n", loss->id);
}

/* ---- numbers and seeds ----------------------------------------------------------------------- */

void drawn_numbers(uint64_t key, yk_dtype dtype, int64_t count, void *memory)
{
    for (int64_t i = 0; i < count; i++) {
        uint64_t bits = yki_hash3(key, 1, (uint64_t)i);
        double number = (double)(bits >> 41) * 0x1p-22 - 1;
        yki_element_set(dtype, memory, i,
                        dtype == YK_I32 ? (double)(bits % DRAWN_CLASSES) : number);
    }
}

static uint64_t number_from(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : otherwise;
}

void drawn_seeds(uint64_t count, uint64_t *first, uint64_t *end)
{
    *first = 1000 * number_from("YOKE_TEST_SEED", 1);
    *end = *first + number_from("YOKE_TEST_DRAWS", count);
}

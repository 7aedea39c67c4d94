/*
 * Swin transformers: Liu et al., "Swin Transformer: Hierarchical Vision Transformer using Shifted
 * Windows" (2021), and "Swin Transformer V2: Scaling Up Capacity and Resolution" (2022), in
 * torchvision's form. Pixels attend to those of their window; in every second block the windows are
 * shifted by half their size.
 *
 * Two orders differ from torchvision's, which changes no number: windows come column by column, so
 * that one permutation of whole rows of windows makes them of an image, and heads come before
 * windows.
 *
 * Attention is two products and a softmax. yk_scaled_dot_product_attention() does not fit: its mask
 * is a constant, but the bias that is added here to scores is trained.
 */
#include <yoke/functional.h>
#include <yoke/networks.h>

#include <math.h>
#include <stdlib.h>

#include "base/memory.h"
#include "graph/operators.h"
#include "nn/layers.h"
#include "tensor/element.h"

enum { STAGES = 4, PATCH = 4, SIDES = 3 /* of an image's edge: see side_of */ };

/* Channels and heads double from stage to stage. */
typedef struct swin_config {
    int64_t first_channels, first_heads, window;
    int blocks[STAGES];
    double last_drop;
    bool v2; /* cosine attention, biases of a small network, norms after their branches */
} swin_config;

/* How an image is divided into windows, once it is padded. */
typedef struct tiling {
    int64_t rows, columns; /* of pixels, multiples of the window */
    int64_t window;        /* the side of a window */
    int64_t down, right;   /* by how many pixels windows are shifted */
} tiling;

static const double eps = 1e-5;

static tiling tiling_of(int64_t rows, int64_t columns, int64_t window, bool shifted)
{
    const int64_t shift = shifted ? window / 2 : 0;
    tiling t = {.rows = (rows + window - 1) / window * window,
                .columns = (columns + window - 1) / window * window,
                .window = window};
    t.down = t.rows > window ? shift : 0; /* one window has all pixels already */
    t.right = t.columns > window ? shift : 0;
    return t;
}

static int64_t windows_of(const tiling *t)
{
    return t->rows / t->window * (t->columns / t->window);
}

static int64_t window_pixels(const tiling *t)
{
    return t->window * t->window;
}

/* ---- layers, declared in PyTorch's order before they are applied ----------------------------- */

typedef struct layer {
    yk_value *weight, *bias;
} layer;

static layer declare_linear(yk_value *x, const char *name, int64_t outputs, int64_t inputs,
                            bool has_bias)
{
    yk_graph *graph = yk_value_graph(x);
    const yk_dtype dtype = yk_value_dtype(x);
    layer made = {.bias = NULL};
    yk_scope_push(graph, name);
    made.weight = yk_parameter(graph, "weight", dtype, 2, (int64_t[]){outputs, inputs},
                               YK_INIT_NORMAL_0_02, 0);
    if (has_bias)
        made.bias = yk_parameter(graph, "bias", dtype, 1, &outputs, YK_INIT_ZEROS, 0);
    yk_scope_pop(graph);
    return made;
}

static layer declare_norm(yk_value *x, const char *name, int64_t channels)
{
    yk_graph *graph = yk_value_graph(x);
    const yk_dtype dtype = yk_value_dtype(x);
    yk_scope_push(graph, name);
    const layer made = {yk_parameter(graph, "weight", dtype, 1, &channels, YK_INIT_ONES, 0),
                        yk_parameter(graph, "bias", dtype, 1, &channels, YK_INIT_ZEROS, 0)};
    yk_scope_pop(graph);
    return made;
}

static yk_value *apply_linear(yk_value *x, layer linear)
{
    return yk_linear(x, linear.weight, linear.bias);
}

static yk_value *apply_norm(yk_value *x, layer norm)
{
    return yk_layer_norm(x, norm.weight, norm.bias, eps);
}

/* ---- constants ------------------------------------------------------------------------------- */

/* The buffer `name`, or a constant if that is NULL, of the numbers that `number` gives by their
 * place. They are copied. */
static yk_value *give(yk_graph *graph, const char *name, yk_tensor tensor,
                      double (*number)(const tiling *t, int64_t at), const tiling *t)
{
    tensor.data = yki_calloc(1, yk_tensor_bytes(&tensor)); /* NULL is the graph's error */
    for (int64_t i = 0; tensor.data && i < yk_tensor_count(&tensor); i++)
        yki_element_set(tensor.dtype, tensor.data, i, number(t, i));
    yk_value *made =
        name ? yk_register_buffer(graph, name, &tensor, true) : yk_constant(graph, &tensor);
    free(tensor.data);
    return made;
}

/* Which row of the table has the bias of a pair of pixels: one for each distance. */
static double index_of_pair(const tiling *t, int64_t pair)
{
    const int64_t side = t->window, from = pair / (side * side), to = pair % (side * side);
    const int64_t down = from / side - to / side + side - 1,
                  right = from % side - to % side + side - 1;
    return (double)(down * (2 * side - 1) + right);
}

/* Shifted windows go round the image's edge. There, pixels of 3 sides meet that are no neighbours:
 * those of the last window that were last before, those that were first, and all others. */
static int64_t side_of(int64_t at, int64_t size, int64_t window, int64_t shift)
{
    return shift == 0 || at < size - window ? 0 : at < size - shift ? 1 : 2;
}

/* What is added to the score of a pair of pixels of a window. */
static double mask_of_pair(const tiling *t, int64_t at)
{
    const int64_t pixels = window_pixels(t), window = at / (pixels * pixels);
    const int64_t pair[] = {at / pixels % pixels, at % pixels};
    const int64_t down = t->rows / t->window; /* windows of a column */
    int64_t sides[2];
    for (int i = 0; i < 2; i++) {
        const int64_t row = window % down * t->window + pair[i] / t->window,
                      column = window / down * t->window + pair[i] % t->window;
        sides[i] = SIDES * side_of(row, t->rows, t->window, t->down) +
                   side_of(column, t->columns, t->window, t->right);
    }
    return sides[0] == sides[1] ? 0 : -100;
}

/* Distances of pixels, down and to the right, on a logarithmic scale from -1 to 1. */
static double coordinate(const tiling *t, int64_t at)
{
    const int64_t size = 2 * t->window - 1;
    const int64_t distance = (at % 2 ? at / 2 % size : at / 2 / size) - (t->window - 1);
    const float scaled = (float)distance / (float)(t->window - 1) * 8;
    return (double)copysignf(log2f(fabsf(scaled) + 1) / 3, scaled);
}

static yk_tensor shape_of(yk_dtype dtype, int ndim, const int64_t *dims)
{
    yk_tensor tensor = {.dtype = dtype, .ndim = ndim};
    for (int d = 0; d < ndim; d++)
        tensor.dims[d] = dims[d];
    return tensor;
}

/* ---- attention ------------------------------------------------------------------------------- */

/* (N, H, W, C) -> (N, H W, C): the pixels, window by window */
static yk_value *divide(yk_value *x, const tiling *t, int64_t channels)
{
    const int64_t across = t->columns / t->window;
    x = yk_reshape(x, 4, (int64_t[]){YK_BATCH, t->rows, across, t->window * channels});
    x = yk_permute(x, 4, (int64_t[]){0, 2, 1, 3});
    return yk_reshape(x, 3, (int64_t[]){YK_BATCH, t->rows * t->columns, channels});
}

/* (N, H W, C) -> (N, H, W, C) */
static yk_value *join(yk_value *x, const tiling *t, int64_t channels)
{
    const int64_t across = t->columns / t->window;
    x = yk_reshape(x, 4, (int64_t[]){YK_BATCH, across, t->rows, t->window * channels});
    x = yk_permute(x, 4, (int64_t[]){0, 2, 1, 3});
    return yk_reshape(x, 4, (int64_t[]){YK_BATCH, t->rows, t->columns, channels});
}

/* An attention's parameters and buffers. */
typedef struct attention {
    int64_t channels, heads;
    yk_value *scale;           /* of V2 */
    yk_value *table;           /* (distances, heads): the parameter, or, of V2, coordinates */
    yk_value *index;           /* (pixels^2) */
    layer qkv, proj, up, down; /* up, down: of V2's network of biases */
} attention;

static attention declare_attention(yk_value *x, int64_t channels, int64_t heads, const tiling *t,
                                   bool v2)
{
    const int64_t side = 2 * t->window - 1, pairs = window_pixels(t) * window_pixels(t);
    yk_graph *graph = yk_value_graph(x);
    const yk_dtype dtype = yk_value_dtype(x);
    attention a = {.channels = channels, .heads = heads};
    if (v2) {
        a.scale = yk_parameter(graph, "logit_scale", dtype, 3, (int64_t[]){heads, 1, 1},
                               YK_INIT_LOGIT_SCALE, 0);
        a.table = give(graph, "relative_coords_table",
                       shape_of(dtype, 4, (int64_t[]){1, side, side, 2}), coordinate, t);
    } else
        a.table = yk_parameter(graph, "relative_position_bias_table", dtype, 2,
                               (int64_t[]){side * side, heads}, YK_INIT_NORMAL_0_02, 0);
    a.index = give(graph, "relative_position_index", shape_of(YK_I64, 1, &pairs), index_of_pair, t);
    a.qkv = declare_linear(x, "qkv", 3 * channels, channels, true);
    a.proj = declare_linear(x, "proj", channels, channels, true);
    if (v2) {
        yk_scope_push(graph, "cpb_mlp");
        a.up = declare_linear(x, "0", 512, 2, true);
        a.down = declare_linear(x, "2", heads, 512, false);
        yk_scope_pop(graph);
    }
    return a;
}

/* V2's biases of distances, made of coordinates (1, side, side, 2) -> (side^2, heads) */
static yk_value *table_of_coordinates(const attention *a)
{
    yk_value *x = apply_linear(yk_relu(apply_linear(a->table, a->up)), a->down);
    x = yk_permute(x, 4, (int64_t[]){3, 0, 1, 2});
    return yk_transpose(yk_flatten(x), 0, 1);
}

/* What is added to scores. -> (heads, 1, pixels^2) */
static yk_value *bias_of_pairs(const attention *a)
{
    yk_value *table = a->scale ? table_of_coordinates(a) : a->table;
    yk_value *bias = yk_transpose(yk_embedding(a->index, table), 0, 1);
    if (a->scale)
        bias = yk_scale(yk_sigmoid(bias), 16);
    return yk_reshape(bias, 3, (int64_t[]){a->heads, 1, -1});
}

/* Queries and keys -> scores (N, heads, windows, pixels^2) */
static yk_value *scores_of(yk_value *q, yk_value *k, const attention *a, const tiling *t)
{
    const int64_t pixels = window_pixels(t);
    const int64_t dims[] = {YK_BATCH, a->heads, windows_of(t), pixels * pixels};
    if (!a->scale) {
        q = yk_scale(q, 1 / sqrt((double)a->channels / (double)a->heads));
        return yk_reshape(yk_matmul(q, yk_transpose(k, 2, 3)), 4, dims);
    }
    q = yk_matmul(yk_normalize(q, -1), yk_transpose(yk_normalize(k, -1), 2, 3));
    return yk_multiply(yk_reshape(q, 4, dims), yk_exp(yk_clamp(a->scale, -INFINITY, log(100))));
}

/* softmax over the pixels that each pixel sees. -> (N, heads windows, pixels, pixels) */
static yk_value *weights_of(yk_value *scores, const attention *a, const tiling *t)
{
    const int64_t pixels = window_pixels(t), windows = windows_of(t);
    scores = yk_add(scores, bias_of_pairs(a));
    if (t->down || t->right) {
        const int64_t dims[] = {windows, pixels * pixels};
        const yk_tensor shape = shape_of(yk_value_dtype(scores), 2, dims);
        scores = yk_add(scores, give(yk_value_graph(scores), NULL, shape, mask_of_pair, t));
    }
    return yk_softmax(
        yk_reshape(scores, 4, (int64_t[]){YK_BATCH, a->heads * windows, pixels, pixels}));
}

/* V2's keys have no bias, though the parameter has numbers for them. */
static layer qkv_of(const attention *a)
{
    if (!a->scale)
        return a->qkv;
    yk_value *q = yk_slice(a->qkv.bias, 0, 0, a->channels),
             *v = yk_slice(a->qkv.bias, 0, 2 * a->channels, a->channels);
    yk_value *parts[] = {yk_pad(q, 0, 0, a->channels), v};
    return (layer){a->qkv.weight, yk_concat(parts, 2, 0)};
}

/* Queries (0), keys (1) or values (2) of all heads (N, 3 heads, T, width of a head) ->
 * (N, heads windows, pixels, width of a head) */
static yk_value *part_of(yk_value *all, int64_t part, const attention *a, const tiling *t)
{
    const int64_t dims[] = {YK_BATCH, a->heads * windows_of(t), window_pixels(t),
                            a->channels / a->heads};
    return yk_reshape(yk_slice(all, 1, part * a->heads, a->heads), 4, dims);
}

/* (N, T, C) -> (N, T, C), of pixels that come window by window */
static yk_value *attend(yk_value *x, const attention *a, const tiling *t)
{
    const int64_t tokens = t->rows * t->columns, width = a->channels / a->heads;
    x = apply_linear(x, qkv_of(a));
    x = yk_reshape(x, 4, (int64_t[]){YK_BATCH, tokens, 3 * a->heads, width});
    x = yk_transpose(x, 1, 2);
    yk_value *scores = scores_of(part_of(x, 0, a, t), part_of(x, 1, a, t), a, t);
    x = yk_matmul(weights_of(scores, a, t), part_of(x, 2, a, t));
    x = yk_transpose(yk_reshape(x, 4, (int64_t[]){YK_BATCH, a->heads, tokens, width}), 1, 2);
    x = yk_reshape(x, 3, (int64_t[]){YK_BATCH, tokens, a->channels});
    return apply_linear(x, a->proj);
}

/* (N, H, W, C) -> (N, rows, columns, C): zeros are added at the end, or what is too much is cut
 * off. */
static yk_value *resize(yk_value *x, int64_t rows, int64_t columns)
{
    const int64_t sizes[] = {rows, columns};
    int64_t dims[YK_MAX_DIMS] = {0};
    yk_value_shape(x, dims);
    for (int d = 1; d <= 2; d++) {
        const int64_t size = sizes[d - 1];
        if (size != dims[d])
            x = size > dims[d] ? yk_pad(x, d, 0, size - dims[d]) : yk_slice(x, d, 0, size);
    }
    return x;
}

/* (N, H, W, C) -> (N, H, W, C) */
static yk_value *attend_in_windows(yk_value *x, const attention *a, const tiling *t)
{
    int64_t dims[YK_MAX_DIMS] = {0};
    yk_value_shape(x, dims);
    x = resize(x, t->rows, t->columns);
    x = divide(yk_roll(yk_roll(x, -t->down, 1), -t->right, 2), t, a->channels);
    x = join(attend(x, a, t), t, a->channels);
    x = yk_roll(yk_roll(x, t->down, 1), t->right, 2);
    return resize(x, dims[1], dims[2]);
}

/* ---- the network ----------------------------------------------------------------------------- */

static yk_value *mlp(yk_value *x, layer up, layer down)
{
    return apply_linear(yk_gelu(apply_linear(x, up)), down);
}

/* x + y, of which y is dropped at times */
static yk_value *add_branch(yk_value *x, yk_value *y, double drop)
{
    return yk_add(x, drop > 0 ? yk_nn_stochastic_depth(y, drop) : y);
}

/* (N, H, W, C) -> (N, H, W, C) */
static yk_value *block(yk_value *x, int number, int64_t heads, double drop,
                       const swin_config *config)
{
    int64_t dims[YK_MAX_DIMS];
    if (yk_value_shape(x, dims) != 4)
        return x;
    const tiling t = tiling_of(dims[1], dims[2], config->window, number % 2 == 1);
    const int64_t channels = dims[3];
    yk_graph *graph = yk_value_graph(x);
    yki_scope_push_number(graph, number);
    const layer norm1 = declare_norm(x, "norm1", channels);
    yk_scope_push(graph, "attn");
    const attention a = declare_attention(x, channels, heads, &t, config->v2);
    yk_scope_pop(graph);
    const layer norm2 = declare_norm(x, "norm2", channels);
    yk_scope_push(graph, "mlp");
    const layer up = declare_linear(x, "0", 4 * channels, channels, true);
    const layer down = declare_linear(x, "3", channels, 4 * channels, true);
    yk_scope_pop(graph);
    if (config->v2) {
        x = add_branch(x, apply_norm(attend_in_windows(x, &a, &t), norm1), drop);
        x = add_branch(x, apply_norm(mlp(x, up, down), norm2), drop);
    } else {
        x = add_branch(x, attend_in_windows(apply_norm(x, norm1), &a, &t), drop);
        x = add_branch(x, mlp(apply_norm(x, norm2), up, down), drop);
    }
    yk_scope_pop(graph);
    return x;
}

/* Four pixels become one of twice the channels, of an image whose sides are made even.
 * (N, H, W, C) -> (N, H / 2, W / 2, 2 C) */
static yk_value *merge(yk_value *x, int number, bool v2)
{
    int64_t dims[YK_MAX_DIMS];
    if (yk_value_shape(x, dims) != 4)
        return x;
    const int64_t rows = (dims[1] + 1) / 2, columns = (dims[2] + 1) / 2, channels = dims[3];
    const int64_t row = 2 * columns * channels;
    yk_graph *graph = yk_value_graph(x);
    yki_scope_push_number(graph, number);
    const layer reduction = declare_linear(x, "reduction", 2 * channels, 4 * channels, false);
    const layer norm = declare_norm(x, "norm", (v2 ? 2 : 4) * channels);
    x = yk_reshape(resize(x, 2 * rows, 2 * columns), 3, (int64_t[]){YK_BATCH, rows, 2 * row});
    yk_value *pair[2]; /* even rows and odd ones, (N, H / 2 W, C) */
    for (int i = 0; i < 2; i++)
        pair[i] = yk_reshape(yk_slice(x, 2, i * row, row), 3,
                             (int64_t[]){YK_BATCH, rows * 2 * columns, channels});
    x = yk_reshape(yk_concat(pair, 2, 2), 4, (int64_t[]){YK_BATCH, rows, columns, 4 * channels});
    x = v2 ? apply_norm(apply_linear(x, reduction), norm)
           : apply_linear(apply_norm(x, norm), reduction);
    yk_scope_pop(graph);
    return x;
}

/* (N, 3, H, W) -> (N, H / 4, W / 4, C) */
static yk_value *patches(yk_value *images, int64_t channels)
{
    static const yki_layer_init init = {YK_INIT_KAIMING_UNIFORM, true, YK_INIT_UNIFORM_FAN_IN};
    yk_graph *graph = yk_value_graph(images);
    yk_conv2d_options options = YK_CONV2D_OPTIONS_INIT;
    options.stride = PATCH;
    yki_scope_push_number(graph, 0);
    yk_value *x = yki_nn_conv2d(images, "0", channels, PATCH, &options, init);
    x = yk_nn_layer_norm(yk_permute(x, 4, (int64_t[]){0, 2, 3, 1}), "2", eps);
    yk_scope_pop(graph);
    return x;
}

/* (N, 3, H, W) -> (N, H / 32, W / 32, 8 times the first channels) */
static yk_value *features(yk_value *images, const swin_config *config)
{
    yk_graph *graph = yk_value_graph(images);
    int blocks = 0, all = 0;
    for (int s = 0; s < STAGES; s++)
        all += config->blocks[s];
    yk_scope_push(graph, "features");
    yk_value *x = patches(images, config->first_channels);
    for (int s = 0; s < STAGES; s++) {
        if (s > 0)
            x = merge(x, 2 * s, config->v2);
        yki_scope_push_number(graph, 2 * s + 1);
        for (int i = 0; i < config->blocks[s]; i++, blocks++)
            x = block(x, i, config->first_heads << s, config->last_drop * blocks / (all - 1),
                      config);
        yk_scope_pop(graph);
    }
    yk_scope_pop(graph);
    return x;
}

static yk_value *swin(yk_value *images, int64_t classes, const swin_config *config)
{
    static const yki_layer_init init = {YK_INIT_NORMAL_0_02, true, YK_INIT_ZEROS};
    int64_t dims[YK_MAX_DIMS];
    yk_value *x = yk_nn_layer_norm(features(images, config), "norm", eps);
    if (yk_value_shape(x, dims) == 4) /* the mean of all pixels */
        x = yk_mean(yk_reshape(x, 3, (int64_t[]){YK_BATCH, dims[1] * dims[2], dims[3]}), 1);
    return yki_nn_linear(x, "head", classes, init);
}

yk_value *yk_swin_t(yk_value *images, int64_t classes)
{
    return swin(images, classes, &(swin_config){96, 3, 7, {2, 2, 6, 2}, 0.2, false});
}

yk_value *yk_swin_s(yk_value *images, int64_t classes)
{
    return swin(images, classes, &(swin_config){96, 3, 7, {2, 2, 18, 2}, 0.3, false});
}

yk_value *yk_swin_b(yk_value *images, int64_t classes)
{
    return swin(images, classes, &(swin_config){128, 4, 7, {2, 2, 18, 2}, 0.5, false});
}

yk_value *yk_swin_v2_t(yk_value *images, int64_t classes)
{
    return swin(images, classes, &(swin_config){96, 3, 8, {2, 2, 6, 2}, 0.2, true});
}

yk_value *yk_swin_v2_s(yk_value *images, int64_t classes)
{
    return swin(images, classes, &(swin_config){96, 3, 8, {2, 2, 18, 2}, 0.3, true});
}

yk_value *yk_swin_v2_b(yk_value *images, int64_t classes)
{
    return swin(images, classes, &(swin_config){128, 4, 8, {2, 2, 18, 2}, 0.5, true});
}

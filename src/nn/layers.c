/*
 * Layers: operators whose parameters are declared under the layer's name, in the same order as in
 * torch.nn's modules. Initial values are torchvision's: normal by fan out for convolutions without
 * bias, the identity for batch norm, uniform by fan in for linear layers.
 *
 * A layer that is applied to an invalid value declares nothing and returns the value, so that the
 * graph reports the first mistake.
 */
#include "nn/layers.h"

#include <stdio.h>

#include "base/options.h"
#include "graph/operators.h"

/* ---- what all layers are made of ------------------------------------------------------------- */

/* A layer whose scope is open. */
typedef struct layer {
    yk_graph *graph;
    yk_dtype dtype; /* of x and its parameters */
    int ndim;
    int64_t dims[YK_MAX_DIMS]; /* of x */
} layer;

/* Opens the scope of a layer for x. If x is invalid, there is no layer, and *result is what its
 * function returns. */
static bool begin_layer(layer *l, yk_value *x, const char *name, yk_value **result)
{
    l->ndim = yk_value_shape(x, l->dims);
    if (l->ndim < 0) {
        *result = x ? x : yki_no_operand(name ? name : "a layer");
        return false;
    }
    l->graph = yk_value_graph(x);
    l->dtype = yk_value_dtype(x);
    yk_scope_push(l->graph, name);
    return true;
}

static yk_value *end_layer(const layer *l, yk_value *result)
{
    yk_scope_pop(l->graph);
    return result;
}

/* The second and the last dimension of x; 1 if it has none, which the operator reports. */
static int64_t channels_of(const layer *l)
{
    return l->ndim > 1 ? l->dims[1] : 1;
}

static int64_t columns_of(const layer *l)
{
    return l->ndim > 1 ? l->dims[l->ndim - 1] : 1;
}

static yk_value *declare_vector(const layer *l, const char *name, int64_t size, yk_init init)
{
    return yk_parameter(l->graph, name, l->dtype, 1, &size, init, 0);
}

int64_t yki_channels_of(const yk_value *x)
{
    int64_t dims[YK_MAX_DIMS];
    return yk_value_shape(x, dims) == 4 ? dims[1] : 1;
}

void yki_scope_push_number(yk_graph *graph, int number)
{
    char name[16];
    snprintf(name, sizeof name, "%d", number);
    yk_scope_push(graph, name);
}

static const yki_layer_init normal = {.weight = YK_INIT_KAIMING_NORMAL_FAN_OUT};
static const yki_layer_init uniform = {.weight = YK_INIT_KAIMING_UNIFORM};
static const yki_layer_init uniform_with_bias = YKI_LINEAR_INIT;

/* ---- convolutions ---------------------------------------------------------------------------- */

/* The groups of a convolution; 1 if its options cannot be read or have none, which the operator
 * reports. */
static int64_t groups_of(yk_status read, int64_t groups)
{
    return read == YK_OK && groups > 0 ? groups : 1;
}

/* The parameters weight, of these dimensions, and, with a bias, bias (biases). PyTorch takes the
 * fan-in from the dimensions after the first, also in transposed convolutions, where the second is
 * the number of channels that are written. */
static yk_value *declare_filters(const layer *l, int ndim, const int64_t *dims, yki_layer_init init,
                                 int64_t biases, yk_value **bias)
{
    yk_value *weight = yk_parameter(l->graph, "weight", l->dtype, ndim, dims, init.weight, 0);
    bool counts = yk_value_shape(weight, NULL) >= 0; /* so its sizes are small enough to multiply */
    int64_t fan = 1;
    for (int d = 1; counts && d < ndim; d++)
        fan *= dims[d];
    *bias =
        init.has_bias ? yk_parameter(l->graph, "bias", l->dtype, 1, &biases, init.bias, fan) : NULL;
    return weight;
}

yk_value *yki_nn_conv2d(yk_value *x, const char *name, int64_t out_channels, int64_t kernel,
                        const yk_conv2d_options *options, yki_layer_init init)
{
    layer l;
    yk_value *bias, *y;
    if (!begin_layer(&l, x, name, &y))
        return y;
    yk_conv2d_options o;
    const yk_status read = YKI_READ_OPTIONS(&o, options, yk_conv2d_options, YK_CONV2D_OPTIONS_INIT);
    const int64_t groups = groups_of(read, o.groups);
    const int64_t filters[] = {out_channels, channels_of(&l) / groups, kernel,
                               yki_columns(o.column_kernel, kernel)};
    yk_value *weight = declare_filters(&l, 4, filters, init, out_channels, &bias);
    return end_layer(&l, yk_conv2d(x, weight, bias, options));
}

yk_value *yk_nn_conv2d(yk_value *x, const char *name, int64_t out_channels, int64_t kernel,
                       const yk_conv2d_options *options)
{
    return yki_nn_conv2d(x, name, out_channels, kernel, options, normal);
}

yk_value *yk_nn_conv2d_bias(yk_value *x, const char *name, int64_t out_channels, int64_t kernel,
                            const yk_conv2d_options *options)
{
    return yki_nn_conv2d(x, name, out_channels, kernel, options, uniform_with_bias);
}

static yk_value *convolve_sequence(yk_value *x, const char *name, int64_t out_channels,
                                   int64_t kernel, const yk_conv1d_options *options,
                                   yki_layer_init init)
{
    layer l;
    yk_value *bias, *y;
    if (!begin_layer(&l, x, name, &y))
        return y;
    yk_conv1d_options o;
    const yk_status read = YKI_READ_OPTIONS(&o, options, yk_conv1d_options, YK_CONV1D_OPTIONS_INIT);
    const int64_t groups = groups_of(read, o.groups);
    const int64_t filters[] = {out_channels, channels_of(&l) / groups, kernel};
    yk_value *weight = declare_filters(&l, 3, filters, init, out_channels, &bias);
    return end_layer(&l, yk_conv1d(x, weight, bias, options));
}

yk_value *yk_nn_conv1d(yk_value *x, const char *name, int64_t out_channels, int64_t kernel,
                       const yk_conv1d_options *options)
{
    return convolve_sequence(x, name, out_channels, kernel, options, uniform);
}

yk_value *yk_nn_conv1d_bias(yk_value *x, const char *name, int64_t out_channels, int64_t kernel,
                            const yk_conv1d_options *options)
{
    return convolve_sequence(x, name, out_channels, kernel, options, uniform_with_bias);
}

static yk_value *convolve_transposed(yk_value *x, const char *name, int64_t out_channels,
                                     int64_t kernel, const yk_conv_transpose2d_options *options,
                                     yki_layer_init init)
{
    layer l;
    yk_value *bias, *y;
    if (!begin_layer(&l, x, name, &y))
        return y;
    yk_conv_transpose2d_options o;
    const yk_status read = YKI_READ_OPTIONS(&o, options, yk_conv_transpose2d_options,
                                            YK_CONV_TRANSPOSE2D_OPTIONS_INIT);
    const int64_t groups = groups_of(read, o.groups);
    const int64_t filters[] = {channels_of(&l), out_channels / groups, kernel,
                               yki_columns(o.column_kernel, kernel)};
    yk_value *weight = declare_filters(&l, 4, filters, init, out_channels, &bias);
    return end_layer(&l, yk_conv_transpose2d(x, weight, bias, options));
}

yk_value *yk_nn_conv_transpose2d(yk_value *x, const char *name, int64_t out_channels,
                                 int64_t kernel, const yk_conv_transpose2d_options *options)
{
    return convolve_transposed(x, name, out_channels, kernel, options, uniform);
}

yk_value *yk_nn_conv_transpose2d_bias(yk_value *x, const char *name, int64_t out_channels,
                                      int64_t kernel, const yk_conv_transpose2d_options *options)
{
    return convolve_transposed(x, name, out_channels, kernel, options, uniform_with_bias);
}

static yk_value *convolve_sequence_transposed(yk_value *x, const char *name, int64_t out_channels,
                                              int64_t kernel,
                                              const yk_conv_transpose1d_options *options,
                                              yki_layer_init init)
{
    layer l;
    yk_value *bias, *y;
    if (!begin_layer(&l, x, name, &y))
        return y;
    yk_conv_transpose1d_options o;
    const yk_status read = YKI_READ_OPTIONS(&o, options, yk_conv_transpose1d_options,
                                            YK_CONV_TRANSPOSE1D_OPTIONS_INIT);
    const int64_t groups = groups_of(read, o.groups);
    const int64_t filters[] = {channels_of(&l), out_channels / groups, kernel};
    yk_value *weight = declare_filters(&l, 3, filters, init, out_channels, &bias);
    return end_layer(&l, yk_conv_transpose1d(x, weight, bias, options));
}

yk_value *yk_nn_conv_transpose1d(yk_value *x, const char *name, int64_t out_channels,
                                 int64_t kernel, const yk_conv_transpose1d_options *options)
{
    return convolve_sequence_transposed(x, name, out_channels, kernel, options, uniform);
}

yk_value *yk_nn_conv_transpose1d_bias(yk_value *x, const char *name, int64_t out_channels,
                                      int64_t kernel, const yk_conv_transpose1d_options *options)
{
    return convolve_sequence_transposed(x, name, out_channels, kernel, options, uniform_with_bias);
}

/* ---- of rows --------------------------------------------------------------------------------- */

yk_value *yki_nn_declare_linear(yk_value *x, int64_t out_features, int64_t in_features,
                                yki_layer_init init, yk_value **bias)
{
    yk_graph *graph = yk_value_graph(x);
    yk_dtype dtype = yk_value_dtype(x);
    const int64_t dims[] = {out_features, in_features};
    yk_value *weight = yk_parameter(graph, "weight", dtype, 2, dims, init.weight, 0);
    *bias =
        init.has_bias ? yk_parameter(graph, "bias", dtype, 1, dims, init.bias, in_features) : NULL;
    return weight;
}

yk_value *yki_nn_linear(yk_value *x, const char *name, int64_t out_features, yki_layer_init init)
{
    layer l;
    yk_value *bias, *y;
    if (!begin_layer(&l, x, name, &y))
        return y;
    yk_value *weight = yki_nn_declare_linear(x, out_features, columns_of(&l), init, &bias);
    return end_layer(&l, yk_linear(x, weight, bias));
}

yk_value *yk_nn_linear(yk_value *x, const char *name, int64_t out_features)
{
    return yki_nn_linear(x, name, out_features, uniform_with_bias);
}

yk_value *yk_nn_embedding(yk_value *indices, const char *name, int64_t num_embeddings,
                          int64_t embedding_dim)
{
    layer l;
    yk_value *y;
    if (!begin_layer(&l, indices, name, &y))
        return y;
    const int64_t dims[] = {num_embeddings, embedding_dim};
    yk_value *weight = yk_parameter(l.graph, "weight", YK_F32, 2, dims, YK_INIT_STANDARD_NORMAL, 0);
    return end_layer(&l, yk_embedding(indices, weight));
}

/* ---- normalisation --------------------------------------------------------------------------- */

yk_value *yk_nn_layer_norm(yk_value *x, const char *name, double eps)
{
    layer l;
    yk_value *y;
    if (!begin_layer(&l, x, name, &y))
        return y;
    yk_value *weight = declare_vector(&l, "weight", columns_of(&l), YK_INIT_ONES);
    yk_value *bias = declare_vector(&l, "bias", columns_of(&l), YK_INIT_ZEROS);
    return end_layer(&l, yk_layer_norm(x, weight, bias, eps));
}

yk_value *yk_nn_rms_norm(yk_value *x, const char *name, double eps)
{
    layer l;
    yk_value *y;
    if (!begin_layer(&l, x, name, &y))
        return y;
    yk_value *weight = declare_vector(&l, "weight", columns_of(&l), YK_INIT_ONES);
    return end_layer(&l, yk_rms_norm(x, weight, eps));
}

yk_value *yk_nn_group_norm(yk_value *x, const char *name, int64_t num_groups, double eps)
{
    layer l;
    yk_value *y;
    if (!begin_layer(&l, x, name, &y))
        return y;
    const int64_t channels = channels_of(&l);
    yk_value *weight = declare_vector(&l, "weight", channels, YK_INIT_ONES);
    yk_value *bias = declare_vector(&l, "bias", channels, YK_INIT_ZEROS);
    return end_layer(&l, yk_group_norm(x, num_groups, weight, bias, eps));
}

yk_value *yk_nn_batch_norm(yk_value *x, const char *name)
{
    return yk_nn_batch_norm_with(x, name, NULL);
}

yk_value *yk_nn_batch_norm_with(yk_value *x, const char *name,
                                const yk_nn_batch_norm_options *options)
{
    yk_nn_batch_norm_options o;
    layer l;
    yk_value *y;
    yk_status status =
        YKI_READ_OPTIONS(&o, options, yk_nn_batch_norm_options, YK_NN_BATCH_NORM_OPTIONS_INIT);
    if (status != YK_OK)
        return yki_emit_error(x, "batch_norm", status);
    if (!begin_layer(&l, x, name, &y))
        return y;
    yk_scope_version(l.graph, 2); /* with num_batches_tracked */
    const int64_t channels = channels_of(&l);
    yk_value *weight = declare_vector(&l, "weight", channels, YK_INIT_ONES);
    if (o.fixed_scale)
        yki_value_fix(weight);
    yk_value *bias = declare_vector(&l, "bias", channels, YK_INIT_ZEROS);
    yk_value *mean = yk_buffer(l.graph, "running_mean", l.dtype, 1, &channels, YK_INIT_ZEROS);
    yk_value *var = yk_buffer(l.graph, "running_var", l.dtype, 1, &channels, YK_INIT_ONES);
    yk_value *batches = yk_buffer(l.graph, "num_batches_tracked", YK_I64, 0, NULL, YK_INIT_ZEROS);
    yk_batch_norm_options norm = YK_BATCH_NORM_OPTIONS_INIT;
    norm.eps = o.eps;
    norm.momentum = o.momentum;
    norm.num_batches_tracked = batches;
    norm.batch_statistics = o.batch_statistics;
    return end_layer(&l, yk_batch_norm(x, weight, bias, mean, var, &norm));
}

/* ---- made of others -------------------------------------------------------------------------- */

yk_value *yki_nn_max_pool_up(yk_value *x, int64_t kernel, int64_t stride)
{
    yk_pool2d_options options = YK_POOL2D_OPTIONS_INIT;
    options.kernel = kernel;
    options.stride = stride;
    options.ceil_mode = true;
    return yk_max_pool2d_with(x, &options);
}

/* One for each sample of x, with as many dimensions: (N, 1, ...). What x is does not matter, except
 * that NaN stays NaN. */
static yk_value *ones_of_samples(yk_value *x)
{
    x = yk_detach(x);
    for (int d = yk_value_shape(x, NULL) - 1; d > 0; d--)
        x = yk_slice(x, d, 0, 1);
    return yk_clamp(x, 1, 1);
}

yk_value *yki_nn_sample_factors(yk_value *x, double p)
{
    return yk_dropout(ones_of_samples(x), p);
}

yk_value *yk_nn_stochastic_depth(yk_value *x, double p)
{
    return yk_multiply(x, yki_nn_sample_factors(x, p));
}

yk_value *yki_nn_squeeze_excitation(yk_value *x, const char *name, int64_t squeeze_channels,
                                    const yk_nn_squeeze_excitation_options *options,
                                    yki_layer_init init)
{
    yk_nn_squeeze_excitation_options o;
    if (yk_value_shape(x, NULL) < 0)
        return x ? x : yki_no_operand(name ? name : "a layer");
    yk_status status = YKI_READ_OPTIONS(&o, options, yk_nn_squeeze_excitation_options,
                                        YK_NN_SQUEEZE_EXCITATION_OPTIONS_INIT);
    if (status == YK_OK && (!o.activation || !o.scale_activation))
        status = yki_error(YK_ERROR_INVALID_ARGUMENT, "a function of the options is NULL");
    if (status != YK_OK)
        return yki_emit_error(x, "squeeze_excitation", status);
    yk_graph *graph = yk_value_graph(x);
    yk_scope_push(graph, name);
    yk_value *y = yk_global_avg_pool2d(x);
    y = o.activation(yki_nn_conv2d(y, "fc1", squeeze_channels, 1, NULL, init));
    y = o.scale_activation(yki_nn_conv2d(y, "fc2", yki_channels_of(x), 1, NULL, init));
    y = yk_multiply(x, y);
    yk_scope_pop(graph);
    return y;
}

yk_value *yk_nn_squeeze_excitation(yk_value *x, const char *name, int64_t squeeze_channels,
                                   const yk_nn_squeeze_excitation_options *options)
{
    return yki_nn_squeeze_excitation(x, name, squeeze_channels, options, uniform_with_bias);
}

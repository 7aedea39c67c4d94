/*
 * What the tests of distributed training share: a network small enough to compare with one process
 * element by element, samples that every rank can make by itself, and the comparison.
 */
#ifndef YK_TEST_SMALL_NETWORK_H
#define YK_TEST_SMALL_NETWORK_H

#include "harness.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = 6, PIXELS = 3 * SIDE * SIDE, CLASSES = 5, MAX_SAMPLES = 32 };

typedef struct network {
    const char *device;
    yk_dtype dtype;
    bool norm;     /* batch_norm after each convolution */
    uint64_t seed; /* of the first weights */
    yk_amp amp;
    bool recompute; /* cheap values once more in backward */
    int threads;    /* 0: one */
    int channels;   /* 0: four */
    bool sum;       /* a loss that is a sum over samples */
    bool mixed;     /* mean + 0.1 (sum + mean) */
    bool own;       /* with another loss, of operators */
    bool benchmark; /* kernels are measured */
} network;

static inline yk_value *convolve(yk_value *x, const char *name, const char *norm_name,
                                 const network *net)
{
    int channels = net->channels ? net->channels : 4;
    x = yk_nn_conv2d(x, name, channels, 3,
                     YK_WITH(yk_conv2d_options, YK_CONV2D_OPTIONS_INIT, o.padding = 1));
    return net->norm ? yk_nn_batch_norm(x, norm_name) : x;
}

static inline yk_value *reduced_loss(yk_value *logits, yk_value *labels, const network *net,
                                     yk_loss_reduction reduction)
{
    yk_value *loss = yk_cross_entropy(
        logits, labels,
        YK_WITH(yk_cross_entropy_options, YK_CROSS_ENTROPY_OPTIONS_INIT, o.reduction = reduction));
    if (!net->own)
        return loss;
    yk_value *own = yk_reduce_loss(yk_subtract(yk_exp(logits), logits), reduction);
    return yk_subtract(loss, yk_scale(own, -0.5));
}

static inline yk_value *make_loss(yk_value *logits, yk_value *labels, const network *net)
{
    if (!net->mixed)
        return reduced_loss(logits, labels, net, net->sum ? YK_LOSS_SUM : YK_LOSS_MEAN);
    yk_value *mean = reduced_loss(logits, labels, net, YK_LOSS_MEAN);
    yk_value *sum = reduced_loss(logits, labels, net, YK_LOSS_SUM);
    return yk_add(mean, yk_scale(yk_add(sum, mean), 0.1));
}

/* conv - norm - relu - conv - norm - add - relu - pool - linear: a residual network's parts. */
static inline yk_model *make_model(const network *net)
{
    yk_graph *graph = yk_graph_create();
    yk_value *images =
        yk_input(graph, "images", net->dtype, 4, (int64_t[]){YK_BATCH, 3, SIDE, SIDE});
    yk_value *labels = yk_input(graph, "labels", YK_I32, 1, (int64_t[]){YK_BATCH});
    yk_value *first = yk_relu(convolve(images, "conv1", "bn1", net));
    yk_value *second = convolve(first, "conv2", "bn2", net);
    yk_value *pooled = yk_flatten(yk_global_avg_pool2d(yk_relu(yk_add(second, first))));
    yk_value *loss = make_loss(yk_nn_linear(pooled, "fc", CLASSES), labels, net);
    yk_model *model;
    assert_ok(yk_model_create(
        &model, loss,
        YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.device = yk_test_device(net->device),
                o.seed = net->seed, o.amp = net->amp, o.recompute = net->recompute,
                o.benchmark = net->benchmark, o.threads = net->threads ? net->threads : 1)));
    return model;
}

/* ---- samples -------------------------------------------------------------------------------- */

/* Samples first, first + 1, ... of an endless data set; views into static memory. */
typedef struct samples {
    double f64[MAX_SAMPLES * PIXELS];
    float f32[MAX_SAMPLES * PIXELS];
    int32_t labels[MAX_SAMPLES];
    yk_tensor tensors[2];
    yk_batch batch;
} samples;

static inline const yk_batch *take_samples(samples *s, yk_dtype dtype, int64_t first, int64_t count)
{
    static const char *const names[] = {"images", "labels"};
    assert_in_range(count, 0, MAX_SAMPLES);
    for (int64_t i = 0; i < count * PIXELS; i++) {
        uint64_t mixed = (uint64_t)(first * PIXELS + i + 1) * 0x9e3779b97f4a7c15u;
        s->f32[i] = (float)(mixed >> 40) / (float)(1 << 23) - 1; /* in [-1, 1), exact in f32 */
        s->f64[i] = (double)s->f32[i];
    }
    for (int64_t i = 0; i < count; i++)
        s->labels[i] = (int32_t)((first + i) * 3 % CLASSES);
    s->tensors[0] = (yk_tensor){.data = dtype == YK_F64 ? (void *)s->f64 : (void *)s->f32,
                                .dtype = dtype,
                                .ndim = 4,
                                .dims = {count, 3, SIDE, SIDE}};
    s->tensors[1] = (yk_tensor){.data = s->labels, .dtype = YK_I32, .ndim = 1, .dims = {count}};
    s->batch = (yk_batch){.size = count, .count = 2, .names = names, .tensors = s->tensors};
    return &s->batch;
}

/* ---- comparison ----------------------------------------------------------------------------- */

static inline double element(const yk_tensor *tensor, int64_t i)
{
    if (tensor->device) {
        yk_tensor one = {.dtype = tensor->dtype, .device = tensor->device};
        one.data = (char *)tensor->data + (size_t)i * yk_dtype_size(tensor->dtype);
        yk_tensor host = yk_test_on_host(one);
        return element(&host, 0);
    }
    switch (tensor->dtype) {
    case YK_F64:
        return ((const double *)tensor->data)[i];
    case YK_F32:
        return ((const float *)tensor->data)[i];
    case YK_I64:
        return (double)((const int64_t *)tensor->data)[i];
    default:
        fail_msg("no comparison for %s", yk_dtype_name(tensor->dtype));
        return 0;
    }
}

/* The largest difference is at most tolerance times the largest expected element. */
static inline void assert_near(const char *name, const yk_tensor *found, const yk_tensor *expected,
                               double tolerance)
{
    double largest = 0;
    int64_t count = yk_tensor_count(expected);
    yk_tensor a = yk_test_on_host(*found), b = yk_test_on_host(*expected);
    assert_int_equal(yk_tensor_count(found), count);
    for (int64_t i = 0; i < count; i++)
        largest = fmax(largest, fabs(element(&b, i)));
    for (int64_t i = 0; i < count; i++)
        if (!(fabs(element(&a, i) - element(&b, i)) <= tolerance * largest))
            fail_msg("%s[%lld] is %.17g, expected %.17g within %g of %g", name, (long long)i,
                     element(&a, i), element(&b, i), tolerance, largest);
}

/* The parameter or buffer of this name; there must be one. */
static inline yk_parameter_view find(const yk_model *model, const char *name)
{
    for (size_t i = 0; i < yk_model_parameter_count(model); i++)
        if (strcmp(yk_model_parameter(model, i).name, name) == 0)
            return yk_model_parameter(model, i);
    for (size_t i = 0; i < yk_model_buffer_count(model); i++)
        if (strcmp(yk_model_buffer(model, i).name, name) == 0)
            return yk_model_buffer(model, i);
    fail_msg("no %s", name);
    abort();
}

static inline void assert_same_gradients(const yk_model *found, const yk_model *expected,
                                         double tolerance)
{
    for (size_t i = 0; i < yk_model_parameter_count(expected); i++) {
        yk_parameter_view a = yk_model_parameter(found, i), b = yk_model_parameter(expected, i);
        assert_near(b.name, &a.grad, &b.grad, tolerance);
    }
}

static inline void assert_same_parameters(const yk_model *found, const yk_model *expected,
                                          double tolerance)
{
    for (size_t i = 0; i < yk_model_parameter_count(expected); i++) {
        yk_parameter_view a = yk_model_parameter(found, i), b = yk_model_parameter(expected, i);
        assert_near(b.name, &a.value, &b.value, tolerance);
    }
}

static inline void assert_same_buffers(const yk_model *found, const yk_model *expected,
                                       double tolerance)
{
    for (size_t i = 0; i < yk_model_buffer_count(expected); i++) {
        yk_parameter_view a = yk_model_buffer(found, i), b = yk_model_buffer(expected, i);
        assert_near(b.name, &a.value, &b.value, tolerance);
    }
}

/* Running statistics unlike the first ones, so that batch_norm in evaluation has work to do. */
static inline void shift_buffers(yk_model *model, double by)
{
    for (size_t i = 0; i < yk_model_buffer_count(model); i++) {
        yk_tensor buffer = yk_model_buffer(model, i).value, value = yk_test_on_host(buffer);
        for (int64_t e = 0; e < yk_tensor_count(&value); e++)
            if (value.dtype == YK_F64)
                ((double *)value.data)[e] += by * (double)(e + 1);
            else if (value.dtype == YK_F32)
                ((float *)value.data)[e] += (float)by * (float)(e + 1);
        yk_test_write_back(buffer, value);
    }
    yk_model_parameters_changed(model);
}

static inline void step(yk_model *model, const yk_batch *batch)
{
    assert_ok(yk_model_forward(model, batch));
    assert_ok(yk_model_backward(model));
}

#endif

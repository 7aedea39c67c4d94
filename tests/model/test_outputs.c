/* Further values of a graph that a program reads, on every device and whatever passes rewrite. */
#include <math.h>
#include <string.h>

#include "harness.h"

enum { SAMPLES = 5, SIDE = 4, CHANNELS = 6, CLASSES = 3 };

/* Values that passes would otherwise take in, recompute, overwrite or leave out. */
typedef enum wanted {
    NORMED,  /* of batch_norm, in front of its relu: (N, C, H, W) */
    ACTIVE,  /* after it */
    DOUBLED, /* only elementwise kernels read and write it */
    HIDDEN,  /* (N, C) */
    LOGITS,  /* once more */
    SPARE,   /* nothing else depends on it */
    PART,    /* a term of the loss, a scalar that depends on the labels */
    IMAGES,  /* an input */
    BIAS,    /* a parameter */
    WEIGHT,  /* one of four dimensions */
    WANTED
} wanted;

typedef struct network {
    yk_value *loss, *logits, *values[WANTED];
} network;

static network build(void)
{
    network net;
    yk_graph *graph = yk_graph_create();
    yk_value *images = yk_input(graph, "images", YK_F32, 4, (int64_t[]){YK_BATCH, 3, SIDE, SIDE});
    yk_value *labels = yk_input(graph, "labels", YK_I32, 1, (int64_t[]){YK_BATCH});
    yk_value *target = yk_input(graph, "target", YK_F32, 2, (int64_t[]){YK_BATCH, CHANNELS});
    const int64_t channels = CHANNELS, filters[] = {CHANNELS, 3, 1, 1};
    yk_value *weight =
        yk_parameter(graph, "weight", YK_F32, 4, filters, YK_INIT_KAIMING_UNIFORM, 0);
    yk_value *bias = yk_parameter(graph, "bias", YK_F32, 1, &channels, YK_INIT_ONES, 0);
    net.values[NORMED] = yk_nn_batch_norm(yk_conv2d(images, weight, bias, NULL), "bn");
    net.values[ACTIVE] = yk_relu(net.values[NORMED]);
    net.values[DOUBLED] = yk_scale(net.values[ACTIVE], 2);
    yk_value *means = yk_flatten(yk_global_avg_pool2d(yk_sigmoid(net.values[DOUBLED])));
    net.values[HIDDEN] = yk_relu(yk_nn_linear(means, "hidden", CHANNELS));
    net.logits = net.values[LOGITS] = yk_nn_linear(net.values[HIDDEN], "fc", CLASSES);
    net.values[SPARE] = yk_softmax(yk_nn_linear(means, "spare", 2));
    net.values[PART] = yk_mse_loss(net.values[HIDDEN], target, YK_LOSS_MEAN);
    net.values[IMAGES] = images;
    net.values[BIAS] = bias;
    net.values[WEIGHT] = weight;
    net.loss = yk_add(yk_cross_entropy(net.logits, labels, NULL), yk_scale(net.values[PART], 0.5));
    return net;
}

typedef struct setting {
    const char *device;
    yk_amp amp;
    bool recompute;
    double tolerance;
} setting;

/* With the `count` values from `first` on as further outputs; logits: one of them, or NULL. */
static yk_model *make_model(const setting *s, const network *net, yk_value *loss, yk_value *logits,
                            wanted first, size_t count)
{
    yk_model *model;
    yk_value *outputs[WANTED];
    memcpy(outputs, &net->values[first], count * sizeof *outputs);
    assert_ok(
        yk_model_create(&model, loss,
                        YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.device = s->device,
                                o.amp = s->amp, o.threads = 2, o.recompute = s->recompute,
                                o.logits = logits, o.outputs = outputs, o.output_count = count)));
    memset((void *)outputs, 0xff, sizeof outputs); /* the array is the caller's */
    return model;
}

typedef struct samples {
    float pixels[SAMPLES * 3 * SIDE * SIDE], target[SAMPLES * CHANNELS];
    int32_t labels[SAMPLES];
    yk_tensor tensors[3];
    yk_batch batch;
} samples;

static void draw(samples *s)
{
    static const char *const names[] = {"images", "target", "labels"};
    for (int i = 0; i < SAMPLES * 3 * SIDE * SIDE; i++)
        s->pixels[i] = (float)sin(0.7 * i + 1e-3 * i * i);
    for (int i = 0; i < SAMPLES * CHANNELS; i++)
        s->target[i] = (float)cos(0.3 * i);
    for (int i = 0; i < SAMPLES; i++)
        s->labels[i] = i % CLASSES;
    s->tensors[0] = (yk_tensor){
        .data = s->pixels, .dtype = YK_F32, .ndim = 4, .dims = {SAMPLES, 3, SIDE, SIDE}};
    s->tensors[1] =
        (yk_tensor){.data = s->target, .dtype = YK_F32, .ndim = 2, .dims = {SAMPLES, CHANNELS}};
    s->tensors[2] = (yk_tensor){.data = s->labels, .dtype = YK_I32, .ndim = 1, .dims = {SAMPLES}};
    s->batch = (yk_batch){.size = SAMPLES, .count = 3, .names = names, .tensors = s->tensors};
}

static void assert_near(const yk_tensor *found, const yk_tensor *expected, wanted which,
                        double tolerance)
{
    assert_int_equal(found->dtype, YK_F32);
    assert_int_equal(found->ndim, expected->ndim);
    assert_memory_equal(found->dims, expected->dims, (size_t)found->ndim * sizeof *found->dims);
    for (int64_t i = 0; i < yk_tensor_count(found); i++) {
        double a = yk_tensor_get(found, i), b = yk_tensor_get(expected, i);
        if (!(fabs(a - b) <= tolerance * (1 + fabs(b))))
            fail_msg("value %d, element %d: %g, expected %g", (int)which, (int)i, a, b);
    }
}

/* As a model shows them whose only output each of them is; all are shown at the same time. */
static void compare(const setting *s, bool evaluation, bool backward)
{
    const setting plain = {.device = "ref"};
    samples b;
    yk_tensor found[WANTED], expected, logits;
    draw(&b);
    network net = build();
    yk_model *model = make_model(s, &net, net.loss, net.logits, 0, WANTED);
    if (evaluation)
        yk_model_eval(model);
    for (int step = 0; step < 2; step++) { /* the second time as recorded, where a device records */
        assert_ok(yk_model_forward(model, &b.batch));
        if (backward)
            assert_ok(yk_model_backward(model));
    }
    assert_ok(yk_model_output(model, &logits));
    for (size_t i = 0; i < WANTED; i++)
        assert_ok(yk_model_output_at(model, i, &found[i]));
    assert_near(&found[LOGITS], &logits, LOGITS, 0);
    for (int i = 0; i < WANTED; i++) {
        network alone = build();
        yk_model *other = make_model(&plain, &alone, alone.loss, alone.values[i], 0, 0);
        if (evaluation)
            yk_model_eval(other);
        for (int step = 0; step < 2; step++)
            assert_ok(yk_model_forward(other, &b.batch));
        assert_ok(yk_model_output(other, &expected));
        assert_near(&found[i], &expected, i, s->tolerance);
        yk_model_destroy(other);
    }
    yk_model_destroy(model);
}

static void compare_all(const char *device)
{
    const setting settings[] = {{device, YK_AMP_OFF, false, 1e-5},
                                {device, YK_AMP_OFF, true, 1e-5},
                                {device, YK_AMP_BF16, false, 5e-2}};
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        compare(&settings[i], false, false);
        compare(&settings[i], false, true);
        compare(&settings[i], true, false);
    }
}

YK_TEST(several_values_are_read_on_ref)
{
    compare_all("ref");
}

YK_TEST(several_values_are_read_on_cpu)
{
    compare_all("cpu");
}

YK_TEST(several_values_are_read_on_sim)
{
    compare_all("sim");
}

YK_TEST(further_outputs_leave_training_as_it_is)
{
    const setting s = {.device = "cpu"};
    samples b;
    draw(&b);
    network with = build(), without = build();
    yk_model *a = make_model(&s, &with, with.loss, with.logits, HIDDEN, 4);
    yk_model *c = make_model(&s, &without, without.loss, without.logits, 0, 0);
    for (int step = 0; step < 2; step++) {
        assert_ok(yk_model_forward(a, &b.batch));
        assert_ok(yk_model_backward(a));
        assert_ok(yk_model_forward(c, &b.batch));
        assert_ok(yk_model_backward(c));
        assert_true(yk_model_loss(a) == yk_model_loss(c));
    }
    for (size_t p = 0; p < yk_model_parameter_count(c); p++) {
        yk_tensor x = yk_model_parameter(a, p).grad, y = yk_model_parameter(c, p).grad;
        assert_memory_equal(x.data, y.data, yk_tensor_bytes(&y));
    }
    yk_model_destroy(a);
    yk_model_destroy(c);
}

/* In evaluation, a batch may leave out what no output depends on. */
YK_TEST(evaluation_takes_the_inputs_of_all_outputs)
{
    const setting s = {.device = "cpu"};
    samples b;
    yk_tensor output;
    draw(&b);
    b.batch.count = 1;
    network net = build();
    yk_model *model = make_model(&s, &net, net.loss, net.logits, HIDDEN, 1);
    yk_model_eval(model);
    assert_ok(yk_model_forward(model, &b.batch));
    assert_ok(yk_model_output_at(model, 0, &output));
    assert_true(isnan(yk_model_loss(model)));
    yk_model_destroy(model);

    net = build();
    model = make_model(&s, &net, net.loss, net.logits, PART, 1);
    yk_model_eval(model);
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_model_forward(model, &b.batch));
    assert_contains(yk_last_error(), "target");
    b.batch.count = 2;
    assert_ok(yk_model_forward(model, &b.batch));
    assert_ok(yk_model_output_at(model, 0, &output));
    assert_true(output.ndim == 0 && isfinite(yk_tensor_get(&output, 0)));
    assert_true(isnan(yk_model_loss(model)));
    yk_model_destroy(model);
}

YK_TEST(inference_needs_neither_a_loss_nor_logits)
{
    const setting s = {.device = "cpu"};
    samples b;
    yk_tensor output;
    draw(&b);
    b.batch.count = 1;
    network net = build();
    yk_model *model = make_model(&s, &net, NULL, NULL, HIDDEN, 3);
    assert_ok(yk_model_forward(model, &b.batch));
    for (size_t i = 0; i < 3; i++)
        assert_ok(yk_model_output_at(model, i, &output));
    assert_true(output.ndim == 2 && output.dims[0] == SAMPLES && output.dims[1] == 2);
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_model_output(model, &output));
    assert_contains(yk_last_error(), "created without options.logits");
    yk_model_destroy(model);
}

YK_TEST(a_program_of_an_older_header_has_none)
{
    yk_model *model;
    yk_tensor output;
    network net = build();
    yk_model_options options = YK_MODEL_OPTIONS_INIT;
    options.size = offsetof(yk_model_options, outputs);
    options.logits = net.logits;
    options.outputs = net.values;
    options.output_count = WANTED;
    assert_ok(yk_model_create(&model, net.loss, &options));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_model_output_at(model, 0, &output));
    yk_model_destroy(model);
}

/* ---- what is refused ------------------------------------------------------------------------- */

static void refused(const network *net, yk_value *loss, yk_value *const *outputs, size_t count,
                    const char *words)
{
    yk_model *model;
    assert_int_not_equal(
        yk_model_create(&model, loss,
                        YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.logits = net->logits,
                                o.outputs = outputs, o.output_count = count)),
        YK_OK);
    assert_null(model);
    assert_contains(yk_last_error(), words);
}

YK_TEST(impossible_outputs_are_refused)
{
    network net = build(), other = build();
    yk_graph *graph = yk_value_graph(net.loss);
    yk_value *labels = yk_input(graph, "classes", YK_I32, 1, (int64_t[]){YK_BATCH});
    yk_value *values[] = {net.values[HIDDEN], NULL};
    refused(&net, net.loss, NULL, 1, "options.outputs is NULL, but output_count is 1");
    refused(&net, net.loss, values, 2, "options.outputs[1] is NULL");
    values[1] = yk_relu(NULL);
    refused(&net, net.loss, values, 2, "options.outputs[1] is NULL, or follows from");
    values[1] = other.values[HIDDEN];
    refused(&net, net.loss, values, 2, "options.outputs[1] belongs to another graph");
    values[1] = labels;
    refused(&net, net.loss, values, 2, "options.outputs[1] is int32, expected float32 or float64");
    const network none = {.logits = NULL};
    values[0] = NULL;
    refused(&none, NULL, values, 1, "options.outputs[0] is NULL");
    yk_graph_destroy(graph);
    yk_graph_destroy(yk_value_graph(other.loss));
}

YK_TEST(outputs_are_there_after_a_forward_and_by_their_number)
{
    const setting s = {.device = "cpu"};
    yk_tensor output;
    network net = build();
    yk_model *model = make_model(&s, &net, net.loss, net.logits, HIDDEN, 2);
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_model_output_at(model, 0, &output));
    assert_contains(yk_last_error(), "there is no output before a forward");
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_model_output_at(model, 2, &output));
    assert_contains(yk_last_error(),
                    "there is no output 2: the model was created with 2 options.outputs");
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_model_output_at(NULL, 0, &output));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_model_output_at(model, 0, NULL));
    yk_model_destroy(model);
}

/* Batches that all devices share, and one that leaves some without; each output in its own place.
 */
static void check_gathered(const char *device, const char *devices)
{
    const setting s = {.device = device}, plain = {.device = "ref"};
    const int count = SPARE + 1;
    samples b;
    yk_tensor found[WANTED], expected;
    yk_data_parallel *dp;
    draw(&b);
    network net = build(), same = build();
    yk_model *model = make_model(&s, &net, net.loss, NULL, NORMED, (size_t)count);
    yk_model *alone = make_model(&plain, &same, same.loss, NULL, NORMED, (size_t)count);
    assert_ok(yk_data_parallel_create(
        &dp, model,
        YK_WITH(yk_data_parallel_options, YK_DATA_PARALLEL_OPTIONS_INIT, o.devices = devices)));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_model_output_at(model, 0, &expected));
    assert_contains(yk_last_error(), "there is no output before a forward");
    yk_model_eval(model); /* in training each replica normalises with its own batch */
    yk_model_eval(alone);
    for (int64_t size = SAMPLES; size >= 1; size -= 2) {
        b.batch.size = size;
        for (int i = 0; i < b.batch.count; i++)
            b.tensors[i].dims[0] = size;
        assert_ok(yk_model_forward(model, &b.batch));
        assert_ok(yk_model_forward(alone, &b.batch));
        for (int i = 0; i < count; i++)
            assert_ok(yk_model_output_at(model, (size_t)i, &found[i]));
        for (int i = 0; i < count; i++) {
            assert_ok(yk_model_output_at(alone, (size_t)i, &expected));
            assert_near(&found[i], &expected, (wanted)i, 0);
        }
    }
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_model_output_at(model, (size_t)count, &expected));
    assert_contains(yk_last_error(), "there is no output 6");
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_model_output(model, &expected));
    assert_contains(yk_last_error(), "created without options.logits");
    yk_data_parallel_destroy(dp);
    yk_model_destroy(model);
    yk_model_destroy(alone);
}

YK_TEST(data_parallel_gathers_further_outputs)
{
    check_gathered("ref", "cpu:0,cpu:1");
    check_gathered("sim:0", "sim:0,sim:1,sim:2");
}

YK_TEST(data_parallel_refuses_outputs_that_are_not_of_samples)
{
    static const wanted wrong[] = {PART, BIAS, WEIGHT};
    const setting s = {.device = "ref"};
    yk_data_parallel *dp;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        network net = build();
        net.values[NORMED + 1] = net.values[wrong[i]];
        yk_model *model = make_model(&s, &net, net.loss, net.logits, NORMED, 2);
        assert_status(YK_ERROR_INVALID_ARGUMENT, yk_data_parallel_create(&dp, model, NULL));
        assert_contains(yk_last_error(), "that of options.outputs[1] is not the batch's");
        yk_model_destroy(model);
    }
}

/* The file has the logits alone. */
YK_TEST(onnx_files_have_the_logits)
{
    const setting s = {.device = "ref"};
    char paths[2][256], text[256];
    for (int i = 0; i < 2; i++) {
        network net = build();
        yk_model *model = make_model(&s, &net, net.loss, net.logits, LOGITS, i ? 4 : 0);
        snprintf(paths[i], sizeof *paths, "%s/%d.onnx", yk_test_directory(), i);
        assert_ok(yk_model_export_onnx(model, paths[i]));
        yk_model_destroy(model);
    }
    assert_int_equal(yk_test_command(text, sizeof text, "cmp %s %s", paths[0], paths[1]), 0);
}

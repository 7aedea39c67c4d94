/* Models on the cuda device with the fake driver. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include <yoke/data_parallel.h>
#include <yoke/operator.h>

#include "base/cores.h"
#include "harness.h"

enum { SIDE = 16, MOST = 512 };

static yk_model *make_model(void)
{
    const int64_t images[] = {YK_BATCH, 3, SIDE, SIDE}, labels[] = {YK_BATCH};
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "images", YK_F32, 4, images);
    x = yk_nn_conv2d(x, "conv", 16, 3,
                     YK_WITH(yk_conv2d_options, YK_CONV2D_OPTIONS_INIT, o.padding = 1));
    x = yk_nn_linear(yk_flatten(yk_global_avg_pool2d(yk_relu(x))), "fc", 10);
    yk_value *loss = yk_cross_entropy(x, yk_input(graph, "labels", YK_I32, 1, labels), NULL);
    yk_model *model;
    assert_ok(yk_model_create(&model, loss,
                              YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.device = "cuda")));
    return model;
}

static float images[MOST * 3 * SIDE * SIDE];

static yk_status forward(yk_model *model, int64_t samples)
{
    static int32_t labels[MOST];
    static const char *const names[] = {"images", "labels"};
    yk_tensor tensors[] = {
        {.data = images, .dtype = YK_F32, .ndim = 4, .dims = {samples, 3, SIDE, SIDE}},
        {.data = labels, .dtype = YK_I32, .ndim = 1, .dims = {samples}}};
    const yk_batch batch = {.size = samples, .count = 2, .names = names, .tensors = tensors};
    return yk_model_forward(model, &batch);
}

/* The batch that the error names does fit. */
YK_TEST(out_of_memory_names_a_batch_that_fits)
{
    setenv("YK_FAKE_GPU_MEMORY", "6", 1);
    yk_model *model = make_model();
    int fits = 0;
    assert_status(YK_ERROR_OUT_OF_MEMORY, forward(model, MOST));
    assert_contains(yk_last_error(), "device cuda:0: out of memory: ");
    const char *advice = strstr(yk_last_error(), "; a batch of ");
    assert_non_null(advice);
    assert_int_equal(sscanf(advice, "; a batch of %d samples would fit, instead of 512", &fits), 1);
    assert_true(fits > 0 && fits < MOST);
    assert_ok(forward(model, fits));
    assert_ok(yk_model_backward(model));
    assert_true(yk_model_loss(model) > 0);
    yk_model_destroy(model);
}

/* The plans of an epoch's last, smaller batch are made while the arena takes most of the memory. */
YK_TEST(plans_of_a_smaller_batch_are_measured_too)
{
    char output[64];
    setenv("YK_FAKE_GPU_MEMORY", "7", 1);
    setenv("YOKE_CUDA_MEASURE", "1", 1);
    setenv("XDG_CACHE_HOME", yk_test_directory(), 1);
    yk_model *model = make_model();
    for (int64_t i = 0; i < 3; i++) {
        assert_ok(forward(model, i == 1 ? 127 : 128));
        assert_ok(yk_model_backward(model));
        assert_true(yk_model_loss(model) > 0);
    }
    assert_int_equal(yk_test_command(output, sizeof output,
                                     "cat %s/yoke/plans/*/*.plan | grep -A1 '^conv2d' | "
                                     "grep -Ec '^([1-9]|0[.]0*[1-9])'",
                                     yk_test_directory()),
                     0);
    assert_string_equal(output, "4\n"); /* forward, and the gradient of the filter, of both */
    yk_model_destroy(model);
}

/* What is planned does not take the place of what has been computed. */
YK_TEST(a_plan_of_memory_leaves_the_last_forward_alone)
{
    yk_memory_plan memory;
    yk_model *model = make_model();
    assert_ok(forward(model, 2));
    double loss = yk_model_loss(model);
    assert_ok(yk_model_memory_plan(model, 3, &memory));
    assert_ok(yk_model_backward(model));
    assert_true(yk_model_loss(model) == loss);
    yk_model_destroy(model);
}

/* ---- what is computed of a convolution's weights --------------------------------------------- */

enum { WEIGHTS = 4 * 6 * 3 * 5 };

static yk_value *squared(yk_value *w)
{
    return yk_multiply(w, w);
}

static yk_value *permuted(yk_value *w)
{
    return yk_exp(yk_permute(w, 4, (int64_t[]){2, 0, 3, 1}));
}

static yk_value *shares(yk_value *w)
{
    return squared(yk_softmax(w));
}

static yk_value *flattened(yk_value *w)
{
    return yk_tanh(yk_flatten(w));
}

static yk_value *means(yk_value *w)
{
    return yk_exp(yk_mean(w, 1));
}

static yk_value *pooled(yk_value *w)
{
    return squared(yk_avg_pool2d(w, 2, 1, 0));
}

static yk_value *dropped(yk_value *w)
{
    return squared(yk_dropout(w, 0.3));
}

/* An image that is trained, as for adversarial examples, goes through filters that are, too. */
static yk_value *filtered(yk_value *w)
{
    yk_value *filters = yk_add_scalar(w, 0.1);
    yk_conv2d_options options = YK_CONV2D_OPTIONS_INIT;
    options.padding = 2;
    return squared(yk_conv2d(w, filters, NULL, &options));
}

static yk_value *spread(yk_value *w)
{
    yk_value *filters = yk_permute(w, 4, (int64_t[]){1, 0, 2, 3});
    return squared(yk_conv_transpose2d(w, filters, NULL, NULL));
}

static yk_value *largest(yk_value *w)
{
    return squared(yk_max_pool2d(w, 2, 1, 0));
}

/* Of windows whose places do not fit into a byte. */
static yk_value *largest_of_all(yk_value *w)
{
    return squared(yk_max_pool2d(w, 17, 1, 8));
}

/* The loss, and the gradient of the weights. */
static double penalise(const char *device, yk_value *(*penalty)(yk_value *w), float *gradient)
{
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "x", YK_F32, 2, (int64_t[]){YK_BATCH, 2});
    yk_value *w = yk_parameter(graph, "w", YK_F32, 4, (int64_t[]){4, 6, 3, 5}, YK_INIT_NORMAL, 0);
    yk_value *loss =
        yk_add(yk_reduce_loss(penalty(w), YK_LOSS_MEAN), yk_reduce_loss(x, YK_LOSS_MEAN));
    yk_model_options options = YK_MODEL_OPTIONS_INIT;
    yk_model *model;
    options.device = device;
    assert_ok(yk_model_create(&model, loss, &options));
    float values[] = {1, 2, 3, 4};
    const char *const names[] = {"x"};
    yk_tensor tensor = {.data = values, .dtype = YK_F32, .ndim = 2, .dims = {2, 2}};
    assert_ok(yk_model_forward(
        model, &(yk_batch){.size = 2, .count = 1, .names = names, .tensors = &tensor}));
    assert_ok(yk_model_backward(model));
    double result = yk_model_loss(model);
    yk_parameter_view view = yk_model_parameter(model, 0);
    assert_int_equal(yk_tensor_count(&view.grad), WEIGHTS);
    assert_ok(yk_tensor_read(&view.grad, gradient));
    yk_model_destroy(model);
    return result;
}

/* Parameters are row-major, while images have their channels last. */
YK_TEST(four_dimensions_need_not_be_an_images)
{
    yk_value *(*const penalties[])(yk_value * w) = {squared, permuted, shares,        flattened,
                                                    means,   pooled,   dropped,       filtered,
                                                    spread,  largest,  largest_of_all};
    for (size_t p = 0; p < sizeof penalties / sizeof *penalties; p++) {
        float gradient[WEIGHTS], expected[WEIGHTS];
        double loss = penalise("cuda", penalties[p], gradient);
        assert_true(fabs(loss - penalise("ref", penalties[p], expected)) < 1e-5);
        for (int i = 0; i < WEIGHTS; i++)
            assert_true(fabsf(gradient[i] - expected[i]) < 1e-6f);
    }
}

YK_TEST(tensors_with_too_many_elements_are_refused_by_name)
{
    const long long batch = (1LL << 31) / (16 * SIDE * SIDE);
    yk_memory_plan memory;
    char expected[256];
    yk_model *model = make_model();
    assert_status(YK_ERROR_UNSUPPORTED, yk_model_memory_plan(model, batch, &memory));
    snprintf(expected, sizeof expected,
             "conv.conv2d: 16x16x16 times %lld samples are 2147483648 elements; device cuda takes "
             "at most 2147483647 in a tensor: a batch of %lld samples fits",
             batch, batch - 1);
    assert_contains(yk_last_error(), expected);
    yk_model_destroy(model);
}

/* ---- a program's operator on images, whose elements lie in another order on the device ------ */

static yk_status mirror_run(const yk_operator_run *run)
{
    const yk_tensor *x = &run->inputs[0];
    int64_t width = x->dims[3];
    for (int64_t i = 0; i < yk_tensor_count(x); i++)
        yk_tensor_set(&run->outputs[0], i, yk_tensor_get(x, i - i % width + width - 1 - i % width));
    return YK_OK;
}

static yk_status mirror_gradient(const yk_operator_node *node, yk_value *const *dy,
                                 const bool *needs, yk_value **dx);

static const yk_operator_kernel mirror_kernel = {.size = sizeof(yk_operator_kernel),
                                                 .run = mirror_run};
static const yk_operator mirror = {.size = sizeof(yk_operator),
                                   .name = "mirror",
                                   .input_count = 1,
                                   .output_count = 1,
                                   .inputs = {{.name = "input", .is_activation = true}},
                                   .gradient = mirror_gradient,
                                   .ref = &mirror_kernel};

static yk_status mirror_gradient(const yk_operator_node *node, yk_value *const *dy,
                                 const bool *needs, yk_value **dx)
{
    (void)node;
    if (needs[0])
        dx[0] = yk_operator_apply(&mirror, NULL, &dy[0], NULL);
    return YK_OK;
}

/* The loss and the sum of the first gradient's elements, each with a sign of its own. */
static void run_mirror(const char *device, double *loss, double *sum)
{
    const int64_t dims[] = {YK_BATCH, 3, SIDE, SIDE}, classes[] = {YK_BATCH};
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "images", YK_F32, 4, dims);
    x = yk_nn_conv2d(x, "conv1", 5, 3, NULL);
    x = yk_operator_apply(&mirror, NULL, &x, NULL);
    x = yk_nn_conv2d(x, "conv2", 10, SIDE - 2, NULL);
    yk_value *labels = yk_input(graph, "labels", YK_I32, 1, classes);
    yk_model *model;
    assert_ok(yk_model_create(&model, yk_cross_entropy(yk_flatten(x), labels, NULL),
                              YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.device = device)));
    assert_ok(forward(model, 2));
    *loss = yk_model_loss(model);
    assert_ok(yk_model_backward(model));
    yk_parameter_view weight = yk_model_parameter(model, 0);
    float gradient[5 * 3 * 3 * 3];
    assert_ok(yk_tensor_read(&weight.grad, gradient));
    *sum = 0;
    for (int i = 0; i < 5 * 3 * 3 * 3; i++)
        *sum += i % 3 == 1 ? -gradient[i] : gradient[i];
    yk_model_destroy(model);
}

YK_TEST(operators_of_programs_see_images_in_row_major_order)
{
    double loss[2], sum[2];
    for (int64_t i = 0; i < 2 * 3 * SIDE * SIDE; i++)
        images[i] = (float)((i * 2654435761u >> 8) % 1000) / 500 - 1;
    run_mirror("cpu", &loss[0], &sum[0]);
    run_mirror("cuda", &loss[1], &sum[1]);
    /* The stand-in for Winograd's algorithm is off by 1e-4. */
    assert_float_equal(loss[1], loss[0], 1e-3);
    assert_float_equal(sum[1], sum[0], 5e-3);
    assert_true(sum[0] != 0);
}

/* The loss of two convolutions with stride 2, which are folded and whose padding differs; of one
 * filter for both, or of two that are equal. */
static double fold_twice(bool shared)
{
    const int64_t dims[] = {YK_BATCH, 3, SIDE, SIDE}, classes[] = {YK_BATCH}, w[] = {8, 3, 3, 3};
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "images", YK_F32, 4, dims), *filters[2], *y[2];
    filters[0] = yk_parameter(graph, "first", YK_F32, 4, w, YK_INIT_UNIFORM_FAN_IN, 27);
    filters[1] = shared ? filters[0]
                        : yk_parameter(graph, "second", YK_F32, 4, w, YK_INIT_UNIFORM_FAN_IN, 27);
    for (int i = 0; i < 2; i++)
        y[i] = yk_flatten(yk_global_avg_pool2d(yk_relu(yk_conv2d(
            x, filters[i], NULL,
            YK_WITH(yk_conv2d_options, YK_CONV2D_OPTIONS_INIT, o.stride = 2, o.padding = i)))));
    yk_value *labels = yk_input(graph, "labels", YK_I32, 1, classes);
    yk_model *model;
    assert_ok(yk_model_create(
        &model, yk_cross_entropy(yk_add(y[0], y[1]), labels, NULL),
        YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.device = "cuda", o.amp = YK_AMP_BF16)));
    if (!shared) {
        float values[8 * 3 * 3 * 3];
        yk_tensor first = yk_model_parameter(model, 0).value;
        yk_tensor second = yk_model_parameter(model, 1).value;
        assert_ok(yk_tensor_read(&first, values));
        assert_ok(yk_tensor_write(&second, values));
        yk_model_parameters_changed(model);
    }
    assert_ok(forward(model, 2));
    double loss = yk_model_loss(model);
    yk_model_destroy(model);
    return loss;
}

YK_TEST(folded_convolutions_may_share_a_filter)
{
    for (int64_t i = 0; i < 2 * 3 * SIDE * SIDE; i++)
        images[i] = sinf((float)i * 1.7F);
    assert_true(fold_twice(true) == fold_twice(false));
}

/* The first forward knows the gradients' plans, too. */
YK_TEST(plans_of_all_convolutions_are_made_at_once)
{
    double loss, sum;
    char path[512];
    int cores = yki_cores_available();
    setenv("YK_FAKE_CUDNN_US", "20000", 1);
    run_mirror("cuda", &loss, &sum);
    snprintf(path, sizeof path, "%s/libcudnn.so.9", getenv("YOKE_CUDA_LIBS"));
    const atomic_int *most = dlsym(dlopen(path, RTLD_NOW), "yk_cudnn_most_at_once");
    assert_non_null(most);
    assert_in_range(atomic_load(most), cores > 1 ? 2 : 1, cores);
}

/* ---- profiles -------------------------------------------------------------------------------- */

/* The fake driver's operations take a microsecond each, and a kernel enters one or a few. */
YK_TEST(the_gpu_measures_its_kernels)
{
    enum { PASSES = 3 };
    double seconds = 0;
    yk_model *model = make_model();
    for (int i = 0; i < 2 * PASSES; i++) { /* the first are recorded and replayed */
        if (i == PASSES)
            assert_ok(yk_model_profile_begin(model));
        assert_ok(forward(model, 2));
        assert_ok(yk_model_backward(model));
    }
    assert_ok(yk_model_profile_end(model));
    assert_true(yk_model_profile_count(model) > 5);
    for (size_t i = 0; i < yk_model_profile_count(model); i++) {
        yk_kernel_profile kernel = yk_model_profile_kernel(model, i);
        double operations = 1e6 * kernel.seconds / PASSES;
        assert_int_equal(kernel.runs, PASSES);
        assert_float_equal(operations, round(operations), 1e-3);
        assert_in_range((int)round(operations), 0, 4);
        seconds += kernel.seconds;
    }
    assert_true(seconds > 0);
    yk_model_destroy(model);
}

YK_TEST(the_end_of_a_profile_reports_failures)
{
    setenv("YK_FAKE_FAULT", "relu_f32:1", 1);
    yk_model *model = make_model();
    assert_ok(yk_model_profile_begin(model));
    assert_ok(forward(model, 2));
    assert_status(YK_ERROR_INTERNAL, yk_model_profile_end(model));
    assert_contains(yk_last_error(), "CUDA_ERROR_ILLEGAL_ADDRESS");
    assert_ok(yk_model_profile_end(model)); /* nothing is left of it */
    yk_model_destroy(model);
}

/* Copies and products of the fake GPU, which has one multiprocessor. */
YK_TEST(the_limits_of_the_gpu_are_measured)
{
    yk_device_limits limits;
    yk_model *model = make_model();
    assert_ok(yk_model_measure_limits(model, &limits));
    assert_true(limits.bytes_s > 0);
    assert_float_equal(limits.flop_s, 2.0 * 128 * 128 * 128 / 1e-6, 1e9);
    assert_float_equal(limits.matrix_flop_s, limits.flop_s, 1e9);
    yk_model_destroy(model);
}

/* ---- replicas -------------------------------------------------------------------------------- */

static void step_replicas(yk_model *model, int64_t steps)
{
    for (int64_t i = 0; i < steps; i++) {
        assert_ok(forward(model, 4));
        assert_ok(yk_model_backward(model));
        yk_model_zero_grad(model);
    }
}

/* Pinning memory stops the GPU for longer than a step takes. */
YK_TEST(replicas_pin_no_memory_from_step_to_step)
{
    setenv("YK_FAKE_GPUS", "2", 1);
    yk_model *model = make_model();
    yk_data_parallel *dp;
    assert_ok(
        yk_data_parallel_create(&dp, model,
                                YK_WITH(yk_data_parallel_options, YK_DATA_PARALLEL_OPTIONS_INIT,
                                        o.devices = "cuda:0,cuda:1")));
    const int *pinned = dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), "yk_fake_pinned");
    assert_non_null(pinned);
    step_replicas(model, 3);
    int before = *pinned;
    assert_true(before > 0);
    step_replicas(model, 3);
    assert_int_equal(*pinned, before);
    yk_data_parallel_destroy(dp);
    yk_model_destroy(model);
}

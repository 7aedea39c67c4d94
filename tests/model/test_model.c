/* What a model promises around forward and backward: accumulation, modes, batch sizes, errors. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "nets.h"

/* The residual net: it has everything. */
static yk_model *model_of(const char *device)
{
    return net_model(net_find("residual"), device, YK_F64, 1);
}

static void assert_gradients(yk_model *model, const double *expected, double factor)
{
    int64_t count;
    double *got = net_gradients(model, &count);
    for (int64_t i = 0; i < count; i++)
        if (!(fabs(got[i] - factor * expected[i]) <= 1e-12 * (1 + fabs(expected[i]))))
            fail_msg("gradient %lld is %g, expected %g times %g", (long long)i, got[i], factor,
                     expected[i]);
    free(got);
}

YK_TEST(backward_adds_until_gradients_are_spent)
{
    yk_model *model = model_of("ref");
    net_batch b;
    int64_t count;
    net_batch_init(&b, YK_F64, 4, 1);
    net_step(model, &b);
    double *once = net_gradients(model, &count);
    net_step(model, &b);
    assert_gradients(model, once, 2);
    net_step(model, &b);
    assert_gradients(model, once, 3);
    yk_model_zero_grad(model);
    net_step(model, &b);
    assert_gradients(model, once, 1);
    free(once);
    net_batch_fini(&b);
    yk_model_destroy(model);
}

/* A momentum of 0 keeps the running statistics as they are: 0 does not mean the default. */
YK_TEST(a_batch_norm_momentum_of_zero_is_a_value)
{
    yk_graph *graph = yk_graph_create();
    const int64_t channels = 2;
    yk_value *x = yk_input(graph, "x", YK_F64, 2, (int64_t[]){YK_BATCH, channels});
    yk_value *weight = yk_parameter(graph, "weight", YK_F64, 1, &channels, YK_INIT_ONES, 0);
    yk_value *bias = yk_parameter(graph, "bias", YK_F64, 1, &channels, YK_INIT_ZEROS, 0);
    yk_value *mean = yk_buffer(graph, "mean", YK_F64, 1, &channels, YK_INIT_ZEROS);
    yk_value *var = yk_buffer(graph, "var", YK_F64, 1, &channels, YK_INIT_ONES);
    yk_value *y = yk_batch_norm(
        x, weight, bias, mean, var,
        YK_WITH(yk_batch_norm_options, YK_BATCH_NORM_OPTIONS_INIT, o.momentum = 0, o.eps = 1e-30));
    yk_value *target = yk_input(graph, "target", YK_F64, 2, (int64_t[]){YK_BATCH, channels});
    yk_model *model;
    assert_ok(yk_model_create(&model, yk_mse_loss(y, target, YK_LOSS_SUM), NULL));
    double values[] = {1, 2, 3, 6}, wanted[] = {-1, -1, 1, 1};
    const char *names[] = {"x", "target"};
    yk_tensor tensors[] = {{.data = values, .dtype = YK_F64, .ndim = 2, .dims = {2, channels}},
                           {.data = wanted, .dtype = YK_F64, .ndim = 2, .dims = {2, channels}}};
    yk_batch batch = {.size = 2, .count = 2, .names = names, .tensors = tensors};
    assert_ok(yk_model_forward(model, &batch));
    assert_true(yk_model_loss(model) < 1e-28); /* with so small an eps it is normalised exactly */
    const double *running = yk_model_buffer(model, 0).value.data;
    assert_true(running[0] == 0 && running[1] == 0);
    yk_model_destroy(model);
}

YK_TEST(a_parameter_the_loss_does_not_reach_has_gradient_zero)
{
    yk_model *model = net_model(net_find("loose"), "ref", YK_F64, 1);
    net_batch b;
    net_batch_init(&b, YK_F64, 4, 1);
    for (size_t p = 0; p < yk_model_parameter_count(model); p++) {
        yk_tensor grad = yk_model_parameter(model, p).grad;
        memset(grad.data, 0x55, yk_tensor_bytes(&grad));
    }
    net_step(model, &b);
    net_step(model, &b);
    yk_parameter_view unused = yk_model_parameter(model, 0);
    assert_string_equal(unused.name, "unused");
    for (int i = 0; i < 6; i++)
        assert_true(((double *)unused.grad.data)[i] == 0);
    net_batch_fini(&b);
    yk_model_destroy(model);
}

/* Plans of several sizes and modes share one arena; going back to one must give the same. */
YK_TEST(batch_sizes_and_modes_take_turns)
{
    static const int64_t sizes[] = {4, 1, 9, 4, 2, 9};
    yk_model *model = model_of("ref");
    double first_loss[10] = {0};
    yk_model_eval(model);
    for (int i = 0; i < 6; i++) {
        net_batch b;
        net_batch_init(&b, YK_F64, sizes[i], 1);
        assert_ok(yk_model_forward(model, &b.batch));
        double loss = yk_model_loss(model), *seen = &first_loss[sizes[i]];
        assert_true(isfinite(loss) && (*seen == 0 || *seen == loss));
        *seen = loss;
        yk_tensor logits;
        assert_ok(yk_model_output(model, &logits));
        assert_int_equal(logits.dims[0], sizes[i]);
        assert_int_equal(logits.dims[1], NET_CLASSES);
        net_batch_fini(&b);
    }
    yk_model_destroy(model);
}

static double buffer_sum(const yk_model *model)
{
    double sum = 0;
    for (size_t i = 0; i < yk_model_buffer_count(model); i++) {
        yk_tensor value = yk_model_buffer(model, i).value;
        for (int64_t j = 0; j < yk_tensor_count(&value); j++)
            sum += value.dtype == YK_F64 ? ((double *)value.data)[j]
                                         : (double)((int64_t *)value.data)[j];
    }
    return sum;
}

YK_TEST(evaluation_changes_no_state)
{
    yk_model *model = model_of("ref");
    net_batch b;
    net_batch_init(&b, YK_F64, 4, 1);
    double before = buffer_sum(model);
    yk_model_eval(model);
    net_step(model, &b);
    assert_true(buffer_sum(model) == before);
    yk_model_train(model);
    net_step(model, &b);
    assert_true(buffer_sum(model) != before);
    net_batch_fini(&b);
    yk_model_destroy(model);
}

/* The mode of a forward is the mode of its backward, whatever is switched in between. */
YK_TEST(backward_follows_the_mode_of_its_forward)
{
    yk_model *model = model_of("ref");
    net_batch b;
    int64_t count;
    net_batch_init(&b, YK_F64, 4, 1);
    yk_model_eval(model);
    net_step(model, &b);
    double *expected = net_gradients(model, &count), before = buffer_sum(model);
    yk_model_destroy(model);

    model = model_of("ref");
    yk_model_eval(model);
    assert_ok(yk_model_forward(model, &b.batch));
    yk_model_train(model);
    assert_ok(yk_model_backward(model));
    assert_gradients(model, expected, 1);
    assert_true(buffer_sum(model) == before);
    free(expected);
    net_batch_fini(&b);
    yk_model_destroy(model);
}

YK_TEST(asking_for_a_memory_plan_disturbs_nothing)
{
    yk_model *model = model_of("ref");
    yk_memory_plan plan;
    net_batch b;
    int64_t count;
    net_batch_init(&b, YK_F64, 4, 1);
    net_step(model, &b);
    double *expected = net_gradients(model, &count);
    yk_model_zero_grad(model);
    assert_ok(yk_model_forward(model, &b.batch));
    double loss = yk_model_loss(model);
    assert_ok(yk_model_memory_plan(model, 64, &plan));
    assert_true(yk_model_loss(model) == loss);
    assert_ok(yk_model_backward(model));
    assert_gradients(model, expected, 1);
    assert_true(plan.activations > 0 && plan.parameters >= plan.gradients && plan.gradients > 0);
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_model_memory_plan(model, 0, &plan));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_model_memory_plan(model, -1, &plan));
    assert_contains(yk_last_error(), "batch_size is -1");
    free(expected);
    net_batch_fini(&b);
    yk_model_destroy(model);
}

YK_TEST(dropout_draws_anew_at_every_step)
{
    yk_model *model = net_model(net_find("dropout"), "ref", YK_F64, 1);
    net_batch b;
    net_batch_init(&b, YK_F64, 4, 1);
    double first = net_step(model, &b), second = net_step(model, &b);
    assert_true(first != second);
    yk_model_eval(model);
    assert_ok(yk_model_forward(model, &b.batch));
    first = yk_model_loss(model);
    assert_ok(yk_model_forward(model, &b.batch));
    assert_true(first == yk_model_loss(model));
    net_batch_fini(&b);
    yk_model_destroy(model);
}

/* One norm over two halves of a network, the first of which is then added to; read as the output
 * too, it is not fused with the add. */
static yk_model *twice_normed(bool fused)
{
    const int64_t dims[] = {YK_BATCH, NET_CHANNELS, NET_ROWS, NET_COLUMNS};
    const int64_t channels[] = {NET_CHANNELS};
    yk_graph *graph = yk_graph_create();
    yk_value *images = yk_input(graph, "images", YK_F64, 4, dims);
    yk_value *weight = yk_parameter(graph, "weight", YK_F64, 1, channels, YK_INIT_ONES, 0);
    yk_value *bias = yk_parameter(graph, "bias", YK_F64, 1, channels, YK_INIT_ZEROS, 0);
    yk_value *mean = yk_buffer(graph, "running_mean", YK_F64, 1, channels, YK_INIT_ZEROS);
    yk_value *var = yk_buffer(graph, "running_var", YK_F64, 1, channels, YK_INIT_ONES);
    yk_value *first = yk_batch_norm(images, weight, bias, mean, var, NULL);
    yk_value *second = yk_batch_norm(yk_gelu(images), weight, bias, mean, var, NULL);
    yk_value *loss = yk_mse_loss(yk_add(first, images), second, YK_LOSS_MEAN);
    yk_model *model;
    yk_model_options options = YK_MODEL_OPTIONS_INIT;
    options.device = "ref";
    options.logits = fused ? NULL : first;
    assert_ok(yk_model_create(&model, loss, &options));
    return model;
}

YK_TEST(a_norm_used_twice_moves_its_statistics_in_order)
{
    yk_model *models[] = {twice_normed(true), twice_normed(false)};
    net_batch b;
    net_batch_init(&b, YK_F64, 4, 1);
    for (int i = 0; i < 2; i++)
        assert_ok(yk_model_forward(models[i], &b.batch));
    for (size_t i = 0; i < 2; i++) {
        yk_tensor fused = yk_model_buffer(models[0], i).value;
        yk_tensor plain = yk_model_buffer(models[1], i).value;
        assert_memory_equal(fused.data, plain.data, yk_tensor_bytes(&plain));
    }
    for (int i = 0; i < 2; i++)
        yk_model_destroy(models[i]);
    net_batch_fini(&b);
}

/* A model whose output is a feature map with enough channels to be blocked on cpu. */
static yk_model *map_model(const char *device)
{
    const int64_t dims[] = {YK_BATCH, NET_CHANNELS, NET_ROWS, NET_COLUMNS};
    yk_graph *graph = yk_graph_create();
    yk_value *labels = yk_input(graph, "labels", YK_I32, 1, dims);
    yk_value *map = yk_nn_conv2d(yk_input(graph, "images", YK_F32, 4, dims), "conv", 24, 3, NULL);
    yk_value *loss = yk_cross_entropy(yk_nn_linear(yk_flatten(map), "fc", 4), labels, NULL);
    yk_model *model;
    assert_ok(yk_model_create(
        &model, loss,
        YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.device = device, o.logits = map)));
    return model;
}

YK_TEST(an_output_of_four_dimensions_is_row_major_on_every_device)
{
    yk_model *models[] = {map_model("cpu"), map_model("ref")};
    yk_tensor outputs[2];
    net_batch b;
    net_batch_init(&b, YK_F32, 3, 1);
    for (int i = 0; i < 2; i++) {
        assert_ok(yk_model_forward(models[i], &b.batch));
        assert_ok(yk_model_output(models[i], &outputs[i]));
        assert_int_equal(outputs[i].ndim, 4);
        assert_int_equal(outputs[i].dims[1], 24);
        assert_int_equal(yk_tensor_count(&outputs[i]), 3 * 24 * 4 * 3);
    }
    const float *got = outputs[0].data, *expected = outputs[1].data;
    for (int64_t i = 0; i < yk_tensor_count(&outputs[0]); i++)
        assert_true(fabsf(got[i] - expected[i]) < 1e-5F);
    for (int i = 0; i < 2; i++)
        yk_model_destroy(models[i]);
    net_batch_fini(&b);
}

/* A convolution in three groups of 24 channels, which do not fill vectors. */
static yk_model *grouped_model(const char *device, yk_amp amp, int64_t side)
{
    yk_graph *graph = yk_graph_create();
    yk_value *images = yk_input(graph, "images", YK_F32, 4,
                                (int64_t[]){YK_BATCH, NET_CHANNELS, NET_ROWS, NET_COLUMNS});
    yk_value *labels = yk_input(graph, "labels", YK_I32, 1, (int64_t[]){YK_BATCH});
    yk_value *x = yk_relu(yk_nn_conv2d(images, "conv", 72, 1, NULL));
    x = yk_relu(yk_nn_conv2d(
        x, "grouped", 72, side,
        YK_WITH(yk_conv2d_options, YK_CONV2D_OPTIONS_INIT, o.groups = 3, o.padding = side / 2)));
    x = yk_nn_linear(yk_flatten(yk_global_avg_pool2d(x)), "fc", NET_CLASSES);
    yk_model *model;
    assert_ok(yk_model_create(&model, yk_cross_entropy(x, labels, NULL),
                              YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.device = device,
                                      o.amp = amp, o.threads = 2)));
    return model;
}

/* Forward and the gradient of x both pack their weights, and may read the same bytes. */
YK_TEST(grouped_convolutions_pack_their_weights_in_both_directions)
{
    for (int64_t side = 1; side <= 5; side += 2)
        for (int amp = 0; amp < 2; amp++) {
            yk_model *cpu = grouped_model("cpu", amp ? YK_AMP_BF16 : YK_AMP_OFF, side);
            yk_model *ref = grouped_model("ref", YK_AMP_OFF, side);
            net_batch b;
            int64_t count;
            net_batch_init(&b, YK_F32, 2, 1);
            net_step(cpu, &b);
            net_step(ref, &b);
            double *got = net_gradients(cpu, &count), *expected = net_gradients(ref, &count);
            double difference = 0, norm = 0;
            for (int64_t i = 0; i < count; i++) {
                difference += (got[i] - expected[i]) * (got[i] - expected[i]);
                norm += expected[i] * expected[i];
            }
            assert_true(norm > 0 && sqrt(difference / norm) < (amp ? 3e-2 : 1e-4));
            free(got);
            free(expected);
            net_batch_fini(&b);
            yk_model_destroy(cpu);
            yk_model_destroy(ref);
        }
}

YK_TEST(misuse_is_an_error)
{
    yk_model *model = model_of("ref");
    net_batch b;
    yk_tensor logits;
    net_batch_init(&b, YK_F64, 4, 1);
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_model_backward(model));
    assert_contains(yk_last_error(), "without a forward");
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_model_output(model, &logits));
    assert_true(isnan(yk_model_loss(model)));
    net_step(model, &b);
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_model_backward(model));

    b.labels[2] = 4;
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_model_forward(model, &b.batch));
    assert_contains(yk_last_error(), "label 4 of sample 2 is outside 0..3");
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_model_backward(model));
    b.labels[2] = 3;
    b.tensors[1].dims[2] = 5;
    assert_status(YK_ERROR_INVALID_SHAPE, yk_model_forward(model, &b.batch));
    assert_contains(yk_last_error(), "images");
    b.tensors[1].dims[2] = NET_ROWS;
    b.batch.count = 1;
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_model_forward(model, &b.batch));
    assert_contains(yk_last_error(), "no tensor \"images\"");
    b.batch.count = 2;
    net_step(model, &b);
    net_batch_fini(&b);
    yk_model_destroy(model);
}

/* Images (N, 4) and labels -> linear -> cross_entropy. */
static yk_value *small_loss(void)
{
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "images", YK_F32, 2, (int64_t[]){YK_BATCH, 4});
    yk_value *labels = yk_input(graph, "labels", YK_I32, 1, (int64_t[]){YK_BATCH});
    return yk_cross_entropy(yk_nn_linear(x, "fc", 3), labels, NULL);
}

static void refuses_huge_batches(const char *device)
{
    const int64_t sizes[] = {(int64_t)1 << 31, (int64_t)1 << 33, (int64_t)1 << 62, INT64_MAX};
    yk_model *model;
    yk_memory_plan plan;
    assert_ok(yk_model_create(&model, small_loss(),
                              YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.device = device)));
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        assert_status(YK_ERROR_INVALID_ARGUMENT, yk_model_memory_plan(model, sizes[i], &plan));
        assert_contains(yk_last_error(), "samples is too large");
    }
    assert_ok(yk_model_memory_plan(model, 1 << 30, &plan));
    yk_model_destroy(model);
}

YK_TEST(a_batch_beyond_all_memory_is_refused)
{
    refuses_huge_batches("ref");
    refuses_huge_batches("cpu");

    yk_graph *graph = yk_graph_create(); /* few samples, each of 2^40 elements */
    yk_value *x = yk_input(graph, "x", YK_F32, 2, (int64_t[]){YK_BATCH, (int64_t)1 << 40});
    yk_model *model;
    yk_memory_plan plan;
    assert_ok(yk_model_create(&model, yk_mse_loss(yk_relu(x), x, YK_LOSS_MEAN), NULL));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_model_memory_plan(model, 1 << 30, &plan));
    assert_contains(yk_last_error(), "samples is too large");

    static const char *const names[] = {"x"}; /* the number of elements is beyond 64 bits */
    float element = 0;
    yk_tensor tensor = {
        .data = &element, .dtype = YK_F32, .ndim = 2, .dims = {1 << 30, (int64_t)1 << 40}};
    yk_batch batch = {.size = 1 << 30, .count = 1, .names = names, .tensors = &tensor};
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_model_forward(model, &batch));
    assert_contains(yk_last_error(), "samples is too large");
    assert_int_equal(yk_model_forwards(model), 0);
    yk_model_destroy(model);
}

/* The mean of x and x^2 of a batch that begins `shift` bytes after an aligned address. */
static double mean_at(const char *device, yk_dtype dtype, size_t shift)
{
    enum { NUMBERS = 2 * 35 };
    static const char *const names[] = {"x"};
    _Alignas(64) static char memory[64 + NUMBERS * sizeof(double)];
    yk_value *x = yk_input(yk_graph_create(), "x", dtype, 2, (int64_t[]){YK_BATCH, 35});
    yk_model *model;
    assert_ok(yk_model_create(
        &model, yk_reduce_loss(yk_add(x, yk_pow(x, 2)), YK_LOSS_MEAN),
        YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.device = device, o.threads = 1)));
    for (size_t i = 0; i < NUMBERS; i++) {
        const double number = (double)i / 16;
        const float rounded = (float)number;
        const bool is_double = dtype == YK_F64;
        memcpy(memory + shift + i * yk_dtype_size(dtype),
               is_double ? (const void *)&number : &rounded, yk_dtype_size(dtype));
    }
    const yk_tensor tensor = {
        .data = memory + shift, .dtype = dtype, .ndim = 2, .dims = {2, NUMBERS / 2}};
    assert_ok(yk_model_forward(
        model, &(yk_batch){.size = 2, .count = 1, .names = names, .tensors = &tensor}));
    const double loss = yk_model_loss(model);
    yk_model_destroy(model);
    return loss;
}

YK_TEST(batches_need_no_alignment)
{
    static const char *const devices[] = {"cpu", "ref", "sim"};
    for (int d = 0; d < 3; d++)
        for (size_t shift = 1; shift <= 9; shift++) {
            assert_true(mean_at(devices[d], YK_F32, shift) == mean_at(devices[d], YK_F32, 0));
            assert_true(mean_at(devices[d], YK_F64, shift) == mean_at(devices[d], YK_F64, 0));
        }
}

YK_TEST(a_graph_makes_one_model)
{
    yk_model *model, *second;
    yk_value *loss = small_loss();
    assert_ok(yk_model_create(&model, loss, NULL));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_model_create(&second, loss, NULL));
    assert_contains(yk_last_error(), "belongs to another model already");
    assert_null(second);
    yk_model_destroy(model);
}

YK_TEST(logits_of_another_graph_are_refused)
{
    yk_model *model;
    yk_graph *other = yk_graph_create();
    yk_value *x = yk_input(other, "x", YK_F32, 1, (int64_t[]){YK_BATCH}), *loss = small_loss();
    for (int i = 0; i < 100; i++)
        x = yk_relu(x); /* numbered far beyond the other graph's values */
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_model_create(&model, loss,
                                  YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.logits = x)));
    assert_contains(yk_last_error(), "options.logits belongs to another graph");
    yk_graph_destroy(yk_value_graph(loss));
    yk_graph_destroy(other);
}

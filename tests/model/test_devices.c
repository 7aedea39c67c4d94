/*
 * Models on a device that works behind the host's back: what they compute there, and what the host
 * may do meanwhile. The simulated device has ref's kernels, so that its bits are ref's.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "model/model.h"
#include "nets.h"
#include "same.h"

static yk_model *model_of(const char *device, const char *net)
{
    return net_model(net_find(net), device, YK_F64, 1);
}

YK_TEST(every_net_computes_what_ref_does)
{
    for (int n = 0; n < net_count; n++) {
        yk_model *sim = net_model(&nets[n], "sim", YK_F32, 1);
        yk_model *ref = net_model(&nets[n], "ref", YK_F32, 1);
        net_batch b;
        net_batch_init(&b, YK_F32, 3, 1);
        assert_true(net_step(sim, &b) == net_step(ref, &b));
        assert_same_grads(sim, ref);
        assert_same_values(sim, ref);
        net_batch_fini(&b);
        yk_model_destroy(sim);
        yk_model_destroy(ref);
    }
}

/* Several backwards, batches of growing and shrinking sizes, means and sums. */
static void accumulate(yk_model *model, yk_accumulation mode)
{
    static const int64_t sizes[] = {2, 5, 1};
    yk_model_zero_grad(model);
    yk_model_set_accumulation(model, mode);
    for (int i = 0; i < 3; i++) {
        net_batch b;
        net_batch_init(&b, YK_F64, sizes[i], (uint64_t)i);
        assert_ok(yk_model_forward(model, &b.batch));
        assert_ok(yk_model_backward(model));
        net_batch_fini(&b); /* a device has copied it */
    }
}

YK_TEST(gradients_accumulate_without_the_host_waiting)
{
    yk_model *sim = model_of("sim", "residual"), *ref = model_of("ref", "residual");
    static const yk_accumulation modes[] = {YK_ACCUMULATION_SUM, YK_ACCUMULATION_MEAN};
    for (int m = 0; m < 2; m++) {
        accumulate(sim, modes[m]);
        accumulate(ref, modes[m]);
        assert_same_grads(sim, ref);
        assert_same_values(sim, ref);
    }
    yk_model_destroy(sim);
    yk_model_destroy(ref);
}

YK_TEST(outputs_are_read_on_the_host)
{
    yk_model *sim = model_of("sim", "residual"), *ref = model_of("ref", "residual");
    yk_tensor here, there;
    net_batch b;
    net_batch_init(&b, YK_F64, 4, 1);
    assert_true(isnan(yk_model_loss(sim)));
    assert_ok(yk_model_forward(sim, &b.batch));
    assert_ok(yk_model_forward(ref, &b.batch));
    assert_ok(yk_model_backward(ref));
    assert_ok(yk_model_backward(sim)); /* what is shown is still the forward's */
    assert_ok(yk_model_output(sim, &here));
    assert_ok(yk_model_output(ref, &there));
    assert_null(here.device);
    assert_int_equal(yk_tensor_bytes(&here), yk_tensor_bytes(&there));
    assert_memory_equal(here.data, there.data, yk_tensor_bytes(&here));
    assert_true(yk_model_loss(sim) == yk_model_loss(ref));
    yk_model_eval(sim);
    yk_model_eval(ref);
    assert_true(net_step(sim, &b) == net_step(ref, &b)); /* backward in evaluation mode */
    assert_same_grads(sim, ref);
    net_batch_fini(&b);
    yk_model_destroy(sim);
    yk_model_destroy(ref);
}

YK_TEST(wrong_labels_are_refused_before_the_device_gets_them)
{
    yk_model *model = model_of("sim", "residual");
    net_batch b;
    net_batch_init(&b, YK_F64, 3, 1);
    b.labels[2] = NET_CLASSES;
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_model_forward(model, &b.batch));
    assert_contains(yk_last_error(), "label 4 of sample 2 is outside 0..3");
    b.labels[2] = 0;
    assert_false(isnan(net_step(model, &b)));
    net_batch_fini(&b);
    yk_model_destroy(model);
}

YK_TEST(a_forward_that_refuses_its_labels_changes_nothing)
{
    static const char *const devices[] = {"cpu", "ref", "sim"};
    for (int i = 0; i < 3; i++) {
        yk_model *model = model_of(devices[i], "residual"),
                 *fresh = model_of(devices[i], "residual");
        net_batch b;
        net_batch_init(&b, YK_F64, 3, 1);
        b.labels[2] = NET_CLASSES;
        assert_status(YK_ERROR_INVALID_ARGUMENT, yk_model_forward(model, &b.batch));
        assert_same_values(model, fresh); /* running statistics, too */
        assert_int_equal(yk_model_forwards(model), 0);
        net_batch_fini(&b);
        yk_model_destroy(model);
        yk_model_destroy(fresh);
    }
}

/* A model of the sum of two losses with 100 and `few` classes for one input of labels; the second
 * one is not used if few is 0. Its forward on these labels. */
static yk_status forward_two_losses(const char *device, int64_t few, int32_t label)
{
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "x", YK_F32, 2, (int64_t[]){YK_BATCH, 2});
    yk_value *labels = yk_input(graph, "labels", YK_I32, 1, (int64_t[]){YK_BATCH});
    yk_value *small = yk_cross_entropy(yk_nn_linear(x, "small", few ? few : 3), labels, NULL);
    yk_value *large = yk_cross_entropy(yk_nn_linear(x, "large", 100), labels, NULL);
    yk_cross_entropy(yk_nn_linear(x, "unused", 5), labels, NULL);
    float numbers[2] = {1, 2};
    const yk_tensor tensors[] = {{.data = numbers, .dtype = YK_F32, .ndim = 2, .dims = {1, 2}},
                                 {.data = &label, .dtype = YK_I32, .ndim = 1, .dims = {1}}};
    const yk_batch batch = {
        .size = 1, .count = 2, .names = (const char *[]){"x", "labels"}, .tensors = tensors};
    yk_model *model;
    assert_ok(yk_model_create(&model, few ? yk_add(large, small) : large,
                              YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.device = device)));
    yk_status status = yk_model_forward(model, &batch);
    yk_model_destroy(model);
    return status;
}

YK_TEST(labels_are_classes_of_every_loss_that_is_used)
{
    static const char *const devices[] = {"cpu", "ref", "sim"};
    for (int i = 0; i < 3; i++) {
        assert_ok(forward_two_losses(devices[i], 0, 50));
        assert_status(YK_ERROR_INVALID_ARGUMENT, forward_two_losses(devices[i], 0, 100));
        assert_ok(forward_two_losses(devices[i], 10, 9));
        assert_status(YK_ERROR_INVALID_ARGUMENT, forward_two_losses(devices[i], 10, 10));
        assert_contains(yk_last_error(), "label 10 of sample 0 is outside 0..9");
    }
}

YK_TEST(views_name_the_device_that_programs_must_ask)
{
    yk_model *sim = model_of("sim", "residual"), *cpu = model_of("cpu", "residual");
    yk_parameter_view view = yk_model_parameter(sim, 0);
    assert_non_null(view.value.device);
    assert_ptr_equal(view.value.device, view.grad.device);
    assert_ptr_equal(view.value.device, yk_model_buffer(sim, 0).value.device);
    assert_null(yk_model_parameter(cpu, 0).value.device);
    yk_model_destroy(sim);
    yk_model_destroy(cpu);
}

/* A batch whose tensors are in a device's memory, as another model's parameters are. */
YK_TEST(a_batch_may_be_in_the_memory_of_a_device)
{
    yk_model *models[] = {NULL, NULL};
    static const char *const devices[] = {"sim", "ref"};
    double losses[2];
    yk_tensor wanted = {.data = (double[]){1, 2}, .dtype = YK_F64, .ndim = 2, .dims = {1, 2}};
    for (int i = 0; i < 2; i++) {
        yk_graph *graph = yk_graph_create();
        const int64_t dims[] = {YK_BATCH, 2};
        yk_value *x = yk_input(graph, "x", YK_F64, 2, dims);
        yk_value *weight =
            yk_parameter(graph, "weight", YK_F64, 2, (int64_t[]){1, 2}, YK_INIT_KAIMING_UNIFORM, 0);
        yk_value *y = yk_linear(x, weight, NULL);
        yk_value *loss =
            yk_mse_loss(y, yk_input(graph, "y", YK_F64, 2, (int64_t[]){YK_BATCH, 1}), YK_LOSS_SUM);
        assert_ok(yk_model_create(
            &models[i], loss,
            YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.device = devices[i])));
        yk_tensor target = {.data = wanted.data, .dtype = YK_F64, .ndim = 2, .dims = {1, 1}};
        const yk_tensor tensors[] = {yk_model_parameter(models[i], 0).value, target};
        const char *const names[] = {"x", "y"};
        yk_batch batch = {.size = 1, .count = 2, .names = names, .tensors = tensors};
        assert_ok(yk_model_forward(models[i], &batch));
        losses[i] = yk_model_loss(models[i]);
    }
    assert_true(losses[0] == losses[1]);
    const yk_tensor tensors[] = {yk_model_parameter(models[0], 0).value,
                                 {.data = wanted.data, .dtype = YK_F64, .ndim = 2, .dims = {1, 1}}};
    const char *const names[] = {"x", "y"};
    yk_batch batch = {.size = 1, .count = 2, .names = names, .tensors = tensors};
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_model_forward(models[1], &batch));
    assert_contains(yk_last_error(), "is in the memory of a device");
    yk_model_destroy(models[0]);
    yk_model_destroy(models[1]);
}

enum { ROWS = 3, COLUMNS = 5 };

/* The loss of a batch that begins so many elements into the device's memory. */
static double loss_from(size_t offset, const void **used)
{
    float values[ROWS * COLUMNS], target[ROWS] = {1, 2, 3};
    const int64_t dims[] = {YK_BATCH, COLUMNS}, wanted[] = {YK_BATCH, 1}, weights[] = {1, COLUMNS};
    yk_graph *graph = yk_graph_create();
    yk_value *y =
        yk_linear(yk_input(graph, "x", YK_F32, 2, dims),
                  yk_parameter(graph, "weight", YK_F32, 2, weights, YK_INIT_ONES, 0), NULL);
    yk_model *model;
    assert_ok(yk_model_create(
        &model, yk_mse_loss(y, yk_input(graph, "y", YK_F32, 2, wanted), YK_LOSS_SUM),
        YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.device = yk_test_device("sim"))));
    yki_device *device = model->executor.source.device;
    void *memory;
    for (int i = 0; i < ROWS * COLUMNS; i++)
        values[i] = (float)(i % 7) - 3;
    assert_ok(yki_device_alloc(device, 4096, &memory));
    yk_tensor x = {.data = (float *)memory + offset,
                   .dtype = YK_F32,
                   .ndim = 2,
                   .dims = {ROWS, COLUMNS},
                   .device = device};
    assert_ok(yk_tensor_write(&x, values));
    const yk_tensor tensors[] = {x,
                                 {.data = target, .dtype = YK_F32, .ndim = 2, .dims = {ROWS, 1}}};
    const char *const names[] = {"x", "y"};
    const yk_batch batch = {.size = ROWS, .count = 2, .names = names, .tensors = tensors};
    assert_ok(yk_model_forward(model, &batch));
    *used = model->executor.inputs.list[0].data == x.data ? x.data : NULL;
    double loss = yk_model_loss(model);
    yki_device_free(device, memory, 4096);
    yk_model_destroy(model);
    return loss;
}

/* Kernels read 16 bytes at a time, and libraries are told that they may. */
YK_TEST(a_batch_in_the_memory_of_a_device_may_begin_anywhere)
{
    const void *used;
    double loss = loss_from(0, &used);
    assert_non_null(used);
    assert_true(loss_from(4, &used) == loss);
    assert_non_null(used);
    for (size_t offset = 1; offset < 4; offset++) {
        assert_true(loss_from(offset, &used) == loss);
        assert_null(used);
    }
}

/* The same replicas on ref give the same bits. */
YK_TEST(replicas_may_be_on_devices_too)
{
    static const char *const devices[] = {"sim", "ref"};
    yk_model *models[2];
    yk_data_parallel *dp[2];
    net_batch b;
    net_batch_init(&b, YK_F64, 5, 1);
    for (int i = 0; i < 2; i++) {
        models[i] = model_of(devices[i], "residual");
        assert_ok(
            yk_data_parallel_create(&dp[i], models[i],
                                    YK_WITH(yk_data_parallel_options, YK_DATA_PARALLEL_OPTIONS_INIT,
                                            o.devices = "cpu:0,cpu:1,cpu:2")));
    }
    for (int step = 0; step < 2; step++) { /* the second adds to the gradients of the first */
        yk_tensor here, there;
        assert_true(net_step(models[0], &b) == net_step(models[1], &b));
        assert_same_grads(models[0], models[1]);
        assert_ok(yk_model_output(models[0], &here));
        assert_ok(yk_model_output(models[1], &there));
        assert_memory_equal(here.data, there.data, yk_tensor_bytes(&here));
    }
    for (int i = 0; i < 2; i++) {
        yk_data_parallel_destroy(dp[i]);
        yk_model_destroy(models[i]);
    }
    net_batch_fini(&b);
}

/* ---- files ----------------------------------------------------------------------------------- */

YK_TEST(files_hold_what_is_in_the_device)
{
    static const char *const endings[] = {"pth", "safetensors"};
    yk_model *sim = model_of("sim", "residual");
    for (int i = 0; i < 2; i++) {
        char path[256];
        snprintf(path, sizeof path, "%s/model.%s", yk_test_directory(), endings[i]);
        net_shake(sim, (uint64_t)i + 5);
        assert_ok(yk_model_save(sim, path));
        yk_model *ref = model_of("ref", "residual"), *back = model_of("sim", "residual");
        assert_ok(yk_model_load(ref, path));
        assert_ok(yk_model_load(back, path));
        assert_same_values(ref, sim);
        assert_same_values(back, sim);
        yk_model_destroy(ref);
        yk_model_destroy(back);
    }
    yk_model_destroy(sim);
}

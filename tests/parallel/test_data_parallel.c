/* DataParallel: several devices in one process give one device's numbers on the whole batch. */
#define _GNU_SOURCE
#include "harness.h"

#include <sched.h>

#include <yoke/operator.h>

#include "small_network.h"

static const network ref_norm = {.device = "ref", .dtype = YK_F64, .norm = true, .seed = 7};
static const network ref_plain = {.device = "ref", .dtype = YK_F64, .seed = 7};
static const network cpu_norm = {.device = "cpu", .dtype = YK_F32, .norm = true, .seed = 7};

/* The model under test and one that sees the same batches alone. */
typedef struct side {
    network net;
    yk_model *model, *alone;
    yk_data_parallel *dp;
    samples batch;
} side;

static void begin(side *s, const network *net, const char *devices)
{
    s->net = *net;
    s->model = make_model(net);
    s->alone = make_model(net);
    shift_buffers(s->model, 0.25);
    shift_buffers(s->alone, 0.25);
    assert_ok(yk_data_parallel_create(
        &s->dp, s->model,
        YK_WITH(yk_data_parallel_options, YK_DATA_PARALLEL_OPTIONS_INIT, o.devices = devices)));
}

static void end(side *s)
{
    yk_data_parallel_destroy(s->dp);
    yk_model_destroy(s->model);
    yk_model_destroy(s->alone);
}

static void both_step(side *s, int64_t first, int64_t count)
{
    const yk_batch *batch = take_samples(&s->batch, s->net.dtype, first, count);
    step(s->model, batch);
    step(s->alone, batch);
}

/* Sizes that the devices share evenly, unevenly, and that leave some without. */
static void check_gradients(const network *net, const char *devices, double tolerance)
{
    static const int64_t counts[] = {12, 7, 5, 1, 2, 12};
    side s;
    begin(&s, net, devices);
    yk_model_eval(s.model); /* in training every replica has its own batch statistics */
    yk_model_eval(s.alone);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        both_step(&s, 20 * (int64_t)i, counts[i]);
        assert_float_equal(yk_model_loss(s.model), yk_model_loss(s.alone), 10 * tolerance);
        assert_same_gradients(s.model, s.alone, tolerance);
        yk_model_zero_grad(s.model);
        yk_model_zero_grad(s.alone);
    }
    end(&s);
}

YK_TEST(one_device_equals_the_model_alone)
{
    check_gradients(&ref_norm, "cpu:0", 0);
}

YK_TEST(two_devices_in_f64_equal_one)
{
    check_gradients(&ref_norm, NULL, 1e-12);
}

YK_TEST(three_devices_in_f64_equal_one)
{
    check_gradients(&ref_norm, "cpu:0,cpu:1,cpu:2", 1e-12);
}

YK_TEST(two_devices_in_f32_equal_one)
{
    check_gradients(&cpu_norm, "cpu:0,cpu:1", 1e-5);
}

/* Devices with memory of their own: each replica on the one that the list names. */
YK_TEST(devices_with_their_own_memory_equal_one)
{
    network net = ref_norm;
    net.device = "sim:0";
    unsetenv("YK_TEST_DEVICE");
    check_gradients(&net, "sim:0,sim:1,sim:2", 1e-12);
}

YK_TEST(the_model_must_be_on_the_first_device)
{
    unsetenv("YK_TEST_DEVICE");
    yk_model *model = make_model(&ref_plain);
    yk_data_parallel *dp;
    assert_status(
        YK_ERROR_INVALID_ARGUMENT,
        yk_data_parallel_create(&dp, model,
                                YK_WITH(yk_data_parallel_options, YK_DATA_PARALLEL_OPTIONS_INIT,
                                        o.devices = "sim:0,sim:1")));
    assert_contains(yk_last_error(), "the model is on the device ref, but the first of the list "
                                     "is sim:0: create the model there");
    yk_model_destroy(model);
}

static int replicas_of(side *s, int64_t count)
{
    both_step(s, 0, count);
    return yk_data_parallel_last_stats(s->dp).replicas;
}

/* torch.chunk(5, 4): 2, 2, 1. */
YK_TEST(parts_are_those_of_torch_chunk)
{
    side s;
    begin(&s, &ref_plain, "cpu:0,cpu:1,cpu:2,cpu:3");
    assert_int_equal(replicas_of(&s, 8), 4);
    assert_int_equal(replicas_of(&s, 5), 3);
    assert_int_equal(replicas_of(&s, 9), 3);
    assert_int_equal(replicas_of(&s, 3), 3);
    assert_int_equal(replicas_of(&s, 1), 1);
    end(&s);
}

YK_TEST(training_moves_the_running_statistics_of_device_0)
{
    side s;
    samples first_half;
    begin(&s, &ref_norm, NULL);
    step(s.model, take_samples(&s.batch, YK_F64, 0, 8));
    step(s.alone, take_samples(&first_half, YK_F64, 0, 4));
    assert_same_buffers(s.model, s.alone, 0);
    end(&s);
}

/* Replicas get the parameters of each step, and the optimizer sees the sums. */
YK_TEST(training_takes_the_steps_of_one_device)
{
    side s;
    yk_optimizer *sgd, *sgd_alone;
    yk_sgd_options options = YK_SGD_OPTIONS_INIT;
    options.lr = 0.1;
    options.momentum = 0.9;
    begin(&s, &ref_plain, NULL);
    assert_ok(yk_sgd_create(&sgd, s.model, &options));
    assert_ok(yk_sgd_create(&sgd_alone, s.alone, &options));
    for (int i = 0; i < 4; i++) {
        both_step(&s, 20 * i, 6 + i);
        assert_ok(yk_optimizer_step(sgd));
        assert_ok(yk_optimizer_step(sgd_alone));
    }
    assert_same_parameters(s.model, s.alone, 1e-12);
    yk_optimizer_destroy(sgd);
    yk_optimizer_destroy(sgd_alone);
    end(&s);
}

static void accumulate(yk_accumulation how)
{
    side s;
    begin(&s, &ref_plain, NULL);
    yk_model_set_accumulation(s.model, how);
    yk_model_set_accumulation(s.alone, how);
    both_step(&s, 0, 8);
    both_step(&s, 20, 3);
    both_step(&s, 40, 1);
    assert_same_gradients(s.model, s.alone, 1e-12);
    yk_model_zero_grad(s.model);
    yk_model_zero_grad(s.alone);
    both_step(&s, 60, 4);
    assert_same_gradients(s.model, s.alone, 1e-12);
    end(&s);
}

YK_TEST(backwards_add_up)
{
    accumulate(YK_ACCUMULATION_SUM);
}

YK_TEST(backwards_add_up_to_the_mean)
{
    accumulate(YK_ACCUMULATION_MEAN);
}

/* ---- outputs --------------------------------------------------------------------------------- */

static yk_model *make_classifier(yk_loss_reduction reduction)
{
    yk_graph *graph = yk_graph_create();
    yk_value *images = yk_input(graph, "images", YK_F64, 4, (int64_t[]){YK_BATCH, 3, SIDE, SIDE});
    yk_value *labels = yk_input(graph, "labels", YK_I32, 1, (int64_t[]){YK_BATCH});
    yk_value *logits = yk_nn_linear(yk_flatten(images), "fc", CLASSES);
    yk_value *loss = yk_cross_entropy(
        logits, labels,
        YK_WITH(yk_cross_entropy_options, YK_CROSS_ENTROPY_OPTIONS_INIT, o.reduction = reduction));
    yk_model *model;
    assert_ok(yk_model_create(&model, loss,
                              YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT,
                                      o.device = yk_test_device("ref"), o.logits = logits)));
    return model;
}

/* The text of options.device may go once the model is made. */
YK_TEST(a_model_copies_the_name_of_its_device)
{
    char device[] = "ref";
    yk_graph *graph = yk_graph_create();
    yk_value *images = yk_input(graph, "images", YK_F64, 4, (int64_t[]){YK_BATCH, 3, SIDE, SIDE});
    yk_value *labels = yk_input(graph, "labels", YK_I32, 1, (int64_t[]){YK_BATCH});
    yk_value *logits = yk_nn_linear(yk_flatten(images), "fc", CLASSES);
    yk_model *model;
    yk_data_parallel *dp;
    assert_ok(yk_model_create(
        &model, yk_cross_entropy(logits, labels, NULL),
        YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.device = yk_test_device(device))));
    memset(device, '?', sizeof device - 1);
    assert_ok(yk_data_parallel_create(&dp, model, NULL));
    yk_data_parallel_destroy(dp);
    yk_model_destroy(model);
}

YK_TEST(outputs_are_gathered_in_order)
{
    samples s;
    yk_tensor found, expected;
    yk_model *model = make_classifier(YK_LOSS_MEAN), *alone = make_classifier(YK_LOSS_MEAN);
    yk_data_parallel *dp;
    assert_ok(yk_data_parallel_create(&dp, model, NULL));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_model_output(model, &found));
    for (int64_t count = 7; count >= 1; count -= 3) {
        const yk_batch *batch = take_samples(&s, YK_F64, 10 * count, count);
        assert_ok(yk_model_forward(model, batch));
        assert_ok(yk_model_forward(alone, batch));
        assert_ok(yk_model_output(model, &found));
        assert_ok(yk_model_output(alone, &expected));
        assert_int_equal(found.dims[0], count);
        assert_near("logits", &found, &expected, 0);
    }
    yk_data_parallel_destroy(dp);
    const yk_batch *batch = take_samples(&s, YK_F64, 0, 3); /* the model continues without it */
    step(model, batch);
    step(alone, batch);
    assert_same_gradients(model, alone, 0);
    yk_model_destroy(model);
    yk_model_destroy(alone);
}

YK_TEST(a_batch_without_labels_has_no_loss)
{
    samples s;
    yk_model *model = make_classifier(YK_LOSS_MEAN);
    yk_data_parallel *dp;
    assert_ok(yk_data_parallel_create(&dp, model, NULL));
    yk_model_eval(model);
    yk_batch batch = *take_samples(&s, YK_F64, 0, 4);
    batch.count = 1; /* the images */
    assert_ok(yk_model_forward(model, &batch));
    assert_true(isnan(yk_model_loss(model)));
    assert_ok(yk_model_forward(model, take_samples(&s, YK_F64, 0, 4)));
    assert_false(isnan(yk_model_loss(model)));
    yk_data_parallel_destroy(dp);
    yk_model_destroy(model);
}

YK_TEST(a_loss_that_sums_stays_a_sum)
{
    samples s;
    yk_model *model = make_classifier(YK_LOSS_SUM), *alone = make_classifier(YK_LOSS_SUM);
    yk_data_parallel *dp;
    assert_ok(yk_data_parallel_create(&dp, model, NULL));
    const yk_batch *batch = take_samples(&s, YK_F64, 0, 7);
    step(model, batch);
    step(alone, batch);
    assert_float_equal(yk_model_loss(model), yk_model_loss(alone), 1e-12);
    assert_same_gradients(model, alone, 1e-12);
    yk_data_parallel_destroy(dp);
    yk_model_destroy(model);
    yk_model_destroy(alone);
}

/* The two replicas have the whole penalty each, next to a sum over samples. */
YK_TEST(a_penalty_counts_once)
{
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "x", YK_F64, 2, (int64_t[]){YK_BATCH, 1});
    yk_value *t = yk_parameter(graph, "t", YK_F64, 0, NULL, YK_INIT_ONES, 0);
    yk_value *loss = yk_mse_loss(yk_nn_linear(x, "fc", 1), x, YK_LOSS_SUM);
    yk_value *penalties = yk_add(yk_multiply(t, t), yk_mse_loss(t, yk_scale(t, 0), YK_LOSS_SUM));
    double numbers[] = {1, 2, 3};
    const yk_tensor tensor = {.data = numbers, .dtype = YK_F64, .ndim = 2, .dims = {3, 1}};
    const yk_batch batch = {
        .size = 3, .count = 1, .names = (const char *[]){"x"}, .tensors = &tensor};
    yk_model *model;
    yk_data_parallel *dp;
    assert_ok(yk_model_create(&model, yk_add(loss, penalties),
                              YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.device = "ref")));
    assert_ok(yk_data_parallel_create(&dp, model, NULL));
    assert_ok(yk_model_forward(model, &batch));
    assert_ok(yk_model_backward(model));
    assert_float_equal(*(double *)yk_model_parameter(model, 0).grad.data, 4, 1e-12);
    yk_data_parallel_destroy(dp);
    yk_model_destroy(model);
}

/* ---- refusals -------------------------------------------------------------------------------- */

YK_TEST(wrong_lists_of_devices_are_refused)
{
    static const struct {
        const char *devices, *words;
    } wrong[] = {
        {"", "device \"\": expected cpu:K"},
        {"cpu:0,", "device \"\": expected cpu:K"},
        {"cuda", "device \"cuda\": expected cpu:K"},
        {"tpu:0", "device \"tpu:0\": expected cpu:K"},
        {"cuda:0,cpu:0", "the cpu and other devices cannot be mixed"},
        {"cuda:0,cuda:1,cuda:0", "cuda:0 is listed twice"},
        {"cpu:-1", "device \"cpu:-1\": expected cpu:K"},
        {"cpu:0,cpu:0", "cpu:0 is listed twice"},
        {"cpu:0,cpu:2", "the last of 2 parts is cpu:1"},
        {"cpu:0,cpu:1-1", "cannot be mixed"},
        {"cpu:5-4", "device \"cpu:5-4\": expected cpu:K"},
        {"cpu:0-99999", "this process may not use core"},
    };
    int count;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_status(YK_ERROR_INVALID_ARGUMENT, yk_data_parallel_check(wrong[i].devices, &count));
        assert_contains(yk_last_error(), wrong[i].words);
    }
    assert_ok(yk_data_parallel_check(NULL, &count));
    assert_int_equal(count, 2);
}

YK_TEST(devices_by_their_cores)
{
    cpu_set_t own;
    char devices[64];
    int core = 0, count;
    assert_int_equal(sched_getaffinity(0, sizeof own, &own), 0);
    while (!CPU_ISSET(core, &own))
        core++;
    snprintf(devices, sizeof devices, "cpu:%d-%d", core, core);
    assert_ok(yk_data_parallel_check(devices, &count));
    assert_int_equal(count, 1);
    side s;
    begin(&s, &ref_plain, devices);
    snprintf(devices, sizeof devices, "= core %d; 1 thread each", core);
    assert_contains(yk_data_parallel_description(s.dp), devices);
    end(&s);
}

YK_TEST(a_model_belongs_to_one_kind_of_parallelism)
{
    yk_group *group;
    yk_ddp *ddp, *another;
    yk_data_parallel *dp, *second;
    assert_ok(yk_group_init(&group, NULL));
    yk_model *model = make_model(&ref_plain), *used = make_model(&ref_plain);
    assert_ok(yk_ddp_create(&ddp, model, group, NULL));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_ddp_create(&another, model, group, NULL));
    assert_contains(yk_last_error(), "distributed already");
    assert_null(another);
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_data_parallel_create(&dp, model, NULL));
    assert_contains(yk_last_error(), "distributed already");
    yk_ddp_destroy(ddp);
    assert_ok(yk_data_parallel_create(&dp, model, NULL));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_data_parallel_create(&second, model, NULL));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_ddp_create(&ddp, model, group, NULL));
    assert_contains(yk_last_error(), "distributed already");
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_sync_batch_norm_convert(model, group));
    assert_contains(yk_last_error(), "data parallel");
    yk_data_parallel_destroy(dp);

    samples s;
    step(used, take_samples(&s, YK_F64, 0, 2));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_data_parallel_create(&dp, used, NULL));
    assert_contains(yk_last_error(), "before the model's first forward");
    yk_model_destroy(model);
    yk_model_destroy(used);
    yk_group_destroy(group);
}

/* Each replica would have all of it: there is nothing to join. */
YK_TEST(outputs_that_are_not_the_batchs_are_refused)
{
    yk_graph *graph = yk_graph_create();
    yk_value *images = yk_input(graph, "images", YK_F64, 2, (int64_t[]){YK_BATCH, 3});
    yk_value *loss = yk_mse_loss(yk_nn_linear(images, "fc", 3), images, YK_LOSS_MEAN);
    yk_model *model;
    yk_data_parallel *dp;
    assert_ok(yk_model_create(&model, loss,
                              YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT,
                                      o.device = yk_test_device("ref"), o.logits = loss)));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_data_parallel_create(&dp, model, NULL));
    assert_contains(yk_last_error(), "first dimension");
    yk_model_destroy(model);
}

/* A device's failure is the call's, by name, and the next batch is none the worse for it. */
YK_TEST(a_failure_on_a_device_is_named)
{
    side s;
    begin(&s, &ref_plain, NULL);
    take_samples(&s.batch, YK_F64, 0, 6);
    s.batch.labels[4] = CLASSES;
    assert_int_not_equal(yk_model_forward(s.model, &s.batch.batch), YK_OK);
    assert_contains(yk_last_error(), "cpu:1");
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_model_backward(s.model));
    both_step(&s, 0, 6);
    assert_same_gradients(s.model, s.alone, 1e-12);
    end(&s);
}

YK_TEST(parts_of_a_batch_never_stand_for_the_whole)
{
    side s;
    yk_tensor output;
    begin(&s, &ref_plain, "cpu:0,cpu:1");
    assert_ok(yk_model_forward(s.model, take_samples(&s.batch, YK_F64, 0, 4)));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_model_forward(s.model, &(yk_batch){.size = 0}));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_model_output(s.model, &output));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_model_backward(s.model));

    assert_ok(yk_model_forward(s.model, take_samples(&s.batch, YK_F64, 0, 4)));
    yk_data_parallel_destroy(s.dp); /* the model has seen two of the four samples */
    s.dp = NULL;
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_model_backward(s.model));
    assert_contains(yk_last_error(), "backward without a forward");
    assert_true(isnan(yk_model_loss(s.model)));
    both_step(&s, 0, 4);
    end(&s);
}

/* ---- a backward that fails on one device ----------------------------------------------------- */

static yk_status run_fragile(const yk_operator_run *run)
{
    for (int64_t i = 0; i < yk_tensor_count(&run->inputs[0]); i++)
        yk_tensor_set(&run->outputs[0], i, yk_tensor_get(&run->inputs[0], i));
    return YK_OK;
}

static yk_status run_fragile_backward(const yk_operator_run *run)
{
    if (fabs(yk_tensor_get(&run->inputs[1], 0)) > 100)
        return yk_set_error(YK_ERROR_UNSUPPORTED, "too large");
    return run_fragile(run);
}

static const yk_operator_kernel fragile_backward_kernel = {.size = sizeof(yk_operator_kernel),
                                                           .run = run_fragile_backward};
static const yk_operator fragile_backward = {
    .size = sizeof(yk_operator),
    .name = "fragile_backward",
    .input_count = 2,
    .output_count = 1,
    .inputs = {{.name = "dy", .is_activation = true}, {.name = "x", .is_activation = true}},
    .ref = &fragile_backward_kernel};

static yk_status fragile_gradient(const yk_operator_node *node, yk_value *const *dy,
                                  const bool *needs, yk_value **dx)
{
    if (needs[0])
        dx[0] = yk_operator_apply(&fragile_backward, NULL, (yk_value *[]){dy[0], node->inputs[0]},
                                  NULL);
    return YK_OK;
}

static const yk_operator_kernel fragile_kernel = {.size = sizeof(yk_operator_kernel),
                                                  .run = run_fragile};
/* y = x, but backward fails where the first x of a batch is large. */
static const yk_operator fragile = {.size = sizeof(yk_operator),
                                    .name = "fragile",
                                    .input_count = 1,
                                    .output_count = 1,
                                    .inputs = {{.name = "x", .is_activation = true}},
                                    .gradient = fragile_gradient,
                                    .ref = &fragile_kernel};

static yk_model *make_fragile_model(void)
{
    yk_graph *graph = yk_graph_create();
    yk_value *images = yk_input(graph, "images", YK_F64, 4, (int64_t[]){YK_BATCH, 3, SIDE, SIDE});
    yk_value *labels = yk_input(graph, "labels", YK_I32, 1, (int64_t[]){YK_BATCH});
    yk_value *logits = yk_nn_linear(yk_flatten(images), "fc", CLASSES);
    yk_value *loss =
        yk_cross_entropy(yk_operator_apply(&fragile, NULL, &logits, NULL), labels, NULL);
    yk_model *model;
    assert_ok(yk_model_create(&model, loss,
                              YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.device = "ref")));
    return model;
}

/* What the other device has computed does not get into the next step. */
YK_TEST(a_backward_that_fails_on_one_device_leaves_no_gradients)
{
    unsetenv("YK_TEST_DEVICE"); /* the operator has a kernel for the host */
    side s = {.net = ref_plain};
    s.model = make_fragile_model();
    s.alone = make_fragile_model();
    assert_ok(yk_data_parallel_create(&s.dp, s.model, NULL));
    take_samples(&s.batch, YK_F64, 0, 4);
    for (int i = 2 * PIXELS; i < 4 * PIXELS; i++)
        s.batch.f64[i] *= 1e6;
    assert_ok(yk_model_forward(s.model, &s.batch.batch));
    assert_status(YK_ERROR_UNSUPPORTED, yk_model_backward(s.model));
    assert_contains(yk_last_error(), "cpu:1");
    both_step(&s, 9, 4);
    assert_same_gradients(s.model, s.alone, 1e-12);
    end(&s);
}

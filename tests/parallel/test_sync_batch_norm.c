/* SyncBatchNorm on several ranks is batch_norm of one process on the joint batch. */
#define _GNU_SOURCE
#include "harness.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "leave.h"
#include "same.h"
#include "side.h"

enum { MAX_RANKS = 4 };

static void begin(side *s, const network *net)
{
    side_join(s, net);
    s->model = make_model(net);
    s->alone = make_model(net);
    assert_ok(yk_sync_batch_norm_convert(s->model, s->group));
    assert_ok(yk_ddp_create(&s->ddp, s->model, s->group, NULL));
}

/* All ranks hold rank 0's buffers to the last bit. */
static void assert_equal_buffers(const side *s)
{
    for (size_t i = 0; i < yk_model_buffer_count(s->model); i++) {
        yk_tensor mine = yk_model_buffer(s->model, i).value;
        assert_equal_over_ranks(s->group, &mine);
    }
}

static const network ref_f64 = {.device = "ref", .dtype = YK_F64, .norm = true, .seed = 7};
static const network cpu_f32 = {.device = "cpu", .dtype = YK_F32, .norm = true, .seed = 7};
/* Two and a half blocks of channels, and images that threads share. */
static const network cpu_blocked = {
    .device = "cpu", .dtype = YK_F32, .norm = true, .seed = 7, .channels = 40, .threads = 3};
/* Backward normalises once more, with the statistics of all ranks. */
static const network cpu_again = {
    .device = "cpu", .dtype = YK_F32, .norm = true, .seed = 7, .channels = 40, .recompute = true};
/* More statistics than travel with the exchange of shared memory: see comm/shm. */
static const network cpu_wide = {
    .device = "cpu", .dtype = YK_F32, .norm = true, .seed = 7, .channels = 520};
static const network cpu_bf16 = {
    .device = "cpu", .dtype = YK_F32, .norm = true, .seed = 7, .amp = YK_AMP_BF16, .channels = 40};
static const network cpu_fp16 = {
    .device = "cpu", .dtype = YK_F32, .norm = true, .seed = 7, .amp = YK_AMP_FP16, .channels = 40};

static void train_and_compare(const network *net, double tolerance)
{
    static const int64_t counts[][MAX_RANKS] = {{3, 3, 3, 3}, {4, 1, 2, 5}, {2, 0, 3, 0}};
    side s;
    begin(&s, net);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        both_step_uneven(&s, 100 * (int64_t)i, counts[i]);
        assert_same_gradients(s.model, s.alone, tolerance);
        assert_same_buffers(s.model, s.alone, tolerance);
        assert_equal_buffers(&s);
        zero_both(&s);
    }
    side_end(&s);
}

static void in_f64_on_ref(int rank, int world)
{
    (void)rank, (void)world;
    train_and_compare(&ref_f64, 1e-12);
}

static void in_f32_on_cpu(int rank, int world)
{
    (void)rank, (void)world;
    train_and_compare(&cpu_f32, 1e-5);
}

static void in_bf16_on_cpu(int rank, int world)
{
    (void)rank, (void)world;
    train_and_compare(&cpu_bf16, 0.03);
}

static void in_fp16_on_cpu(int rank, int world)
{
    (void)rank, (void)world;
    train_and_compare(&cpu_fp16, 0.005);
}

static void in_blocks_on_cpu(int rank, int world)
{
    (void)rank, (void)world;
    train_and_compare(&cpu_blocked, 1e-5);
}

static void recomputed_on_cpu(int rank, int world)
{
    (void)rank, (void)world;
    train_and_compare(&cpu_again, 1e-5);
}

static void wide_on_cpu(int rank, int world)
{
    (void)rank, (void)world;
    train_and_compare(&cpu_wide, 1e-5);
}

YK_TEST(promise_26_two_ranks_in_f64_are_the_whole_batch)
{
    yk_test_ranks(2, in_f64_on_ref);
}

YK_TEST(promise_26_three_ranks_in_f64_are_the_whole_batch)
{
    yk_test_ranks(3, in_f64_on_ref);
}

YK_TEST(promise_26_four_ranks_in_f64_are_the_whole_batch)
{
    yk_test_ranks(4, in_f64_on_ref);
}

YK_TEST(promise_26_two_ranks_in_f32_are_the_whole_batch)
{
    yk_test_ranks(2, in_f32_on_cpu);
}

YK_TEST(promise_26_three_ranks_in_f32_are_the_whole_batch)
{
    yk_test_ranks(3, in_f32_on_cpu);
}

YK_TEST(promise_26_four_ranks_in_f32_are_the_whole_batch)
{
    yk_test_ranks(4, in_f32_on_cpu);
}

YK_TEST(promise_26_in_blocks_of_channels_too)
{
    yk_test_ranks(3, in_blocks_on_cpu);
}

YK_TEST(promise_26_with_recomputed_values_too)
{
    yk_test_ranks(3, recomputed_on_cpu);
}

YK_TEST(promise_26_with_many_channels_too)
{
    yk_test_ranks(2, wide_on_cpu);
}

YK_TEST(two_ranks_in_bf16_are_the_whole_batch)
{
    yk_test_ranks(2, in_bf16_on_cpu);
}

YK_TEST(two_ranks_in_fp16_are_the_whole_batch)
{
    yk_test_ranks(2, in_fp16_on_cpu);
}

/* ---- modes ----------------------------------------------------------------------------------- */

/* What was saved in training is what evaluation uses, without a word to the other ranks. */
YK_TEST_RANKS(promise_26_evaluation_uses_the_saved_statistics, 3)
{
    static const int64_t counts[MAX_RANKS] = {2, 4, 3, 3};
    side s;
    begin(&s, &ref_f64);
    both_step_uneven(&s, 0, counts);
    assert_same_buffers(s.model, s.alone, 1e-12);
    yk_model_eval(s.model);
    yk_model_eval(s.alone);
    for (int i = 0; i < 1 + rank; i++) { /* ranks evaluate different numbers of batches */
        const yk_batch *batch = take_samples(&s.own, YK_F64, 500 + 20 * i, 1 + rank);
        assert_ok(yk_model_forward(s.model, batch));
        assert_ok(yk_model_forward(s.alone, batch));
        assert_float_equal(yk_model_loss(s.model), yk_model_loss(s.alone), 1e-12);
    }
    assert_equal_buffers(&s);
    side_end(&s);
}

/* Rank 0 writes a file; every rank's evaluation is that of the file's model, to the last bit. */
YK_TEST_RANKS(promise_26_the_statistics_saved_are_the_ones_evaluated, 3)
{
    static const int64_t counts[MAX_RANKS] = {2, 4, 3, 3};
    side s;
    char path[512] = "";
    begin(&s, &cpu_blocked);
    for (int i = 0; i < 3; i++)
        both_step_uneven(&s, 50 * i, counts);
    if (rank == 0) {
        snprintf(path, sizeof path, "%s/model.pth", yk_test_directory());
        assert_ok(yk_model_save(s.model, path));
    }
    assert_ok(yk_broadcast(s.group, path, sizeof path, YK_U8, 0, NULL));
    assert_ok(yk_model_load(s.alone, path));
    yk_model_eval(s.model);
    yk_model_eval(s.alone);
    const yk_batch *batch = take_samples(&s.own, YK_F32, 500, 6);
    assert_ok(yk_model_forward(s.model, batch));
    assert_ok(yk_model_forward(s.alone, batch));
    assert_true(yk_model_loss(s.model) == yk_model_loss(s.alone));
    assert_ok(yk_barrier(s.group));
    side_end(&s);
}

/* What evaluates while the model trains says nothing to the other ranks either. */
YK_TEST_RANKS(norms_in_an_eval_scope_exchange_nothing, 2)
{
    static const int64_t dims[] = {YK_BATCH, 3, SIDE, SIDE};
    yk_group *group;
    yk_model *model;
    samples own;
    assert_ok(yk_group_init(&group, NULL));
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "images", YK_F32, 4, dims);
    yk_value *labels = yk_input(graph, "labels", YK_I32, 1, dims);
    yk_eval_push(graph);
    x = yk_nn_batch_norm(x, "bn");
    yk_eval_pop(graph);
    yk_value *logits = yk_nn_linear(yk_flatten(x), "fc", CLASSES);
    assert_ok(yk_model_create(&model, yk_cross_entropy(logits, labels, NULL), NULL));
    assert_ok(yk_sync_batch_norm_convert(model, group));
    for (int i = 0; i < 1 + rank; i++) /* ranks run different numbers of steps */
        step(model, take_samples(&own, YK_F32, 10 * i, 3));
    yk_model_destroy(model);
    assert_ok(yk_barrier(group));
    yk_group_destroy(group);
}

YK_TEST_RANKS(gradients_add_up_synced_and_unsynced, 3)
{
    static const int64_t counts[MAX_RANKS] = {3, 3, 3, 3};
    side s;
    begin(&s, &ref_f64);
    both_step_uneven(&s, 0, counts);
    both_step_uneven(&s, 50, counts);
    assert_same_gradients(s.model, s.alone, 1e-12);
    zero_both(&s);

    yk_ddp_set_no_sync(s.ddp, true);
    both_step_uneven(&s, 100, counts);
    yk_ddp_set_no_sync(s.ddp, false);
    both_step_uneven(&s, 150, counts);
    assert_same_gradients(s.model, s.alone, 1e-12);
    assert_same_buffers(s.model, s.alone, 1e-12);
    side_end(&s);
}

/* A second model on the same group shares its channel; either may go first. */
YK_TEST_RANKS(two_models_share_a_group, 2)
{
    static const int64_t counts[MAX_RANKS] = {2, 3};
    side a;
    begin(&a, &ref_f64);
    yk_model *other = make_model(&ref_f64);
    assert_ok(yk_sync_batch_norm_convert(other, a.group));
    assert_ok(yk_sync_batch_norm_convert(other, a.group));
    both_step_uneven(&a, 0, counts);
    step(other, &a.own.batch);
    assert_same_buffers(other, a.alone, 1e-12);
    yk_model_destroy(other);
    both_step_uneven(&a, 10, counts);
    assert_same_buffers(a.model, a.alone, 1e-12);
    side_end(&a);
}

YK_TEST(one_rank_or_no_batch_norm_is_left_alone)
{
    yk_group *group;
    samples s;
    network plain = {.device = "ref", .dtype = YK_F64, .seed = 7};
    assert_ok(yk_group_init(&group, NULL));
    yk_model *model = make_model(&ref_f64), *without = make_model(&plain);
    assert_ok(yk_sync_batch_norm_convert(model, group));
    assert_ok(yk_sync_batch_norm_convert(without, group));
    step(model, take_samples(&s, YK_F64, 0, 2));
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_model_forward(model, take_samples(&s, YK_F64, 0, 0)));
    yk_model_destroy(model);
    yk_model_destroy(without);
    yk_group_destroy(group);
}

/* ---- failures -------------------------------------------------------------------------------- */

/* One value of each channel for each sample. */
static yk_model *make_flat_model(const char *device)
{
    yk_model *model;
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "x", YK_F32, 2, (int64_t[]){YK_BATCH, 3});
    x = yk_nn_linear(yk_nn_batch_norm(x, "bn"), "fc", 1);
    assert_ok(yk_model_create(&model, yk_reduce_loss(x, YK_LOSS_MEAN),
                              YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT,
                                      o.device = yk_test_device(device), o.logits = x)));
    return model;
}

static void assert_number(double found, double expected)
{
    assert_true(fabs(found - expected) < 1e-6);
}

/* An asynchronous device refuses it when somebody waits. */
static void refuse(yk_model *model, const yk_batch *batch, const char *line)
{
    yk_tensor output;
    yk_status status = yk_model_forward(model, batch);
    if (status == YK_OK)
        status = yk_model_output(model, &output);
    assert_status(YK_ERROR_INVALID_SHAPE, status);
    assert_contains(yk_last_error(), line);
}

/* On all ranks, and before it has moved the running statistics. */
static void refuse_without_variance(yk_group *group, const char *device)
{
    static const char *const names[] = {"x"};
    int rank = yk_group_rank(group);
    float data[3] = {(float)(1 + rank), 2, 4};
    yk_tensor x = {.data = data, .dtype = YK_F32, .ndim = 2, .dims = {1, 3}};
    yk_batch batch = {.size = 1, .count = 1, .names = names, .tensors = &x};
    yk_model *model = make_flat_model(device);
    assert_ok(yk_sync_batch_norm_convert(model, group));
    batch.size = x.dims[0] = rank == 0;
    refuse(model, &batch, "batch_norm: a channel of 1 value has no variance to train with");
    batch.size = x.dims[0] = 0;
    refuse(model, &batch, "batch_norm: a channel of 0 values has no variance to train with");
    batch.size = x.dims[0] = 1;
    assert_ok(yk_model_forward(model, &batch));
    yk_tensor mean = yk_test_on_host(find(model, "bn.running_mean").value);
    assert_number(element(&mean, 0), 0.1 * 1.5);
    assert_number(element(&mean, 2), 0.1 * 4);
    yk_tensor batches = yk_test_on_host(find(model, "bn.num_batches_tracked").value);
    assert_int_equal((int)element(&batches, 0), 1);
    yk_model_destroy(model);
}

YK_TEST_RANKS(a_joint_batch_without_variance_is_refused_on_all_ranks, 2)
{
    yk_group *group;
    (void)rank, (void)world;
    assert_ok(yk_group_init(&group, NULL));
    refuse_without_variance(group, "ref");
    refuse_without_variance(group, "cpu");
    yk_group_destroy(group);
}

/* Under DDP, on every device before a kernel runs, and with the name of the layer. */
static void refuse_under_ddp(yk_group *group, const char *device)
{
    static const char *const names[] = {"x"};
    float data[6] = {1, 2, 4, 3, 2, 1};
    yk_ddp *ddp;
    yk_tensor x = {.data = data, .dtype = YK_F32, .ndim = 2, .dims = {1, 3}};
    yk_batch batch = {.size = 1, .count = 1, .names = names, .tensors = &x};
    yk_model *model = make_flat_model(device);
    assert_ok(yk_sync_batch_norm_convert(model, group));
    assert_ok(yk_ddp_create(&ddp, model, group, NULL));
    batch.size = x.dims[0] = yk_group_rank(group) == 0;
    assert_status(YK_ERROR_INVALID_SHAPE, yk_model_forward(model, &batch));
    assert_contains(yk_last_error(), ": bn.batch_norm: batch_norm: a channel of 1 value has");
    batch.size = x.dims[0] = yk_group_rank(group) == 0 ? 2 : 0;
    assert_ok(yk_model_forward(model, &batch));
    assert_ok(yk_model_backward(model));
    batch.size = x.dims[0] = 1;
    assert_ok(yk_model_forward(model, &batch));
    assert_ok(yk_model_backward(model));
    yk_ddp_destroy(ddp);
    yk_model_destroy(model);
}

YK_TEST_RANKS(under_ddp_the_layer_without_variance_is_named, 2)
{
    yk_group *group;
    (void)rank, (void)world;
    assert_ok(yk_group_init(&group, NULL));
    refuse_under_ddp(group, "ref");
    refuse_under_ddp(group, "cpu");
    refuse_under_ddp(group, "sim");
    yk_group_destroy(group);
}

static void one_dies(int rank, int world)
{
    (void)world;
    side s;
    static const int64_t counts[MAX_RANKS] = {2, 2, 2};
    begin(&s, &ref_f64);
    both_step_uneven(&s, 0, counts);
    if (rank == 1)
        raise(SIGKILL);
    yk_ddp_set_no_sync(s.ddp, true); /* no collective but SyncBatchNorm's */
    const yk_batch *batch = take_samples(&s.own, YK_F64, 0, 2);
    assert_status(YK_ERROR_PEER_FAILED, yk_model_forward(s.model, batch));
    assert_contains(yk_last_error(), "batch_norm");
    assert_contains(yk_last_error(), ": rank 1 ");
    assert_contains(yk_last_error(), "is dead");
    side_end(&s);
}

YK_TEST(a_rank_that_dies_is_named)
{
    int statuses[3];
    yk_test_ranks_status(3, one_dies, statuses, NULL);
    assert_int_equal(statuses[0], 0);
    assert_int_equal(statuses[2], 0);
}

/* Rank 0 exchanges statistics, while rank 1 is done without. */
YK_TEST_RANKS(a_rank_in_evaluation_mode_is_named, 2)
{
    (void)world;
    side s;
    static const int64_t counts[MAX_RANKS] = {2, 2};
    setenv("YOKE_TIMEOUT", "12", 1);
    begin(&s, &ref_f64);
    both_step_uneven(&s, 0, counts);
    yk_ddp_set_no_sync(s.ddp, true); /* no collective but SyncBatchNorm's */
    if (rank == 1)
        yk_model_eval(s.model);
    yk_status status = yk_model_forward(s.model, take_samples(&s.own, YK_F64, 0, 2));
    if (rank == 1) {
        assert_ok(status);
        status = yk_barrier(s.group);
    }
    assert_status(YK_ERROR_TIMEOUT, status);
    assert_contains(yk_last_error(), "called all_gather(float64 x 9) in the channel of the group");
    assert_contains(yk_last_error(), "called barrier() in the group of all ranks");
    yk_test_await_all(s.group);
    side_end(&s);
}

/* ---- a device whose memory the host cannot touch --------------------------------------------- */

/* Forward and backward of a synchronised model on its own share of the samples. */
static yk_model *run_synced(yk_group *group, const network *net, int64_t first, int64_t count)
{
    samples own;
    yk_model *model = make_model(net);
    assert_ok(yk_sync_batch_norm_convert(model, group));
    for (int step = 0; step < 5; step++) { /* on the simulated device the last are replays */
        if (step % 2 == 0)
            yk_model_zero_grad(model);
        assert_ok(yk_model_forward(model, take_samples(&own, net->dtype, first + step, count)));
        assert_ok(yk_model_backward(model));
    }
    return model;
}

/* The simulated device runs ref's kernels. */
YK_TEST_RANKS(staged_statistics_give_the_same_bits, 3)
{
    network sim = ref_f64;
    yk_group *group;
    sim.device = "sim";
    assert_ok(yk_group_init(&group, NULL));
    yk_model *expected = run_synced(group, &ref_f64, 10 * rank, rank + 1);
    yk_model *found = run_synced(group, &sim, 10 * rank, rank + 1);
    assert_non_null(yk_model_parameter(found, 0).grad.device);
    assert_same_grads(found, expected);
    assert_same_values(found, expected);
    yk_model_destroy(found);
    yk_model_destroy(expected);
    yk_group_destroy(group);
}

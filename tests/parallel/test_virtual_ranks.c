/* V virtual ranks on 1, 2 ... V ranks: the same gradients, weights, buffers, losses, to the bit. */
#define _GNU_SOURCE
#include "harness.h"

#include <sys/resource.h>

#include "same.h"
#include "small_network.h"

enum { STEPS = 4, EACH = 3 };

/* Norms, whose buffers follow virtual rank 0, and dropout, which each virtual rank draws for
 * itself. */
static yk_model *make_virtual_model(const char *device, yk_dtype dtype)
{
    yk_graph *graph = yk_graph_create();
    yk_value *images = yk_input(graph, "images", dtype, 4, (int64_t[]){YK_BATCH, 3, SIDE, SIDE});
    yk_value *labels = yk_input(graph, "labels", YK_I32, 1, (int64_t[]){YK_BATCH});
    yk_value *features = yk_nn_conv2d(
        images, "conv1", 4, 3, YK_WITH(yk_conv2d_options, YK_CONV2D_OPTIONS_INIT, o.padding = 1));
    features = yk_relu(yk_nn_batch_norm(features, "bn1"));
    features = yk_dropout(yk_flatten(features), 0.3);
    yk_value *loss = yk_cross_entropy(yk_nn_linear(features, "fc", CLASSES), labels, NULL);
    yk_model *model;
    assert_ok(
        yk_model_create(&model, loss,
                        YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT,
                                o.device = yk_test_device(device), o.seed = 3, o.threads = 1)));
    return model;
}

/* What must not depend on the number of ranks. */
typedef struct outcome {
    yk_model *model;
    double loss[STEPS]; /* of this rank's first virtual rank */
} outcome;

/* Trains `count` virtual ranks' worth of steps on the group's ranks. */
static outcome train_virtual(yk_group *group, int count, const char *device, yk_dtype dtype)
{
    outcome made = {.model = make_virtual_model(device, dtype)};
    samples *batch = malloc(sizeof *batch);
    yk_ddp *ddp;
    yk_optimizer *optimizer;
    int own = count / yk_group_size(group), first = own * yk_group_rank(group);
    assert_ok(yk_ddp_create(&ddp, made.model, group,
                            YK_WITH(yk_ddp_options, YK_DDP_OPTIONS_INIT, o.virtual_ranks = count)));
    assert_ok(
        yk_sgd_create(&optimizer, made.model,
                      YK_WITH(yk_sgd_options, YK_SGD_OPTIONS_INIT, o.lr = 0.1, o.momentum = 0.9)));
    for (int s = 0; s < STEPS; s++) {
        for (int turn = 0; turn < own; turn++) {
            int64_t at = ((int64_t)s * count + first + turn) * EACH;
            step(made.model, take_samples(batch, dtype, at, EACH));
            if (turn == 0)
                made.loss[s] = yk_model_loss(made.model);
        }
        assert_ok(yk_optimizer_step(optimizer));
    }
    assert_int_equal(yk_model_forwards(made.model), STEPS);
    yk_optimizer_destroy(optimizer);
    yk_ddp_destroy(ddp);
    free(batch);
    return made;
}

/* Rank 0's buffers are the ones that count. */
static void assert_same_outcome(const outcome *a, const outcome *b, bool buffers)
{
    for (size_t i = 0; i < yk_model_parameter_count(a->model); i++) {
        yk_parameter_view left = yk_model_parameter(a->model, i);
        yk_parameter_view right = yk_model_parameter(b->model, i);
        assert_same_tensor(left.name, left.value, right.value);
    }
    for (size_t i = 0; buffers && i < yk_model_buffer_count(a->model); i++) {
        yk_parameter_view left = yk_model_buffer(a->model, i);
        yk_parameter_view right = yk_model_buffer(b->model, i);
        assert_same_tensor(left.name, left.value, right.value);
    }
    if (buffers)
        assert_memory_equal(a->loss, b->loss, sizeof a->loss);
}

/* The same by this process alone, without the others. */
static outcome train_alone(int count, const char *device, yk_dtype dtype)
{
    yk_group *alone;
    unsetenv("RANK");
    unsetenv("WORLD_SIZE");
    assert_ok(yk_group_init(&alone, NULL));
    assert_int_equal(yk_group_size(alone), 1);
    outcome made = train_virtual(alone, count, device, dtype);
    yk_group_destroy(alone);
    return made;
}

static void compare(int rank, int count, const char *device, yk_dtype dtype)
{
    yk_group *group;
    assert_ok(yk_group_init(&group, NULL));
    outcome together = train_virtual(group, count, device, dtype);
    yk_group_destroy(group);
    outcome alone = train_alone(count, device, dtype);
    assert_same_outcome(&together, &alone, rank == 0);
    yk_model_destroy(together.model);
    yk_model_destroy(alone.model);
}

static void four_virtual_ranks(int rank, int world)
{
    (void)world;
    compare(rank, 4, "cpu", YK_F32);
}

static void six_virtual_ranks(int rank, int world)
{
    (void)world;
    compare(rank, 6, "cpu", YK_F32);
}

static void four_virtual_ranks_in_f64(int rank, int world)
{
    (void)world;
    compare(rank, 4, "ref", YK_F64);
}

YK_TEST(promise_20_two_ranks_do_the_work_of_four_to_the_bit)
{
    yk_test_ranks(2, four_virtual_ranks);
}

/* As many virtual ranks as ranks are ordinary DDP, whose reducer adds while backward runs. */
YK_TEST(promise_20_one_process_does_what_four_ranks_do)
{
    yk_test_ranks(4, four_virtual_ranks);
}

YK_TEST(promise_20_any_divisor_will_do)
{
    yk_test_ranks(3, six_virtual_ranks);
}

YK_TEST(promise_20_in_f64_on_ref_too)
{
    yk_test_ranks(2, four_virtual_ranks_in_f64);
}

/* However many virtual ranks a rank has, their memory is one region of the group, and bounded. */
YK_TEST_RANKS(promise_20_many_virtual_ranks_take_few_files, 2)
{
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &(struct rlimit){64, 64}), 0);
    compare(rank, 128, "cpu", YK_F32);
}

/* Norms held in evaluation mode, as in fine-tuning: their statistics stay what they are. */
YK_TEST(virtual_ranks_in_evaluation_mode_leave_the_buffers_alone)
{
    static const network net = {.device = "ref", .dtype = YK_F64, .norm = true, .seed = 7};
    yk_group *group;
    yk_ddp *ddp;
    samples batch;
    yk_model *model = make_model(&net), *alone = make_model(&net);
    assert_ok(yk_group_init(&group, NULL));
    assert_ok(yk_ddp_create(&ddp, model, group,
                            YK_WITH(yk_ddp_options, YK_DDP_OPTIONS_INIT, o.virtual_ranks = 2)));
    yk_model_eval(model);
    yk_model_eval(alone);
    for (int i = 0; i < 2; i++) {
        for (int turn = 0; turn < 2; turn++)
            step(model, take_samples(&batch, YK_F64, 3 * turn, 3));
        step(alone, take_samples(&batch, YK_F64, 0, 6));
        assert_same_buffers(model, alone, 0);
        assert_same_gradients(model, alone, 1e-12);
        yk_model_zero_grad(model);
        yk_model_zero_grad(alone);
    }
    step(model, take_samples(&batch, YK_F64, 0, 3));
    assert_ok(yk_model_forward(model, take_samples(&batch, YK_F64, 3, 2)));
    assert_status(YK_ERROR_INVALID_SHAPE, yk_model_backward(model));
    assert_contains(yk_last_error(), "virtual rank 1 has 2 samples, virtual rank 0 has 3");
    yk_ddp_destroy(ddp);
    yk_model_destroy(model);
    yk_model_destroy(alone);
    yk_group_destroy(group);
}

/* Of three turns, two were taken when the step was given up. */
YK_TEST(a_step_that_was_given_up_starts_with_the_first_virtual_rank)
{
    yk_group *group;
    samples batch;
    yk_model *models[2];
    yk_ddp *ddp[2];
    assert_ok(yk_group_init(&group, NULL));
    for (int i = 0; i < 2; i++) {
        models[i] = make_virtual_model("ref", YK_F64);
        assert_ok(yk_ddp_create(&ddp[i], models[i], group,
                                YK_WITH(yk_ddp_options, YK_DDP_OPTIONS_INIT, o.virtual_ranks = 3)));
        for (int turn = 0; i == 0 && turn < 2; turn++)
            step(models[i], take_samples(&batch, YK_F64, 50 + turn * EACH, EACH));
        yk_model_zero_grad(models[i]);
        yk_model_set_forwards(models[i], 0); /* dropout draws as in a first step */
        for (int turn = 0; turn < 3; turn++)
            step(models[i], take_samples(&batch, YK_F64, turn * EACH, EACH));
    }
    assert_same_grads(models[0], models[1]);
    for (int i = 0; i < 2; i++) {
        yk_ddp_destroy(ddp[i]);
        yk_model_destroy(models[i]);
    }
    yk_group_destroy(group);
}

/* ---- refused --------------------------------------------------------------------------------- */

/* A group of one rank that stands for two. */
static yk_model *begin_two_virtual_ranks(yk_group **group, yk_ddp **ddp)
{
    yk_model *model = make_virtual_model("cpu", YK_F32);
    assert_ok(yk_group_init(group, NULL));
    assert_ok(yk_ddp_create(ddp, model, *group,
                            YK_WITH(yk_ddp_options, YK_DDP_OPTIONS_INIT, o.virtual_ranks = 2)));
    return model;
}

YK_TEST(batches_that_are_not_equal_are_refused)
{
    yk_group *group;
    yk_ddp *ddp;
    samples batch;
    yk_model *model = begin_two_virtual_ranks(&group, &ddp);
    step(model, take_samples(&batch, YK_F32, 0, 3));
    assert_status(YK_ERROR_INVALID_SHAPE,
                  yk_model_forward(model, take_samples(&batch, YK_F32, 3, 2)));
    assert_contains(yk_last_error(),
                    "virtual ranks need batches of equal size: virtual rank 1 has 2 samples");
    yk_ddp_destroy(ddp);
    yk_model_destroy(model);
    yk_group_destroy(group);
}

/* As those that are empty on all ranks of ordinary DDP. */
YK_TEST(batches_without_samples_are_refused)
{
    yk_group *group;
    yk_ddp *ddp;
    samples batch;
    yk_model *model = begin_two_virtual_ranks(&group, &ddp);
    assert_ok(yk_model_forward(model, take_samples(&batch, YK_F32, 0, 0)));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_model_backward(model));
    assert_contains(yk_last_error(), "the batches of all 2 virtual ranks are empty");
    step(model, take_samples(&batch, YK_F32, 0, 3));
    step(model, take_samples(&batch, YK_F32, 3, 3));
    yk_ddp_destroy(ddp);
    yk_model_destroy(model);
    yk_group_destroy(group);
}

YK_TEST(more_than_a_step_of_virtual_ranks_is_refused)
{
    yk_group *group;
    yk_ddp *ddp;
    samples batch;
    yk_model *model = begin_two_virtual_ranks(&group, &ddp);
    step(model, take_samples(&batch, YK_F32, 0, 3));
    step(model, take_samples(&batch, YK_F32, 3, 3));
    assert_ok(yk_model_forward(model, take_samples(&batch, YK_F32, 6, 3)));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_model_backward(model));
    yk_ddp_set_no_sync(ddp, true);
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_model_forward(model, take_samples(&batch, YK_F32, 6, 3)));
    yk_ddp_destroy(ddp);
    yk_model_destroy(model);
    yk_group_destroy(group);
}

YK_TEST_RANKS(virtual_ranks_that_cannot_be_divided_are_refused, 2)
{
    yk_group *group;
    yk_ddp *ddp;
    assert_ok(yk_group_init(&group, NULL));
    yk_model *model = make_virtual_model("cpu", YK_F32);
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_ddp_create(&ddp, model, group,
                                YK_WITH(yk_ddp_options, YK_DDP_OPTIONS_INIT, o.virtual_ranks = 3)));
    assert_contains(yk_last_error(), "3 virtual ranks cannot be divided equally among 2 ranks");
    yk_model_destroy(model);
    yk_group_destroy(group);
}

/* With a network that is frozen there is nothing to add up, for any number of ranks: all refuse. */
YK_TEST_RANKS(virtual_ranks_of_a_frozen_network_have_no_backward, 2)
{
    yk_group *group;
    yk_ddp *ddp;
    samples batch;
    assert_ok(yk_group_init(&group, NULL));
    yk_graph *graph = yk_graph_create();
    yk_value *images = yk_input(graph, "images", YK_F32, 4, (int64_t[]){YK_BATCH, 3, SIDE, SIDE});
    yk_value *labels = yk_input(graph, "labels", YK_I32, 1, (int64_t[]){YK_BATCH});
    yk_value *logits = yk_nn_linear(yk_flatten(images), "fc", CLASSES);
    assert_ok(yk_graph_set_trainable(graph, "*", false, NULL));
    yk_model *model;
    assert_ok(yk_model_create(&model, yk_cross_entropy(logits, labels, NULL), NULL));
    assert_ok(yk_ddp_create(&ddp, model, group,
                            YK_WITH(yk_ddp_options, YK_DDP_OPTIONS_INIT, o.virtual_ranks = 4)));
    assert_ok(yk_model_forward(model, take_samples(&batch, YK_F32, 3 * rank, 3)));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_model_backward(model));
    assert_contains(yk_last_error(), "nothing is trained");
    yk_ddp_destroy(ddp);
    yk_model_destroy(model);
    yk_group_destroy(group);
}

/* Two ranks share four virtual ones, or are themselves the virtual ranks. */
static void refuse_company(yk_group *group, int virtual_ranks)
{
    yk_ddp *ddp;
    samples batch;
    yk_model *model = make_virtual_model("cpu", YK_F32);
    assert_ok(yk_ddp_create(
        &ddp, model, group,
        YK_WITH(yk_ddp_options, YK_DDP_OPTIONS_INIT, o.virtual_ranks = virtual_ranks)));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_ddp_register_bf16_compress_hook(ddp));
    assert_contains(yk_last_error(), "cannot be combined with a comm hook");
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_ddp_join_begin(ddp, NULL));
    yk_ddp_set_no_sync(ddp, true);
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_model_forward(model, take_samples(&batch, YK_F32, 0, 3)));
    assert_contains(yk_last_error(), "no_sync");
    yk_ddp_set_no_sync(ddp, false);
    assert_ok(yk_sync_batch_norm_convert(model, group));
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_model_forward(model, take_samples(&batch, YK_F32, 0, 3)));
    assert_contains(yk_last_error(), "SyncBatchNorm");
    yk_ddp_destroy(ddp);
    yk_model_destroy(model);
}

YK_TEST_RANKS(what_cannot_go_with_virtual_ranks_is_refused_for_any_number_of_ranks, 2)
{
    yk_group *group;
    assert_ok(yk_group_init(&group, NULL));
    refuse_company(group, 4);
    refuse_company(group, 2);
    yk_group_destroy(group);
}

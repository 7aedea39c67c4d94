/* Join: ranks with different numbers of batches never hang, and compute what they should. */
#include "harness.h"

#include <signal.h>

#include "small_network.h"

enum { MAX_RANKS = 3, SAMPLES = 3 };

static const network ref_plain = {.device = "ref", .dtype = YK_F64, .seed = 7};
static const network ref_norm = {.device = "ref", .dtype = YK_F64, .norm = true, .seed = 7};
static const network cpu_norm = {.device = "cpu", .dtype = YK_F32, .norm = true, .seed = 7};

typedef struct side {
    network net;
    int rank, world;
    yk_group *group;
    yk_model *model, *alone;
    yk_ddp *ddp;
    yk_optimizer *sgd, *sgd_alone;
    samples own, joint;
    int steps;
} side;

static const yk_sgd_options plain_sgd = {sizeof(yk_sgd_options), .lr = 0.1};
static const yk_sgd_options momentum_sgd = {sizeof(yk_sgd_options), .lr = 0.1, .momentum = 0.9,
                                            .weight_decay = 0.01};

static void begin(side *s, const network *net, const yk_sgd_options *sgd, bool sync_bn)
{
    *s = (side){.net = *net};
    assert_ok(yk_group_init(&s->group,
                            YK_WITH(yk_group_options, YK_GROUP_OPTIONS_INIT, o.timeout_s = 20)));
    s->rank = yk_group_rank(s->group);
    s->world = yk_group_size(s->group);
    s->model = make_model(net);
    s->alone = make_model(net);
    if (sync_bn)
        assert_ok(yk_sync_batch_norm_convert(s->model, s->group));
    assert_ok(yk_ddp_create(&s->ddp, s->model, s->group,
                            YK_WITH(yk_ddp_options, YK_DDP_OPTIONS_INIT, o.bucket_cap_mb = 1e-3)));
    assert_ok(yk_sgd_create(&s->sgd, s->model, sgd));
    assert_ok(yk_sgd_create(&s->sgd_alone, s->alone, sgd));
}

static void end(side *s)
{
    yk_optimizer_destroy(s->sgd);
    yk_optimizer_destroy(s->sgd_alone);
    yk_ddp_destroy(s->ddp);
    yk_model_destroy(s->model);
    yk_model_destroy(s->alone);
    yk_group_destroy(s->group);
}

/* The batch of rank r in step i: its own samples, of which it has batches[r] times three. */
static const yk_batch *batch_of(samples *s, const network *net, int rank, int i)
{
    return take_samples(s, net->dtype, 100 * rank + SAMPLES * i, SAMPLES);
}

/* The samples of all ranks that have some left in step i, in one batch; returns their number. */
static int joint_batch(side *s, const int *batches, int i)
{
    static samples part;
    size_t size = yk_dtype_size(s->net.dtype) * SAMPLES * PIXELS;
    int active = 0;
    take_samples(&s->joint, s->net.dtype, 0, SAMPLES * s->world);
    char *images = s->joint.tensors[0].data;
    for (int rank = 0; rank < s->world && rank < MAX_RANKS; rank++) {
        if (i >= batches[rank])
            continue;
        batch_of(&part, &s->net, rank, i);
        memcpy(images + (size_t)active * size, part.tensors[0].data, size);
        memcpy(s->joint.labels + active * SAMPLES, part.labels, sizeof *part.labels * SAMPLES);
        active++;
    }
    s->joint.batch.size = s->joint.tensors[0].dims[0] = s->joint.tensors[1].dims[0] =
        SAMPLES * active;
    return active;
}

static yk_status take_step(void *context)
{
    side *s = context;
    s->steps++;
    return yk_optimizer_step(s->sgd);
}

static void train_joined(side *s, const int *batches, const yk_join_options *options)
{
    assert_ok(yk_ddp_join_begin(s->ddp, options));
    for (int i = 0; i < batches[s->rank]; i++) {
        step(s->model, batch_of(&s->own, &s->net, s->rank, i));
        assert_ok(take_step(s));
    }
    assert_ok(yk_ddp_join_end(s->ddp));
}

static void scale_gradients(const yk_model *model, double factor)
{
    for (size_t p = 0; p < yk_model_parameter_count(model); p++) {
        yk_tensor grad = yk_model_parameter(model, p).grad, host = yk_test_on_host(grad);
        for (int64_t e = 0; e < yk_tensor_count(&grad); e++)
            ((double *)host.data)[e] *= factor;
        yk_test_write_back(grad, host);
    }
}

/* One process on the joint batches; divided by all ranks, where asked for. */
static void train_alone(side *s, const int *batches, bool divide_by_all)
{
    for (int i = 0;; i++) {
        int active = joint_batch(s, batches, i);
        if (active == 0)
            return;
        step(s->alone, &s->joint.batch);
        if (divide_by_all)
            scale_gradients(s->alone, (double)active / s->world);
        assert_ok(yk_optimizer_step(s->sgd_alone));
    }
}

static const int uneven[][MAX_RANKS] = {{2, 5, 3}, {4, 1, 0}, {0, 2, 2}, {3, 3, 3}};
enum { CASES = sizeof uneven / sizeof *uneven };

/* ---- the same as one process ----------------------------------------------------------------- */

static void divided_by_all(int rank, int world)
{
    (void)rank, (void)world;
    for (int i = 0; i < CASES; i++) {
        side s;
        begin(&s, &ref_plain, &plain_sgd, false);
        train_joined(&s, uneven[i], NULL);
        train_alone(&s, uneven[i], true);
        assert_same_parameters(s.model, s.alone, 1e-12);
        assert_ok(yk_ddp_check_divergence(s.ddp));
        end(&s);
    }
}

YK_TEST(promise_22_uneven_inputs_of_two_ranks)
{
    yk_test_ranks(2, divided_by_all);
}

YK_TEST(promise_22_uneven_inputs_of_three_ranks)
{
    yk_test_ranks(3, divided_by_all);
}

/* With options.step, the momentum of a rank that is out of data also agrees with the others. */
YK_TEST_RANKS(promise_22_the_optimizer_keeps_in_step, 3)
{
    side s;
    begin(&s, &ref_plain, &momentum_sgd, false);
    for (int epoch = 0; epoch < 2; epoch++) { /* the second needs the momentum of the first */
        train_joined(&s, uneven[epoch],
                     YK_WITH(yk_join_options, YK_JOIN_OPTIONS_INIT,
                             o.divide_by_effective_world_size = true, o.step = take_step,
                             o.context = &s));
        train_alone(&s, uneven[epoch], false);
        assert_same_parameters(s.model, s.alone, 1e-12);
    }
    assert_int_equal(yk_optimizer_steps(s.sgd), yk_optimizer_steps(s.sgd_alone));
    assert_int_equal(s.steps, yk_optimizer_steps(s.sgd));
    assert_ok(yk_ddp_check_divergence(s.ddp));
    end(&s);
}

/* As after an evaluation, if the loop is what calls yk_model_train: a rank without a single batch
 * takes part in the exchanges of buffers all the same. */
YK_TEST_RANKS(promise_22_a_rank_without_batches_may_be_in_evaluation_mode, 3)
{
    side s;
    begin(&s, &ref_norm, &plain_sgd, false);
    yk_model_eval(s.model);
    assert_ok(yk_ddp_join_begin(s.ddp, NULL));
    for (int i = 0; i < rank; i++) {
        yk_model_train(s.model);
        step(s.model, batch_of(&s.own, &s.net, rank, i));
        assert_ok(take_step(&s));
    }
    assert_ok(yk_ddp_join_end(s.ddp));
    assert_ok(yk_ddp_check_divergence(s.ddp));
    int64_t forwards = yk_model_forwards(s.model);
    if (rank == 0) /* which is in evaluation mode still */
        assert_ok(yk_model_forward(s.model, batch_of(&s.own, &s.net, rank, 0)));
    assert_int_equal(yk_model_forwards(s.model), forwards);
    end(&s);
}

/* Statistics of the joint batch: of those ranks that have samples. */
YK_TEST_RANKS(promise_22_with_sync_batch_norm, 3)
{
    side s;
    begin(&s, &ref_norm, &momentum_sgd, true);
    train_joined(&s, uneven[0],
                 YK_WITH(yk_join_options, YK_JOIN_OPTIONS_INIT,
                         o.divide_by_effective_world_size = true, o.step = take_step,
                         o.context = &s));
    train_alone(&s, uneven[0], false);
    assert_same_parameters(s.model, s.alone, 1e-10);
    assert_same_buffers(s.model, s.alone, 1e-10);
    end(&s);
}

/* Each rank's own statistics on the fast device: the end makes all ranks the same. */
YK_TEST_RANKS(promise_22_with_batch_norm_all_end_alike, 3)
{
    side s;
    begin(&s, &cpu_norm, &momentum_sgd, false);
    for (int i = 0; i < CASES; i++) {
        train_joined(&s, uneven[i],
                     i % 2 ? NULL
                           : YK_WITH(yk_join_options, YK_JOIN_OPTIONS_INIT, o.step = take_step,
                                     o.context = &s));
        double sums[2] = {0}; /* of buffers, which the check would make equal first */
        for (size_t b = 0; b < yk_model_buffer_count(s.model); b++) {
            yk_tensor value = yk_test_on_host(yk_model_buffer(s.model, b).value);
            for (int64_t e = 0; e < yk_tensor_count(&value); e++)
                sums[0] += element(&value, e) * (double)(e + 1);
        }
        assert_true(isfinite(sums[0]));
        sums[1] = sums[0];
        assert_ok(yk_broadcast(s.group, &sums[1], 1, YK_F64, 0, NULL));
        assert_true(sums[0] == sums[1]);
        assert_ok(yk_ddp_check_divergence(s.ddp));
    }
    end(&s);
}

/* Ranks have 4, 3 and 2 batches, and steps have two micro-batches each. */
static const int accumulated[MAX_RANKS] = {4, 3, 2};

static void accumulate_to_the_end(side *s, int rank, yk_accumulation accumulation,
                                  bool divide_by_effective_world_size)
{
    yk_model_set_accumulation(s->model, accumulation);
    yk_model_set_accumulation(s->alone, accumulation);
    assert_ok(yk_ddp_join_begin(
        s->ddp, YK_WITH(yk_join_options, YK_JOIN_OPTIONS_INIT,
                        o.divide_by_effective_world_size = divide_by_effective_world_size,
                        o.step = take_step, o.context = s)));
    for (int i = 0; i < accumulated[rank]; i++) {
        yk_ddp_set_no_sync(s->ddp, i % 2 == 0);
        step(s->model, batch_of(&s->own, &s->net, rank, i));
        if (i % 2)
            assert_ok(take_step(s));
    }
    assert_ok(yk_ddp_join_end(s->ddp));
}

/* Two micro-batches a step; a rank runs out between them, and its first one still counts. */
static void accumulate_on_three_ranks(int rank, yk_accumulation accumulation)
{
    side s;
    begin(&s, &ref_plain, &plain_sgd, false);
    accumulate_to_the_end(&s, rank, accumulation, true);
    for (int i = 0; i < 4; i++) {
        joint_batch(&s, accumulated, i);
        step(s.alone, &s.joint.batch);
        if (i % 2)
            assert_ok(yk_optimizer_step(s.sgd_alone));
    }
    assert_int_equal(s.steps, 2);
    assert_same_parameters(s.model, s.alone, 1e-12);
    end(&s);
}

YK_TEST_RANKS(promise_22_with_accumulation, 3)
{
    accumulate_on_three_ranks(rank, YK_ACCUMULATION_MEAN);
}

YK_TEST_RANKS(promise_22_with_accumulated_sums, 3)
{
    accumulate_on_three_ranks(rank, YK_ACCUMULATION_SUM);
}

/* The same divided by all ranks: what is missing counts like samples without a gradient. */
YK_TEST_RANKS(promise_22_with_accumulation_divided_by_all, 3)
{
    side s;
    begin(&s, &ref_plain, &plain_sgd, false);
    accumulate_to_the_end(&s, rank, YK_ACCUMULATION_MEAN, false);
    for (int i = 0, active = 0; i < 4; i++) {
        active = (i % 2 ? active : 0) + joint_batch(&s, accumulated, i);
        step(s.alone, &s.joint.batch);
        if (i % 2 == 0)
            continue;
        scale_gradients(s.alone, active / (2.0 * world));
        assert_ok(yk_optimizer_step(s.sgd_alone));
    }
    assert_same_parameters(s.model, s.alone, 1e-12);
    end(&s);
}

/* Comm hooks and sharded optimizers are met too. */
YK_TEST_RANKS(promise_22_with_powersgd_and_zero, 2)
{
    side s;
    yk_zero *zero;
    begin(&s, &cpu_norm, &momentum_sgd, false);
    assert_ok(yk_ddp_register_powersgd_hook(
        s.ddp, YK_WITH(yk_powersgd_options, YK_POWERSGD_OPTIONS_INIT, o.start_iter = 1)));
    assert_ok(yk_zero_create(&zero, s.sgd, s.model, s.group));
    train_joined(
        &s, uneven[0],
        YK_WITH(yk_join_options, YK_JOIN_OPTIONS_INIT, o.step = take_step, o.context = &s));
    assert_ok(yk_ddp_check_divergence(s.ddp));
    yk_zero_destroy(zero);
    end(&s);
}

/* ---- errors in place of hangs ---------------------------------------------------------------- */

YK_TEST_RANKS(promise_22_an_early_end_is_an_error_on_request, 3)
{
    side s;
    begin(&s, &ref_plain, &plain_sgd, false);
    assert_ok(yk_ddp_join_begin(s.ddp, YK_WITH(yk_join_options, YK_JOIN_OPTIONS_INIT,
                                               o.throw_on_early_termination = true)));
    yk_status status = YK_OK;
    for (int i = 0; i < uneven[0][rank] && status == YK_OK; i++) {
        status = yk_model_forward(s.model, batch_of(&s.own, &s.net, rank, i));
        if (status == YK_OK)
            assert_ok(yk_model_backward(s.model));
    }
    if (status == YK_OK)
        status = yk_ddp_join_end(s.ddp);
    assert_int_equal(status, YK_ERROR_INTERRUPTED);
    assert_contains(yk_last_error(), "rank 0 has run out of data");
    yk_model_zero_grad(s.model);
    train_joined(&s, uneven[0], NULL); /* Join has ended on all ranks and can begin again */
    assert_ok(yk_ddp_check_divergence(s.ddp));
    end(&s);
}

/* Only step takes ranks without data to what all ranks do together after a backward. */
YK_TEST_RANKS(promise_22_zero_and_grad_scaler_ask_for_a_step, 2)
{
    side s;
    yk_grad_scaler *scaler;
    yk_zero *zero;
    begin(&s, &cpu_norm, &momentum_sgd, false);
    assert_ok(yk_zero_create(&zero, s.sgd, s.model, s.group));
    assert_ok(yk_ddp_join_begin(s.ddp, NULL));
    step(s.model, batch_of(&s.own, &s.net, rank, 0));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_optimizer_step(s.sgd));
    assert_contains(yk_last_error(), "ZeRO: Join needs yk_join_options.step");
    assert_ok(yk_ddp_join_end(s.ddp));
    assert_ok(yk_optimizer_step(s.sgd)); /* nothing has been lost */
    assert_ok(yk_grad_scaler_create(&scaler, s.model, NULL));
    assert_ok(yk_ddp_join_begin(s.ddp, NULL));
    step(s.model, batch_of(&s.own, &s.net, rank, 1));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_grad_scaler_step(scaler, s.sgd));
    assert_contains(yk_last_error(), "grad scaler: Join needs yk_join_options.step");
    assert_ok(yk_ddp_join_end(s.ddp));
    assert_ok(yk_grad_scaler_step(scaler, s.sgd));
    yk_zero_destroy(zero);
    yk_grad_scaler_destroy(scaler);
    end(&s);
}

YK_TEST_RANKS(ranks_that_differ_in_no_sync_are_told, 2)
{
    side s;
    begin(&s, &ref_plain, &plain_sgd, false);
    assert_ok(yk_ddp_join_begin(s.ddp, NULL));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_ddp_join_begin(s.ddp, NULL));
    yk_ddp_set_no_sync(s.ddp, rank == 1);
    assert_status(YK_ERROR_MISMATCH, yk_model_forward(s.model, batch_of(&s.own, &s.net, rank, 0)));
    assert_contains(yk_last_error(), "rank 0 is about to run a synced step, rank 1 one under");
    end(&s);
}

/* Without Join, a rank that ends early leaves or does something else. */
static void without_join(int rank, bool leaves)
{
    side s;
    begin(&s, &ref_plain, &plain_sgd, false);
    yk_status status = YK_OK;
    for (int i = 0; i < 2 + rank && status == YK_OK; i++) {
        status = yk_model_forward(s.model, batch_of(&s.own, &s.net, rank, i));
        if (status == YK_OK)
            status = yk_model_backward(s.model);
        if (status == YK_OK)
            assert_ok(yk_optimizer_step(s.sgd));
    }
    if (rank == 0 && !leaves)
        status = yk_barrier(s.group);
    if (rank > 0 || !leaves)
        assert_int_equal(status, leaves ? YK_ERROR_PEER_FAILED : YK_ERROR_MISMATCH);
    if (rank > 0 && leaves)
        assert_contains(yk_last_error(), "rank 0");
    if (!leaves)
        assert_contains(yk_last_error(), "barrier");
    end(&s);
}

static void leaving(int rank, int world)
{
    (void)world;
    without_join(rank, true);
}

static void going_on(int rank, int world)
{
    (void)world;
    without_join(rank, false);
}

YK_TEST(promise_22_without_join_a_rank_that_leaves_is_named)
{
    yk_test_ranks(2, leaving);
}

YK_TEST(promise_22_without_join_one_of_three_leaves)
{
    yk_test_ranks(3, leaving);
}

YK_TEST(promise_22_without_join_a_rank_that_goes_on_is_a_mismatch)
{
    yk_test_ranks(2, going_on);
}

/* A shadow, or one of those it shadows, is killed: the others name it. */
static void killed(int rank, int victim)
{
    side s;
    begin(&s, &cpu_norm, &momentum_sgd, false);
    assert_ok(yk_ddp_register_bf16_compress_hook(s.ddp));
    assert_ok(yk_ddp_join_begin(s.ddp, NULL));
    yk_status status = YK_OK;
    for (int i = 0; i < 40 * rank && status == YK_OK; i++) { /* rank 0 has no data at all */
        if (rank == victim && i == 3)
            raise(SIGKILL);
        status = yk_model_forward(s.model, batch_of(&s.own, &s.net, rank, i % 3));
        if (status == YK_OK)
            status = yk_model_backward(s.model);
        if (status == YK_OK)
            assert_ok(yk_optimizer_step(s.sgd));
    }
    if (rank == 0 && victim == 0)
        raise(SIGKILL);
    if (status == YK_OK)
        status = yk_ddp_join_end(s.ddp);
    assert_int_equal(status, YK_ERROR_PEER_FAILED);
    assert_contains(yk_last_error(), victim ? ": rank 1 " : ": rank 0 ");
    assert_contains(yk_last_error(), "is dead");
    end(&s);
}

static void kill_rank_0(int rank, int world)
{
    (void)world;
    killed(rank, 0);
}

static void kill_rank_1(int rank, int world)
{
    (void)world;
    killed(rank, 1);
}

YK_TEST(promise_22_a_shadow_that_dies_is_named)
{
    int statuses[3];
    yk_test_ranks_status(3, kill_rank_0, statuses, NULL);
    assert_int_equal(statuses[1], 0);
    assert_int_equal(statuses[2], 0);
}

YK_TEST(promise_22_a_rank_that_dies_is_named_by_its_shadow)
{
    int statuses[3];
    yk_test_ranks_status(3, kill_rank_1, statuses, NULL);
    assert_int_equal(statuses[0], 0);
    assert_int_equal(statuses[2], 0);
}

/* Buckets that are reduced in a device's streams, and recorded with backward. */
#define _GNU_SOURCE
#include "blocked_stream.h"
#include "device/sim/sim.h"
#include "model/model.h"
#include "parallel/ddp.h"
#include "side.h"

#include <math.h>
#include <signal.h>

#include <yoke/scaler.h>

static const network sim_norm = {.device = "sim", .dtype = YK_F32, .norm = true};

enum { STEPS = 15, SPOILT = 9 };

/* Joins the group and makes a model, which the case puts under DDP. */
static void begin(side *s)
{
    *s = (side){0};
    side_join(s, &sim_norm);
    s->model = make_model(&sim_norm);
}

/* All gradients, one after the other. */
static size_t read_gradients(const yk_model *model, float *to)
{
    size_t count = 0;
    for (size_t i = 0; i < yk_model_parameter_count(model); i++) {
        yk_tensor grad = yk_model_parameter(model, i).grad;
        assert_ok(yk_tensor_read(&grad, to + count));
        count += (size_t)yk_tensor_count(&grad);
    }
    return count;
}

/* How gradients travel from a later step on. */
typedef enum way { AS_THEY_ARE, IN_BF16, BY_POWERSGD } way;

/* PowerSGD begins to compress when there are recordings of backwards in which it does not. */
static yk_status register_way(yk_ddp *ddp, way how)
{
    yk_powersgd_options powersgd = YK_POWERSGD_OPTIONS_INIT;
    powersgd.start_iter = 5;
    powersgd.matrix_approximation_rank = 3;
    powersgd.min_compression_rate = 1;
    switch (how) {
    case IN_BF16:
        return yk_ddp_register_bf16_compress_hook(ddp);
    case BY_POWERSGD:
        return yk_ddp_register_powersgd_hook(ddp, &powersgd);
    default:
        return YK_OK;
    }
}

/* Steps that are synced and not, set gradients and add to them, with batches of two sizes; each is
 * walked, recorded and replayed. In one of them a rank has an infinite number. */
static size_t train(const char *backend, way how, float *gradients)
{
    side s = {.net = sim_norm};
    assert_ok(yk_group_init(&s.group,
                            YK_WITH(yk_group_options, YK_GROUP_OPTIONS_INIT, o.backend = backend)));
    s.rank = yk_group_rank(s.group);
    s.model = make_model(&sim_norm);
    assert_ok(yk_ddp_create(&s.ddp, s.model, s.group,
                            YK_WITH(yk_ddp_options, YK_DDP_OPTIONS_INIT, o.bucket_cap_mb = 0)));
    assert_true(yk_ddp_bucket_count(s.ddp) > 2);
    size_t count = 0;
    for (int i = 0; i < STEPS; i++) {
        int64_t size = i % 3 == 2 ? 2 : 4;
        if (i == 3)
            assert_ok(register_way(s.ddp, how));
        yk_ddp_set_no_sync(s.ddp, true);
        step(s.model, take_samples(&s.own, YK_F32, 50 * i + 4 * s.rank, size));
        yk_ddp_set_no_sync(s.ddp, false);
        step(s.model, take_samples(&s.own, YK_F32, 50 * i + 20 + 4 * s.rank, size));
        assert_int_equal(s.ddp->in_streams, !backend);
        count += read_gradients(s.model, gradients + count);
        yk_model_zero_grad(s.model);
        const yk_batch *batch = take_samples(&s.own, YK_F32, 50 * i + 30 + 4 * s.rank, size);
        if (i == SPOILT && how == BY_POWERSGD && s.rank == 1)
            s.own.f32[7] = INFINITY;
        step(s.model, batch);
        count += read_gradients(s.model, gradients + count);
        yk_model_zero_grad(s.model);
    }
    side_end(&s);
    return count;
}

static bool has_recordings(const yk_model *model)
{
    const yki_plans *plans = &model->executor.plans;
    bool found = false;
    for (size_t i = 0; i < plans->count; i++)
        found = found || plans->list[i]->backward[0][1].state == YKI_TAPE_RECORDED;
    return found;
}

/* NCCL keeps a communicator alive, and its end waiting, as long as a recording has its work. */
YK_TEST_RANKS(recordings_end_before_what_they_contain, 2)
{
    side s;
    begin(&s);
    assert_ok(yk_ddp_create(&s.ddp, s.model, s.group, NULL));
    for (int i = 0; i < 3; i++) {
        step(s.model, take_samples(&s.own, YK_F32, 8 * i + 4 * rank, 4));
        yk_model_zero_grad(s.model);
    }
    assert_true(has_recordings(s.model));
    yk_ddp_destroy(s.ddp);
    s.ddp = NULL;
    assert_false(has_recordings(s.model));
    side_end(&s);
}

/* NCCL wants what one rank has recorded to be recorded by all of them, and together; the simulated
 * device does, too. Here a rank has smaller batches at times. */
YK_TEST_RANKS(ranks_replay_only_what_they_have_recorded_together, 2)
{
    side s;
    begin(&s);
    assert_ok(yk_ddp_create(&s.ddp, s.model, s.group, NULL));
    for (int i = 0; i < 16; i++) {
        bool less = rank == 1 && (i == 0 || i == 4 || i == 5 || i == 6);
        step(s.model, take_samples(&s.own, YK_F32, 8 * i + 4 * rank, less ? 2 : 4));
        yk_model_zero_grad(s.model);
        assert_ok(yki_stream_wait(yki_model_device(s.model),
                                  yki_device_stream(yki_model_device(s.model))));
        /* The first pass after a change is walked, the second one recorded. */
        if (rank == 0)
            assert_int_equal(has_recordings(s.model), i > 1 && i != 4 && i != 7);
    }
    side_end(&s);
}

/* A rank that times its steps enters them one by one, and so do the others then. */
YK_TEST_RANKS(ranks_replay_nothing_while_one_of_them_is_profiled, 2)
{
    side s;
    begin(&s);
    assert_ok(yk_ddp_create(&s.ddp, s.model, s.group, NULL));
    for (int i = 0; i < 12; i++) {
        if (i == 4 && rank == 1)
            assert_ok(yk_model_profile_begin(s.model));
        if (i == 7 && rank == 1)
            assert_ok(yk_model_profile_end(s.model));
        step(s.model, take_samples(&s.own, YK_F32, 8 * i + 4 * rank, 4));
        yk_model_zero_grad(s.model);
        assert_ok(yki_stream_wait(yki_model_device(s.model),
                                  yki_device_stream(yki_model_device(s.model))));
        if (rank == 0)
            assert_int_equal(has_recordings(s.model), i > 0 && (i < 4 || i > 7));
    }
    side_end(&s);
}

static void compare_ways(way how)
{
    enum { ROOM = 1 << 20 };
    float *planes = calloc(ROOM, sizeof *planes), *staged = calloc(ROOM, sizeof *staged);
    assert_true(planes && staged);
    size_t count = train(NULL, how, planes);
    assert_true(count > 0 && count <= ROOM);
    assert_int_equal(train("shm", how, staged), count);
    assert_memory_equal(planes, staged, count * sizeof *planes);
    free(planes);
    free(staged);
}

YK_TEST_RANKS(two_ranks_have_the_bits_of_staged_gradients, 2)
{
    compare_ways(AS_THEY_ARE);
}

YK_TEST_RANKS(gradients_in_bf16_have_the_bits_of_staged_ones, 2)
{
    compare_ways(IN_BF16);
}

YK_TEST_RANKS(gradients_by_powersgd_have_the_bits_of_staged_ones, 2)
{
    compare_ways(BY_POWERSGD);
}

YK_TEST_RANKS(four_ranks_have_the_bits_of_staged_gradients, 4)
{
    setenv("YOKE_SIM_SEED", "7", 1);
    compare_ways(IN_BF16);
}

YK_TEST_RANKS(four_ranks_have_the_bits_of_staged_powersgd, 4)
{
    setenv("YOKE_SIM_SEED", "8", 1);
    compare_ways(BY_POWERSGD);
}

/* Compression, too, is left to the device. */
YK_TEST_RANKS(gradients_are_compressed_without_the_host, 2)
{
    side s;
    yki_event *end;
    bool reached;
    begin(&s);
    yki_device *device = yki_model_device(s.model);
    assert_ok(yk_ddp_create(&s.ddp, s.model, s.group, NULL));
    assert_ok(yk_ddp_register_powersgd_hook(
        s.ddp, YK_WITH(yk_powersgd_options, YK_POWERSGD_OPTIONS_INIT, o.start_iter = 0)));
    assert_ok(yki_event_create(device, &end));
    for (int i = 0; i < 4; i++) {
        step(s.model, take_samples(&s.own, YK_F32, 8 * i + 4 * rank, 4));
        assert_ok(yki_event_mark(device, end, yki_device_stream(device)));
        assert_ok(yki_event_query(device, end, &reached)); /* runs one operation */
        assert_false(reached);
        assert_int_equal(has_recordings(s.model), i > 0);
        yk_model_zero_grad(s.model);
    }
    yk_powersgd_stats stats = yk_ddp_powersgd_stats(s.ddp);
    assert_int_equal(stats.elements_before, 4 * yk_model_parameter_elements(s.model));
    yki_event_destroy(device, end);
    side_end(&s);
}

/* Whether a step is left out is agreed upon in the stream, too: a step with the grad scaler leaves
 * the device's work undone, which would be done if the host had waited for any of it. */
YK_TEST_RANKS(found_infinities_are_agreed_upon_without_the_host, 2)
{
    side s;
    yk_grad_scaler *scaler;
    yk_optimizer *optimizer;
    yki_event *begun;
    bool reached;
    begin(&s);
    yki_device *device = yki_model_device(s.model);
    assert_ok(yk_ddp_create(&s.ddp, s.model, s.group, NULL));
    assert_ok(yk_grad_scaler_create(&scaler, s.model, NULL));
    assert_ok(yk_sgd_create(&optimizer, s.model, NULL));
    assert_ok(yki_event_create(device, &begun));
    for (int i = 0; i < 4; i++) {
        bool bad = i == 2;
        const yk_batch *batch = take_samples(&s.own, YK_F32, 8 * i + 4 * rank, 4);
        if (bad && rank == 1)
            s.own.f32[3] = INFINITY;
        assert_ok(yk_model_forward(s.model, batch));
        assert_ok(yk_model_backward(s.model));
        assert_ok(yki_stream_wait(device, yki_device_stream(device)));
        assert_ok(yk_grad_scaler_step(scaler, optimizer));
        assert_ok(yki_event_mark(device, begun, yki_device_stream(device)));
        assert_ok(yki_event_query(device, begun, &reached)); /* runs one operation */
        assert_false(reached);
        assert_ok(yk_grad_scaler_update(scaler));
        assert_int_equal(yk_grad_scaler_found_inf(scaler), bad);
        yk_model_zero_grad(s.model);
    }
    yki_event_destroy(device, begun);
    yk_optimizer_destroy(optimizer);
    yk_grad_scaler_destroy(scaler);
    side_end(&s);
}

/* Runs a backward, and has its exchange done by the time that the next one asks for the times. */
static yk_ddp_stats step_for_times(side *s, int i)
{
    yki_device *device = yki_model_device(s->model);
    step(s->model, take_samples(&s->own, YK_F32, 8 * i + 4 * s->rank, 4));
    yk_ddp_stats stats = yk_ddp_last_stats(s->ddp);
    assert_ok(yki_stream_wait(device, yki_device_stream(device)));
    yk_model_zero_grad(s->model);
    return stats;
}

/* Walked, recorded and replayed; the clock of each replay is its own. Two replays may have the same
 * time all the same. */
static void assert_times_are_known(const yk_ddp_options *options, bool powersgd)
{
    side s;
    int changes = 0;
    yk_ddp_stats before = {0};
    begin(&s);
    assert_ok(yk_ddp_create(&s.ddp, s.model, s.group, options));
    if (powersgd)
        assert_ok(yk_ddp_register_powersgd_hook(
            s.ddp, YK_WITH(yk_powersgd_options, YK_POWERSGD_OPTIONS_INIT, o.start_iter = 2)));
    for (int i = 0; i < 6; i++) {
        yk_ddp_stats stats = step_for_times(&s, i);
        assert_int_equal(stats.communication_s > 0, i > 0);
        assert_int_equal(stats.exposed_s > 0, i > 0);
        assert_true(stats.exposed_s <= stats.communication_s && stats.communication_s < 60);
        changes += stats.communication_s != before.communication_s;
        before = stats;
    }
    assert_in_range(changes, 3, 5);
    if (!s.ddp->virtual_ranks) {
        yk_ddp_set_no_sync(s.ddp, true);
        assert_true(step_for_times(&s, 6).communication_s == 0);
    }
    side_end(&s);
}

YK_TEST_RANKS(times_of_exchanges_are_known_in_the_next_backward, 2)
{
    assert_times_are_known(NULL, false);
}

YK_TEST_RANKS(times_of_compressed_exchanges_are_known_in_the_next_backward, 2)
{
    assert_times_are_known(NULL, true);
}

YK_TEST_RANKS(times_of_virtual_ranks_are_known_in_the_next_backward, 2)
{
    assert_times_are_known(YK_WITH(yk_ddp_options, YK_DDP_OPTIONS_INIT, o.virtual_ranks = 2),
                           false);
}

/* With SyncBatchNorm, backward has parts that wait for the host. */
YK_TEST_RANKS(times_are_known_where_backward_is_broken, 2)
{
    side s;
    begin(&s);
    assert_ok(yk_sync_batch_norm_convert(s.model, s.group));
    assert_ok(yk_ddp_create(&s.ddp, s.model, s.group, NULL));
    for (int i = 0; i < 4; i++) {
        yk_ddp_stats stats = step_for_times(&s, i);
        assert_int_equal(stats.communication_s > 0, i > 0);
        assert_true(stats.exposed_s >= 0 && stats.exposed_s <= stats.communication_s);
    }
    side_end(&s);
}

/* Even as many as ranks, because a plane's backend need not add in the order of ranks. */
YK_TEST_RANKS(virtual_ranks_are_added_up_without_the_host, 2)
{
    side s;
    yki_event *end;
    bool reached;
    begin(&s);
    yki_device *device = yki_model_device(s.model);
    assert_ok(yk_ddp_create(&s.ddp, s.model, s.group,
                            YK_WITH(yk_ddp_options, YK_DDP_OPTIONS_INIT, o.virtual_ranks = 2)));
    assert_non_null(s.ddp->virtual_ranks);
    assert_ok(yki_event_create(device, &end));
    step(s.model, take_samples(&s.own, YK_F32, 4 * rank, 4));
    assert_ok(yki_event_mark(device, end, yki_device_stream(device)));
    assert_ok(yki_event_query(device, end, &reached)); /* runs one operation */
    assert_false(reached);
    assert_ok(yki_event_wait(device, end));
    yki_event_destroy(device, end);
    side_end(&s);
}

/* It has nothing to exchange, and needs no memory of the host's for it. */
YK_TEST(one_rank_alone_computes_what_no_group_does)
{
    side s;
    begin(&s);
    s.alone = make_model(&sim_norm);
    assert_ok(yk_ddp_create(&s.ddp, s.model, s.group, NULL));
    for (int i = 0; i < 4; i++) {
        both_step(&s, 5 * i, 4);
        assert_true(s.ddp->in_streams && !s.ddp->gradients.host);
        assert_same_gradients(s.model, s.alone, 0);
        zero_both(&s);
    }
    side_end(&s);
}

/* A rank that does not sync where the others do is found before any stream waits for it. */
YK_TEST_RANKS(promise_05_a_rank_that_does_not_sync_is_found, 2)
{
    side s;
    begin(&s);
    assert_ok(yk_ddp_create(&s.ddp, s.model, s.group, NULL));
    for (int i = 0; i < 4; i++)
        step(s.model, take_samples(&s.own, YK_F32, 8 * i + 4 * rank, 4));
    yk_ddp_set_no_sync(s.ddp, rank == 1);
    yk_status status = yk_model_forward(s.model, take_samples(&s.own, YK_F32, 0, 4));
    if (status == YK_OK)
        status = yk_model_backward(s.model);
    if (status == YK_OK) /* rank 1, which has not exchanged anything yet */
        status = yk_barrier(s.group);
    assert_int_equal(status, YK_ERROR_MISMATCH);
    side_end(&s);
}

/* ---- deaths ---------------------------------------------------------------------------------- */

/* Rank 1 enters ZeRO's exchange of updates, but never comes to it. Rank 0 learns that late. */
static void die_in_exchange(int rank, int world)
{
    (void)world;
    side s;
    yk_optimizer *optimizer;
    yk_zero *zero;
    begin(&s);
    assert_ok(yk_ddp_create(&s.ddp, s.model, s.group, NULL));
    assert_ok(yk_adam_create(&optimizer, s.model, NULL));
    assert_ok(yk_zero_create(&zero, optimizer, s.model, s.group));
    step(s.model, take_samples(&s.own, YK_F32, 4 * rank, 4));
    yki_device *device = yki_model_device(s.model);
    assert_ok(yki_stream_wait(device, yki_device_stream(device)));
    assert_ok(yk_barrier(s.group));
    if (rank == 1)
        assert_ok(yk_test_block_stream(device, yki_device_stream(device)));
    assert_ok(yk_optimizer_step(optimizer));
    if (rank == 1)
        kill(getpid(), SIGKILL);
    for (int again = 0; again < 2; again++) {
        assert_status(YK_ERROR_PEER_FAILED, yk_model_save(s.model, yk_test_path("torn.pth")));
        assert_contains(yk_last_error(), "rank 1 is dead");
    }
    yk_zero_destroy(zero);
    yk_optimizer_destroy(optimizer);
    side_end(&s);
}

YK_TEST(updates_whose_exchange_has_failed_are_not_saved)
{
    int statuses[2];
    yk_test_ranks_status(2, die_in_exchange, statuses, NULL);
    assert_int_equal(statuses[0], 0);
    assert_int_equal(statuses[1], SIGKILL);
}

/* Gradients over several ranks are those of one process on the joint batch. */
#define _GNU_SOURCE
#include "harness.h"

#include <unistd.h>

#include "side.h"

/* Weights and buffers of rank 0; the others must start elsewhere and end up here. */
static const double rank0_shift = 0.25;

static yk_model *make_rank_model(network net, int rank)
{
    net.seed += (uint64_t)rank;
    yk_model *model = make_model(&net);
    shift_buffers(model, rank0_shift * (rank + 1));
    return model;
}

static void begin(side *s, const network *net, const yk_ddp_options *options)
{
    side_join(s, net);
    s->model = make_rank_model(*net, s->rank);
    s->alone = make_rank_model(*net, 0);
    assert_ok(yk_ddp_create(&s->ddp, s->model, s->group, options));
}

static const network ref_norm = {.device = "ref", .dtype = YK_F64, .norm = true, .seed = 7};
static const network ref_plain = {.device = "ref", .dtype = YK_F64, .seed = 7};
static const network cpu_norm = {.device = "cpu", .dtype = YK_F32, .norm = true, .seed = 7};

/* ---- the mean over the joint batch ----------------------------------------------------------- */

static void check_evaluation_mode(const network *net, const yk_ddp_options *options,
                                  double tolerance)
{
    side s;
    begin(&s, net, options);
    assert_same_parameters(s.model, s.alone, 0);
    assert_same_buffers(s.model, s.alone, 0);
    yk_model_eval(s.model);
    yk_model_eval(s.alone);
    for (int i = 0; i < 3; i++) {
        both_step(&s, 100 * i, 2 + i);
        assert_same_gradients(s.model, s.alone, tolerance);
        zero_both(&s);
    }
    side_end(&s);
}

static void f64_on_ref(int rank, int world)
{
    (void)rank, (void)world;
    check_evaluation_mode(&ref_norm, NULL, 1e-12);
}

YK_TEST(two_ranks_in_f64_equal_one_process)
{
    yk_test_ranks(2, f64_on_ref);
}

YK_TEST(three_ranks_in_f64_equal_one_process)
{
    yk_test_ranks(3, f64_on_ref);
}

static void f32_on_cpu(int rank, int world)
{
    (void)rank, (void)world;
    check_evaluation_mode(&cpu_norm, NULL, 1e-5);
}

YK_TEST(two_ranks_in_f32_equal_one_process)
{
    yk_test_ranks(2, f32_on_cpu);
}

YK_TEST(three_ranks_in_f32_equal_one_process)
{
    yk_test_ranks(3, f32_on_cpu);
}

YK_TEST_RANKS(a_bucket_per_gradient_changes_nothing, 3)
{
    check_evaluation_mode(
        &ref_norm, YK_WITH(yk_ddp_options, YK_DDP_OPTIONS_INIT, o.bucket_cap_mb = 1e-6), 1e-12);
}

/* Optimizers see averaged gradients only, so that ranks stay bitwise equal. */
YK_TEST_RANKS(training_equals_one_process, 3)
{
    side s;
    begin(&s, &ref_plain, NULL);
    yk_optimizer *sgd, *sgd_alone;
    yk_sgd_options options = YK_SGD_OPTIONS_INIT;
    options.lr = 0.1;
    options.momentum = 0.9;
    options.weight_decay = 1e-3;
    assert_ok(yk_sgd_create(&sgd, s.model, &options));
    assert_ok(yk_sgd_create(&sgd_alone, s.alone, &options));
    for (int i = 0; i < 3; i++) {
        both_step(&s, 50 * i, 3);
        assert_ok(yk_optimizer_step(sgd));
        assert_ok(yk_optimizer_step(sgd_alone));
    }
    assert_same_parameters(s.model, s.alone, 1e-12);
    for (size_t i = 0; i < yk_model_parameter_count(s.model); i++) {
        yk_tensor mine = yk_model_parameter(s.model, i).value;
        assert_equal_over_ranks(s.group, &mine);
    }
    yk_optimizer_destroy(sgd);
    yk_optimizer_destroy(sgd_alone);
    side_end(&s);
}

/* ---- unequal shares -------------------------------------------------------------------------- */

static void uneven_batches(int rank, int world)
{
    (void)rank, (void)world;
    static const int64_t counts[][3] = {{3, 3, 3}, {5, 2, 1}, {1, 4, 2}};
    side s;
    begin(&s, &ref_plain, NULL);
    for (int i = 0; i < 3; i++) {
        both_step_uneven(&s, 40 * i, counts[i]);
        assert_same_gradients(s.model, s.alone, 1e-12);
        zero_both(&s);
    }
    side_end(&s);
}

YK_TEST(promise_21_a_short_batch_is_weighted_by_its_samples)
{
    yk_test_ranks(3, uneven_batches);
}

YK_TEST(promise_21_a_short_batch_of_two_ranks)
{
    yk_test_ranks(2, uneven_batches);
}

/* Also where batch_norm is held in evaluation mode, as in fine-tuning. */
YK_TEST_RANKS(promise_21_a_short_batch_in_evaluation_mode, 2)
{
    side s;
    begin(&s, &ref_norm, NULL);
    yk_model_eval(s.model);
    yk_model_eval(s.alone);
    step(s.model, take_samples(&s.own, YK_F64, rank ? 5 : 0, rank ? 2 : 5));
    step(s.alone, take_samples(&s.joint, YK_F64, 0, 7));
    assert_same_gradients(s.model, s.alone, 1e-12);
    side_end(&s);
}

/* Sums are averaged over the ranks, so each sample has the same weight on every rank. */
static void check_sums(yk_accumulation accumulation)
{
    static const network ref_sum = {.device = "ref", .dtype = YK_F64, .seed = 7, .sum = true};
    side s;
    begin(&s, &ref_sum, NULL);
    yk_model_set_accumulation(s.model, accumulation);
    for (int synced = 0; synced < 2; synced++) {
        yk_ddp_set_no_sync(s.ddp, !synced);
        both_step_uneven(&s, 20 * synced, synced ? (int64_t[]){5, 0, 1} : (int64_t[]){1, 4, 2});
    }
    for (size_t i = 0; i < yk_model_parameter_count(s.alone); i++) {
        yk_tensor grad = yk_model_parameter(s.alone, i).grad, host = yk_test_on_host(grad);
        for (int64_t e = 0; e < yk_tensor_count(&grad); e++)
            ((double *)host.data)[e] /= s.world;
        yk_test_write_back(grad, host);
    }
    assert_same_gradients(s.model, s.alone, 1e-12);
    side_end(&s);
}

YK_TEST_RANKS(sums_over_uneven_batches_count_each_sample_alike, 3)
{
    check_sums(YK_ACCUMULATION_SUM);
}

YK_TEST_RANKS(sums_have_no_mean_to_accumulate, 3)
{
    check_sums(YK_ACCUMULATION_MEAN);
}

/* A training forward that no backward follows has told other shares. */
YK_TEST_RANKS(the_shares_are_those_of_the_last_forward, 2)
{
    side s;
    begin(&s, &ref_plain, NULL);
    assert_ok(yk_model_forward(s.model, take_samples(&s.own, YK_F64, 20, rank ? 1 : 6)));
    yk_model_eval(s.model);
    both_step_uneven(&s, 0, (int64_t[]){2, 5});
    assert_same_gradients(s.model, s.alone, 1e-12);
    side_end(&s);
}

/* Gradients that have been spent no longer count as samples. */
YK_TEST_RANKS(batches_that_are_empty_on_all_ranks_are_refused_at_any_step, 2)
{
    side s;
    begin(&s, &ref_plain, NULL);
    yk_model_set_accumulation(s.model, YK_ACCUMULATION_MEAN);
    for (int i = 0; i < 2; i++) {
        assert_ok(yk_model_forward(s.model, take_samples(&s.own, YK_F64, 0, 0)));
        assert_status(YK_ERROR_INVALID_ARGUMENT, yk_model_backward(s.model));
        assert_contains(yk_last_error(), "the batches of all 2 ranks are empty");
        both_step(&s, 0, 2);
        assert_same_gradients(s.model, s.alone, 1e-12);
        zero_both(&s);
    }
    side_end(&s);
}

/* A device that exchanges gradients itself tells later how long that has taken: see
 * test_ddp_streams.c. */
static bool knows_times(void)
{
    const char *backend = getenv("YOKE_BACKEND");
    return backend ? strcmp(backend, "nccl") != 0 : strcmp(yk_test_device("ref"), "sim") != 0;
}

/* ---- accumulation ---------------------------------------------------------------------------- */

YK_TEST_RANKS(no_sync_accumulates_until_the_next_synced_backward, 3)
{
    side s;
    begin(&s, &ref_plain, NULL);
    for (int round = 0; round < 2; round++) {
        yk_ddp_set_no_sync(s.ddp, true);
        both_step(&s, 0, 3);
        assert_true(yk_ddp_last_stats(s.ddp).communication_s == 0);
        both_step(&s, 30, 3);
        yk_ddp_set_no_sync(s.ddp, false);
        both_step(&s, 60, 3);
        if (knows_times())
            assert_true(yk_ddp_last_stats(s.ddp).communication_s > 0);
        assert_same_gradients(s.model, s.alone, 1e-12);
        zero_both(&s);
    }
    side_end(&s);
}

/* A gradient that is already averaged must not be summed over the ranks again. */
YK_TEST_RANKS(synced_backwards_add_up, 3)
{
    side s;
    begin(&s, &ref_plain, NULL);
    both_step(&s, 0, 3);
    both_step(&s, 30, 3);
    assert_same_gradients(s.model, s.alone, 1e-12);
    yk_ddp_set_no_sync(s.ddp, true);
    both_step(&s, 60, 3);
    yk_ddp_set_no_sync(s.ddp, false);
    both_step(&s, 90, 3);
    assert_same_gradients(s.model, s.alone, 1e-12);
    side_end(&s);
}

/* Micro-batches whose sizes differ from rank to rank and from one to the next. */
static int64_t micro_batch_size(int rank, int micro)
{
    static const int64_t sizes[][3] = {{3, 2, 1}, {1, 4, 2}, {2, 2, 5}};
    return sizes[micro][rank];
}

/* One step of three micro-batches, the last of them synced, against one process's joint batch. */
static void accumulate_mean_step(side *s, int64_t first, int synced_from)
{
    int64_t at = first;
    for (int micro = 0; micro < 3; micro++) {
        yk_ddp_set_no_sync(s->ddp, micro < synced_from);
        for (int rank = 0; rank < s->world; rank++) {
            int64_t count = micro_batch_size(rank, micro);
            if (rank == s->rank)
                step(s->model, take_samples(&s->own, YK_F64, at, count));
            at += count;
        }
    }
    step(s->alone, take_samples(&s->joint, YK_F64, first, at - first));
    assert_same_gradients(s->model, s->alone, 1e-12);
    zero_both(s);
}

static void accumulate_mean(int rank, int world)
{
    (void)rank, (void)world;
    side s;
    begin(&s, &ref_plain, YK_WITH(yk_ddp_options, YK_DDP_OPTIONS_INIT, o.bucket_cap_mb = 1e-3));
    yk_model_set_accumulation(s.model, YK_ACCUMULATION_MEAN);
    for (int synced_from = 2; synced_from >= 0; synced_from--) /* at 0 all are synced */
        for (int round = 0; round < 2; round++)
            accumulate_mean_step(&s, 40 * round, synced_from);
    side_end(&s);
}

YK_TEST(promise_21_uneven_micro_batches_equal_the_joint_batch)
{
    yk_test_ranks(3, accumulate_mean);
}

YK_TEST(promise_21_uneven_micro_batches_of_two_ranks)
{
    yk_test_ranks(2, accumulate_mean);
}

/* A network on the fast device; its own bits must not depend on what happened before. */
YK_TEST_RANKS(micro_batches_in_f32_equal_the_joint_batch, 2)
{
    side s;
    begin(&s, &(network){.device = "cpu", .dtype = YK_F32, .seed = 7}, NULL);
    yk_model_set_accumulation(s.model, YK_ACCUMULATION_MEAN);
    for (int i = 0; i < 2; i++) {
        yk_ddp_set_no_sync(s.ddp, true);
        step(s.model, take_samples(&s.own, YK_F32, s.rank * 4, 4));
        yk_ddp_set_no_sync(s.ddp, false);
        step(s.model, take_samples(&s.own, YK_F32, 8 + s.rank * 4, 4));
        step(s.alone, take_samples(&s.joint, YK_F32, 0, 16));
        assert_same_gradients(s.model, s.alone, 1e-5);
        zero_both(&s);
    }
    side_end(&s);
}

/* ---- buffers --------------------------------------------------------------------------------- */

/* Two training steps; where rank r's running statistics come from: rank 0's first batch, or its
 * own, and then its own second one. Weights do not change, so only the batches matter. */
static void check_buffers(const yk_ddp_options *options, bool follow)
{
    side s;
    begin(&s, &ref_norm, options);
    for (int i = 0; i < 2; i++)
        step(s.model, take_samples(&s.own, YK_F64, 10 * i + s.rank * 3, 3));
    assert_ok(
        yk_model_forward(s.alone, take_samples(&s.joint, YK_F64, follow ? 0 : s.rank * 3, 3)));
    assert_ok(yk_model_forward(s.alone, take_samples(&s.joint, YK_F64, 10 + s.rank * 3, 3)));
    assert_same_buffers(s.model, s.alone, 0);
    side_end(&s);
}

YK_TEST_RANKS(buffers_follow_rank_0, 3)
{
    check_buffers(NULL, true);
}

YK_TEST_RANKS(buffers_stay_apart_on_request, 2)
{
    check_buffers(YK_WITH(yk_ddp_options, YK_DDP_OPTIONS_INIT, o.broadcast_buffers = false), false);
}

/* Accumulation changes them too, so the synced forward after it starts from rank 0's. */
YK_TEST_RANKS(buffers_follow_after_no_sync, 2)
{
    side s;
    begin(&s, &ref_norm, NULL);
    yk_ddp_set_no_sync(s.ddp, true);
    step(s.model, take_samples(&s.own, YK_F64, s.rank * 3, 3));
    yk_ddp_set_no_sync(s.ddp, false);
    step(s.model, take_samples(&s.own, YK_F64, 10 + s.rank * 3, 3));
    assert_ok(yk_model_forward(s.alone, take_samples(&s.joint, YK_F64, 0, 3)));
    assert_ok(yk_model_forward(s.alone, take_samples(&s.joint, YK_F64, 10 + s.rank * 3, 3)));
    assert_same_buffers(s.model, s.alone, 0);
    side_end(&s);
}

/* ---- what users see -------------------------------------------------------------------------- */

YK_TEST_RANKS(statistics_are_sane, 2)
{
    side s;
    begin(&s, &cpu_norm, NULL);
    size_t bytes = 0, expected = 0;
    for (size_t b = 0; b < yk_ddp_bucket_count(s.ddp); b++)
        bytes += yk_ddp_bucket_bytes(s.ddp, b);
    for (size_t i = 0; i < yk_model_parameter_count(s.model); i++) {
        yk_tensor grad = yk_model_parameter(s.model, i).grad;
        expected += yk_tensor_bytes(&grad);
    }
    assert_int_equal(bytes, expected);
    assert_int_equal(yk_ddp_bucket_count(s.ddp), 1);
    both_step(&s, 0, 4);
    yk_ddp_stats stats = yk_ddp_last_stats(s.ddp);
    assert_int_equal(stats.communication_s > 0, knows_times());
    assert_true(stats.communication_s < 60);
    assert_true(stats.exposed_s >= 0 && stats.exposed_s < 60);
    side_end(&s);
}

/* The longest wait for another rank, in seconds, in steps in which rank 1 comes late to backward,
 * or to the whole step. */
static double longest_wait(side *s, bool to_backward)
{
    double longest = 0;
    for (int i = 0; i < 3; i++) {
        if (s->rank == 1 && !to_backward)
            usleep(300000);
        assert_ok(yk_model_forward(s->model,
                                   take_samples(&s->own, s->net.dtype, 8 * i + 4 * s->rank, 4)));
        if (s->rank == 1 && to_backward)
            usleep(300000);
        assert_ok(yk_model_backward(s->model));
        yk_ddp_stats stats = yk_ddp_last_stats(s->ddp);
        assert_true(stats.exposed_s >= 0 && stats.waiting_s >= 0);
        longest = stats.waiting_s > longest ? stats.waiting_s : longest;
    }
    return longest;
}

static void check_waiting(side *s)
{
    for (int to_backward = 0; to_backward < 2; to_backward++) {
        double waited = longest_wait(s, to_backward);
        bool blocks = strcmp(yk_test_device("ref"), "ref") == 0; /* elsewhere backward returns */
        if (s->rank == 0 && blocks)
            assert_true(waited > 0.1);
    }
}

YK_TEST_RANKS(waiting_for_a_slower_rank_is_told_apart, 2)
{
    side s;
    begin(&s, &ref_norm, NULL);
    check_waiting(&s);
    side_end(&s);
}

YK_TEST_RANKS(waiting_is_told_apart_where_a_hook_compresses, 2)
{
    side s;
    begin(&s, &ref_norm, NULL);
    assert_ok(yk_ddp_register_bf16_compress_hook(s.ddp));
    check_waiting(&s);
    side_end(&s);
}

YK_TEST(one_rank_computes_what_no_group_does)
{
    side s;
    begin(&s, &ref_norm, NULL);
    assert_int_equal(s.world, 1);
    both_step(&s, 0, 4);
    assert_same_gradients(s.model, s.alone, 0);
    assert_same_buffers(s.model, s.alone, 0);
    side_end(&s);
}

YK_TEST_RANKS(without_ddp_the_model_is_its_own_again, 2)
{
    side s;
    begin(&s, &ref_plain, NULL);
    both_step(&s, 0, 2);
    yk_ddp_destroy(s.ddp);
    yk_group_destroy(s.group);
    s.ddp = NULL;
    s.group = NULL;
    for (int i = 0; i < 2; i++) { /* the same samples now, by itself */
        yk_model *model = i ? s.model : s.alone;
        yk_model_zero_grad(model);
        step(model, take_samples(&s.own, YK_F64, 9, 3));
    }
    assert_same_gradients(s.model, s.alone, 0);
    side_end(&s);
}

/* They can be stepped with, or added to, as before. */
YK_TEST_RANKS(gradients_outlive_ddp, 2)
{
    for (int virtual_ranks = 0; virtual_ranks <= 4; virtual_ranks += 4) {
        side s;
        int turns = virtual_ranks ? 2 : 1;
        begin(&s, &ref_plain,
              YK_WITH(yk_ddp_options, YK_DDP_OPTIONS_INIT, o.virtual_ranks = virtual_ranks));
        for (int turn = 0; turn < turns; turn++)
            step(s.model, take_samples(&s.own, YK_F64, 2 * (turns * rank + turn), 2));
        step(s.alone, take_samples(&s.joint, YK_F64, 0, 4 * turns));
        yk_ddp_destroy(s.ddp);
        s.ddp = NULL;
        assert_same_gradients(s.model, s.alone, 1e-12);
        for (int i = 0; i < 2; i++)
            step(i ? s.model : s.alone, take_samples(&s.own, YK_F64, 9, 3));
        assert_same_gradients(s.model, s.alone, 1e-12);
        side_end(&s);
    }
}

/* ---- options --------------------------------------------------------------------------------- */

YK_TEST(caps_that_are_no_sizes_are_refused)
{
    yk_group *group;
    yk_model *model = make_model(&ref_plain);
    const double wrong[] = {-1, NAN};
    assert_ok(yk_group_init(&group, NULL));
    for (int i = 0; i < 2; i++) {
        yk_ddp *ddp = (yk_ddp *)(uintptr_t)1;
        assert_status(YK_ERROR_INVALID_ARGUMENT,
                      yk_ddp_create(&ddp, model, group,
                                    YK_WITH(yk_ddp_options, YK_DDP_OPTIONS_INIT,
                                            o.bucket_cap_mb = wrong[i])));
        assert_contains(yk_last_error(), "bucket_cap_mb is ");
        assert_null(ddp);
    }
    yk_model_destroy(model);
    yk_group_destroy(group);
}

/* 0 is a cap like any other: no bucket has room for a second parameter. */
YK_TEST(a_cap_of_0_gives_each_parameter_a_bucket)
{
    yk_group *group;
    yk_ddp *ddp;
    yk_model *model = make_model(&ref_plain);
    assert_ok(yk_group_init(&group, NULL));
    assert_ok(yk_ddp_create(&ddp, model, group,
                            YK_WITH(yk_ddp_options, YK_DDP_OPTIONS_INIT, o.bucket_cap_mb = 0)));
    assert_int_equal(yk_ddp_bucket_count(ddp), yk_model_parameter_count(model));
    yk_ddp_destroy(ddp);
    assert_ok(yk_ddp_create(&ddp, model, group,
                            YK_WITH(yk_ddp_options, YK_DDP_OPTIONS_INIT, o.bucket_cap_mb = INFINITY,
                                    o.first_bucket_mb = INFINITY)));
    assert_int_equal(yk_ddp_bucket_count(ddp), 1);
    yk_ddp_destroy(ddp);
    yk_model_destroy(model);
    yk_group_destroy(group);
}

/* The optimizer's step during backward, bucket by bucket: the same bits as after it, agreed on by
 * all ranks, and no checkpoint of a step that was not completed. */
#include "harness.h"

#include <signal.h>

#include "trained_side.h"

#include "parallel/bucket_updates.h"

typedef enum rule { SGD, ADAM, AMSGRAD, NADAM, RADAM, ADAGRAD, RMSPROP, LARS, LAMB, MUON } rule;

static const network net = {.device = "cpu", .dtype = YK_F32, .norm = true, .seed = 3};

static yk_optimizer *make_optimizer(yk_model *model, rule with)
{
    yk_optimizer *optimizer;
    size_t group;
    if (with == MUON) {
        assert_ok(yk_muon_create(&optimizer, model, NULL));
        return optimizer;
    }
    if (with == ADAM)
        assert_ok(yk_adam_create(&optimizer, model, NULL));
    else if (with == AMSGRAD)
        assert_ok(yk_adam_create(
            &optimizer, model,
            YK_WITH(yk_adam_options, YK_ADAM_OPTIONS_INIT, o.beta2 = 0.5, o.amsgrad = true)));
    else if (with == NADAM)
        assert_ok(yk_nadam_create(&optimizer, model, NULL));
    else if (with == RADAM)
        assert_ok(yk_radam_create(&optimizer, model,
                                  YK_WITH(yk_radam_options, YK_RADAM_OPTIONS_INIT, o.beta2 = 0.8)));
    else if (with == ADAGRAD)
        assert_ok(yk_adagrad_create(&optimizer, model,
                                    YK_WITH(yk_adagrad_options, YK_ADAGRAD_OPTIONS_INIT,
                                            o.lr_decay = 0.1, o.initial_accumulator_value = 0.1)));
    else if (with == RMSPROP)
        assert_ok(yk_rmsprop_create(&optimizer, model,
                                    YK_WITH(yk_rmsprop_options, YK_RMSPROP_OPTIONS_INIT,
                                            o.momentum = 0.9, o.centered = true)));
    else if (with == LARS)
        assert_ok(yk_lars_create(&optimizer, model, NULL));
    else if (with == LAMB)
        assert_ok(yk_lamb_create(&optimizer, model, NULL));
    else
        assert_ok(
            yk_sgd_create(&optimizer, model,
                          YK_WITH(yk_sgd_options, YK_SGD_OPTIONS_INIT, o.lr = 0.1, o.momentum = 0.9,
                                  o.weight_decay = 1e-3, o.nesterov = true)));
    assert_ok(yk_optimizer_add_param_group(optimizer, yk_filter_norms_and_biases, NULL, &group));
    assert_ok(yk_optimizer_set_group_hyperparameter(optimizer, group, "weight_decay", 0));
    return optimizer;
}

/* Each parameter has a bucket of its own. */
static void begin(trained_side *s, yk_group *group, rule with, bool sharded)
{
    trained_side_begin(
        s, group, &net,
        YK_WITH(yk_ddp_options, YK_DDP_OPTIONS_INIT, o.bucket_cap_mb = o.first_bucket_mb = 0));
    s->optimizer = make_optimizer(s->model, with);
    if (sharded)
        trained_side_shard(s);
}

/* Forward and backward of the last micro-step, whose backward updates the weights. */
static yk_status update_in_backward(trained_side *s, const yk_batch *batch, bool wanted)
{
    assert_ok(yk_model_forward(s->model, batch));
    yki_ddp_update_in_backward(s->ddp, s->optimizer, wanted);
    yk_status status = yk_model_backward(s->model);
    yki_ddp_update_in_backward(s->ddp, NULL, false);
    return status;
}

static const yk_batch *batch_of(trained_side *s, int number)
{
    int rank = yk_group_rank(s->group);
    return take_samples(&s->own, net.dtype, 30 * number + 5 * rank, 2 + rank);
}

/* Steps of two micro-steps each. */
static void train(trained_side *s, bool early, int steps)
{
    for (int i = 0; i < steps; i++) {
        yk_ddp_set_no_sync(s->ddp, true);
        step(s->model, batch_of(s, 2 * i));
        yk_ddp_set_no_sync(s->ddp, false);
        if (early)
            assert_ok(update_in_backward(s, batch_of(s, 2 * i + 1), true));
        else
            step(s->model, batch_of(s, 2 * i + 1));
        assert_ok(yk_optimizer_step(s->optimizer));
    }
}

/* A hash of all bytes of the weights. */
static uint64_t weights_hash(const yk_model *model)
{
    uint64_t hash = 0;
    for (size_t i = 0; i < yk_model_parameter_count(model); i++) {
        yk_tensor value = yk_model_parameter(model, i).value;
        for (size_t b = 0; b < yk_tensor_bytes(&value); b++)
            hash = hash * 1099511628211u + ((const unsigned char *)value.data)[b];
    }
    return hash;
}

static void assert_same_state(const trained_side *a, const trained_side *b)
{
    const char *name;
    yk_tensor mine, expected;
    for (size_t p = 0; p < yk_model_parameter_count(a->model); p++)
        for (size_t slot = 0; yk_optimizer_state(b->optimizer, p, slot, &name, &expected); slot++)
            if (yk_optimizer_state(a->optimizer, p, slot, &name, &mine))
                assert_memory_equal(mine.data, expected.data, yk_tensor_bytes(&expected));
}

/* ---- the same bits --------------------------------------------------------------------------- */

static void check_bits(rule with, bool sharded)
{
    yk_group *group;
    trained_side early, after;
    assert_ok(yk_group_init(&group, NULL));
    begin(&early, group, with, sharded);
    begin(&after, group, with, false);
    assert_true(yki_ddp_can_update(early.ddp, early.optimizer));
    assert_ok(yki_ddp_partition_step(early.ddp, early.optimizer));
    train(&early, true, 3);
    train(&after, false, 3);
    assert_same_parameters(early.model, after.model, 0);
    assert_same_state(&early, &after);
    assert_int_equal(yk_optimizer_steps(early.optimizer), 3);
    trained_side_end(&early);
    trained_side_end(&after);
    yk_group_destroy(group);
}

YK_TEST_RANKS(sgd_updates_buckets_to_the_same_bits, 2)
{
    check_bits(SGD, false);
}

YK_TEST_RANKS(adam_updates_buckets_to_the_same_bits, 3)
{
    check_bits(ADAM, false);
}

YK_TEST_RANKS(amsgrad_updates_buckets_to_the_same_bits, 2)
{
    check_bits(AMSGRAD, false);
    check_bits(AMSGRAD, true);
}

YK_TEST_RANKS(nadam_and_radam_update_buckets_to_the_same_bits, 2)
{
    for (rule with = NADAM; with <= RADAM; with++) {
        check_bits(with, false);
        check_bits(with, true);
    }
}

YK_TEST_RANKS(adagrad_updates_buckets_to_the_same_bits, 2)
{
    check_bits(ADAGRAD, false);
    check_bits(ADAGRAD, true);
}

YK_TEST_RANKS(rmsprop_updates_buckets_to_the_same_bits, 2)
{
    check_bits(RMSPROP, false);
    check_bits(RMSPROP, true);
}

YK_TEST_RANKS(muon_updates_buckets_to_the_same_bits, 4)
{
    check_bits(MUON, false);
}

YK_TEST_RANKS(lars_and_lamb_update_buckets_to_the_same_bits, 2)
{
    check_bits(LARS, false);
    check_bits(LAMB, false);
}

YK_TEST_RANKS(sharded_lamb_updates_its_part_of_buckets_to_the_same_bits, 3)
{
    check_bits(LAMB, true);
}

YK_TEST_RANKS(sharded_adam_updates_its_part_of_buckets_to_the_same_bits, 2)
{
    check_bits(ADAM, true);
}

/* Hooks work on later buckets, on the group's thread, while the first are updated. */
YK_TEST_RANKS(compressed_buckets_are_updated_to_the_same_bits, 2)
{
    yk_group *group;
    assert_ok(yk_group_init(&group, NULL));
    for (int low_rank = 0; low_rank < 2; low_rank++) {
        trained_side sides[2];
        for (int i = 0; i < 2; i++) {
            begin(&sides[i], group, ADAM, false);
            assert_ok(low_rank ? yk_ddp_register_powersgd_hook(sides[i].ddp, NULL)
                               : yk_ddp_register_bf16_compress_hook(sides[i].ddp));
        }
        assert_ok(yki_ddp_partition_step(sides[0].ddp, sides[0].optimizer));
        train(&sides[0], true, 3);
        train(&sides[1], false, 3);
        assert_same_parameters(sides[0].model, sides[1].model, 0);
        assert_same_state(&sides[0], &sides[1]);
        trained_side_end(&sides[0]);
        trained_side_end(&sides[1]);
    }
    yk_group_destroy(group);
}

/* Not without the optimizer, either. */
static void assert_weights_refused(const trained_side *s)
{
    static const char *const names[] = {"torn.pth", "torn.safetensors"};
    for (int i = 0; i < 2; i++) {
        assert_status(YK_ERROR_INVALID_ARGUMENT, yk_model_save(s->model, yk_test_path(names[i])));
        assert_contains(yk_last_error(), "only some of the weights have been updated");
    }
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_checkpoint_save(yk_test_path("torn.pth"), s->model, NULL, NULL));
}

/* ---- when, and whether ----------------------------------------------------------------------- */

YK_TEST_RANKS(backward_updates_all_buckets_and_the_step_completes_it, 2)
{
    trained_side s;
    yk_group *group;
    assert_ok(yk_group_init(&group, NULL));
    begin(&s, group, SGD, false);
    assert_ok(yki_ddp_partition_step(s.ddp, s.optimizer));
    uint64_t before = weights_hash(s.model);
    assert_ok(update_in_backward(&s, batch_of(&s, 0), true));
    uint64_t updated = weights_hash(s.model);
    assert_true(updated != before);
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_checkpoint_save(yk_test_path("early.pth"), s.model, s.optimizer, NULL));
    assert_contains(yk_last_error(), "the optimizer's last step was not completed");
    assert_weights_refused(&s);
    assert_ok(yk_optimizer_step(s.optimizer));
    assert_true(weights_hash(s.model) == updated);
    assert_ok(yk_model_save(s.model, yk_test_path("whole.safetensors")));
    assert_ok(yk_checkpoint_save(yk_test_path("whole.pth"), s.model, s.optimizer, NULL));
    trained_side_end(&s);
    yk_group_destroy(group);
}

YK_TEST_RANKS(a_rank_that_refuses_keeps_backward_from_updating, 2)
{
    trained_side s;
    yk_group *group;
    assert_ok(yk_group_init(&group, NULL));
    begin(&s, group, SGD, false);
    assert_ok(yki_ddp_partition_step(s.ddp, s.optimizer));
    uint64_t before = weights_hash(s.model);
    assert_ok(update_in_backward(&s, batch_of(&s, 0), rank == 0));
    assert_true(weights_hash(s.model) == before);
    assert_ok(yk_checkpoint_save(yk_test_path("before.pth"), s.model, s.optimizer, NULL));
    assert_ok(yk_optimizer_step(s.optimizer));
    assert_true(weights_hash(s.model) != before);
    trained_side_end(&s);
    yk_group_destroy(group);
}

YK_TEST(one_rank_alone_has_nothing_to_update_early)
{
    trained_side s;
    yk_group *group;
    assert_ok(yk_group_init(&group, NULL));
    begin(&s, group, SGD, false);
    assert_false(yki_ddp_can_update(s.ddp, s.optimizer));
    trained_side_end(&s);
    yk_group_destroy(group);
}

YK_TEST_RANKS(an_optimizer_of_another_model_is_left_alone, 2)
{
    trained_side s, other;
    yk_group *group;
    assert_ok(yk_group_init(&group, NULL));
    begin(&s, group, SGD, false);
    begin(&other, group, SGD, false);
    assert_true(yki_ddp_can_update(s.ddp, s.optimizer));
    assert_false(yki_ddp_can_update(s.ddp, other.optimizer));
    trained_side_end(&s);
    trained_side_end(&other);
    yk_group_destroy(group);
}

/* ---- failures in the middle ------------------------------------------------------------------ */

enum { FAILING_BUCKET = 3 };

static yk_status fail_late(void *state, yk_group *group, const yk_grad_bucket *bucket)
{
    bool dies = *(const bool *)state;
    if (bucket->index == FAILING_BUCKET && dies && yk_group_rank(group) == 1)
        raise(SIGKILL);
    if (bucket->index == FAILING_BUCKET && !dies)
        return yk_set_error(YK_ERROR_IO, "the hook has failed");
    return yk_all_reduce(group, bucket->buffer, bucket->elements, bucket->dtype, YK_REDUCE_SUM,
                         NULL);
}

/* The weights of the first buckets are updated. None of this is saved, or trained on. */
static void check_failure(bool dies)
{
    trained_side s;
    yk_group *group;
    assert_ok(yk_group_init(&group, NULL));
    begin(&s, group, SGD, false);
    assert_ok(yki_ddp_partition_step(s.ddp, s.optimizer));
    assert_ok(yk_ddp_register_comm_hook(s.ddp, fail_late, &dies));
    assert_ok(yk_checkpoint_save(yk_test_path("before.pth"), s.model, s.optimizer, NULL));
    uint64_t before = weights_hash(s.model);
    assert_status(dies ? YK_ERROR_PEER_FAILED : YK_ERROR_IO,
                  update_in_backward(&s, batch_of(&s, 0), true));
    assert_true(weights_hash(s.model) != before);
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_checkpoint_save(yk_test_path("torn.pth"), s.model, s.optimizer, NULL));
    assert_contains(yk_last_error(), "load a checkpoint first");
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_optimizer_step(s.optimizer));
    assert_contains(yk_last_error(), "load a checkpoint first");
    assert_weights_refused(&s);
    assert_ok(yk_model_load(s.model, yk_test_path("before.pth")));
    assert_ok(yk_model_save(s.model, yk_test_path("loaded.pth")));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_optimizer_step(s.optimizer));
    assert_ok(yk_checkpoint_load(yk_test_path("before.pth"), s.model, s.optimizer, NULL));
    assert_true(weights_hash(s.model) == before);
    assert_ok(yk_optimizer_step(s.optimizer));
    trained_side_end(&s);
    yk_group_destroy(group);
}

YK_TEST_RANKS(a_step_that_failed_half_way_is_not_saved, 2)
{
    check_failure(false);
}

static void die_half_way(int rank, int world)
{
    (void)rank, (void)world;
    check_failure(true);
}

YK_TEST(a_death_half_way_through_a_step_leaves_nothing_to_save)
{
    int statuses[2];
    yk_test_ranks_status(2, die_half_way, statuses, NULL);
    assert_int_equal(statuses[0], 0);
    assert_int_equal(statuses[1], SIGKILL);
}

/* ZeRO-1: a sharded optimizer gives the same bits, keeps less, and leaves the same checkpoints. */
#define _GNU_SOURCE
#include "harness.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "device/device.h"
#include "model/model_hooks.h"
#include "trained_side.h"

static const network net = {.device = "ref", .dtype = YK_F32, .norm = true, .seed = 9};

typedef enum rule { SGD, ADAM, AMSGRAD, NADAM, ADAGRAD, ADADELTA, RMSPROP } rule;

static void begin(trained_side *s, yk_group *group, rule with, bool sharded)
{
    trained_side_begin(s, group, &net, NULL);
    if (with == ADAM)
        assert_ok(yk_adam_create(&s->optimizer, s->model,
                                 YK_WITH(yk_adam_options, YK_ADAM_OPTIONS_INIT, o.lr = 0.01)));
    else if (with == AMSGRAD)
        assert_ok(yk_adam_create(&s->optimizer, s->model,
                                 YK_WITH(yk_adam_options, YK_ADAM_OPTIONS_INIT, o.lr = 0.01,
                                         o.beta2 = 0.5, o.amsgrad = true)));
    else if (with == NADAM)
        assert_ok(yk_nadam_create(&s->optimizer, s->model, NULL));
    else if (with == ADAGRAD)
        assert_ok(yk_adagrad_create(&s->optimizer, s->model,
                                    YK_WITH(yk_adagrad_options, YK_ADAGRAD_OPTIONS_INIT,
                                            o.lr_decay = 0.1, o.initial_accumulator_value = 0.1)));
    else if (with == ADADELTA)
        assert_ok(yk_adadelta_create(&s->optimizer, s->model, NULL));
    else if (with == RMSPROP)
        assert_ok(yk_rmsprop_create(
            &s->optimizer, s->model,
            YK_WITH(yk_rmsprop_options, YK_RMSPROP_OPTIONS_INIT, o.lr = 0.001, o.centered = true)));
    else
        assert_ok(yk_sgd_create(
            &s->optimizer, s->model,
            YK_WITH(yk_sgd_options, YK_SGD_OPTIONS_INIT, o.lr = 0.1, o.momentum = 0.9)));
    if (sharded)
        trained_side_shard(s);
}

static void train(trained_side *s, int first, int steps)
{
    int rank = yk_group_rank(s->group);
    for (int i = first; i < first + steps; i++) {
        step(s->model, take_samples(&s->own, net.dtype, 20 * i + 3 * rank, 3));
        assert_ok(yk_clip_grad_norm(s->optimizer, 0.5, NULL)); /* of all gradients, on all ranks */
        assert_ok(yk_optimizer_step(s->optimizer));
    }
}

/* ---- the same bits, less memory -------------------------------------------------------------- */

static void check_bits(int rank, int world, rule with)
{
    yk_group *group;
    assert_ok(yk_group_init(&group, NULL));
    trained_side plain, sharded;
    begin(&plain, group, with, false);
    begin(&sharded, group, with, true);
    train(&plain, 0, 5);
    train(&sharded, 0, 5);
    assert_same_parameters(sharded.model, plain.model, 0);
    assert_ok(yk_ddp_check_divergence(sharded.ddp));
    const char *name;
    yk_tensor mine, expected;
    for (size_t p = 0; p < yk_model_parameter_count(plain.model); p++)
        for (size_t slot = 0; yk_optimizer_state(plain.optimizer, p, slot, &name, &expected);
             slot++) {
            bool here = yk_optimizer_state(sharded.optimizer, p, slot, &name, &mine);
            assert_int_equal(here, yk_zero_owner(sharded.zero, p) == rank);
            if (here)
                assert_memory_equal(yk_test_on_host(mine).data, yk_test_on_host(expected).data,
                                    yk_tensor_bytes(&expected));
        }
    size_t all = yk_optimizer_state_bytes(plain.optimizer);
    assert_true(yk_optimizer_state_bytes(sharded.optimizer) < (world == 2 ? 7 : 5) * all / 10);
    trained_side_end(&plain);
    trained_side_end(&sharded);
    yk_group_destroy(group);
}

static void sgd_bits(int rank, int world)
{
    check_bits(rank, world, SGD);
}

static void adam_bits(int rank, int world)
{
    check_bits(rank, world, ADAM);
}

static void amsgrad_bits(int rank, int world)
{
    check_bits(rank, world, AMSGRAD);
}

static void nadam_bits(int rank, int world)
{
    check_bits(rank, world, NADAM);
}

static void adagrad_bits(int rank, int world)
{
    check_bits(rank, world, ADAGRAD);
}

static void adadelta_bits(int rank, int world)
{
    check_bits(rank, world, ADADELTA);
}

static void rmsprop_bits(int rank, int world)
{
    check_bits(rank, world, RMSPROP);
}

YK_TEST(sharded_sgd_gives_the_same_bits)
{
    yk_test_ranks(2, sgd_bits);
}

YK_TEST(sharded_adam_gives_the_same_bits)
{
    yk_test_ranks(3, adam_bits);
}

YK_TEST(sharded_amsgrad_gives_the_same_bits)
{
    yk_test_ranks(2, amsgrad_bits);
}

YK_TEST(sharded_nadam_gives_the_same_bits)
{
    yk_test_ranks(2, nadam_bits);
}

YK_TEST(sharded_adagrad_gives_the_same_bits)
{
    yk_test_ranks(2, adagrad_bits);
}

YK_TEST(sharded_adadelta_gives_the_same_bits)
{
    yk_test_ranks(2, adadelta_bits);
}

YK_TEST(sharded_rmsprop_gives_the_same_bits)
{
    yk_test_ranks(2, rmsprop_bits);
}

/* ---- owners ---------------------------------------------------------------------------------- */

/* conv1 108 + 4, bn1 4 + 4, conv2 144 + 4, bn2 4 + 4, fc 20 + 5: by falling size, to the least. */
YK_TEST_RANKS(parameters_go_by_falling_size_to_the_rank_with_the_least, 2)
{
    yk_group *group;
    assert_ok(yk_group_init(&group, NULL));
    trained_side s;
    begin(&s, group, SGD, true);
    int64_t sizes[2] = {0};
    for (size_t p = 0; p < yk_model_parameter_count(s.model); p++) {
        yk_parameter_view view = yk_model_parameter(s.model, p);
        int owner = yk_zero_owner(s.zero, p);
        assert_in_range(owner, 0, 1);
        sizes[owner] += yk_tensor_count(&view.value);
        if (strcmp(view.name, "conv2.weight") == 0)
            assert_int_equal(owner, 0); /* the largest goes first */
        else if (view.value.ndim > 1)
            assert_int_equal(owner, 1);
    }
    assert_true(labs((long)(sizes[0] - sizes[1])) < 40);
    trained_side_end(&s);
    yk_group_destroy(group);
}

/* ---- checkpoints ----------------------------------------------------------------------------- */

static void read_file(const char *path, char **data, size_t *size)
{
    FILE *file = fopen(path, "rbe");
    struct stat info;
    assert_non_null(file);
    assert_int_equal(fstat(fileno(file), &info), 0);
    *size = (size_t)info.st_size;
    *data = malloc(*size);
    assert_non_null(*data);
    assert_int_equal(fread(*data, 1, *size, file), *size);
    fclose(file);
}

static void save(trained_side *s, const char *path)
{
    if (s->zero)
        assert_ok(yk_zero_consolidate(s->zero));
    if (yk_group_rank(s->group) == 0)
        assert_ok(yk_checkpoint_save(path, s->model, s->optimizer, NULL));
    assert_ok(yk_barrier(s->group));
}

/* The folder of the test's parent: its processes share it. */
static const char *path_of(yk_group *group, const char *file)
{
    static char folder[256], path[512];
    if (!folder[0]) {
        if (yk_group_rank(group) == 0)
            snprintf(folder, sizeof folder, "%s", yk_test_directory());
        assert_ok(yk_broadcast(group, folder, sizeof folder, YK_U8, 0, NULL));
    }
    snprintf(path, sizeof path, "%s/%s", folder, file);
    return path;
}

static void check_checkpoints(int rank, yk_group *group, rule with)
{
    trained_side whole[2], parts;
    for (int sharded = 0; sharded < 2; sharded++) {
        begin(&whole[sharded], group, with, sharded);
        train(&whole[sharded], 0, 3);
        save(&whole[sharded], path_of(group, sharded ? "sharded.pth" : "plain.pth"));
    }
    if (rank == 0) {
        char *data[2];
        size_t size[2];
        read_file(path_of(group, "plain.pth"), &data[0], &size[0]);
        read_file(path_of(group, "sharded.pth"), &data[1], &size[1]);
        assert_int_equal(size[0], size[1]);
        assert_memory_equal(data[0], data[1], size[0]);
        free(data[0]);
        free(data[1]);
    }
    for (int sharded = 0; sharded < 2; sharded++) { /* each resumes from the other's checkpoint */
        begin(&parts, group, with, sharded);
        const char *from = path_of(group, sharded ? "plain.pth" : "sharded.pth");
        assert_ok(yk_checkpoint_load(from, parts.model, parts.optimizer, NULL));
        train(&parts, 3, 2);
        if (!sharded) {
            train(&whole[0], 3, 2);
            train(&whole[1], 3, 2);
        }
        assert_same_parameters(parts.model, whole[0].model, 0);
        assert_same_parameters(whole[1].model, whole[0].model, 0);
        trained_side_end(&parts);
    }
    trained_side_end(&whole[0]);
    trained_side_end(&whole[1]);
}

static void checkpoints(int rank, int world)
{
    (void)world;
    yk_group *group;
    assert_ok(yk_group_init(&group, NULL));
    check_checkpoints(rank, group, ADAM);
    check_checkpoints(rank, group, AMSGRAD);
    check_checkpoints(rank, group, NADAM);
    check_checkpoints(rank, group, ADAGRAD);
    check_checkpoints(rank, group, RMSPROP);
    yk_group_destroy(group);
}

YK_TEST(promise_15_checkpoints_are_those_of_an_optimizer_that_is_not_sharded)
{
    yk_test_ranks(3, checkpoints);
}

/* ---- failures -------------------------------------------------------------------------------- */

static void assert_not_saved(const trained_side *s)
{
    static const char *const names[] = {"torn.pth", "torn.safetensors"};
    for (int i = 0; i < 2; i++) {
        assert_status(YK_ERROR_INVALID_ARGUMENT, yk_model_save(s->model, yk_test_path(names[i])));
        assert_contains(yk_last_error(), "only some of the weights have been updated");
    }
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_checkpoint_save(yk_test_path("torn.pth"), s->model, s->optimizer, NULL));
    assert_contains(yk_last_error(), "load a checkpoint first");
}

/* Rank 1 dies after its backward, once rank 0's has ended too and a file says so. So rank 0 has its
 * own updates and not the others. */
static void die_before_gather(int rank, int world)
{
    (void)world;
    yk_group *group;
    trained_side s;
    assert_ok(yk_group_init(&group, NULL));
    begin(&s, group, ADAM, true);
    train(&s, 0, 1);
    save(&s, path_of(group, "before.pth"));
    step(s.model, take_samples(&s.own, net.dtype, 3 * rank, 3));
    const char *ended = path_of(group, "ended");
    while (rank == 1 && access(ended, F_OK) != 0)
        usleep(1000);
    if (rank == 1)
        raise(SIGKILL);
    assert_int_equal(mkdir(ended, 0700), 0);
    assert_status(YK_ERROR_PEER_FAILED, yk_optimizer_step(s.optimizer));
    assert_not_saved(&s);
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_optimizer_step(s.optimizer));
    assert_contains(yk_last_error(), "load a checkpoint first");
    /* Collectives in a device's streams end for good when a rank dies. */
    if (yki_device_is_host(yki_model_device(s.model))) {
        assert_ok(yk_checkpoint_load(path_of(group, "before.pth"), s.model, s.optimizer, NULL));
        assert_ok(yk_model_save(s.model, yk_test_path("after.pth")));
    }
    trained_side_end(&s);
    yk_group_destroy(group);
}

YK_TEST(updates_that_were_not_gathered_are_not_saved)
{
    int statuses[2];
    yk_test_ranks_status(2, die_before_gather, statuses, NULL);
    assert_int_equal(statuses[0], 0);
    assert_int_equal(statuses[1], SIGKILL);
}

/* ---- misuse ---------------------------------------------------------------------------------- */

static void misuse(int rank, int world)
{
    (void)world;
    yk_group *group;
    assert_ok(yk_group_init(&group, NULL));
    trained_side s;
    yk_zero *zero;
    begin(&s, group, ADAM, true);
    train(&s, 0, 1);
    if (rank == 0) {
        assert_status(YK_ERROR_INVALID_ARGUMENT,
                      yk_checkpoint_save(path_of(group, "a.pth"), s.model, s.optimizer, NULL));
        assert_contains(yk_last_error(), "yk_zero_consolidate");
    } else
        path_of(group, "a.pth");
    trained_side_end(&s);
    begin(&s, group, ADAM, true);
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_zero_create(&zero, s.optimizer, s.model, group));
    assert_contains(yk_last_error(), "sharded already");
    yk_zero_destroy(s.zero);
    s.zero = NULL; /* the other ranks' state is nowhere now */
    step(s.model, take_samples(&s.own, net.dtype, 3 * rank, 3));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_optimizer_step(s.optimizer));
    assert_contains(yk_last_error(), "yk_zero_destroy");
    trained_side_end(&s);
    begin(&s, group, ADAM, false);
    train(&s, 0, 1);
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_zero_create(&zero, s.optimizer, s.model, group));
    assert_contains(yk_last_error(), "has taken 1 steps");
    trained_side_end(&s);
    yk_group_destroy(group);
}

YK_TEST(misuse_is_an_error)
{
    yk_test_ranks(2, misuse);
}

YK_TEST_RANKS(parameters_are_the_models_own_again, 2)
{
    yk_group *group;
    assert_ok(yk_group_init(&group, NULL));
    trained_side s, other;
    begin(&s, group, SGD, true);
    begin(&other, group, SGD, false);
    train(&s, 0, 2);
    train(&other, 0, 2);
    yk_zero_destroy(s.zero);
    s.zero = NULL;
    assert_same_parameters(s.model, other.model, 0);
    trained_side_end(&s);
    trained_side_end(&other);
    yk_group_destroy(group);
}

enum { PLAIN, AVERAGED_LATER, AVERAGED_FIRST, ORDERS };

/* Averages that are made before the parameters move, or after it, see them move back. */
YK_TEST_RANKS(averages_follow_the_parameters, 2)
{
    yk_group *group;
    assert_ok(yk_group_init(&group, NULL));
    trained_side s[ORDERS];
    yk_ema *average[ORDERS];
    yk_lookahead *lookahead[ORDERS];
    for (int i = PLAIN; i < ORDERS; i++) {
        begin(&s[i], group, SGD, i == AVERAGED_LATER);
        assert_ok(yk_ema_create(&average[i], s[i].optimizer, NULL));
        assert_ok(yk_lookahead_create(&lookahead[i], s[i].optimizer, NULL));
        if (i == AVERAGED_FIRST)
            assert_ok(yk_zero_create(&s[i].zero, s[i].optimizer, s[i].model, group));
        train(&s[i], 0, 2);
        assert_ok(yk_ema_update(average[i]));
        train(&s[i], 2, 1);
        yk_zero_destroy(s[i].zero);
        s[i].zero = NULL;
        assert_ok(yk_ema_update(average[i]));
        yk_optimizer_set_steps(s[i].optimizer, 5); /* Lookahead's interval */
        assert_ok(yk_lookahead_update(lookahead[i]));
        assert_ok(yk_ema_swap(average[i]));
    }
    for (int swapped = 1; swapped >= 0; swapped--)
        for (int i = AVERAGED_LATER; i < ORDERS; i++) {
            assert_same_parameters(s[i].model, s[PLAIN].model, 0);
            assert_ok(yk_ema_swap(average[i]));
            if (i + 1 == ORDERS)
                assert_ok(yk_ema_swap(average[PLAIN]));
        }
    for (int i = PLAIN; i < ORDERS; i++) {
        yk_lookahead_destroy(lookahead[i]);
        yk_ema_destroy(average[i]);
        trained_side_end(&s[i]);
    }
    yk_group_destroy(group);
}

/* Replicas are copied from the model's own memory, which ZeRO's parameters have left. */
YK_TEST(data_parallel_and_zero_exclude_each_other)
{
    yk_group *group;
    yk_data_parallel *dp;
    yk_optimizer *optimizer;
    yk_zero *zero;
    assert_ok(yk_group_init(&group, NULL));
    yk_model *model = make_model(&net);
    assert_ok(yk_adam_create(&optimizer, model, NULL));
    assert_ok(yk_data_parallel_create(&dp, model, NULL));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_zero_create(&zero, optimizer, model, group));
    assert_contains(yk_last_error(), "data parallel");
    yk_data_parallel_destroy(dp);
    assert_ok(yk_zero_create(&zero, optimizer, model, group));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_data_parallel_create(&dp, model, NULL));
    assert_contains(yk_last_error(), "ZeRO");
    yk_zero_destroy(zero);
    yk_optimizer_destroy(optimizer);
    yk_model_destroy(model);
    yk_group_destroy(group);
}

YK_TEST(one_rank_keeps_all)
{
    yk_group *group;
    assert_ok(yk_group_init(&group, NULL));
    trained_side plain, sharded;
    begin(&plain, group, ADAM, false);
    begin(&sharded, group, ADAM, true);
    train(&plain, 0, 3);
    train(&sharded, 0, 3);
    assert_same_parameters(sharded.model, plain.model, 0);
    trained_side_end(&plain);
    trained_side_end(&sharded);
    yk_group_destroy(group);
}

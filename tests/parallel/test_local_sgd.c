/*
 * Local SGD: what the ranks have after each average is compared with one process that trains a
 * model for each rank and averages in plain C.
 */
#define _GNU_SOURCE
#include "side.h"

#include <unistd.h>

enum { MOST_RANKS = 3, MOST_TENSORS = 40, MOST_ELEMENTS = 160, SAMPLES = 4 };

static const network net = {.device = "ref", .dtype = YK_F64, .norm = true, .seed = 9};

typedef struct optimization {
    bool adam;
    yk_local_sgd_options local;
} optimization;

static yk_local_sgd_options every(int64_t steps)
{
    yk_local_sgd_options options = YK_LOCAL_SGD_OPTIONS_INIT;
    options.sync_every = steps;
    return options;
}

static yk_optimizer *make_optimizer(yk_model *model, const optimization *how)
{
    yk_optimizer *optimizer;
    if (how->adam)
        assert_ok(yk_adam_create(&optimizer, model,
                                 YK_WITH(yk_adam_options, YK_ADAM_OPTIONS_INIT, o.lr = 0.01)));
    else
        assert_ok(yk_sgd_create(
            &optimizer, model,
            YK_WITH(yk_sgd_options, YK_SGD_OPTIONS_INIT, o.lr = 0.1, o.momentum = 0.9)));
    return optimizer;
}

/* ---- one process in place of all ranks ------------------------------------------------------- */

typedef struct simulation {
    const optimization *how;
    int ranks;
    yk_model *models[MOST_RANKS];
    yk_optimizer *optimizers[MOST_RANKS];
    double anchor[MOST_TENSORS][MOST_ELEMENTS], momentum[MOST_TENSORS][MOST_ELEMENTS];
} simulation;

/* The model's n-th tensor that is averaged: parameters first, whose number is *parameters. */
static bool tensor_at(const simulation *s, int rank, size_t n, size_t *parameters,
                      yk_tensor *tensor)
{
    const yk_model *model = s->models[rank];
    *parameters = yk_model_parameter_count(model);
    size_t buffers = yk_model_buffer_count(model);
    if (n < *parameters)
        *tensor = yk_model_parameter(model, n).value;
    else if (n < *parameters + buffers)
        *tensor = yk_model_buffer(model, n - *parameters).value;
    else {
        const char *name;
        size_t slots = s->how->adam ? 2 : 1, state = n - *parameters - buffers;
        return s->how->local.average_state && state < slots * *parameters &&
               yk_optimizer_state(s->optimizers[rank], state / slots, state % slots, &name, tensor);
    }
    return true;
}

static void outer_step(simulation *s, size_t n, int64_t count, double *mean)
{
    const yk_local_sgd_options *o = &s->how->local;
    for (int64_t i = 0; i < count; i++) {
        double change = s->anchor[n][i] - mean[i];
        double *kept = &s->momentum[n][i];
        *kept = o->outer_momentum * *kept + change;
        double by = o->outer_nesterov ? change + o->outer_momentum * *kept : *kept;
        mean[i] = s->anchor[n][i] -= o->outer_lr * by;
    }
}

static void average_all(simulation *s)
{
    yk_tensor tensor;
    size_t parameters;
    for (size_t n = 0; tensor_at(s, 0, n, &parameters, &tensor); n++) {
        double mean[MOST_ELEMENTS] = {0};
        int64_t count = yk_tensor_count(&tensor);
        if (tensor.dtype != YK_F64)
            continue; /* the number of batches */
        assert_in_range(count, 1, MOST_ELEMENTS);
        for (int r = 0; r < s->ranks && tensor_at(s, r, n, &parameters, &tensor); r++) {
            yk_tensor host = yk_test_on_host(tensor);
            for (int64_t i = 0; i < count; i++)
                mean[i] += element(&host, i) / s->ranks;
        }
        if (n < parameters)
            outer_step(s, n, count, mean);
        for (int r = 0; r < s->ranks && tensor_at(s, r, n, &parameters, &tensor); r++)
            assert_ok(yk_tensor_write(&tensor, mean));
    }
}

static void simulation_begin(simulation *s, int ranks, const optimization *how)
{
    *s = (simulation){.how = how, .ranks = ranks};
    for (int r = 0; r < ranks; r++) {
        s->models[r] = make_model(&net);
        s->optimizers[r] = make_optimizer(s->models[r], how);
    }
    for (size_t n = 0; n < yk_model_parameter_count(s->models[0]); n++) {
        yk_tensor host = yk_test_on_host(yk_model_parameter(s->models[0], n).value);
        memcpy(s->anchor[n], host.data, yk_tensor_bytes(&host));
    }
}

/* Step i of all ranks, each with `samples` of its own. */
static void simulate_step(simulation *s, int i, int64_t count)
{
    static samples room;
    for (int r = 0; r < s->ranks; r++) {
        step(s->models[r],
             take_samples(&room, net.dtype, (int64_t)i * 20 + (int64_t)r * count, count));
        assert_ok(yk_optimizer_step(s->optimizers[r]));
    }
}

static void simulation_end(simulation *s)
{
    for (int r = 0; r < s->ranks; r++) {
        yk_optimizer_destroy(s->optimizers[r]);
        yk_model_destroy(s->models[r]);
    }
}

/* ---- the ranks ------------------------------------------------------------------------------- */

typedef struct local_side {
    yk_group *group;
    yk_model *model;
    yk_optimizer *optimizer;
    yk_local_sgd *local;
    samples own;
} local_side;

static yk_group *join(void)
{
    yk_group *group;
    assert_ok(yk_group_init(&group, NULL));
    return group;
}

static void begin(local_side *s, yk_group *group, const optimization *how)
{
    network mine = net;
    s->group = group;
    mine.seed += (uint64_t)yk_group_rank(s->group); /* rank 0's weights count */
    s->model = make_model(&mine);
    s->optimizer = make_optimizer(s->model, how);
    assert_ok(yk_local_sgd_create(&s->local, s->optimizer, s->group, &how->local));
}

static void train(local_side *s, int first, int steps)
{
    for (int i = first; i < first + steps; i++) {
        int64_t at = (int64_t)i * 20 + (int64_t)yk_group_rank(s->group) * SAMPLES;
        step(s->model, take_samples(&s->own, net.dtype, at, SAMPLES));
        assert_ok(yk_optimizer_step(s->optimizer));
    }
}

static void end(local_side *s)
{
    yk_local_sgd_destroy(s->local);
    yk_optimizer_destroy(s->optimizer);
    yk_model_destroy(s->model);
}

/* Weights, running statistics and, where it is averaged, the optimizer's state. */
static void assert_as_simulated(const local_side *s, const simulation *all, double tolerance)
{
    yk_tensor expected, found;
    size_t parameters;
    const optimization *how = all->how;
    simulation mine = {.how = how, .models = {s->model}, .optimizers = {s->optimizer}};
    for (size_t n = 0; tensor_at(all, 0, n, &parameters, &expected); n++) {
        assert_true(tensor_at(&mine, 0, n, &parameters, &found));
        assert_near("a tensor", &found, &expected, tolerance);
        assert_equal_over_ranks(s->group, &found);
    }
}

/* Seven steps, an average every three, and one that is asked for after the seventh. */
static void check_averages(yk_group *group, const optimization *how)
{
    static simulation all;
    local_side s;
    begin(&s, group, how);
    simulation_begin(&all, yk_group_size(group), how);
    for (int i = 0; i < 7; i++) {
        train(&s, i, 1);
        simulate_step(&all, i, SAMPLES);
        assert_int_equal(yk_local_sgd_steps(s.local), (i + 1) % 3);
        if (i % 3 != 2)
            continue;
        average_all(&all);
        assert_as_simulated(&s, &all, 1e-12);
    }
    assert_ok(yk_local_sgd_sync(s.local));
    assert_int_equal(yk_local_sgd_steps(s.local), 0);
    average_all(&all);
    assert_as_simulated(&s, &all, 1e-12);
    assert_ok(yk_local_sgd_sync(s.local)); /* nothing to average */
    assert_as_simulated(&s, &all, 1e-12);
    simulation_end(&all);
    end(&s);
}

YK_TEST_RANKS(weights_statistics_and_momentum_are_averaged, 3)
{
    (void)rank, (void)world;
    yk_group *group = join();
    check_averages(group, &(optimization){.local = every(3)});
    yk_group_destroy(group);
}

YK_TEST_RANKS(both_moments_of_adam_are_averaged, 2)
{
    (void)rank, (void)world;
    yk_group *group = join();
    check_averages(group, &(optimization){.adam = true, .local = every(3)});
    yk_group_destroy(group);
}

YK_TEST_RANKS(an_outer_optimizer_has_nesterov_momentum, 2)
{
    (void)rank, (void)world;
    yk_group *group = join();
    optimization how = {.adam = true, .local = every(3)};
    how.local.outer_lr = 0.7;
    how.local.outer_momentum = 0.9;
    how.local.outer_nesterov = true;
    check_averages(group, &how);
    yk_group_destroy(group);
}

YK_TEST_RANKS(an_outer_optimizer_has_momentum_or_none, 3)
{
    (void)rank, (void)world;
    yk_group *group = join();
    optimization how = {.local = every(3)};
    how.local.outer_momentum = 0.5;
    check_averages(group, &how);
    how.local.outer_momentum = 0;
    how.local.outer_lr = 0.5;
    check_averages(group, &how);
    yk_group_destroy(group);
}

/* A network of two branches of one size, of which each of two ranks uses another. */
static yk_model *make_branch(int rank)
{
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "x", YK_F64, 2, (int64_t[]){YK_BATCH, 2});
    yk_value *a = yk_nn_linear(x, "a", 1), *b = yk_nn_linear(x, "b", 1);
    yk_model *model;
    assert_ok(yk_model_create(&model, yk_reduce_loss(rank == 0 ? a : b, YK_LOSS_SUM),
                              YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT,
                                      o.device = yk_test_device("ref"), o.seed = 2)));
    return model;
}

/* The first element of a parameter. */
static double first_of(const yk_model *model, size_t index)
{
    double elements[2];
    yk_tensor value = yk_model_parameter(model, index).value;
    assert_int_equal(yk_tensor_bytes(&value), sizeof elements);
    assert_ok(yk_tensor_read(&value, elements));
    return elements[0];
}

/* What only another rank uses is averaged with its own, and with nothing else. */
YK_TEST_RANKS(branches_that_other_ranks_use_are_averaged, 2)
{
    enum { A_WEIGHT = 0, B_WEIGHT = 2 };
    static const char *const names[] = {"x"};
    double x[] = {1 + rank, 3, 2, 5};
    yk_tensor tensor = {.data = x, .dtype = YK_F64, .ndim = 2, .dims = {2, 2}};
    yk_batch batch = {.size = 2, .count = 1, .names = names, .tensors = &tensor};
    yk_local_sgd_options options = every(1);
    yk_group *group;
    yk_local_sgd *local;
    yk_optimizer *sgd;
    yk_model *model = make_branch(rank);
    assert_ok(yk_group_init(&group, NULL));
    assert_ok(yk_sgd_create(&sgd, model, YK_WITH(yk_sgd_options, YK_SGD_OPTIONS_INIT, o.lr = 1)));
    assert_ok(yk_local_sgd_create(&local, sgd, group, &options));
    double a = first_of(model, A_WEIGHT), b = first_of(model, B_WEIGHT);
    step(model, &batch);
    assert_ok(yk_optimizer_step(sgd));
    /* Gradients are 1 + 2 on rank 0 and 2 + 2 on rank 1, of which half remains. */
    assert_true(fabs(first_of(model, A_WEIGHT) - (a - 1.5)) < 1e-12);
    assert_true(fabs(first_of(model, B_WEIGHT) - (b - 2)) < 1e-12);
    yk_local_sgd_destroy(local);
    yk_optimizer_destroy(sgd);
    yk_model_destroy(model);
    yk_group_destroy(group);
}

/* Momentum that stays each rank's own differs between ranks, and weights do not. */
YK_TEST_RANKS(state_may_stay_each_ranks_own, 2)
{
    (void)rank, (void)world;
    yk_group *group = join();
    optimization how = {.local = every(3)};
    how.local.average_state = false;
    check_averages(group, &how);
    yk_group_destroy(group);
}

/* ---- a yk_ddp for a part of the ranks -------------------------------------------------------- */

/* Two hosts of two ranks: gradients are averaged on a host in every step. */
YK_TEST_RANKS(ranks_of_a_host_average_gradients_in_every_step, 4)
{
    static simulation all;
    const optimization how = {.local = every(2)};
    local_side s;
    yk_group *host;
    yk_ddp *ddp;
    s.group = join();
    assert_ok(yk_group_split(&host, s.group, rank / 2, rank));
    s.model = make_model(&net);
    assert_ok(yk_ddp_create(&ddp, s.model, host, NULL));
    assert_ok(yk_sync_batch_norm_convert(s.model, host));
    s.optimizer = make_optimizer(s.model, &how);
    assert_ok(yk_local_sgd_create(&s.local, s.optimizer, s.group, &how.local));
    simulation_begin(&all, world / 2, &how);
    for (int i = 0; i < 4; i++) {
        train(&s, i, 1);
        simulate_step(&all, i, 2 * SAMPLES);
        if (i % 2 == 0)
            continue;
        average_all(&all);
        assert_as_simulated(&s, &all, 1e-10);
    }
    simulation_end(&all);
    yk_ddp_destroy(ddp);
    end(&s);
    yk_group_destroy(host);
    yk_group_destroy(s.group);
}

/* ---- checkpoints ----------------------------------------------------------------------------- */

static const char *path_of(yk_group *group)
{
    static char path[512];
    if (yk_group_rank(group) == 0)
        snprintf(path, sizeof path, "%s/checkpoint.pth", yk_test_directory());
    assert_ok(yk_broadcast(group, path, sizeof path, YK_U8, 0, NULL));
    return path;
}

static void assert_same_bits(const yk_model *a, const yk_model *b)
{
    for (size_t n = 0; n < yk_model_parameter_count(a); n++) {
        yk_tensor mine = yk_model_parameter(a, n).value, other = yk_model_parameter(b, n).value;
        yk_tensor first = yk_test_on_host(mine), second = yk_test_on_host(other);
        assert_memory_equal(first.data, second.data, yk_tensor_bytes(&first));
    }
}

YK_TEST_RANKS(promise_15_a_checkpoint_continues_to_the_same_bits, 2)
{
    (void)world;
    optimization how = {.local = every(3)};
    how.local.outer_lr = 0.7;
    how.local.outer_momentum = 0.9;
    yk_group *group = join();
    local_side whole, resumed;
    begin(&whole, group, &how);
    train(&whole, 0, 6);
    const char *path = path_of(group);
    if (rank == 0)
        assert_ok(yk_checkpoint_save(path, whole.model, whole.optimizer, NULL));
    train(&whole, 6, 1);
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_checkpoint_save(yk_test_path("mine"), whole.model, whole.optimizer, NULL));
    assert_contains(yk_last_error(), "trained on their own for 1 steps; yk_local_sgd_sync");
    train(&whole, 7, 5);
    begin(&resumed, group, &how);
    train(&resumed, 30, 4); /* which the checkpoint undoes, in the middle of a round */
    assert_ok(yk_checkpoint_load(path, resumed.model, resumed.optimizer, NULL));
    assert_int_equal(yk_local_sgd_steps(resumed.local), 0);
    train(&resumed, 6, 6);
    assert_same_bits(resumed.model, whole.model);
    end(&resumed);
    end(&whole);
    yk_group_destroy(group);
}

/* The momentum of a checkpoint that has none begins with zeros, as that of a new yk_local_sgd. */
YK_TEST_RANKS(a_checkpoint_without_momentum_starts_it_anew, 2)
{
    (void)world;
    optimization how = {.local = every(3)}, plain = {.local = every(3)};
    how.local.outer_momentum = 0.9;
    yk_group *group = join();
    local_side without, fresh, used;
    begin(&without, group, &plain);
    train(&without, 0, 3);
    const char *path = path_of(group);
    if (rank == 0)
        assert_ok(yk_checkpoint_save(path, without.model, without.optimizer, NULL));
    begin(&fresh, group, &how);
    begin(&used, group, &how);
    train(&used, 40, 6);
    assert_ok(yk_barrier(group));
    assert_ok(yk_checkpoint_load(path, fresh.model, fresh.optimizer, NULL));
    assert_ok(yk_checkpoint_load(path, used.model, used.optimizer, NULL));
    train(&fresh, 3, 6);
    train(&used, 3, 6);
    assert_same_bits(used.model, fresh.model);
    end(&used);
    end(&fresh);
    end(&without);
    yk_group_destroy(group);
}

/* ---- mistakes -------------------------------------------------------------------------------- */

YK_TEST_RANKS(different_numbers_of_steps_are_a_mismatch, 2)
{
    (void)world;
    const optimization how = {.local = every(5)};
    local_side s;
    begin(&s, join(), &how);
    train(&s, 0, rank == 0 ? 3 : 2);
    assert_status(YK_ERROR_MISMATCH, yk_local_sgd_sync(s.local));
    assert_contains(yk_last_error(), "rank 1 has made 2 optimizer steps, rank 0 3");
    end(&s);
    yk_group_destroy(s.group);
}

YK_TEST_RANKS(wrong_options_are_refused, 1)
{
    (void)rank, (void)world;
    const optimization how = {.local = every(1)};
    local_side s;
    yk_local_sgd *refused = (yk_local_sgd *)&s;
    begin(&s, join(), &how);
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_local_sgd_create(&refused, s.optimizer, s.group, NULL));
    assert_null(refused);
    assert_contains(yk_last_error(), "local SGD: the optimizer is under local SGD");
    yk_zero *zero;
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_zero_create(&zero, s.optimizer, s.model, s.group));
    assert_contains(yk_last_error(), "ZeRO: the optimizer is under local SGD");
    yk_local_sgd_destroy(s.local);
    s.local = NULL;
    static const struct {
        int64_t sync_every;
        double lr, momentum;
        bool nesterov;
        const char *error;
    } cases[] = {{0, 1, 0, false, "sync_every must be at least 1, not 0"},
                 {1, 0, 0, false, "outer_lr must be above 0"},
                 {1, NAN, 0, false, "outer_lr must be at least 0, not nan"},
                 {1, 1, 1, false, "outer_momentum must be at least 0 and below 1, not 1"},
                 {1, 1, 0, true, "outer_nesterov needs an outer_momentum above 0"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        yk_local_sgd_options wrong = every(cases[i].sync_every);
        wrong.outer_lr = cases[i].lr;
        wrong.outer_momentum = cases[i].momentum;
        wrong.outer_nesterov = cases[i].nesterov;
        assert_status(YK_ERROR_INVALID_ARGUMENT,
                      yk_local_sgd_create(&refused, s.optimizer, s.group, &wrong));
        assert_contains(yk_last_error(), cases[i].error);
    }
    train(&s, 0, 1); /* which averages nothing any more */
    end(&s);
    yk_group_destroy(s.group);
}

YK_TEST_RANKS(zero_is_refused, 1)
{
    (void)rank, (void)world;
    yk_group *group = join();
    yk_zero *zero;
    yk_local_sgd *local;
    yk_model *model = make_model(&net);
    yk_optimizer *optimizer = make_optimizer(model, &(optimization){.adam = true});
    assert_ok(yk_zero_create(&zero, optimizer, model, group));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_local_sgd_create(&local, optimizer, group, NULL));
    assert_contains(yk_last_error(), "local SGD: the optimizer is under ZeRO");
    yk_zero_destroy(zero);
    yk_optimizer_destroy(optimizer);
    yk_model_destroy(model);
    yk_group_destroy(group);
}

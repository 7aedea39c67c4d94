/*
 * Trainings drawn at random: micro-batches of any sizes, on some ranks empty, synced or not, in
 * either mode, with forwards between that no backward follows. After each synced backward gradients
 * are the weighted sum of what one process computes for each rank's micro-batches by themselves.
 */
#include "harness.h"

#include "base/random.h"
#include "side.h"

enum { TRAININGS = 50, STEPS = 3, MICROS = 4, RANKS = 3, MOST = 4 };

typedef struct micro {
    bool synced;
    int64_t first[RANKS], count[RANKS], joint; /* samples: of each rank, of all */
} micro;

typedef struct training {
    side s;
    uint64_t seed, draws;
    bool mean; /* YK_ACCUMULATION_MEAN */
    int64_t next, elements;
    double *expected, *got;
    yk_optimizer *optimizer;
    yk_zero *zero;
} training;

/* In [0, below), alike on all ranks. */
static int64_t draw(training *t, uint64_t below)
{
    return (int64_t)(yki_hash3(t->seed, t->draws++, 0) % below);
}

static micro draw_micro(training *t, bool last)
{
    micro m = {.synced = last || draw(t, 2)};
    for (int rank = 0; rank < t->s.world; rank++) {
        m.first[rank] = t->next;
        m.count[rank] = draw(t, 3) ? draw(t, MOST + 1) : 0;
        m.count[rank] += m.joint == 0 && rank == t->s.world - 1; /* some rank has one */
        m.joint += m.count[rank];
        t->next += m.count[rank];
    }
    return m;
}

static void copy_gradients(const yk_model *model, double *to)
{
    for (size_t i = 0; i < yk_model_parameter_count(model); i++) {
        yk_tensor grad = yk_model_parameter(model, i).grad;
        assert_ok(yk_tensor_read(&grad, to));
        to += yk_tensor_count(&grad);
    }
}

/* What the samples of one rank in one of `count` micro-batches so far count for. */
static double weight_of(const training *t, const micro *micros, int count, int which, int rank)
{
    const micro *m = &micros[which];
    int64_t all = 0;
    for (int i = 0; i < count; i++)
        all += micros[i].joint;
    if (t->s.net.sum || (!t->mean && !m->synced))
        return 1.0 / t->s.world;
    return (double)m->count[rank] / (double)(t->mean ? all : m->joint);
}

static void add_expected(training *t, const micro *micros, int count, int which, int rank)
{
    const micro *m = &micros[which];
    double weight = weight_of(t, micros, count, which, rank);
    if (m->count[rank] == 0)
        return;
    yk_model_zero_grad(t->s.alone);
    step(t->s.alone, take_samples(&t->s.joint, YK_F64, m->first[rank], m->count[rank]));
    copy_gradients(t->s.alone, t->got);
    for (int64_t i = 0; i < t->elements; i++)
        t->expected[i] += weight * t->got[i];
}

static void check(training *t, const micro *micros, int count)
{
    memset(t->expected, 0, (size_t)t->elements * sizeof *t->expected);
    for (size_t i = 0; i < yk_model_parameter_count(t->s.model); i++) {
        yk_tensor from = yk_test_on_host(yk_model_parameter(t->s.model, i).value);
        yk_tensor to = yk_model_parameter(t->s.alone, i).value;
        assert_ok(yk_tensor_write(&to, from.data));
    }
    yk_model_parameters_changed(t->s.alone);
    for (int which = 0; which < count; which++)
        for (int rank = 0; rank < t->s.world; rank++)
            add_expected(t, micros, count, which, rank);
    copy_gradients(t->s.model, t->got);
    for (int64_t i = 0; i < t->elements; i++)
        if (!(fabs(t->got[i] - t->expected[i]) <= 1e-11 * (1 + fabs(t->expected[i]))))
            fail_msg("training %llu: gradient %lld is %g, expected %g", (unsigned long long)t->seed,
                     (long long)i, t->got[i], t->expected[i]);
}

/* A forward without a backward, possibly in another mode. */
static void stray(training *t)
{
    bool trains = draw(t, 2);
    int64_t count = trains ? 1 + t->s.rank : 2;
    trains ? yk_model_train(t->s.model) : yk_model_eval(t->s.model);
    assert_ok(yk_model_forward(t->s.model, take_samples(&t->s.own, YK_F64, 0, count)));
}

static void run_micro(training *t, const micro *m, bool first)
{
    yk_model *model = t->s.model;
    int rank = t->s.rank;
    yk_ddp_set_no_sync(t->s.ddp, !m->synced);
    if (draw(t, 3) == 0)
        stray(t);
    draw(t, 3) ? yk_model_train(model) : yk_model_eval(model);
    assert_ok(
        yk_model_forward(model, take_samples(&t->s.own, YK_F64, m->first[rank], m->count[rank])));
    if (first && draw(t, 2)) /* as loops do that were PyTorch's */
        yk_model_zero_grad(model);
    assert_ok(yk_model_backward(model));
}

static void run_step(training *t)
{
    micro micros[MICROS];
    int count = 1 + (int)draw(t, MICROS);
    for (int i = 0; i < count; i++) {
        micros[i] = draw_micro(t, i == count - 1);
        run_micro(t, &micros[i], i == 0);
        if (micros[i].synced)
            check(t, micros, i + 1);
    }
    assert_ok(yk_optimizer_step(t->optimizer));
}

static void run_training(yk_group *group, uint64_t seed)
{
    training t = {.seed = seed};
    t.s.group = group;
    t.s.rank = yk_group_rank(group);
    t.s.world = yk_group_size(group);
    t.s.net = (network){.device = "ref", .dtype = YK_F64, .seed = 7, .sum = draw(&t, 3) == 0};
    t.mean = draw(&t, 2);
    t.s.model = make_model(&t.s.net);
    t.s.alone = make_model(&t.s.net);
    yk_ddp_options options = YK_DDP_OPTIONS_INIT;
    options.bucket_cap_mb = draw(&t, 2) ? 1e-3 : 25;
    assert_ok(yk_ddp_create(&t.s.ddp, t.s.model, group, &options));
    yk_model_set_accumulation(t.s.model, t.mean ? YK_ACCUMULATION_MEAN : YK_ACCUMULATION_SUM);
    yk_sgd_options sgd = YK_SGD_OPTIONS_INIT;
    sgd.lr = 0.05;
    sgd.momentum = 0.9;
    assert_ok(yk_sgd_create(&t.optimizer, t.s.model, &sgd));
    if (draw(&t, 2))
        assert_ok(yk_zero_create(&t.zero, t.optimizer, t.s.model, group));
    t.elements = yk_model_parameter_elements(t.s.model);
    t.expected = calloc((size_t)t.elements, sizeof *t.expected);
    t.got = calloc((size_t)t.elements, sizeof *t.got);
    for (int i = 0; i < STEPS; i++)
        run_step(&t);
    assert_ok(yk_ddp_check_divergence(t.s.ddp));
    free(t.expected);
    free(t.got);
    yk_zero_destroy(t.zero);
    yk_optimizer_destroy(t.optimizer);
    t.s.group = NULL; /* serves the next training too */
    side_end(&t.s);
}

static void run_trainings(int rank, int world)
{
    (void)rank, (void)world;
    yk_group *group;
    assert_ok(yk_group_init(&group, NULL));
    for (uint64_t seed = 1; seed <= TRAININGS; seed++)
        run_training(group, seed);
    yk_group_destroy(group);
}

YK_TEST(any_training_of_two_ranks_equals_one_process)
{
    yk_test_ranks(2, run_trainings);
}

YK_TEST(any_training_of_three_ranks_equals_one_process)
{
    yk_test_ranks(RANKS, run_trainings);
}

/* A contrastive loss over the batches of all ranks is that of one process on the joint batch. */
#include "harness.h"

#include <signal.h>
#include <string.h>

#include "same.h"
#include "small_network.h"

enum { FEATURES = 12, SAMPLES = 3, MAX_RANKS = 4, JOINT = MAX_RANKS * SAMPLES };

/* ---- NT-Xent (Chen et al. 2020) -------------------------------------------------------------- */

static yk_value *embed(yk_value *x)
{
    return yk_nn_layer_norm(yk_nn_linear(yk_tanh(yk_nn_linear(x, "fc1", 16)), "fc2", 8), "norm",
                            1e-5);
}

/* Each sample of one view against all of the other, and against all but itself of its own. */
static yk_value *contrast(yk_value *own, yk_value *all_own, yk_value *all_other, yk_value *itself,
                          yk_value *labels)
{
    yk_value *other = yk_linear(own, all_other, NULL);
    yk_value *same = yk_add(yk_linear(own, all_own, NULL), itself);
    yk_value *logits = yk_concat((yk_value *[]){other, same}, 2, 1);
    return yk_cross_entropy(yk_scale(logits, 0.5), labels, NULL);
}

/* itself: -1e4 where a sample meets itself, else 0; labels: the number in the joint batch. */
static yk_value *nt_xent(const char *views, yk_dtype dtype, int ranks, int64_t size)
{
    yk_graph *graph = yk_graph_create();
    const int64_t view[] = {YK_BATCH, FEATURES}, pairs[] = {YK_BATCH, ranks * size};
    yk_value *a = yk_input(graph, (const char[]){views[0], 0}, dtype, 2, view);
    yk_value *b = yk_input(graph, (const char[]){views[1], 0}, dtype, 2, view);
    yk_value *itself = yk_input(graph, "itself", dtype, 2, pairs);
    yk_value *labels = yk_input(graph, "labels", YK_I32, 1, view);
    yk_scope_push(graph, "encoder");
    a = embed(a);
    yk_scope_pop(graph);
    yk_scope_reuse(graph, "encoder");
    b = embed(b);
    yk_scope_pop(graph);
    yk_value *all_a = yk_all_gather_batch(a, ranks, size);
    yk_value *all_b = yk_all_gather_batch(b, ranks, size);
    return yk_scale(yk_add(contrast(a, all_a, all_b, itself, labels),
                           contrast(b, all_b, all_a, itself, labels)),
                    0.5);
}

static yk_model *make_contrastive(const network *net, int ranks, int64_t size)
{
    yk_model *model;
    assert_ok(yk_model_create(&model, nt_xent("ab", net->dtype, ranks, size),
                              YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT,
                                      o.device = yk_test_device(net->device), o.seed = net->seed,
                                      o.amp = net->amp, o.threads = 1)));
    return model;
}

/* ---- batches --------------------------------------------------------------------------------- */

typedef struct views {
    double f64[2 * JOINT * FEATURES + JOINT * JOINT];
    float f32[2 * JOINT * FEATURES + JOINT * JOINT];
    int32_t labels[JOINT];
    yk_tensor tensors[4];
    yk_batch batch;
} views;

static yk_tensor matrix_at(views *v, yk_dtype dtype, int64_t at, int64_t rows, int64_t columns)
{
    return (yk_tensor){.data = dtype == YK_F64 ? (void *)(v->f64 + at) : (void *)(v->f32 + at),
                       .dtype = dtype,
                       .ndim = 2,
                       .dims = {rows, columns}};
}

/* Samples first to first + count - 1 of a joint batch of `all`, in the step-th batch. */
static const yk_batch *take_views(views *v, yk_dtype dtype, int step, int64_t first, int64_t count,
                                  int64_t all)
{
    static const char *const names[] = {"a", "b", "itself", "labels"};
    const int64_t size = count * FEATURES, pairs = 2 * size;
    for (int64_t i = 0; i < pairs; i++) {
        uint64_t number = (uint64_t)((step * 2 + i / size) * 1000 + first * FEATURES + i % size);
        v->f64[i] = (double)((number + 1) * 0x9e3779b97f4a7c15u >> 40) / (1 << 23) - 1;
    }
    for (int64_t i = 0; i < count * all; i++)
        v->f64[pairs + i] = i % all == first + i / all ? -1e4 : 0;
    for (int64_t i = 0; i < pairs + count * all; i++)
        v->f32[i] = (float)v->f64[i];
    for (int64_t i = 0; i < count; i++)
        v->labels[i] = (int32_t)(first + i);
    v->tensors[0] = matrix_at(v, dtype, 0, count, FEATURES);
    v->tensors[1] = matrix_at(v, dtype, size, count, FEATURES);
    v->tensors[2] = matrix_at(v, dtype, pairs, count, all);
    v->tensors[3] = (yk_tensor){.data = v->labels, .dtype = YK_I32, .ndim = 1, .dims = {count}};
    v->batch = (yk_batch){.size = count, .count = 4, .names = names, .tensors = v->tensors};
    return &v->batch;
}

/* ---- the joint batch ------------------------------------------------------------------------- */

typedef struct contrast_side {
    network net;
    int rank, world;
    yk_group *group;
    yk_model *model, *alone;
    yk_ddp *ddp;
    views own, joint;
} contrast_side;

static void begin(contrast_side *s, const network *net)
{
    s->net = *net;
    assert_ok(yk_group_init(&s->group, NULL));
    s->rank = yk_group_rank(s->group);
    s->world = yk_group_size(s->group);
    s->model = make_contrastive(net, s->world, SAMPLES);
    s->alone = make_contrastive(net, 1, s->world * SAMPLES);
    assert_ok(yk_ddp_create(&s->ddp, s->model, s->group, NULL));
}

static void end(contrast_side *s)
{
    yk_ddp_destroy(s->ddp);
    yk_model_destroy(s->model);
    yk_model_destroy(s->alone);
    yk_group_destroy(s->group);
}

static const yk_batch *take_own(contrast_side *s, int step)
{
    return take_views(&s->own, s->net.dtype, step, s->rank * SAMPLES, SAMPLES, s->world * SAMPLES);
}

static void both_step(contrast_side *s, int number)
{
    int64_t all = s->world * SAMPLES;
    step(s->model, take_own(s, number));
    step(s->alone, take_views(&s->joint, s->net.dtype, number, 0, all, all));
}

static double mean_loss(const contrast_side *s)
{
    double loss = yk_model_loss(s->model);
    assert_ok(yk_all_reduce(s->group, &loss, 1, YK_F64, YK_REDUCE_SUM, NULL));
    return loss / s->world;
}

static void train_and_compare(const network *net, double tolerance)
{
    static contrast_side s;
    begin(&s, net);
    for (int number = 0; number < 5; number++) { /* on the simulated device the last are replays */
        both_step(&s, number);
        assert_float_equal(mean_loss(&s), yk_model_loss(s.alone), tolerance);
        assert_same_gradients(s.model, s.alone, tolerance);
        yk_model_zero_grad(s.model);
        yk_model_zero_grad(s.alone);
    }
    end(&s);
}

static const network ref_f64 = {.device = "ref", .dtype = YK_F64, .seed = 7};
/* Sums of terms that cancel out: where compilers order them otherwise, last bits differ. */
static const double f32_tolerance = 5e-6;
static const network cpu_f32 = {.device = "cpu", .dtype = YK_F32, .seed = 7};
static const network sim_f32 = {.device = "sim", .dtype = YK_F32, .seed = 7};
static const network cpu_bf16 = {.device = "cpu", .dtype = YK_F32, .seed = 7, .amp = YK_AMP_BF16};

YK_TEST_RANKS(two_ranks_in_f64_are_the_joint_batch, 2)
{
    train_and_compare(&ref_f64, 1e-12);
}

YK_TEST_RANKS(four_ranks_in_f64_are_the_joint_batch, 4)
{
    train_and_compare(&ref_f64, 1e-12);
}

YK_TEST_RANKS(two_ranks_in_f32_are_the_joint_batch, 2)
{
    train_and_compare(&cpu_f32, f32_tolerance);
}

YK_TEST_RANKS(four_ranks_in_f32_are_the_joint_batch, 4)
{
    train_and_compare(&cpu_f32, f32_tolerance);
}

YK_TEST_RANKS(three_ranks_on_another_device_are_the_joint_batch, 3)
{
    train_and_compare(&sim_f32, f32_tolerance);
}

YK_TEST_RANKS(two_ranks_in_bf16_are_the_joint_batch, 2)
{
    train_and_compare(&cpu_bf16, 0.05);
}

YK_TEST_RANKS(gradients_add_up_synced_and_unsynced, 2)
{
    static contrast_side s;
    begin(&s, &ref_f64);
    yk_ddp_set_no_sync(s.ddp, true);
    both_step(&s, 0);
    yk_ddp_set_no_sync(s.ddp, false);
    both_step(&s, 1);
    assert_same_gradients(s.model, s.alone, 1e-12);
    end(&s);
}

YK_TEST_RANKS(a_step_has_the_same_bits_every_time, 3)
{
    static contrast_side s, again;
    begin(&s, &cpu_f32);
    again = s;
    again.model = make_contrastive(&cpu_f32, s.world, SAMPLES);
    assert_ok(yk_ddp_create(&again.ddp, again.model, s.group, NULL));
    for (int number = 0; number < 3; number++) {
        step(s.model, take_own(&s, number));
        step(again.model, take_own(&s, number));
        assert_same_grads(s.model, again.model);
        yk_model_zero_grad(s.model);
        yk_model_zero_grad(again.model);
    }
    yk_ddp_destroy(again.ddp);
    yk_model_destroy(again.model);
    end(&s);
}

/* A loss is evaluated over all ranks too. */
YK_TEST_RANKS(evaluation_gathers_too, 2)
{
    static contrast_side s;
    begin(&s, &ref_f64);
    yk_model_eval(s.model);
    yk_model_eval(s.alone);
    assert_ok(yk_model_forward(s.model, take_own(&s, 3)));
    assert_ok(yk_model_forward(s.alone, take_views(&s.joint, YK_F64, 3, 0, 6, 6)));
    assert_float_equal(mean_loss(&s), yk_model_loss(s.alone), 1e-12);
    end(&s);
}

/* ---- failures -------------------------------------------------------------------------------- */

static void one_dies(int rank, int world)
{
    static contrast_side s;
    (void)world;
    begin(&s, &ref_f64);
    both_step(&s, 0);
    if (rank == 1)
        raise(SIGKILL);
    yk_ddp_set_no_sync(s.ddp, true); /* no collective but the gather's */
    assert_status(YK_ERROR_PEER_FAILED, yk_model_forward(s.model, take_own(&s, 1)));
    assert_contains(yk_last_error(), "all_gather_batch: ");
    assert_contains(yk_last_error(), ": rank 1 ");
    assert_contains(yk_last_error(), "is dead");
    end(&s);
}

YK_TEST(a_rank_that_dies_is_named)
{
    int statuses[3];
    yk_test_ranks_status(3, one_dies, statuses, NULL);
    assert_int_equal(statuses[0], 0);
    assert_int_equal(statuses[2], 0);
}

YK_TEST_RANKS(a_batch_of_another_size_is_refused, 2)
{
    static contrast_side s;
    begin(&s, &ref_f64);
    for (int64_t count = 0; count < SAMPLES; count += 2) {
        const yk_batch *batch = take_views(&s.own, YK_F64, 0, 0, count, s.world * SAMPLES);
        assert_status(YK_ERROR_INVALID_SHAPE, yk_model_forward(s.model, batch));
        assert_contains(yk_last_error(), "all_gather_batch: the batch has ");
        assert_contains(yk_last_error(), "samples, expected 3, as on every rank");
    }
    step(s.model, take_own(&s, 0));
    end(&s);
}

/* The last rank's batch is refused on all ranks, which then continue with the next one. */
static void one_batch_is_short(const network *net)
{
    static contrast_side s;
    begin(&s, net);
    both_step(&s, 0);
    for (int64_t count = 0; count < SAMPLES; count += 2) {
        bool is_short = s.rank == s.world - 1;
        const yk_batch *batch = is_short
                                    ? take_views(&s.own, net->dtype, 1, 0, count, s.world * SAMPLES)
                                    : take_own(&s, 1);
        assert_status(is_short ? YK_ERROR_INVALID_SHAPE : YK_ERROR_MISMATCH,
                      yk_model_forward(s.model, batch));
        assert_contains(yk_last_error(), is_short ? "samples, expected 3, as on every rank"
                                                  : "all_gather_batch: all_gather(");
        if (!is_short)
            assert_contains(yk_last_error(), "cannot take part: ");
    }
    yk_model_zero_grad(s.model);
    yk_model_zero_grad(s.alone);
    both_step(&s, 2);
    assert_same_gradients(s.model, s.alone, f32_tolerance);
    end(&s);
}

YK_TEST_RANKS(a_batch_that_is_short_on_one_rank_is_refused_on_all, 3)
{
    one_batch_is_short(&cpu_f32);
}

YK_TEST_RANKS(so_is_it_on_another_device, 2)
{
    one_batch_is_short(&sim_f32);
}

static void assert_refused(yk_model *model, yk_group *group, const yk_ddp_options *options,
                           const char *why)
{
    yk_ddp *ddp;
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_ddp_create(&ddp, model, group, options));
    assert_contains(yk_last_error(), why);
    yk_model_destroy(model);
}

YK_TEST_RANKS(what_cannot_be_gathered_is_refused, 2)
{
    static contrast_side s;
    begin(&s, &ref_f64);
    assert_refused(make_contrastive(&ref_f64, 4, SAMPLES), s.group, NULL,
                   "ddp: the model's all_gather_batch is of 4 ranks, the group has 2");
    assert_refused(make_contrastive(&ref_f64, 2, SAMPLES), s.group,
                   YK_WITH(yk_ddp_options, YK_DDP_OPTIONS_INIT, o.virtual_ranks = 4),
                   "ddp: the model has an all_gather_batch, and virtual ranks compute one after "
                   "the other");
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_ddp_join_begin(s.ddp, NULL));
    assert_contains(yk_last_error(), "join: the model has an all_gather_batch");
    end(&s);
}

YK_TEST(ranks_need_a_group)
{
    static views v;
    yk_data_parallel *parallel;
    yk_model *model = make_contrastive(&ref_f64, 2, SAMPLES);
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_model_forward(model, take_views(&v, YK_F64, 0, 0, SAMPLES, 2 * SAMPLES)));
    assert_contains(yk_last_error(), "all_gather_batch: it gathers the batches of 2 ranks: "
                                     "give the model to yk_ddp_create first");
    yk_model_destroy(model);
    model = make_contrastive(&cpu_f32, 1, SAMPLES);
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_data_parallel_create(&parallel, model, NULL));
    assert_contains(yk_last_error(), "data parallel: the model has an all_gather_batch");
    yk_model_destroy(model);
}

static void assert_wrong(yk_value *(*build)(yk_graph *graph), yk_status status, const char *why)
{
    yk_model *model;
    yk_graph *graph = yk_graph_create();
    yk_value *value = build(graph);
    assert_status(status, yk_model_create(&model, value, NULL));
    assert_contains(yk_last_error(), why);
    yk_graph_destroy(graph);
}

static yk_value *of_no_ranks(yk_graph *graph)
{
    return yk_all_gather_batch(yk_input(graph, "x", YK_F32, 2, (int64_t[]){YK_BATCH, 3}), 0, 4);
}

static yk_value *of_one_dimension(yk_graph *graph)
{
    return yk_all_gather_batch(yk_input(graph, "x", YK_F32, 1, (int64_t[]){YK_BATCH}), 1, 4);
}

YK_TEST(wrong_numbers_are_errors_of_the_graph)
{
    assert_wrong(of_one_dimension, YK_ERROR_INVALID_SHAPE,
                 "input has shape (N), expected (N, C) or (N, T, C)");
    assert_wrong(of_no_ranks, YK_ERROR_INVALID_ARGUMENT,
                 "all_gather_batch: 0 ranks of 4 samples: expected 1 or more of both");
}

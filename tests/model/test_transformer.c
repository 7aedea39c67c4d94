/* A small transformer in every mode that a model can be trained in: the same numbers in each. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"

enum { TOKENS = 9, WORDS = 11, WIDTH = 12, HEADS = 3, LAYERS = 2, STEPS = 5, MOST = 4 };

typedef struct setting {
    const char *device;
    yk_amp amp;
    int threads;
    bool recompute;
    double dropout;      /* of attention's weights */
    bool micro_batches;  /* each step has a batch of one sample and one of the others */
    const char *devices; /* of DataParallel */
    yk_group *group;     /* ranks share each batch, of which some may get nothing, */
    int virtual_ranks;   /* or virtual ranks do, */
    bool zero;           /* and the optimizer's state */
    int resume_at;       /* a step before which all is saved, and loaded into something new */
} setting;

/* ---- the network ----------------------------------------------------------------------------- */

static yk_value *block(yk_value *x, int layer, double dropout)
{
    char name[16];
    yk_graph *graph = yk_value_graph(x);
    snprintf(name, sizeof name, "block%d", layer);
    yk_scope_push(graph, name);
    yk_value *qkv = yk_nn_linear(yk_nn_layer_norm(x, "ln_1", 1e-5), "qkv", 3 * WIDTH);
    yk_value *y = yk_scaled_dot_product_attention(
        qkv, NULL, NULL,
        YK_WITH(yk_attention_options, YK_ATTENTION_OPTIONS_INIT, o.num_heads = HEADS,
                o.is_causal = layer == 0, o.dropout_p = dropout));
    x = yk_add(x, yk_nn_linear(y, "out", WIDTH));
    y = yk_gelu(yk_nn_linear(yk_nn_layer_norm(x, "ln_2", 1e-5), "up", 2 * WIDTH));
    x = yk_add(x, yk_nn_linear(y, "down", WIDTH));
    yk_scope_pop(graph);
    return x;
}

/* What is read again after it was given another shape or order, or in parts: a value, an input to
 * attention three times, and all rows but the first before a row of zeros. */
static yk_value *reread(yk_value *x)
{
    yk_value *turned = yk_permute(x, 3, (int64_t[]){0, 2, 1});
    yk_value *back = yk_permute(yk_scale(turned, 0.5), 3, (int64_t[]){0, 2, 1});
    yk_value *shaped = yk_reshape(x, 2, (int64_t[]){YK_BATCH, TOKENS * WIDTH});
    yk_value *plain = yk_reshape(yk_relu(shaped), 3, (int64_t[]){YK_BATCH, TOKENS, WIDTH});
    yk_value *next = yk_pad(yk_slice(x, 1, 1, TOKENS - 1), 1, 0, 1);
    yk_value *y = yk_scaled_dot_product_attention(x, x, x, NULL);
    return yk_add(yk_add(x, yk_add(back, plain)), yk_add(next, y));
}

static yk_model *create_model(const setting *s)
{
    const int64_t dims[] = {YK_BATCH, TOKENS}, positions[] = {TOKENS, WIDTH};
    yk_graph *graph = yk_graph_create();
    yk_value *tokens = yk_input(graph, "tokens", YK_I32, 2, dims);
    yk_value *labels = yk_input(graph, "labels", YK_I32, 2, dims);
    yk_value *x = yk_nn_embedding(tokens, "embedding", WORDS, WIDTH);
    x = yk_add(x, yk_parameter(graph, "positions", YK_F32, 2, positions, YK_INIT_NORMAL, 0));
    for (int layer = 0; layer < LAYERS; layer++)
        x = block(x, layer, s->dropout);
    yk_value *logits = yk_nn_linear(yk_nn_layer_norm(reread(x), "ln", 1e-5), "head", WORDS);
    yk_value *loss = yk_cross_entropy(
        logits, labels,
        YK_WITH(yk_cross_entropy_options, YK_CROSS_ENTROPY_OPTIONS_INIT, o.class_dim = -1));
    yk_model *model;
    assert_ok(yk_model_create(&model, loss,
                              YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.device = s->device,
                                      o.amp = s->amp, o.threads = s->threads,
                                      o.recompute = s->recompute, o.logits = logits, o.seed = 7)));
    return model;
}

/* ---- training -------------------------------------------------------------------------------- */

typedef struct outcome {
    double losses[STEPS];
    size_t count;
    double *parameters;
} outcome;

/* Samples first to first + count - 1 of a step. */
static void run(yk_model *model, int step, int first, int count, double *loss)
{
    static const char *const names[] = {"tokens", "labels"};
    int32_t tokens[MOST * TOKENS], labels[MOST * TOKENS];
    for (int i = 0; i < count * TOKENS; i++) {
        int at = (step * MOST + first) * TOKENS + i;
        tokens[i] = (at * at + at / 5) % WORDS;
        labels[i] = (3 * tokens[i] + 1) % WORDS;
    }
    const yk_tensor tensors[] = {
        {.data = tokens, .dtype = YK_I32, .ndim = 2, .dims = {count, TOKENS}},
        {.data = labels, .dtype = YK_I32, .ndim = 2, .dims = {count, TOKENS}}};
    const yk_batch batch = {.size = count, .count = 2, .names = names, .tensors = tensors};
    assert_ok(yk_model_forward(model, &batch));
    assert_ok(yk_model_backward(model));
    *loss = count > 0 ? yk_model_loss(model) : 0;
}

/* The parts that ranks, or virtual ranks, have of a batch. */
static void run_parts(const setting *s, yk_model *model, int step, int size, double *loss)
{
    const int ranks = yk_group_size(s->group), parts = s->virtual_ranks ? s->virtual_ranks : ranks;
    const int own = parts / ranks, begin = yk_group_rank(s->group) * own;
    double sum = 0, samples = 0;
    for (int part = begin; part < begin + own; part++) {
        int first = size * part / parts, count = size * (part + 1) / parts - first;
        run(model, step, first, count, loss);
        sum += count * *loss;
        samples += count;
    }
    assert_ok(yk_mean_over_ranks(loss, s->group, samples > 0 ? sum / samples : 0, samples));
}

static void run_step(const setting *s, yk_model *model, int step, double *loss)
{
    const int sizes[STEPS] = {4, 4, 2, 4, 2}, size = sizes[step];
    double rest;
    if (s->group)
        run_parts(s, model, step, size, loss);
    else if (s->micro_batches) {
        run(model, step, 0, 1, loss);
        run(model, step, 1, size - 1, &rest);
        *loss = (*loss + (size - 1) * rest) / size;
    } else
        run(model, step, 0, size, loss);
}

static void read_parameters(yk_model *model, outcome *o)
{
    o->parameters = NULL;
    o->count = 0;
    for (size_t i = 0; i < yk_model_parameter_count(model); i++) {
        const yk_tensor value = yk_model_parameter(model, i).value;
        size_t count = (size_t)yk_tensor_count(&value);
        float *numbers = malloc(count * sizeof *numbers);
        o->parameters = realloc(o->parameters, (o->count + count) * sizeof *o->parameters);
        assert_true(numbers && o->parameters);
        assert_ok(yk_tensor_read(&value, numbers));
        for (size_t k = 0; k < count; k++)
            o->parameters[o->count++] = (double)numbers[k];
        free(numbers);
    }
}

typedef struct training {
    yk_model *model;
    yk_ddp *ddp;
    yk_data_parallel *dp;
    yk_optimizer *optimizer;
    yk_zero *zero;
    yk_grad_scaler *scaler;
} training;

static training begin(const setting *s)
{
    training t = {.model = create_model(s)};
    if (s->group)
        assert_ok(yk_ddp_create(
            &t.ddp, t.model, s->group,
            YK_WITH(yk_ddp_options, YK_DDP_OPTIONS_INIT, o.virtual_ranks = s->virtual_ranks)));
    if (s->devices)
        assert_ok(
            yk_data_parallel_create(&t.dp, t.model,
                                    YK_WITH(yk_data_parallel_options, YK_DATA_PARALLEL_OPTIONS_INIT,
                                            o.devices = s->devices)));
    assert_ok(
        yk_sgd_create(&t.optimizer, t.model,
                      YK_WITH(yk_sgd_options, YK_SGD_OPTIONS_INIT, o.lr = 0.1, o.momentum = 0.9)));
    if (s->zero)
        assert_ok(yk_zero_create(&t.zero, t.optimizer, t.model, s->group));
    if (s->amp == YK_AMP_FP16)
        assert_ok(yk_grad_scaler_create(&t.scaler, t.model, NULL));
    if (s->micro_batches)
        yk_model_set_accumulation(t.model, YK_ACCUMULATION_MEAN);
    return t;
}

static void end(training *t)
{
    yk_grad_scaler_destroy(t->scaler);
    yk_zero_destroy(t->zero);
    yk_optimizer_destroy(t->optimizer);
    yk_data_parallel_destroy(t->dp);
    yk_ddp_destroy(t->ddp);
    yk_model_destroy(t->model);
}

static void resume(const setting *s, training *t)
{
    char path[256];                         /* rank 0's */
    yk_training_state state = {.epoch = 0}; /* with it, the file keeps where dropout is */
    snprintf(path, sizeof path, "%s", yk_test_path("transformer.pth"));
    if (s->zero)
        assert_ok(yk_zero_consolidate(t->zero));
    if (yk_group_rank(s->group) <= 0)
        assert_ok(yk_checkpoint_save(path, t->model, t->optimizer, &state));
    if (s->group)
        assert_ok(yk_broadcast(s->group, path, sizeof path, YK_U8, 0, NULL));
    end(t);
    *t = begin(s);
    assert_ok(yk_checkpoint_load(path, t->model, t->optimizer, &state));
}

static outcome train(const setting *s)
{
    outcome result;
    training t = begin(s);
    for (int step = 0; step < STEPS; step++) {
        if (step > 0 && step == s->resume_at)
            resume(s, &t);
        run_step(s, t.model, step, &result.losses[step]);
        if (t.scaler) {
            assert_ok(yk_grad_scaler_step(t.scaler, t.optimizer));
            assert_ok(yk_grad_scaler_update(t.scaler));
        } else
            assert_ok(yk_optimizer_step(t.optimizer));
    }
    read_parameters(t.model, &result);
    end(&t);
    return result;
}

/* ---- comparing ------------------------------------------------------------------------------- */

/* All ranks end with the bits of rank 0. */
static void compare_ranks(const setting *s, const outcome *got)
{
    const size_t bytes = got->count * sizeof *got->parameters;
    double *first = malloc(bytes);
    assert_non_null(first);
    memcpy(first, got->parameters, bytes);
    assert_ok(yk_broadcast(s->group, first, got->count, YK_F64, 0, NULL));
    assert_memory_equal(got->parameters, first, bytes);
    free(first);
}

static void compare(const setting *s, double tolerance)
{
    outcome got = train(s);
    outcome expected = train(&(setting){.device = "ref", .threads = 1, .dropout = s->dropout});
    assert_true(expected.losses[0] - expected.losses[STEPS - 1] > 0.1); /* it learns */
    for (int step = 0; step < STEPS; step++)
        assert_float_equal(got.losses[step], expected.losses[step], tolerance);
    assert_int_equal(got.count, expected.count);
    for (size_t i = 0; i < got.count; i++)
        if (!(fabs(got.parameters[i] - expected.parameters[i]) <= tolerance))
            fail_msg("number %zu: %g, expected %g", i, got.parameters[i], expected.parameters[i]);
    if (s->group)
        compare_ranks(s, &got);
    free(expected.parameters);
    free(got.parameters);
}

static void compare_bits(const setting *a, const setting *b)
{
    outcome left = train(a), right = train(b);
    assert_int_equal(left.count, right.count);
    assert_memory_equal(left.parameters, right.parameters, left.count * sizeof *left.parameters);
    free(left.parameters);
    free(right.parameters);
}

YK_TEST(a_transformer_learns_alike_on_every_device)
{
    for (int threads = 1; threads <= 3; threads++)
        compare(&(setting){.device = "cpu", .threads = threads}, 2e-5);
    compare(&(setting){.device = "sim", .threads = 1}, 2e-5);
}

YK_TEST(a_transformer_drops_the_same_weights_on_every_device)
{
    for (int threads = 1; threads <= 3; threads++)
        compare(&(setting){.device = "cpu", .threads = threads, .dropout = 0.3}, 2e-5);
    compare(&(setting){.device = "sim", .threads = 1, .dropout = 0.3}, 2e-5);
}

/* The loss of the first batch. */
static double loss_of(yk_model *model)
{
    double loss;
    run(model, 0, 0, MOST, &loss);
    return loss;
}

YK_TEST(attention_drops_other_weights_in_every_step_and_none_in_evaluation)
{
    static const char *const devices[] = {"ref", "cpu", "sim"};
    for (int d = 0; d < 3; d++) {
        yk_model *model = create_model(&(setting){.device = devices[d], .threads = 1});
        yk_model *dropping =
            create_model(&(setting){.device = devices[d], .threads = 1, .dropout = 0.3});
        double first = loss_of(dropping);
        assert_true(fabs(loss_of(dropping) - first) > 1e-4);
        assert_true(fabs(loss_of(model) - first) > 1e-4);
        yk_model_eval(model);
        yk_model_eval(dropping);
        assert_true(loss_of(dropping) == loss_of(model));
        yk_model_destroy(model);
        yk_model_destroy(dropping);
    }
}

YK_TEST(a_transformer_learns_alike_from_micro_batches)
{
    compare(&(setting){.device = "cpu", .threads = 2, .micro_batches = true}, 2e-5);
    compare(&(setting){.device = "sim", .threads = 1, .micro_batches = true}, 2e-5);
}

YK_TEST(a_transformer_learns_the_same_bits_with_less_memory)
{
    setting s = {.device = "cpu", .threads = 2, .dropout = 0.3}, other = s;
    other.recompute = true;
    compare_bits(&s, &other);
}

YK_TEST(a_transformer_learns_the_same_bits_when_it_is_resumed)
{
    for (int step = 1; step < STEPS; step++) {
        setting s = {.device = "cpu", .threads = 2, .dropout = 0.3}, other = s;
        other.resume_at = step;
        compare_bits(&s, &other);
    }
}

YK_TEST(a_transformer_learns_alike_on_several_devices)
{
    compare(&(setting){.device = "cpu", .threads = 1, .devices = "cpu:0,cpu:1,cpu:2"}, 2e-5);
    compare(&(setting){.device = "sim:0", .devices = "sim:0,sim:1", .threads = 1}, 2e-5);
}

YK_TEST(a_transformer_learns_in_16_bits)
{
    compare(&(setting){.device = "cpu", .threads = 2, .amp = YK_AMP_BF16}, 0.05);
    compare(&(setting){.device = "cpu", .threads = 2, .amp = YK_AMP_FP16}, 0.01);
    compare(&(setting){.device = "sim", .threads = 1, .amp = YK_AMP_BF16}, 0.05);
}

/* On ranks of which some have no sample in some steps. */
static void learn_on_ranks(void)
{
    yk_group *group;
    assert_ok(yk_group_init(&group, NULL));
    setting s = {.device = "cpu", .threads = 1, .group = group}, other = s;
    compare(&s, 2e-5);
    other.device = "sim";
    compare(&other, 2e-5);
    s.dropout = 0.3; /* each rank draws its own masks */
    other = s;
    other.zero = true;
    compare_bits(&s, &other);
    other.resume_at = 3;
    compare_bits(&s, &other);
    yk_group_destroy(group);
}

YK_TEST_RANKS(a_transformer_learns_alike_on_two_ranks, 2)
{
    learn_on_ranks();
}

YK_TEST_RANKS(a_transformer_learns_alike_on_three_ranks, 3)
{
    learn_on_ranks();
}

YK_TEST_RANKS(a_transformer_learns_alike_on_four_ranks, 4)
{
    learn_on_ranks();
}

/* Each group of ranks has its own virtual ranks: first each rank alone, then both together. */
YK_TEST_RANKS(a_transformer_learns_the_same_bits_on_virtual_ranks, 2)
{
    yk_group *group, *alone;
    assert_ok(yk_group_init(&group, NULL));
    assert_ok(yk_group_split(&alone, group, rank, 0));
    const setting both = {.device = "cpu", .threads = 1, .dropout = 0.3, .group = group};
    setting one = both, shared = both;
    one.group = alone;
    one.virtual_ranks = 2;
    compare_bits(&both, &one);
    shared.virtual_ranks = 2;
    compare_bits(&both, &shared);
    yk_group_destroy(alone);
    yk_group_destroy(group);
}

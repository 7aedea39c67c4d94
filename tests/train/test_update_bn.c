/* Running statistics that are computed for given weights: yk_update_bn. */
#include <yoke/yoke.h>

#include <math.h>
#include <string.h>

#include "same.h"

enum { CHANNELS = 3, SIDE = 2, NUMBERS = CHANNELS * SIDE * SIDE, SAMPLES = 17, BATCH = 4 };

/* ---- data ------------------------------------------------------------------------------------ */

static void make_sample(int64_t index, float *x, int32_t *label)
{
    for (int i = 0; i < NUMBERS; i++)
        x[i] = (float)(sin(0.37 * (double)(index * NUMBERS + i)) + 0.1 * (double)index);
    *label = (int32_t)(index % 3);
}

/* data: the first sample that cannot be read. */
static yk_status read_sample(void *data, void *worker, int64_t index, yk_field_buffer *buffers)
{
    (void)worker;
    if (index >= *(const int64_t *)data)
        return YK_ERROR_IO;
    make_sample(index, buffers[0].data, buffers[1].data);
    return YK_OK;
}

static const int64_t never = YK_NEVER;

static yk_loader *create_loader(yk_group *group, int virtual_ranks, const int64_t *damaged)
{
    static const yk_field fields[] = {{"x", YK_FIELD_TENSOR, YK_F32, 3, {CHANNELS, SIDE, SIDE}},
                                      {"labels", YK_FIELD_TENSOR, YK_I32, 0, {0}}};
    yk_dataset_ops ops = YK_DATASET_OPS_INIT;
    yk_dataset *dataset;
    yk_loader *loader;
    ops.count = SAMPLES;
    ops.field_count = 2;
    ops.fields = fields;
    ops.read = read_sample;
    assert_ok(yk_dataset_create(&dataset, &ops, (void *)(uintptr_t)damaged));
    assert_ok(yk_loader_create(&loader, dataset,
                               YK_WITH(yk_loader_options, YK_LOADER_OPTIONS_INIT, o.group = group,
                                       o.batch_size = BATCH, o.virtual_ranks = virtual_ranks,
                                       o.exact = virtual_ranks == 0)));
    yk_dataset_destroy(dataset);
    return loader;
}

/* Samples first, first + stride, ... */
typedef struct samples {
    float x[SAMPLES * NUMBERS];
    int32_t labels[SAMPLES];
    yk_tensor tensors[2];
    yk_batch batch;
} samples;

static void add_samples(samples *s, int64_t first, int64_t stride, int64_t count)
{
    static const char *const names[] = {"x", "labels"};
    for (int64_t i = 0; i < count && first + i * stride < SAMPLES; i++, s->batch.size++)
        make_sample(first + i * stride, &s->x[s->batch.size * NUMBERS], &s->labels[s->batch.size]);
    int64_t size = s->batch.size;
    s->tensors[0] =
        (yk_tensor){.data = s->x, .dtype = YK_F32, .ndim = 4, .dims = {size, CHANNELS, SIDE, SIDE}};
    s->tensors[1] = (yk_tensor){.data = s->labels, .dtype = YK_I32, .ndim = 1, .dims = {size}};
    s->batch = (yk_batch){.size = size, .count = 2, .names = names, .tensors = s->tensors};
}

/* ---- models ---------------------------------------------------------------------------------- */

static yk_model *create_model(const char *device, double momentum, const char *frozen)
{
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "x", YK_F32, 4, (int64_t[]){YK_BATCH, CHANNELS, SIDE, SIDE});
    yk_value *labels = yk_input(graph, "labels", YK_I32, 1, (int64_t[]){YK_BATCH});
    x = yk_nn_batch_norm_with(
        x, "bn1",
        YK_WITH(yk_nn_batch_norm_options, YK_NN_BATCH_NORM_OPTIONS_INIT, o.momentum = momentum));
    x = yk_relu(yk_nn_conv2d(x, "conv", 5, 1, NULL));
    x = yk_nn_linear(yk_flatten(yk_nn_batch_norm(x, "bn2")), "fc", 3);
    if (frozen)
        assert_ok(yk_graph_set_trainable(graph, frozen, false, NULL));
    yk_model *model;
    assert_ok(yk_model_create(&model, yk_cross_entropy(x, labels, NULL),
                              YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT,
                                      o.device = yk_test_device(device), o.threads = 1)));
    return model;
}

static void train(yk_model *model)
{
    yk_optimizer *optimizer;
    assert_ok(yk_sgd_create(&optimizer, model, NULL));
    for (int64_t step = 0; step < 3; step++) {
        samples s = {.batch.size = 0};
        add_samples(&s, 5 * step, 1, 5);
        assert_ok(yk_model_forward(model, &s.batch));
        assert_ok(yk_model_backward(model));
        assert_ok(yk_optimizer_step(optimizer));
    }
    yk_optimizer_destroy(optimizer);
}

/* ---- what is expected ------------------------------------------------------------------------ */

enum { BUFFERS = 6, WIDEST = 5 };

/* Sums of the statistics of single batches, by another model: before a forward its statistics are
 * 0, and a momentum of 0.1 then leaves a tenth of the batch's. */
typedef struct expectation {
    yk_model *model;
    double sums[BUFFERS][WIDEST];
    int batches;
} expectation;

static void expect_batch(expectation *e, const yk_batch *batch)
{
    const float zeros[WIDEST] = {0};
    for (size_t b = 0; b < BUFFERS; b++) {
        yk_tensor buffer = yk_model_buffer(e->model, b).value;
        if (buffer.dtype == YK_F32)
            assert_ok(yk_tensor_write(&buffer, zeros));
    }
    assert_ok(yk_model_forward(e->model, batch));
    for (size_t b = 0; b < BUFFERS; b++) {
        yk_tensor buffer = yk_model_buffer(e->model, b).value;
        for (int64_t i = 0; i < yk_tensor_count(&buffer); i++)
            e->sums[b][i] += 10 * yk_tensor_get(&buffer, i);
    }
    e->batches++;
}

static void begin_expectation(expectation *e, const yk_model *like)
{
    *e = (expectation){.model = create_model("ref", 0.1, NULL)};
    assert_ok(yk_model_copy_values(e->model, like, NULL));
}

/* first: the buffer to begin with. */
static void assert_expected(const expectation *e, const yk_model *model, size_t first)
{
    for (size_t b = first; b < BUFFERS; b++) {
        yk_parameter_view view = yk_model_buffer(model, b);
        yk_tensor buffer = yk_test_on_host(view.value);
        for (int64_t i = 0; i < yk_tensor_count(&buffer); i++) {
            bool counts = buffer.dtype == YK_I64;
            double found = yk_tensor_get(&buffer, i);
            double expected = counts ? e->batches : e->sums[b][i] / e->batches;
            if (!(fabs(found - expected) <= 2e-6 * (1 + fabs(expected))))
                fail_msg("%s[%d] is %.9g, expected %.9g", view.name, (int)i, found, expected);
        }
    }
}

static void end_expectation(expectation *e)
{
    yk_model_destroy(e->model);
}

/* ---- one process ----------------------------------------------------------------------------- */

YK_TEST(statistics_become_means_over_batches)
{
    static const char *const devices[] = {"ref", "cpu", "sim"};
    for (int d = 0; d < 3; d++) {
        expectation e;
        yk_model *model = create_model(devices[d], 0.1, NULL);
        yk_loader *loader = create_loader(NULL, 0, &never);
        train(model);
        begin_expectation(&e, model);
        for (int64_t first = 0; first < SAMPLES; first += BATCH) {
            samples s = {.batch.size = 0};
            add_samples(&s, first, 1, BATCH);
            expect_batch(&e, &s.batch);
        }
        for (int again = 0; again < 2; again++) {
            assert_ok(yk_update_bn(model, loader, NULL, NULL));
            assert_expected(&e, model, 0);
        }
        end_expectation(&e);
        yk_loader_destroy(loader);
        yk_model_destroy(model);
    }
}

/* Neither the next step nor the mode depends on it. */
YK_TEST(training_goes_on_as_if_nothing_had_been)
{
    for (int evaluation = 0; evaluation < 2; evaluation++) {
        samples s = {.batch.size = 0};
        yk_model *model = create_model("cpu", 0.1, NULL), *other = create_model("cpu", 0.1, NULL);
        yk_loader *loader = create_loader(NULL, 0, &never);
        train(model);
        train(other);
        if (evaluation) {
            yk_model_eval(model);
            yk_model_eval(other);
        }
        assert_ok(yk_update_bn(model, loader, NULL, NULL));
        assert_same_grads(model, other);
        assert_int_equal(yk_model_forwards(model), yk_model_forwards(other));
        assert_status(YK_ERROR_INVALID_ARGUMENT, yk_model_backward(model));
        for (size_t b = 0; b < BUFFERS; b++) {
            yk_tensor to = yk_model_buffer(other, b).value;
            assert_ok(yk_tensor_write(&to, yk_model_buffer(model, b).value.data));
        }
        add_samples(&s, 2, 3, 5);
        assert_ok(yk_model_forward(model, &s.batch));
        assert_ok(yk_model_forward(other, &s.batch));
        assert_true(yk_model_loss(model) == yk_model_loss(other));
        assert_same_values(model, other);
        yk_loader_destroy(loader);
        yk_model_destroy(model);
        yk_model_destroy(other);
    }
}

YK_TEST(norms_that_keep_their_statistics_still_do)
{
    for (int frozen = 0; frozen < 2; frozen++) {
        yk_model *model = create_model("cpu", frozen ? 0.1 : 0, frozen ? "bn1.*" : NULL);
        yk_model *before = create_model("cpu", 0.1, NULL);
        yk_loader *loader = create_loader(NULL, 0, &never);
        train(model);
        assert_ok(yk_model_copy_values(before, model, NULL));
        assert_ok(yk_update_bn(model, loader, NULL, NULL));
        for (size_t b = 0; b < BUFFERS; b++) {
            yk_tensor old = yk_model_buffer(before, b).value;
            yk_tensor new = yk_model_buffer(model, b).value;
            bool same = memcmp(old.data, new.data, yk_tensor_bytes(&new)) == 0;
            assert_int_equal(same, b < 2 || (frozen && b == 2)); /* the third counts forwards */
        }
        yk_loader_destroy(loader);
        yk_model_destroy(before);
        yk_model_destroy(model);
    }
}

/* The model's own statistics are for its own weights; the counts, the last of three buffers, are
 * not averaged. */
YK_TEST(an_average_gets_statistics_of_its_own)
{
    yk_optimizer *optimizer;
    yk_ema *ema;
    expectation e;
    yk_model *model = create_model("cpu", 0.1, NULL), *own = create_model("cpu", 0.1, NULL);
    yk_loader *loader = create_loader(NULL, 0, &never);
    assert_ok(yk_sgd_create(&optimizer, model, NULL));
    assert_ok(yk_ema_create(
        &ema, optimizer,
        YK_WITH(yk_ema_options, YK_EMA_OPTIONS_INIT, o.equal = true, o.use_buffers = true)));
    for (int i = 0; i < 2; i++) {
        train(model);
        assert_ok(yk_ema_update(ema));
    }
    assert_ok(yk_model_copy_values(own, model, NULL));
    assert_ok(yk_ema_swap(ema));
    begin_expectation(&e, model);
    for (int64_t first = 0; first < SAMPLES; first += BATCH) {
        samples s = {.batch.size = 0};
        add_samples(&s, first, 1, BATCH);
        expect_batch(&e, &s.batch);
    }
    assert_ok(yk_update_bn(model, loader, NULL, NULL));
    assert_expected(&e, model, 0);
    assert_ok(yk_ema_swap(ema));
    for (size_t b = 0; b < BUFFERS; b++)
        if (b % 3 != 2)
            assert_same_tensor("a statistic", yk_model_buffer(model, b).value,
                               yk_model_buffer(own, b).value);
    end_expectation(&e);
    yk_loader_destroy(loader);
    yk_ema_destroy(ema);
    yk_optimizer_destroy(optimizer);
    yk_model_destroy(own);
    yk_model_destroy(model);
}

/* ---- several ranks --------------------------------------------------------------------------- */

static void assert_same_on_all_ranks(const yk_model *model, yk_group *group)
{
    for (size_t b = 0; b < BUFFERS; b++) {
        yk_parameter_view view = yk_model_buffer(model, b);
        for (int64_t i = 0; i < yk_tensor_count(&view.value); i++) {
            double own = yk_tensor_get(&view.value, i), least = own;
            assert_ok(yk_all_reduce(group, &least, 1, YK_F64, YK_REDUCE_MIN, NULL));
            if (!(own == least))
                fail_msg("%s[%d] is %.9g, on another rank %.9g", view.name, (int)i, own, least);
        }
    }
}

/* Rank 0 has 9 samples, one batch more than rank 1 with its 8. */
YK_TEST_RANKS(the_batches_of_all_ranks_count, 2)
{
    yk_group *group;
    yk_ddp *ddp;
    expectation e;
    assert_ok(yk_group_init(&group, NULL));
    yk_model *model = create_model("cpu", 0.1, NULL);
    yk_loader *loader = create_loader(group, 0, &never);
    assert_int_equal(yk_loader_batches(loader), rank == 0 ? 3 : 2);
    assert_ok(yk_ddp_create(&ddp, model, group, NULL));
    train(model);
    begin_expectation(&e, model);
    for (int r = 0; r < world; r++)
        for (int64_t first = r; first < SAMPLES; first += world * BATCH) {
            samples s = {.batch.size = 0};
            add_samples(&s, first, world, BATCH);
            expect_batch(&e, &s.batch);
        }
    assert_int_equal(e.batches, 5);
    assert_ok(yk_update_bn(
        model, loader, YK_WITH(yk_update_bn_options, YK_UPDATE_BN_OPTIONS_INIT, o.group = group),
        NULL));
    assert_expected(&e, model, 0);
    assert_same_on_all_ranks(model, group);
    train(model);
    end_expectation(&e);
    yk_ddp_destroy(ddp);
    yk_loader_destroy(loader);
    yk_model_destroy(model);
    yk_group_destroy(group);
}

/* A batch is what all ranks have in a round. */
YK_TEST_RANKS(synchronised_norms_measure_joint_batches, 2)
{
    yk_group *group;
    yk_ddp *ddp;
    expectation e;
    assert_ok(yk_group_init(&group, NULL));
    yk_model *model = create_model("cpu", 0.1, NULL);
    yk_loader *loader = create_loader(group, 0, &never);
    assert_ok(yk_sync_batch_norm_convert(model, group));
    assert_ok(yk_ddp_create(&ddp, model, group, NULL));
    train(model);
    begin_expectation(&e, model);
    for (int64_t first = 0; first < SAMPLES; first += world * BATCH) {
        samples s = {.batch.size = 0};
        for (int r = 0; r < world; r++)
            add_samples(&s, first + r, world, BATCH);
        expect_batch(&e, &s.batch);
    }
    assert_int_equal(e.batches, 3);
    assert_ok(yk_update_bn(
        model, loader, YK_WITH(yk_update_bn_options, YK_UPDATE_BN_OPTIONS_INIT, o.group = group),
        NULL));
    assert_expected(&e, model, 0);
    assert_same_on_all_ranks(model, group);
    end_expectation(&e);
    yk_ddp_destroy(ddp);
    yk_loader_destroy(loader);
    yk_model_destroy(model);
    yk_group_destroy(group);
}

YK_TEST_RANKS(virtual_ranks_have_the_bits_of_one_process, 2)
{
    yk_group *group;
    assert_ok(yk_group_init(&group, NULL));
    yk_model *model = create_model("cpu", 0.1, NULL), *alone = create_model("cpu", 0.1, NULL);
    yk_loader *shared = create_loader(group, 4, &never), *whole = create_loader(NULL, 4, &never);
    assert_int_equal(yk_loader_virtual_ranks(shared), 2);
    assert_ok(yk_update_bn(
        model, shared, YK_WITH(yk_update_bn_options, YK_UPDATE_BN_OPTIONS_INIT, o.group = group),
        NULL));
    assert_ok(yk_update_bn(alone, whole, NULL, NULL));
    assert_same_values(model, alone);
    yk_loader_destroy(shared);
    yk_loader_destroy(whole);
    yk_model_destroy(model);
    yk_model_destroy(alone);
    yk_group_destroy(group);
}

/* ---- without a result ------------------------------------------------------------------------ */

static bool stop_at_third(void *context)
{
    return ++*(int *)context == 3;
}

static void count_batches(void *context, int64_t done, int64_t batches)
{
    (void)context;
    assert_true(done >= 1 && done <= 3 && batches == 5);
}

YK_TEST(a_pass_that_is_stopped_changes_nothing)
{
    int asked = 0;
    bool stopped = false;
    yk_model *model = create_model("cpu", 0.1, NULL), *before = create_model("cpu", 0.1, NULL);
    yk_loader *loader = create_loader(NULL, 0, &never);
    train(model);
    train(before);
    yk_update_bn_options options = YK_UPDATE_BN_OPTIONS_INIT;
    options.should_stop = stop_at_third;
    options.on_batch = count_batches;
    options.context = &asked;
    assert_ok(yk_update_bn(model, loader, &options, &stopped));
    assert_true(stopped);
    assert_int_equal(asked, 3);
    assert_same_values(model, before);
    assert_ok(yk_update_bn(model, loader, NULL, &stopped));
    assert_false(stopped);
    yk_loader_destroy(loader);
    yk_model_destroy(model);
    yk_model_destroy(before);
}

YK_TEST(a_pass_that_fails_changes_nothing)
{
    const int64_t damaged = 2 * BATCH + 1;
    yk_model *model = create_model("cpu", 0.1, NULL), *before = create_model("cpu", 0.1, NULL);
    yk_loader *loader = create_loader(NULL, 0, &damaged);
    train(model);
    train(before);
    assert_status(YK_ERROR_IO, yk_update_bn(model, loader, NULL, NULL));
    assert_same_values(model, before);
    yk_loader_destroy(loader);
    yk_model_destroy(model);
    yk_model_destroy(before);
}

YK_TEST(misuse_of_an_update_is_an_error)
{
    bool stopped = true;
    yk_graph *graph = yk_graph_create();
    yk_model_options options = YK_MODEL_OPTIONS_INIT;
    options.logits = yk_nn_batch_norm(
        yk_input(graph, "x", YK_F32, 4, (int64_t[]){YK_BATCH, CHANNELS, SIDE, SIDE}), "bn");
    yk_model *inference, *model = create_model("cpu", 0.1, NULL);
    assert_ok(yk_model_create(&inference, NULL, &options));
    yk_loader *loader = create_loader(NULL, 0, &never);
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_update_bn(NULL, loader, NULL, &stopped));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_update_bn(model, NULL, NULL, &stopped));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_update_bn(inference, loader, NULL, NULL));
    assert_contains(yk_last_error(), "for inference alone");
    yk_loader_destroy(loader);
    yk_model_destroy(inference);
    yk_model_destroy(model);
}

/* Evaluation where labels are those of pixels or tokens, and where some do not count. */
#include <yoke/yoke.h>

#include <math.h>
#include <string.h>

#include "harness.h"

enum { SAMPLES = 7, BATCH = 2, CLASSES = 6, SIDE = 3, PIXELS = SIDE * SIDE, IGNORED = 255 };

/* ---- data ------------------------------------------------------------------------------------ */

static float score(int64_t sample, int64_t class, int64_t pixel)
{
    return (float)fmod(97.31 * sin(1.7 * (double)((sample * CLASSES + class) * PIXELS + pixel)), 1);
}

/* Every third pixel has no label, and neither has any of the second batch. */
static int32_t label(int64_t sample, int64_t pixel)
{
    bool none = sample / BATCH == 1 || (sample + pixel) % 3 == 0;
    return none ? IGNORED : (int32_t)((sample + pixel / 2) % (CLASSES - 1));
}

static yk_status read_pixels(void *data, void *worker, int64_t index, yk_field_buffer *buffers)
{
    (void)data, (void)worker;
    for (int64_t c = 0; c < CLASSES; c++)
        for (int64_t p = 0; p < PIXELS; p++)
            ((float *)buffers[0].data)[c * PIXELS + p] = score(index, c, p);
    for (int64_t p = 0; p < PIXELS; p++)
        ((int32_t *)buffers[1].data)[p] = label(index, p);
    return YK_OK;
}

typedef yk_status read_fn(void *data, void *worker, int64_t index, yk_field_buffer *buffers);

/* Of samples with two fields. */
static yk_loader *open_loader(const yk_field *fields, read_fn *read, void *data, yk_group *group)
{
    yk_dataset_ops ops = YK_DATASET_OPS_INIT;
    yk_dataset *dataset;
    yk_loader *loader;
    ops.count = SAMPLES;
    ops.field_count = 2;
    ops.fields = fields;
    ops.read = read;
    assert_ok(yk_dataset_create(&dataset, &ops, data));
    assert_ok(yk_loader_create(&loader, dataset,
                               YK_WITH(yk_loader_options, YK_LOADER_OPTIONS_INIT, o.group = group,
                                       o.batch_size = BATCH, o.exact = true)));
    yk_dataset_destroy(dataset);
    return loader;
}

static yk_loader *create_loader(yk_group *group)
{
    static const yk_field fields[] = {{"images", YK_FIELD_TENSOR, YK_F32, 3, {CLASSES, SIDE, SIDE}},
                                      {"labels", YK_FIELD_TENSOR, YK_I32, 2, {SIDE, SIDE}}};
    return open_loader(fields, read_pixels, NULL, group);
}

/* The images are the logits, times a factor of 1. */
static yk_model *create_model(const char *device)
{
    yk_graph *graph = yk_graph_create();
    yk_value *images =
        yk_input(graph, "images", YK_F32, 4, (int64_t[]){YK_BATCH, CLASSES, SIDE, SIDE});
    yk_value *labels = yk_input(graph, "labels", YK_I32, 3, (int64_t[]){YK_BATCH, SIDE, SIDE});
    yk_value *factor = yk_parameter(graph, "factor", YK_F32, 1, (int64_t[]){1}, YK_INIT_ONES, 0);
    yk_value *logits = yk_multiply(images, factor);
    yk_value *loss = yk_cross_entropy(
        logits, labels,
        YK_WITH(yk_cross_entropy_options, YK_CROSS_ENTROPY_OPTIONS_INIT, o.ignore_index = IGNORED));
    yk_model *model;
    assert_ok(yk_model_create(&model, loss,
                              YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT,
                                      o.device = yk_test_device(device), o.logits = logits)));
    return model;
}

/* ---- what is expected ------------------------------------------------------------------------ */

typedef struct expectation {
    double loss;
    int64_t count, correct, top5, confusion[CLASSES * CLASSES];
} expectation;

static void expect_pixel(expectation *e, int64_t sample, int64_t pixel)
{
    int64_t best = 0, own = label(sample, pixel), larger = 0;
    double sum = 0;
    if (own == IGNORED)
        return;
    for (int64_t c = 0; c < CLASSES; c++) {
        sum += exp((double)score(sample, c, pixel));
        larger += score(sample, c, pixel) > score(sample, own, pixel);
        if (score(sample, c, pixel) > score(sample, best, pixel))
            best = c;
    }
    e->loss += log(sum) - (double)score(sample, own, pixel);
    e->count++;
    e->correct += best == own;
    e->top5 += larger < 5;
    e->confusion[own * CLASSES + best]++;
}

static expectation expect(void)
{
    expectation e = {0};
    for (int64_t n = 0; n < SAMPLES; n++)
        for (int64_t p = 0; p < PIXELS; p++)
            expect_pixel(&e, n, p);
    e.loss /= (double)e.count;
    assert_true(e.correct > 0 && e.correct < e.top5 && e.top5 < e.count);
    return e;
}

static void check(yk_group *group, const char *device)
{
    const expectation e = expect();
    yk_evaluation result;
    int64_t confusion[CLASSES * CLASSES] = {0};
    yk_model *model = create_model(device);
    yk_loader *loader = create_loader(group);
    assert_ok(yk_evaluate(&result, model, loader,
                          YK_WITH(yk_evaluate_options, YK_EVALUATE_OPTIONS_INIT, o.group = group,
                                  o.confusion = confusion)));
    assert_float_equal(result.loss, e.loss, 1e-6);
    assert_int_equal(result.count, e.count);
    assert_int_equal(result.correct, e.correct);
    assert_true(result.accuracy == (double)e.correct / (double)e.count);
    assert_true(result.tta_accuracy == result.accuracy);
    assert_true(result.top5 == (double)e.top5 / (double)e.count);
    assert_memory_equal(confusion, e.confusion, sizeof confusion);
    yk_loader_destroy(loader);
    yk_model_destroy(model);
}

/* ---- pixels ---------------------------------------------------------------------------------- */

YK_TEST(pixels_with_a_label_count)
{
    check(NULL, "ref");
    check(NULL, "cpu");
    check(NULL, "sim");
}

YK_TEST_RANKS(ranks_count_pixels_as_one, 3)
{
    yk_group *group;
    assert_ok(yk_group_init(&group, NULL));
    check(group, "cpu");
    check(group, "sim");
    yk_group_destroy(group);
}

YK_TEST(correct_pixels_of_a_batch_are_counted)
{
    int64_t correct;
    expectation e = {0};
    yk_model *model = create_model("cpu");
    yk_loader *loader = create_loader(NULL);
    const yk_batch *batch = yk_loader_next(loader);
    assert_ok(yk_model_forward(model, batch));
    assert_ok(yk_count_correct(&correct, model, batch));
    for (int64_t n = 0; n < BATCH; n++)
        for (int64_t p = 0; p < PIXELS; p++)
            expect_pixel(&e, n, p);
    assert_int_equal(correct, e.correct);
    yk_loader_destroy(loader);
    yk_model_destroy(model);
}

YK_TEST(a_trainer_validates_on_pixels)
{
    const expectation e = expect();
    yk_evaluation result;
    yk_optimizer *optimizer;
    yk_trainer *trainer;
    yk_model *model = create_model("cpu");
    yk_loader *training = create_loader(NULL), *validation = create_loader(NULL);
    assert_ok(yk_sgd_create(&optimizer, model, NULL));
    assert_ok(yk_trainer_create(
        &trainer, model, optimizer, training,
        YK_WITH(yk_trainer_options, YK_TRAINER_OPTIONS_INIT, o.validation = validation)));
    assert_ok(yk_trainer_evaluate(trainer, &result, NULL));
    assert_int_equal(result.count, e.count);
    assert_true(yk_trainer_state(trainer)->val_accuracy == (double)e.correct / (double)e.count);
    yk_trainer_destroy(trainer);
    yk_optimizer_destroy(optimizer);
    yk_loader_destroy(training);
    yk_loader_destroy(validation);
    yk_model_destroy(model);
}

YK_TEST(pixels_have_no_test_time_augmentation)
{
    yk_evaluation result;
    yk_model *model = create_model("cpu");
    yk_loader *loader = create_loader(NULL);
    assert_status(
        YK_ERROR_INVALID_SHAPE,
        yk_evaluate(&result, model, loader,
                    YK_WITH(yk_evaluate_options, YK_EVALUATE_OPTIONS_INIT, o.tta = YK_TTA_MIRROR)));
    assert_contains(yk_last_error(), "expected logits of shape (N, C)");
    yk_loader_destroy(loader);
    yk_model_destroy(model);
}

/* ---- tokens ---------------------------------------------------------------------------------- */

/* As many tokens as classes: the shape does not tell which dimension is which. */
static yk_status read_tokens(void *data, void *worker, int64_t index, yk_field_buffer *buffers)
{
    (void)data, (void)worker;
    for (int64_t t = 0; t < CLASSES; t++) {
        for (int64_t c = 0; c < CLASSES; c++)
            ((float *)buffers[0].data)[t * CLASSES + c] = score(index, c, t);
        ((int32_t *)buffers[1].data)[t] = label(index, t);
    }
    return YK_OK;
}

YK_TEST(tokens_with_a_label_count)
{
    static const yk_field fields[] = {{"tokens", YK_FIELD_TENSOR, YK_F32, 2, {CLASSES, CLASSES}},
                                      {"labels", YK_FIELD_TENSOR, YK_I32, 1, {CLASSES}}};
    yk_loader *loader = open_loader(fields, read_tokens, NULL, NULL);
    yk_model *model;
    yk_evaluation result;
    expectation e = {0};
    for (int64_t n = 0; n < SAMPLES; n++)
        for (int64_t t = 0; t < CLASSES; t++)
            expect_pixel(&e, n, t);
    yk_graph *graph = yk_graph_create();
    yk_value *tokens =
        yk_input(graph, "tokens", YK_F32, 3, (int64_t[]){YK_BATCH, CLASSES, CLASSES});
    yk_value *labels = yk_input(graph, "labels", YK_I32, 2, (int64_t[]){YK_BATCH, CLASSES});
    yk_value *loss =
        yk_cross_entropy(tokens, labels,
                         YK_WITH(yk_cross_entropy_options, YK_CROSS_ENTROPY_OPTIONS_INIT,
                                 o.ignore_index = IGNORED, o.class_dim = -1));
    assert_ok(yk_model_create(&model, loss,
                              YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.logits = tokens)));
    assert_ok(yk_evaluate(&result, model, loader, NULL));
    assert_int_equal(result.count, e.count);
    assert_int_equal(result.correct, e.correct);
    assert_true(result.top5 == (double)e.top5 / (double)e.count);
    assert_float_equal(result.loss, e.loss / (double)e.count, 1e-6);
    yk_model_destroy(model);
    yk_loader_destroy(loader);
}

/* ---- samples --------------------------------------------------------------------------------- */

static yk_status read_sample(void *data, void *worker, int64_t index, yk_field_buffer *buffers)
{
    (void)worker;
    for (int64_t c = 0; c < CLASSES; c++)
        ((float *)buffers[0].data)[c] = score(index, c, 0);
    *(int32_t *)buffers[1].data = ((const int32_t *)data)[index];
    return YK_OK;
}

/* labels: of the samples, for two losses that ignore these. */
static yk_evaluation evaluate_samples(int32_t *labels, int64_t first, int64_t second)
{
    static const yk_field fields[] = {{"images", YK_FIELD_TENSOR, YK_F32, 1, {CLASSES}},
                                      {"labels", YK_FIELD_TENSOR, YK_I32, 0, {0}}};
    yk_loader *loader = open_loader(fields, read_sample, labels, NULL);
    yk_evaluation result;
    yk_graph *graph = yk_graph_create();
    yk_value *images = yk_input(graph, "images", YK_F32, 2, (int64_t[]){YK_BATCH, CLASSES});
    yk_value *classes = yk_input(graph, "labels", YK_I32, 1, (int64_t[]){YK_BATCH});
    yk_cross_entropy_options options = YK_CROSS_ENTROPY_OPTIONS_INIT;
    options.ignore_index = first;
    yk_value *loss = yk_cross_entropy(images, classes, &options);
    options.ignore_index = second;
    loss = yk_scale(yk_add(loss, yk_cross_entropy(images, classes, &options)), 0.5);
    yk_model *model;
    assert_ok(yk_model_create(&model, loss,
                              YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.logits = images)));
    assert_ok(yk_evaluate(&result, model, loader, NULL));
    yk_model_destroy(model);
    yk_loader_destroy(loader);
    return result;
}

YK_TEST(samples_whose_label_is_ignored_do_not_count)
{
    int32_t labels[SAMPLES] = {3, -100, 1, -100, -100, -100, 0};
    double loss = 0;
    int64_t correct = 0;
    for (int64_t n = 0; n < SAMPLES; n += 2) {
        double sum = 0;
        int best = 0;
        for (int c = 0; c < CLASSES && labels[n] >= 0; c++) {
            sum += exp((double)score(n, c, 0));
            best = score(n, c, 0) > score(n, best, 0) ? c : best;
        }
        loss += labels[n] < 0 ? 0 : log(sum) - (double)score(n, labels[n], 0);
        correct += labels[n] >= 0 && best == labels[n];
    }
    yk_evaluation result = evaluate_samples(labels, -100, -100);
    assert_int_equal(result.count, 3);
    assert_int_equal(result.correct, correct);
    assert_float_equal(result.loss, loss / 3, 1e-6);
}

/* 0 is a class that one of the losses counts. */
YK_TEST(a_label_that_one_loss_counts_does)
{
    int32_t labels[SAMPLES] = {3, 0, 1, 2, 4, 5, 0};
    assert_int_equal(evaluate_samples(labels, 0, 0).count, SAMPLES - 2);
    assert_int_equal(evaluate_samples(labels, 0, 1).count, SAMPLES);
}

/* ---- intersection over union ----------------------------------------------------------------- */

YK_TEST(mean_iou_is_over_the_classes_that_occur)
{
    static const int64_t confusion[] = {2, 1, 0, 0, /* 2 of 3 */
                                        0, 3, 0, 0, /* 3 of 4 */
                                        0, 0, 0, 0, /* does not occur */
                                        0, 0, 0, 0};
    static const int64_t guessed[] = {0, 2, 0, 0}; /* both classes occur, and neither is right */
    assert_float_equal(yk_mean_iou(confusion, 4), (2.0 / 3 + 3.0 / 4) / 2, 1e-15);
    assert_true(yk_mean_iou(guessed, 2) == 0);
    assert_true(isnan(yk_mean_iou(confusion + 8, 1)));
    assert_true(isnan(yk_mean_iou(NULL, 3)));
    static const int64_t huge[] = {INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX};
    assert_float_equal(yk_mean_iou(huge, 2), 1.0 / 3, 1e-15);
}

/* Evaluation and the small functions that every training loop needs. */
#include <yoke/yoke.h>

#include <math.h>
#include <string.h>

#include "harness.h"

/* images (N, 3, 32, 32) -> logits (N, 10), without hidden layers: the logits can be foretold. */
static yk_model *create_model_on(const char *device)
{
    yk_graph *graph = yk_graph_create();
    yk_value *images = yk_input(graph, "images", YK_F32, 4, (int64_t[]){YK_BATCH, 3, 32, 32});
    yk_value *labels = yk_input(graph, "labels", YK_I32, 1, (int64_t[]){YK_BATCH});
    yk_value *logits = yk_nn_linear(yk_flatten(yk_nn_batch_norm(images, "bn")), "fc", 10);
    yk_model_options options = YK_MODEL_OPTIONS_INIT;
    options.logits = logits;
    options.threads = 1;
    options.device = device;
    yk_model *model;
    assert_ok(yk_model_create(&model, yk_cross_entropy(logits, labels, NULL), &options));
    return model;
}

static yk_model *create_model(void)
{
    return create_model_on("cpu");
}

/* The same answer for every image: this class. */
static void always_answer(yk_model *model, int answer)
{
    for (size_t i = 0; i < yk_model_parameter_count(model); i++) {
        yk_parameter_view parameter = yk_model_parameter(model, i);
        float *value = parameter.value.data;
        int64_t count = yk_tensor_count(&parameter.value);
        for (int64_t k = 0; k < count; k++)
            value[k] = count == 10 && k == answer ? 1 : 0;
    }
    yk_model_parameters_changed(model);
}

static yk_loader *create_loader(yk_dataset *dataset, yk_group *group)
{
    yk_loader *loader;
    assert_ok(yk_loader_create(&loader, dataset,
                               YK_WITH(yk_loader_options, YK_LOADER_OPTIONS_INIT, o.group = group,
                                       o.batch_size = 60, o.exact = true,
                                       o.transforms = YK_CIFAR10_NORMALIZE)));
    return loader;
}

static bool stop_at_third(void *context)
{
    return ++*(int *)context == 3;
}

/* Each batch is scored when the next one has been entered; the last is smaller. */
YK_TEST(an_evaluation_on_a_device_gives_the_bits_of_ref)
{
    static const char *const devices[] = {"ref", "sim"};
    yk_evaluation results[2];
    int64_t confusion[2][100] = {{0}};
    yk_dataset *dataset;
    assert_ok(yk_synthetic_create(
        &dataset, YK_SPLIT_TEST,
        YK_WITH(yk_synthetic_options, YK_SYNTHETIC_OPTIONS_INIT, o.count = 200)));
    for (int i = 0; i < 2; i++) {
        yk_model *model = create_model_on(devices[i]);
        yk_loader *loader = create_loader(dataset, NULL);
        for (int again = 0; again < 2; again++)
            assert_ok(yk_evaluate(&results[i], model, loader,
                                  YK_WITH(yk_evaluate_options, YK_EVALUATE_OPTIONS_INIT,
                                          o.confusion = confusion[i])));
        yk_loader_destroy(loader);
        yk_model_destroy(model);
    }
    assert_int_equal(results[1].count, 200);
    assert_true(results[1].loss > 0 && results[1].loss == results[0].loss);
    assert_int_equal(results[1].correct, results[0].correct);
    assert_true(results[1].top5 == results[0].top5);
    assert_true(results[1].tta_accuracy == results[1].accuracy);
    assert_memory_equal(confusion[1], confusion[0], sizeof confusion[0]);
    yk_dataset_destroy(dataset);
}

/* Class labels of a program's own tensors may be int64, as PyTorch's. */
YK_TEST(an_evaluation_takes_int64_labels)
{
    static float scores[][3] = {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}, {0, 2, 1}, {3, 0, 1}};
    static int64_t classes[] = {0, 1, 0, -100, 2};
    static const char *const names[] = {"x", "labels"};
    const yk_tensor tensors[] = {{.data = scores, .dtype = YK_F32, .ndim = 2, .dims = {5, 3}},
                                 {.data = classes, .dtype = YK_I64, .ndim = 1, .dims = {5}}};
    yk_graph *graph = yk_graph_create();
    yk_model_options options = YK_MODEL_OPTIONS_INIT;
    options.logits = yk_scale(yk_input(graph, "x", YK_F32, 2, (int64_t[]){YK_BATCH, 3}), 2);
    yk_value *labels = yk_input(graph, "labels", YK_I64, 1, (int64_t[]){YK_BATCH});
    yk_model *model;
    yk_dataset *dataset;
    yk_loader *loader;
    yk_evaluation result;
    int64_t confusion[9] = {0};
    assert_ok(yk_model_create(&model, yk_cross_entropy(options.logits, labels, NULL), &options));
    assert_ok(yk_tensor_dataset_create(&dataset, names, tensors, 2, 3));
    assert_ok(yk_loader_create(
        &loader, dataset,
        YK_WITH(yk_loader_options, YK_LOADER_OPTIONS_INIT, o.batch_size = 2, o.exact = true)));
    assert_ok(yk_evaluate(
        &result, model, loader,
        YK_WITH(yk_evaluate_options, YK_EVALUATE_OPTIONS_INIT, o.confusion = confusion)));
    assert_int_equal(result.correct, 2);
    assert_int_equal(confusion[0] + confusion[4], 2); /* samples 0 and 1 */
    assert_true(confusion[2] == 1 && confusion[6] == 1);
    yk_loader_destroy(loader);
    yk_dataset_destroy(dataset);
    yk_model_destroy(model);
}

YK_TEST(an_evaluation_counts_every_sample_once)
{
    yk_dataset *dataset;
    yk_evaluation result;
    assert_ok(yk_synthetic_create(&dataset, YK_SPLIT_TEST, NULL));
    yk_model *model = create_model();
    yk_loader *loader = create_loader(dataset, NULL);
    int64_t total = 0;
    for (int class = 0; class < 10; class ++) {
        always_answer(model, class);
        assert_ok(yk_evaluate(&result, model, loader, NULL));
        assert_int_equal(result.count, 1000);
        assert_true(result.accuracy == (double)result.correct / 1000);
        assert_false(result.stopped);
        total += result.correct;
    }
    assert_int_equal(total, 1000);
    int asked = 0;
    yk_evaluate_options options = YK_EVALUATE_OPTIONS_INIT;
    options.should_stop = stop_at_third;
    options.context = &asked;
    assert_ok(yk_evaluate(&result, model, loader, &options));
    assert_true(result.stopped);
    assert_int_equal(asked, 3);
    yk_loader_destroy(loader);
    yk_model_destroy(model);
    yk_dataset_destroy(dataset);
}

/* The numbers that a progress line shows: every batch once, the last one of all. */
static void note_batch(void *context, int64_t done, int64_t batches)
{
    int64_t *last = context;
    assert_true(done == *last + 1 && done <= batches);
    *last = done;
}

YK_TEST(an_evaluation_tells_of_its_batches)
{
    yk_dataset *dataset;
    yk_evaluation result;
    int64_t last = 0;
    assert_ok(yk_synthetic_create(&dataset, YK_SPLIT_TEST, NULL));
    yk_model *model = create_model();
    yk_loader *loader = create_loader(dataset, NULL);
    yk_evaluate_options options = YK_EVALUATE_OPTIONS_INIT;
    options.on_batch = note_batch;
    options.context = &last;
    assert_ok(yk_evaluate(&result, model, loader, &options));
    assert_int_equal(last, yk_loader_batches(loader));
    yk_loader_destroy(loader);
    yk_model_destroy(model);
    yk_dataset_destroy(dataset);
}

/* Logit k is k, whatever the image: class 9 is the answer, and 5 to 9 are the largest five. */
static void check_counts(yk_group *group)
{
    yk_dataset *dataset;
    yk_evaluation result;
    int64_t confusion[100] = {0}, total = 0, upper = 0;
    assert_ok(yk_synthetic_create(&dataset, YK_SPLIT_TEST, NULL));
    yk_model *model = create_model();
    yk_loader *loader = create_loader(dataset, group);
    always_answer(model, 0);
    float *bias = yk_model_parameter(model, yk_model_parameter_count(model) - 1).value.data;
    for (int k = 0; k < 10; k++)
        bias[k] = (float)k;
    yk_model_parameters_changed(model);
    assert_ok(yk_evaluate(&result, model, loader,
                          YK_WITH(yk_evaluate_options, YK_EVALUATE_OPTIONS_INIT, o.group = group,
                                  o.confusion = confusion)));
    for (int label = 0; label < 10; label++)
        for (int k = 0; k < 10; k++) {
            total += confusion[label * 10 + k];
            upper += label >= 5 ? confusion[label * 10 + k] : 0;
            assert_true(k == 9 || confusion[label * 10 + k] == 0);
        }
    assert_int_equal(total, 1000);
    assert_int_equal(confusion[99], result.correct);
    assert_true(result.top5 == (double)upper / 1000);
    yk_loader_destroy(loader);
    yk_model_destroy(model);
    yk_dataset_destroy(dataset);
}

YK_TEST(an_evaluation_counts_by_class_and_the_largest_five)
{
    check_counts(NULL);
}

YK_TEST_RANKS(ranks_count_by_class_as_one, 3)
{
    yk_group *group;
    (void)rank;
    (void)world;
    assert_ok(yk_group_init(&group, NULL));
    check_counts(group);
    yk_group_destroy(group);
}

/* ---- test-time augmentation ------------------------------------------------------------------ */

enum { SIDE = 32, CLASSES = 10, PIXELS = 3 * SIDE * SIDE };

static int reflected(int at)
{
    return at < 0 ? -at : at >= SIDE ? 2 * (SIDE - 1) - at : at;
}

/* images (3, SIDE, SIDE): adds to logits the linear model's of one view, times its share. */
static void add_logits(double *logits, const float *image, const float *weight, int move,
                       bool mirrored, double share)
{
    for (int k = 0; k < CLASSES; k++)
        for (int i = 0; i < PIXELS; i++) {
            int c = i / (SIDE * SIDE), y = i / SIDE % SIDE, x = i % SIDE;
            int column = mirrored ? SIDE - 1 - x : x;
            float pixel = image[(c * SIDE + reflected(y + move)) * SIDE + reflected(column + move)];
            logits[k] += share * (double)(weight[k * PIXELS + i] * pixel);
        }
}

static int largest(const double *logits)
{
    int best = 0;
    for (int k = 1; k < CLASSES; k++)
        if (logits[k] > logits[best])
            best = k;
    return best;
}

static double probability(const double *logits)
{
    double sum = 0;
    for (int k = 0; k < CLASSES; k++)
        sum += exp(logits[k] - logits[largest(logits)]);
    return 1 / sum;
}

/* Correct answers by mean logits where the image itself has a lower probability than `confidence`;
 * this rank sees all images. */
static int64_t count_views(yk_loader *loader, const float *weight, yk_tta tta, double confidence)
{
    int64_t correct = 0;
    const yk_batch *batch;
    while ((batch = yk_loader_next(loader)))
        for (int64_t n = 0; n < batch->size; n++) {
            const float *image = (const float *)batch->tensors[0].data + n * PIXELS;
            double plain[CLASSES] = {0}, mean[CLASSES] = {0};
            add_logits(plain, image, weight, 0, false, 1);
            for (int mirrored = 0; mirrored < 2; mirrored++)
                for (int move = -1; move < 2; move++)
                    if (move == 0 || tta == YK_TTA_TRANSLATE)
                        add_logits(mean, image, weight, move, mirrored,
                                   tta == YK_TTA_MIRROR ? 0.5
                                   : move               ? 0.125
                                                        : 0.25);
            bool certain = confidence < 1 && probability(plain) >= confidence;
            correct +=
                largest(certain ? plain : mean) == ((const int32_t *)batch->tensors[1].data)[n];
        }
    return correct;
}

/* A linear model without batch norm, whose logits the test computes itself. */
YK_TEST(augmented_accuracy_is_that_of_mean_logits)
{
    yk_dataset *dataset;
    yk_evaluation result;
    yk_graph *graph = yk_graph_create();
    yk_value *images = yk_input(graph, "images", YK_F32, 4, (int64_t[]){YK_BATCH, 3, SIDE, SIDE});
    yk_value *labels = yk_input(graph, "labels", YK_I32, 1, (int64_t[]){YK_BATCH});
    yk_value *weight = yk_parameter(graph, "weight", YK_F32, 2, (int64_t[]){CLASSES, PIXELS},
                                    YK_INIT_KAIMING_UNIFORM, 0);
    yk_value *logits = yk_linear(yk_flatten(images), weight, NULL);
    yk_model *model;
    assert_ok(yk_model_create(
        &model, yk_cross_entropy(logits, labels, NULL),
        YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.logits = logits, o.threads = 1)));
    assert_ok(yk_synthetic_create(
        &dataset, YK_SPLIT_TEST,
        YK_WITH(yk_synthetic_options, YK_SYNTHETIC_OPTIONS_INIT, o.count = 150)));
    yk_loader *loader = create_loader(dataset, NULL);
    assert_ok(yk_evaluate(&result, model, loader, NULL));
    double plain = result.accuracy;
    assert_true(result.tta_accuracy == plain);
    const struct {
        yk_tta tta;
        double confidence;
    } rows[] = {{YK_TTA_MIRROR, 1}, {YK_TTA_TRANSLATE, 1}, {YK_TTA_TRANSLATE, 0.3}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_ok(yk_evaluate(&result, model, loader,
                              YK_WITH(yk_evaluate_options, YK_EVALUATE_OPTIONS_INIT,
                                      o.tta = rows[i].tta, o.tta_confidence = rows[i].confidence)));
        assert_true(result.accuracy == plain);
        int64_t expected = count_views(loader, yk_model_parameter(model, 0).value.data, rows[i].tta,
                                       rows[i].confidence);
        assert_int_equal((int64_t)rint(150 * result.tta_accuracy), expected);
    }
    assert_status(
        YK_ERROR_INVALID_ARGUMENT,
        yk_evaluate(&result, model, loader,
                    YK_WITH(yk_evaluate_options, YK_EVALUATE_OPTIONS_INIT, o.tta_confidence = 2)));
    yk_loader_destroy(loader);
    yk_model_destroy(model);
    yk_dataset_destroy(dataset);
}

YK_TEST(the_tensor_of_a_batch_is_found_by_its_name)
{
    const yk_tensor tensors[2] = {{.ndim = 1}, {.ndim = 2}};
    const yk_batch batch = {
        .count = 2, .names = (const char *const[]){"images", "labels"}, .tensors = tensors};
    assert_ptr_equal(yk_batch_find(&batch, "images"), &tensors[0]);
    assert_ptr_equal(yk_batch_find(&batch, "labels"), &tensors[1]);
    assert_null(yk_batch_find(&batch, "targets"));
    assert_null(yk_batch_find(&batch, NULL));
    assert_null(yk_batch_find(NULL, "images"));
}

/* ---- what is no classifier ------------------------------------------------------------------- */

/* y = 2 x for x = index, and no labels. */
static yk_status read_pair(void *data, void *worker, int64_t index, yk_field_buffer *buffers)
{
    (void)data;
    (void)worker;
    *(float *)buffers[0].data = (float)index;
    *(float *)buffers[1].data = 2 * (float)index;
    return YK_OK;
}

static yk_loader *create_pairs(void)
{
    static const yk_field fields[] = {{"x", YK_FIELD_TENSOR, YK_F32, 1, {1}},
                                      {"y", YK_FIELD_TENSOR, YK_F32, 1, {1}}};
    yk_dataset_ops ops = YK_DATASET_OPS_INIT;
    yk_dataset *dataset;
    yk_loader *loader;
    ops.count = 5;
    ops.field_count = 2;
    ops.fields = fields;
    ops.read = read_pair;
    assert_ok(yk_dataset_create(&dataset, &ops, NULL));
    assert_ok(yk_loader_create(
        &loader, dataset, YK_WITH(yk_loader_options, YK_LOADER_OPTIONS_INIT, o.batch_size = 2)));
    yk_dataset_destroy(dataset);
    return loader;
}

static yk_model *create_regression(const char *device, bool keeps_output)
{
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "x", YK_F32, 2, (int64_t[]){YK_BATCH, 1});
    yk_value *y = yk_input(graph, "y", YK_F32, 2, (int64_t[]){YK_BATCH, 1});
    yk_value *answer = yk_nn_linear(x, "fc", 1);
    yk_model_options options = YK_MODEL_OPTIONS_INIT;
    options.device = device;
    options.logits = keeps_output ? answer : NULL;
    yk_model *model;
    assert_ok(yk_model_create(&model, yk_mse_loss(answer, y, YK_LOSS_MEAN), &options));
    for (size_t i = 0; i < 2; i++) {
        yk_parameter_view parameter = yk_model_parameter(model, i);
        assert_ok(yk_tensor_write(&parameter.value, &(float){0}));
    }
    yk_model_parameters_changed(model);
    return model;
}

YK_TEST(only_the_loss_of_a_regression_is_measured)
{
    static const char *const devices[] = {"ref", "sim"};
    for (int i = 0; i < 4; i++) {
        yk_evaluation result;
        int64_t confusion[1] = {0};
        yk_loader *loader = create_pairs();
        yk_model *model = create_regression(devices[i % 2], i < 2);
        for (int again = 0; again < 2; again++)
            assert_ok(yk_evaluate(&result, model, loader, NULL));
        assert_int_equal(result.count, 5);
        assert_true(result.loss == 4 * (0 + 1 + 4 + 9 + 16) / 5.0);
        assert_true(isnan(result.accuracy) && isnan(result.top5) && isnan(result.tta_accuracy));
        assert_status(YK_ERROR_INVALID_ARGUMENT,
                      yk_evaluate(&result, model, loader,
                                  YK_WITH(yk_evaluate_options, YK_EVALUATE_OPTIONS_INIT,
                                          o.confusion = confusion)));
        assert_contains(yk_last_error(), "confusion is for classifiers");
        yk_model_destroy(model);
        yk_loader_destroy(loader);
    }
}

YK_TEST(a_trainer_validates_a_regression_and_resumes)
{
    for (int run = 0; run < 2; run++) {
        bool resumed;
        yk_evaluation result;
        yk_loader *training = create_pairs(), *validation = create_pairs();
        yk_model *model = create_regression("cpu", true);
        yk_optimizer *optimizer;
        yk_trainer *trainer;
        assert_ok(yk_sgd_create(&optimizer, model, NULL));
        assert_ok(yk_trainer_create(&trainer, model, optimizer, training,
                                    YK_WITH(yk_trainer_options, YK_TRAINER_OPTIONS_INIT,
                                            o.validation = validation, o.epochs = run + 1,
                                            o.output = yk_test_directory())));
        assert_ok(yk_trainer_resume_latest(trainer, &resumed));
        assert_int_equal(resumed, run == 1);
        assert_ok(yk_trainer_fit(trainer));
        assert_int_equal(yk_trainer_state(trainer)->epoch, run + 1);
        assert_false(yk_trainer_owes_evaluation(trainer));
        assert_ok(yk_trainer_evaluate(trainer, &result, NULL));
        assert_true(result.loss < 24);
        yk_trainer_destroy(trainer);
        yk_optimizer_destroy(optimizer);
        yk_model_destroy(model);
        yk_loader_destroy(validation);
        yk_loader_destroy(training);
    }
}

YK_TEST(an_evaluation_after_one_that_was_stopped_starts_anew)
{
    int calls = 0;
    yk_evaluation whole, result;
    yk_dataset *dataset;
    assert_ok(yk_synthetic_create(&dataset, YK_SPLIT_TEST, NULL));
    yk_model *model = create_model();
    yk_loader *loader = create_loader(dataset, NULL);
    assert_ok(yk_evaluate(&whole, model, loader, NULL));
    yk_evaluate_options options = YK_EVALUATE_OPTIONS_INIT;
    options.should_stop = stop_at_third;
    options.context = &calls;
    assert_ok(yk_evaluate(&result, model, loader, &options));
    assert_true(result.stopped);
    assert_ok(yk_evaluate(&result, model, loader, NULL));
    assert_int_equal(result.count, 1000);
    assert_true(result.loss == whole.loss);
    assert_non_null(yk_loader_next(loader)); /* another reader */
    assert_ok(yk_evaluate(&result, model, loader, NULL));
    assert_true(result.loss == whole.loss);
    yk_loader_destroy(loader);
    yk_model_destroy(model);
    yk_dataset_destroy(dataset);
}

/* A network for four classes on images of ten: its forward reads no labels. */
YK_TEST(labels_beyond_the_logits_are_refused)
{
    int64_t confusion[16];
    yk_dataset *dataset;
    yk_evaluation result;
    yk_model *model;
    yk_graph *graph = yk_graph_create();
    yk_value *images = yk_input(graph, "images", YK_F32, 4, (int64_t[]){YK_BATCH, 3, 32, 32});
    yk_model_options options = YK_MODEL_OPTIONS_INIT;
    options.logits = yk_nn_linear(yk_flatten(images), "fc", 4);
    assert_ok(yk_model_create(&model, NULL, &options));
    assert_ok(yk_synthetic_create(&dataset, YK_SPLIT_TEST, NULL));
    yk_loader *loader = create_loader(dataset, NULL);
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_evaluate(&result, model, loader,
                              YK_WITH(yk_evaluate_options, YK_EVALUATE_OPTIONS_INIT,
                                      o.confusion = confusion)));
    assert_contains(yk_last_error(), "is outside 0..3");
    yk_loader_destroy(loader);
    yk_dataset_destroy(dataset);
    yk_model_destroy(model);
}

YK_TEST(misuse_of_an_evaluation_is_an_error)
{
    int64_t correct;
    yk_evaluation result;
    yk_model *model = create_model();
    assert_int_equal(yk_evaluate(&result, NULL, NULL, NULL), YK_ERROR_INVALID_ARGUMENT);
    assert_int_equal(yk_evaluate(&result, model, NULL, NULL), YK_ERROR_INVALID_ARGUMENT);
    assert_int_equal(yk_count_correct(&correct, NULL, NULL), YK_ERROR_INVALID_ARGUMENT);
    assert_int_equal(yk_count_correct(&correct, model, NULL), YK_ERROR_INVALID_ARGUMENT);
    assert_int_equal(yk_model_broadcast_buffers(NULL, NULL), YK_ERROR_INVALID_ARGUMENT);
    yk_model_destroy(model);
}

YK_TEST(signals_need_their_thread_first)
{
    assert_int_equal(yk_stop_on_signals(), YK_ERROR_INVALID_ARGUMENT);
    assert_contains(yk_last_error(), "call yk_stop_prepare first");
    assert_int_equal(yk_stop_signal(), 0);
}

/* Rank 0 calls something else, so nothing comes for the buffers of rank 1, which are in a device's
 * own memory. */
YK_TEST_RANKS(buffers_outlast_a_failed_broadcast, 2)
{
    enum { CHANNELS = 3 };
    const float before[CHANNELS] = {1, 2, 3};
    float after[CHANNELS];
    (void)world;
    yk_group *group;
    assert_ok(yk_group_init(&group, NULL));
    yk_model *model = create_model_on("sim");
    yk_tensor mean = yk_model_buffer(model, 0).value;
    assert_int_equal(yk_tensor_count(&mean), CHANNELS);
    assert_ok(yk_tensor_write(&mean, before));
    assert_status(YK_ERROR_MISMATCH,
                  rank == 0 ? yk_barrier(group) : yk_model_broadcast_buffers(model, group));
    assert_ok(yk_tensor_read(&mean, after));
    assert_memory_equal(after, before, sizeof before);
    yk_model_destroy(model);
    yk_group_destroy(group);
}

/* Ranks that have moved their buffers apart evaluate with rank 0's, and agree on the result. */
YK_TEST_RANKS(ranks_evaluate_as_one, 3)
{
    yk_dataset *dataset;
    yk_evaluation result;
    yk_group *group;
    assert_ok(yk_group_init(&group, NULL));
    assert_int_equal(yk_group_size(group), world);
    assert_ok(yk_synthetic_create(&dataset, YK_SPLIT_TEST, NULL));
    yk_model *model = create_model();
    yk_loader *loader = create_loader(dataset, group);
    yk_tensor mean = yk_model_buffer(model, 0).value;
    *(float *)mean.data = (float)rank;
    yk_evaluate_options options = YK_EVALUATE_OPTIONS_INIT;
    options.group = group;
    assert_ok(yk_evaluate(&result, model, loader, &options));
    assert_int_equal(result.count, 1000);
    assert_true(*(float *)mean.data == 0);
    double loss, least = result.loss;
    assert_ok(yk_mean_over_ranks(&loss, group, rank, rank + 1)); /* (0*1 + 1*2 + 2*3) / 6 */
    assert_true(loss == 8.0 / 6);
    assert_ok(yk_mean_over_ranks(&loss, group, rank == 1 ? NAN : 2, rank == 1 ? 0 : 8));
    assert_true(loss == 2);
    assert_ok(yk_all_reduce(group, &least, 1, YK_F64, YK_REDUCE_MIN, NULL));
    assert_true(least == result.loss);
    yk_loader_destroy(loader);
    yk_model_destroy(model);
    yk_dataset_destroy(dataset);
    yk_group_destroy(group);
}

/* One rank that cannot evaluate is named to all, which then can. */
YK_TEST_RANKS(a_rank_that_is_refused_is_named_on_all, 2)
{
    (void)world;
    yk_dataset *dataset;
    yk_evaluation result;
    yk_group *group;
    assert_ok(yk_group_init(&group, NULL));
    assert_ok(yk_synthetic_create(&dataset, YK_SPLIT_TEST, NULL));
    yk_model *model = create_model();
    yk_loader *loader = create_loader(dataset, group);
    yk_evaluate_options options = YK_EVALUATE_OPTIONS_INIT;
    options.group = group;
    assert_status(rank ? YK_ERROR_INVALID_ARGUMENT : YK_ERROR_MISMATCH,
                  yk_evaluate(&result, model, rank ? NULL : loader, &options));
    assert_contains(yk_last_error(), rank ? "yk_evaluate: loader is NULL"
                                          : "rank 1 cannot take part: yk_evaluate: loader is NULL");
    assert_ok(yk_evaluate(&result, model, loader, &options));
    assert_int_equal(result.count, 1000);
    yk_loader_destroy(loader);
    yk_model_destroy(model);
    yk_dataset_destroy(dataset);
    yk_group_destroy(group);
}

/*
 * Models whose labels are images: what counts, what is refused, and the mean, on every device of
 * the host. Numbers are worked out by hand.
 */
#include <math.h>

#include <yoke/model.h>

#include "harness.h"

enum { SAMPLES = 2, CLASSES = 3, SIDE = 4, PIXELS = SIDE * SIDE };

static const char *const devices[] = {"ref", "cpu", "sim"};
enum { DEVICES = sizeof devices / sizeof *devices };

/* logits = factor * images, so that the factor's gradient tells of all logits. */
static yk_model *make_model(const char *device, const yk_cross_entropy_options *options,
                            double weight)
{
    static const int64_t dims[] = {YK_BATCH, CLASSES, SIDE, SIDE},
                         pixels[] = {YK_BATCH, SIDE, SIDE};
    yk_graph *graph = yk_graph_create();
    yk_value *factor = yk_parameter(graph, "factor", YK_F32, 1, (int64_t[]){1}, YK_INIT_ONES, 0);
    yk_value *logits = yk_multiply(yk_input(graph, "images", YK_F32, 4, dims), factor);
    yk_value *labels = yk_input(graph, "labels", YK_I32, 3, pixels);
    yk_cross_entropy_options own = *options;
    if (weight > 0)
        own.weight = yk_buffer(graph, "weight", YK_F32, 1, (int64_t[]){CLASSES}, YK_INIT_ONES);
    yk_model *model;
    assert_ok(yk_model_create(&model, yk_cross_entropy(logits, labels, &own),
                              YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.device = device)));
    if (weight > 0) {
        const float weights[CLASSES] = {1, (float)weight, 1};
        yk_tensor value = yk_model_buffer(model, 0).value;
        assert_ok(yk_tensor_write(&value, weights));
    }
    return model;
}

/* Logit log(2) for class 1 and 0 for the others: probabilities 1/4, 1/2, 1/4. */
static yk_status forward(yk_model *model, const int32_t *labels)
{
    static float images[SAMPLES * CLASSES * PIXELS];
    static const char *const names[] = {"images", "labels"};
    for (int i = 0; i < SAMPLES * CLASSES * PIXELS; i++)
        images[i] = i / PIXELS % CLASSES == 1 ? logf(2) : 0;
    const yk_tensor tensors[] = {
        {.data = images, .dtype = YK_F32, .ndim = 4, .dims = {SAMPLES, CLASSES, SIDE, SIDE}},
        {.data = (void *)(uintptr_t)labels,
         .dtype = YK_I32,
         .ndim = 3,
         .dims = {SAMPLES, SIDE, SIDE}}};
    return yk_model_forward(
        model, &(yk_batch){.size = SAMPLES, .count = 2, .names = names, .tensors = tensors});
}

static void assert_near(double got, double expected)
{
    if (!(fabs(got - expected) <= 1e-6 * fabs(expected)))
        fail_msg("got %.9g, expected %.9g", got, expected);
}

/* The first 5 pixels are of class 1, the next 3 of class 0, the others do not count. */
static void fill(int32_t *labels, int32_t ignored)
{
    for (int i = 0; i < SAMPLES * PIXELS; i++)
        labels[i] = i < 5 ? 1 : i < 8 ? 0 : ignored;
}

YK_TEST(a_mean_is_over_the_pixels_that_count)
{
    int32_t labels[SAMPLES * PIXELS];
    yk_cross_entropy_options options = YK_CROSS_ENTROPY_OPTIONS_INIT;
    for (int d = 0; d < DEVICES; d++) {
        yk_model *model = make_model(devices[d], &options, 0);
        fill(labels, -100);
        assert_ok(forward(model, labels));
        assert_near(yk_model_loss(model), (5 * log(2) + 3 * log(4)) / 8);
        assert_ok(yk_model_backward(model));
        float slope; /* of each pixel: log(2) times what class 1 has too much */
        yk_tensor gradient = yk_model_parameter(model, 0).grad;
        assert_ok(yk_tensor_read(&gradient, &slope));
        assert_near(slope, log(2) * (5 * -0.5 + 3 * 0.5) / 8);
        yk_model_destroy(model);
    }
}

YK_TEST(a_weighted_mean_is_divided_by_the_weights_of_the_labels)
{
    int32_t labels[SAMPLES * PIXELS];
    yk_cross_entropy_options options = YK_CROSS_ENTROPY_OPTIONS_INIT;
    options.ignore_index = 255;
    for (int d = 0; d < DEVICES; d++) {
        yk_model *model = make_model(devices[d], &options, 4);
        fill(labels, 255);
        assert_ok(forward(model, labels));
        assert_near(yk_model_loss(model), (4 * 5 * log(2) + 3 * log(4)) / (4 * 5 + 3));
        yk_model_destroy(model);
    }
}

YK_TEST(where_no_pixel_counts_the_loss_is_nan_and_its_gradient_0)
{
    int32_t labels[SAMPLES * PIXELS];
    yk_cross_entropy_options options = YK_CROSS_ENTROPY_OPTIONS_INIT;
    options.label_smoothing = 0.1;
    for (int d = 0; d < DEVICES; d++) {
        yk_model *model = make_model(devices[d], &options, 0);
        for (int i = 0; i < SAMPLES * PIXELS; i++)
            labels[i] = -100;
        assert_ok(forward(model, labels));
        assert_true(isnan(yk_model_loss(model)));
        assert_ok(yk_model_backward(model));
        float slope = 1;
        yk_tensor gradient = yk_model_parameter(model, 0).grad;
        assert_ok(yk_tensor_read(&gradient, &slope));
        assert_true(slope == 0);
        yk_model_destroy(model);
    }
}

YK_TEST(a_label_that_is_neither_class_nor_ignored_is_refused)
{
    int32_t labels[SAMPLES * PIXELS];
    yk_cross_entropy_options options = YK_CROSS_ENTROPY_OPTIONS_INIT;
    for (int d = 0; d < DEVICES; d++) {
        yk_model *model = make_model(devices[d], &options, 0);
        fill(labels, -100);
        labels[PIXELS + 3] = -1;
        assert_status(YK_ERROR_INVALID_ARGUMENT, forward(model, labels));
        assert_contains(yk_last_error(), "label -1 of sample 1 is outside 0..2");
        yk_model_destroy(model);
    }
}

/* Of rows, and of the pixels of few and of many classes: int64 labels give the bits of int32 ones,
 * and what they ignore need not be an int32. */
static yk_model *make_rows(const char *device, yk_dtype dtype, int64_t classes, int64_t ignored)
{
    yk_graph *graph = yk_graph_create();
    yk_value *factor = yk_parameter(graph, "factor", YK_F32, 1, &classes, YK_INIT_ONES, 0);
    yk_value *x = yk_input(graph, "x", YK_F32, 2, (int64_t[]){YK_BATCH, classes});
    yk_value *labels = yk_input(graph, "labels", dtype, 1, (int64_t[]){YK_BATCH});
    yk_cross_entropy_options options = YK_CROSS_ENTROPY_OPTIONS_INIT;
    options.ignore_index = ignored;
    yk_model *model;
    assert_ok(yk_model_create(&model, yk_cross_entropy(yk_multiply(x, factor), labels, &options),
                              YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.device = device)));
    return model;
}

enum { ROWS = 30, MOST_CLASSES = 50 };

static yk_status run_rows(yk_model *model, yk_dtype dtype, void *labels, int64_t classes)
{
    static float x[ROWS * MOST_CLASSES];
    static const char *const names[] = {"x", "labels"};
    for (int i = 0; i < ROWS * MOST_CLASSES; i++)
        x[i] = sinf((float)i);
    const yk_tensor tensors[] = {{.data = x, .dtype = YK_F32, .ndim = 2, .dims = {ROWS, classes}},
                                 {.data = labels, .dtype = dtype, .ndim = 1, .dims = {ROWS}}};
    yk_status status = yk_model_forward(
        model, &(yk_batch){.size = ROWS, .count = 2, .names = names, .tensors = tensors});
    return status == YK_OK ? yk_model_backward(model) : status;
}

YK_TEST(int64_labels_are_as_int32_ones)
{
    static const int64_t ignored[] = {-100, 2, 5000000000};
    for (int i = 0; i < DEVICES * 3 * 2; i++) {
        const char *device = devices[i % DEVICES];
        const int64_t classes = i % 2 ? MOST_CLASSES : CLASSES, passed = ignored[i / 2 % 3];
        int32_t narrow[ROWS];
        int64_t wide[ROWS];
        for (int n = 0; n < ROWS; n++) {
            wide[n] = n % 4 ? n % classes : passed;
            narrow[n] = (int32_t)(wide[n] == passed ? -100 : wide[n]);
        }
        yk_model *one = make_rows(device, YK_I32, classes, -100);
        yk_model *other = make_rows(device, YK_I64, classes, passed);
        assert_ok(run_rows(one, YK_I32, narrow, classes));
        assert_ok(run_rows(other, YK_I64, wide, classes));
        assert_true(yk_model_loss(one) == yk_model_loss(other));
        float slopes[2][MOST_CLASSES];
        const yk_tensor of_one = yk_model_parameter(one, 0).grad;
        const yk_tensor of_other = yk_model_parameter(other, 0).grad;
        assert_ok(yk_tensor_read(&of_one, slopes[0]));
        assert_ok(yk_tensor_read(&of_other, slopes[1]));
        assert_memory_equal(slopes[0], slopes[1], (size_t)classes * sizeof(float));
        wide[1] = (1LL << 32) + 1; /* which is no class, although its low half is */
        assert_status(YK_ERROR_INVALID_ARGUMENT, run_rows(other, YK_I64, wide, classes));
        assert_contains(yk_last_error(), "label 4294967297 of sample 1 is outside 0..");
        yk_model_destroy(one);
        yk_model_destroy(other);
    }
}

/* A label that one loss ignores must be a class of the other. */
YK_TEST(losses_that_share_labels_must_all_ignore_one)
{
    static const int64_t dims[] = {YK_BATCH, CLASSES}, *batch = dims;
    static const char *const names[] = {"x", "labels"};
    float x[SAMPLES * CLASSES] = {0};
    int32_t classes[SAMPLES] = {255, 1};
    const yk_tensor tensors[] = {
        {.data = x, .dtype = YK_F32, .ndim = 2, .dims = {SAMPLES, CLASSES}},
        {.data = classes, .dtype = YK_I32, .ndim = 1, .dims = {SAMPLES}}};
    for (int same = 0; same < 2; same++) {
        yk_graph *graph = yk_graph_create();
        yk_value *logits = yk_input(graph, "x", YK_F32, 2, dims);
        yk_value *labels = yk_input(graph, "labels", YK_I32, 1, batch);
        yk_cross_entropy_options first = YK_CROSS_ENTROPY_OPTIONS_INIT, second = first;
        first.ignore_index = 255;
        second.ignore_index = same ? 255 : -100;
        yk_value *loss = yk_add(yk_cross_entropy(logits, labels, &first),
                                yk_cross_entropy(logits, labels, &second));
        yk_model *model;
        assert_ok(yk_model_create(&model, loss, NULL));
        yk_status status = yk_model_forward(
            model, &(yk_batch){.size = SAMPLES, .count = 2, .names = names, .tensors = tensors});
        assert_status(same ? YK_OK : YK_ERROR_INVALID_ARGUMENT, status);
        yk_model_destroy(model);
    }
}

/* A program that was compiled against the first header knows neither weight nor ignore_index. */
YK_TEST(older_options_have_no_weight_and_ignore_what_pytorch_ignores)
{
    typedef struct older_options {
        size_t size;
        double label_smoothing;
        yk_loss_reduction reduction;
    } older_options;
    union {
        older_options older;
        yk_cross_entropy_options newer;
    } options;
    int32_t labels[SAMPLES * PIXELS];
    memset(&options, 0xff, sizeof options);
    options.older = (older_options){.size = sizeof options.older, .reduction = YK_LOSS_SUM};
    memset((char *)&options + sizeof options.older, 0xff,
           sizeof options - sizeof options.older); /* which no one has set */
    static const int64_t dims[] = {YK_BATCH, CLASSES, SIDE, SIDE},
                         pixels[] = {YK_BATCH, SIDE, SIDE};
    yk_graph *graph = yk_graph_create();
    yk_value *logits = yk_input(graph, "images", YK_F32, 4, dims);
    yk_model *model;
    assert_ok(yk_model_create(
        &model,
        yk_cross_entropy(logits, yk_input(graph, "labels", YK_I32, 3, pixels), &options.newer),
        NULL));
    fill(labels, -100);
    assert_ok(forward(model, labels));
    assert_near(yk_model_loss(model), 5 * log(2) + 3 * log(4));
    yk_model_destroy(model);
}

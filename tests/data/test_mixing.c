/* MixUp, CutMix and OneHot: what they do to a batch, and what their draws depend on. */
#include "harness.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <yoke/data.h>

#include "data/transforms/mixing.h"

enum { BATCH = 10, PIXELS = 3 * 32 * 32, CLASSES = 10, BATCHES = 8 };

typedef struct batches {
    float images[BATCHES][BATCH][PIXELS], probabilities[BATCHES][BATCH][CLASSES];
    int32_t labels[BATCHES][BATCH];
} batches;

/* Two epochs of four batches. */
static void load(batches *out, const char *transforms, int workers)
{
    yk_dataset *dataset;
    yk_loader *loader;
    assert_ok(yk_synthetic_create(
        &dataset, YK_SPLIT_TRAIN,
        YK_WITH(yk_synthetic_options, YK_SYNTHETIC_OPTIONS_INIT, o.count = BATCH * BATCHES / 2)));
    assert_ok(yk_loader_create(&loader, dataset,
                               YK_WITH(yk_loader_options, YK_LOADER_OPTIONS_INIT,
                                       o.batch_size = BATCH, o.shuffle = true, o.workers = workers,
                                       o.transforms = transforms)));
    for (int b = 0; b < BATCHES; b++) {
        const yk_batch *batch = yk_loader_next(loader);
        if (!batch)
            batch = yk_loader_next(loader); /* the next epoch */
        assert_non_null(batch);
        for (int i = 0; i < batch->count; i++) {
            const yk_tensor *tensor = &batch->tensors[i];
            if (strcmp(batch->names[i], "images") == 0)
                memcpy(out->images[b], tensor->data, sizeof out->images[b]);
            else if (tensor->dtype == YK_F32)
                memcpy(out->probabilities[b], tensor->data, sizeof out->probabilities[b]);
            else
                memcpy(out->labels[b], tensor->data, sizeof out->labels[b]);
        }
    }
    yk_loader_destroy(loader);
    yk_dataset_destroy(dataset);
}

static batches *load_new(const char *transforms, int workers)
{
    batches *made = calloc(1, sizeof *made);
    assert_non_null(made);
    load(made, transforms, workers);
    return made;
}

/* The share of sample i in batch b; checks that the labels are a mix of its own and its
 * neighbour's. */
static double share_of(const batches *plain, const batches *mixed, int b, int i)
{
    int own = plain->labels[b][i], other = plain->labels[b][i ? i - 1 : BATCH - 1];
    const float *row = mixed->probabilities[b][i];
    double sum = 0;
    for (int c = 0; c < CLASSES; c++) {
        sum += (double)row[c];
        assert_true(row[c] == 0 || c == own || c == other);
    }
    assert_true(fabs(sum - 1) < 1e-6);
    return own == other ? NAN : (double)row[own];
}

YK_TEST(mixup_adds_the_neighbour_with_one_share_for_a_batch)
{
    batches *plain = load_new("Normalize(0.5,0.5)", 1);
    batches *mixed = load_new("Normalize(0.5,0.5),MixUp(0.8)", 2);
    for (int b = 0; b < BATCHES; b++) {
        double share = NAN;
        for (int i = 0; i < BATCH; i++) {
            double own = share_of(plain, mixed, b, i);
            share = isnan(share) ? own : share;
            assert_true(isnan(own) || own == share);
        }
        for (int i = 0; i < BATCH; i++)
            for (int p = 0; p < PIXELS; p++) {
                double expected = share * (double)plain->images[b][i][p] +
                                  (1 - share) * (double)plain->images[b][i ? i - 1 : BATCH - 1][p];
                assert_true(fabs((double)mixed->images[b][i][p] - expected) < 1e-5);
            }
    }
    free(plain);
    free(mixed);
}

YK_TEST(cutmix_shares_labels_by_the_area_that_is_pasted)
{
    batches *plain = load_new("", 1), *mixed = load_new("CutMix", 1);
    int cut = 0;
    for (int b = 0; b < BATCHES; b++)
        for (int i = 0; i < BATCH; i++) {
            const float *own = plain->images[b][i], *got = mixed->images[b][i];
            const float *other = plain->images[b][i ? i - 1 : BATCH - 1];
            double share = share_of(plain, mixed, b, i);
            int pasted = 0, differ = 0;
            for (int p = 0; p < PIXELS; p++) {
                assert_true(got[p] == own[p] || got[p] == other[p]);
                pasted += got[p] != own[p];
                differ += own[p] != other[p];
            }
            cut += pasted > 0;
            if (!isnan(share) && differ > PIXELS * 9 / 10)
                assert_true(fabs((double)pasted / PIXELS - (1 - share)) < 0.1);
        }
    assert_true(cut > BATCH * BATCHES / 2);
    free(plain);
    free(mixed);
}

YK_TEST(one_hot_mixes_nothing)
{
    batches *plain = load_new("", 1), *hot = load_new("OneHot", 1);
    assert_memory_equal(plain->images, hot->images, sizeof plain->images);
    for (int b = 0; b < BATCHES; b++)
        for (int i = 0; i < BATCH; i++)
            for (int c = 0; c < CLASSES; c++)
                assert_true(hot->probabilities[b][i][c] == (plain->labels[b][i] == c));
    free(plain);
    free(hot);
}

YK_TEST(promise_29_mixing_does_not_depend_on_workers)
{
    const char *text = YK_CIFAR10_AUGMENT ",RandomErasing,MixUp(0.2),CutMix";
    batches *one = load_new(text, 1), *three = load_new(text, 3);
    assert_memory_equal(one, three, sizeof *one);
    free(one);
    free(three);
}

YK_TEST(shares_have_the_distribution_that_alpha_names)
{
    const double alphas[] = {0.2, 1, 3};
    enum { DRAWS = 20000 };
    for (int a = 0; a < 3; a++) {
        double mean = 0, square = 0;
        for (int i = 0; i < DRAWS; i++) {
            yki_draws draws = yki_draws_of(yki_mix64((uint64_t)i), a);
            double x = yki_draw_beta(&draws, alphas[a]);
            assert_true(x >= 0 && x <= 1);
            mean += x / DRAWS;
            square += (x - 0.5) * (x - 0.5) / DRAWS;
        }
        assert_true(fabs(mean - 0.5) < 0.015);
        assert_true(fabs(square * 4 * (2 * alphas[a] + 1) - 1) < 0.04);
    }
}

static yk_status read_nothing(void *data, void *worker, int64_t index, yk_field_buffer *buffers)
{
    (void)data, (void)worker, (void)index, (void)buffers;
    return YK_OK;
}

/* Those of another split, of which this one has only some. */
YK_TEST(probabilities_may_be_of_more_classes_than_the_data_has)
{
    yk_dataset *dataset;
    yk_loader *loader;
    yk_loader_options options = YK_LOADER_OPTIONS_INIT;
    assert_ok(yk_synthetic_create(
        &dataset, YK_SPLIT_TRAIN,
        YK_WITH(yk_synthetic_options, YK_SYNTHETIC_OPTIONS_INIT, o.count = 10)));
    options.transforms = "OneHot";
    options.classes = CLASSES + 2;
    options.batch_size = 10;
    assert_ok(yk_loader_create(&loader, dataset, &options));
    const yk_batch *batch = yk_loader_next(loader);
    assert_non_null(batch);
    assert_int_equal(batch->tensors[1].dims[1], CLASSES + 2);
    const float *probabilities = batch->tensors[1].data;
    for (int i = 0; i < 10 * (CLASSES + 2); i++)
        assert_true(probabilities[i] == (i % (CLASSES + 2) == i / (CLASSES + 2)));
    yk_loader_destroy(loader);
    options.classes = CLASSES - 1;
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_loader_create(&loader, dataset, &options));
    assert_contains(yk_last_error(), "loader: 9 classes: expected 0 or 10, the number of classes");
    yk_dataset_destroy(dataset);
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* Four samples of so many dimensions, of 8 numbers each, in two classes. */
static yk_status load_numbers(yk_loader **loader, yk_dtype dtype, int ndim, const char *transforms)
{
    static const char *const names[] = {"signal", "labels"};
    static double numbers[4 * 8];
    static int32_t labels[] = {0, 1, 0, 1};
    yk_tensor tensors[] = {
        {.data = numbers, .dtype = dtype, .ndim = ndim + 1, .dims = {4, 8, 1, 1}},
        {.data = labels, .dtype = YK_I32, .ndim = 1, .dims = {4}}};
    yk_dataset *dataset;
    if (ndim == 3)
        memcpy(tensors[0].dims, (int64_t[]){4, 2, 2, 2}, 4 * sizeof *tensors[0].dims);
    for (int i = 0; i < 32; i++)
        yk_tensor_set(&tensors[0], i, floor(i / 8.0));
    assert_ok(yk_tensor_dataset_create(&dataset, names, tensors, 2, 2));
    yk_status status = yk_loader_create(loader, dataset,
                                        YK_WITH(yk_loader_options, YK_LOADER_OPTIONS_INIT,
                                                o.batch_size = 4, o.transforms = transforms));
    yk_dataset_destroy(dataset);
    return status;
}

/* Sample i is i, and the one before it i - 1. */
static void assert_mixed(yk_dtype dtype, int ndim)
{
    yk_loader *loader;
    assert_ok(load_numbers(&loader, dtype, ndim, "MixUp(1)"));
    const yk_batch *batch = yk_loader_next(loader);
    assert_non_null(batch);
    const yk_tensor *signal = yk_batch_find(batch, "signal"),
                    *labels = yk_batch_find(batch, "labels");
    double share = yk_tensor_get(labels, 0);
    assert_true(share > 0 && share < 1);
    assert_int_equal(signal->dtype, dtype);
    for (int i = 0; i < 32; i++) {
        double own = floor(i / 8.0), before = own > 0 ? own - 1 : 3;
        double expected = share * own + (1 - share) * before;
        assert_true(fabs(yk_tensor_get(signal, i) - expected) < 1e-6);
    }
    yk_loader_destroy(loader);
}

YK_TEST(numbers_are_mixed_where_there_are_no_pictures)
{
    assert_mixed(YK_F32, 1);
    assert_mixed(YK_F64, 3);
}

YK_TEST(what_cannot_be_mixed_is_refused)
{
    yk_loader *loader;
    assert_ok(load_numbers(&loader, YK_F32, 3, "CutMix"));
    yk_loader_destroy(loader);
    assert_status(YK_ERROR_INVALID_ARGUMENT, load_numbers(&loader, YK_F32, 1, "MixUp,CutMix"));
    assert_contains(yk_last_error(), "CutMix needs samples (C, H, W), and those of \"signal\" have "
                                     "1 dimension: use MixUp");
    assert_status(YK_ERROR_INVALID_ARGUMENT, load_numbers(&loader, YK_I32, 1, "MixUp"));
    assert_contains(yk_last_error(), "MixUp and CutMix need pictures or floating-point numbers");
    assert_ok(load_numbers(&loader, YK_I32, 1, "OneHot"));
    yk_loader_destroy(loader);
}

YK_TEST(mixing_needs_classes)
{
    yk_field field = {"labels", YK_FIELD_TENSOR, YK_I32, 0, {0}};
    yk_dataset_ops ops = YK_DATASET_OPS_INIT;
    ops.count = ops.field_count = 1;
    ops.fields = &field;
    ops.read = read_nothing;
    yk_dataset *dataset;
    yk_loader *loader;
    assert_ok(yk_dataset_create(&dataset, &ops, NULL));
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_loader_create(
                      &loader, dataset,
                      YK_WITH(yk_loader_options, YK_LOADER_OPTIONS_INIT, o.transforms = "MixUp")));
    assert_null(loader);
    yk_dataset_destroy(dataset);
}

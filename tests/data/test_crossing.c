/* Batches that a device makes of bytes: the bits of those that the host makes, whatever it leaves
 * to the device. */
#define _GNU_SOURCE
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/loader.h"

enum { CHANNELS = 3, SIDE = 9, SAMPLES = 23, BATCH = 5, EPOCHS = 2, REPLICAS = 4 };

/* Who makes the batches. */
typedef enum maker { THE_HOST, A_DEVICE, REPLICAS_DEVICES } maker;

static yk_dataset *create_dataset(int64_t channels)
{
    yk_dataset *dataset;
    assert_ok(yk_random_create(&dataset, YK_SPLIT_TRAIN,
                               YK_WITH(yk_random_options, YK_RANDOM_OPTIONS_INIT, o.count = SAMPLES,
                                       o.channels = channels, o.height = SIDE, o.width = SIDE)));
    return dataset;
}

/* On the device under test, and of any input: nothing is trained. */
static yk_model *create_model(void)
{
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "x", YK_F32, 2, (int64_t[]){YK_BATCH, 1});
    yk_model_options options = YK_MODEL_OPTIONS_INIT;
    options.device = yk_test_device("sim");
    options.logits = yk_nn_linear(x, "fc", 1);
    yk_model *model;
    assert_ok(yk_model_create(&model, NULL, &options));
    return model;
}

static yk_loader *create_loader(const yk_dataset *dataset, const char *transforms, yk_dtype dtype,
                                yk_model *model, size_t cache)
{
    yk_loader *loader;
    assert_ok(yk_loader_create(&loader, dataset,
                               YK_WITH(yk_loader_options, YK_LOADER_OPTIONS_INIT,
                                       o.batch_size = BATCH, o.shuffle = true, o.seed = 3,
                                       o.transforms = transforms, o.workers = 2, o.dtype = dtype,
                                       o.model = model, o.cache_bytes = cache)));
    return loader;
}

static void assert_same_tensor(const yk_tensor *made, const yk_tensor *expected)
{
    size_t bytes = yk_tensor_bytes(expected);
    void *here = malloc(bytes);
    assert_non_null(here);
    assert_int_equal(made->dtype, expected->dtype);
    assert_int_equal(made->ndim, expected->ndim);
    assert_memory_equal(made->dims, expected->dims,
                        (size_t)expected->ndim * sizeof *expected->dims);
    assert_ok(yk_tensor_read(made, here));
    assert_memory_equal(here, expected->data, bytes);
    free(here);
}

/* Until both epochs end. */
static void assert_same_epoch(yk_loader *made, yk_loader *expected, maker by)
{
    for (const yk_batch *right; (right = yk_loader_next(expected));) {
        const yk_batch *batch = yk_loader_next(made);
        assert_non_null(batch);
        assert_int_equal(batch->size, right->size);
        assert_memory_equal(batch->indices, right->indices, (size_t)right->size * sizeof(int64_t));
        for (int i = 0; i < right->count; i++) {
            bool is_picture = strcmp(right->names[i], "images") == 0;
            assert_int_equal(batch->tensors[i].device != NULL, is_picture && by != THE_HOST);
            assert_int_equal(batch->tensors[i].parts != NULL, is_picture && by == REPLICAS_DEVICES);
            assert_same_tensor(&batch->tensors[i], &right->tensors[i]);
        }
    }
    assert_null(yk_loader_next(made));
    assert_ok(yk_loader_status(made));
}

static void assert_same_for(yk_model *model, int64_t channels, const char *transforms,
                            yk_dtype dtype, maker by)
{
    yk_dataset *dataset = create_dataset(channels);
    const size_t caches[] = {0, (size_t)1 << 20};
    for (int c = 0; c < 2; c++) {
        yk_loader *expected = create_loader(dataset, transforms, dtype, NULL, 0);
        yk_loader *made = create_loader(dataset, transforms, dtype, model, caches[c]);
        for (int epoch = 0; epoch < EPOCHS; epoch++)
            assert_same_epoch(made, expected, by);
        yk_loader_destroy(made);
        yk_loader_destroy(expected);
    }
    yk_dataset_destroy(dataset);
}

static void assert_same_batches(int64_t channels, const char *transforms, yk_dtype dtype, maker by)
{
    yk_model *model = create_model();
    assert_same_for(model, channels, transforms, dtype, by);
    yk_model_destroy(model);
}

/* Only windows: the device does all. */
static const char *const windows[] = {
    "",
    "Normalize(cifar10)",
    "RandomCrop(9,padding=2),RandomHorizontalFlip,Normalize(cifar10)",
    "RandomCrop(9,padding=3,padding_mode=reflect),AlternatingHorizontalFlip",
    "RandomCrop(8),RandomHorizontalFlip(0.25),RandomVerticalFlip,RandomHorizontalFlip",
    "CenterCrop(7),Normalize(0.5,0.25)",
    "CenterCrop((11,12)),RandomVerticalFlip",
    "RandomCrop(3),Normalize(cifar10)",
};

YK_TEST(windows_are_the_devices)
{
    for (size_t i = 0; i < sizeof windows / sizeof *windows; i++)
        assert_same_batches(3, windows[i], YK_F32, A_DEVICE);
    assert_same_batches(1, "RandomCrop(9,padding=2),RandomHorizontalFlip,Normalize(mnist)", YK_F32,
                        true);
    assert_same_batches(3, windows[2], YK_F64, A_DEVICE);
}

/* The host does the steps on pictures, and what it has noted of flips goes to the device. */
static const char *const pictures[] = {
    "RandomResizedCrop(6),RandomHorizontalFlip,Normalize(imagenet)",
    "Resize((7,8)),RandomVerticalFlip",
    "RandAugment(2,9),RandomHorizontalFlip,Normalize(cifar10)",
    "RandomHorizontalFlip,RandomCrop(9,padding=2)",
    "Grayscale,Normalize(mnist)",
};

YK_TEST(other_pictures_cross_as_bytes)
{
    for (size_t i = 0; i < sizeof pictures / sizeof *pictures; i++)
        assert_same_batches(3, pictures[i], YK_F32, A_DEVICE);
}

YK_TEST(boxes_are_erased_by_the_device)
{
    assert_same_batches(3, "RandomHorizontalFlip,RandomErasing(0.7,value=0.25),Normalize(cifar10)",
                        YK_F32, A_DEVICE);
    assert_same_batches(3, "Normalize(cifar10),RandomErasing(0.7,value=0.25)", YK_F64, A_DEVICE);
}

YK_TEST(noise_is_drawn_by_the_device)
{
    const char *const lists[] = {
        "RandomHorizontalFlip,RandomErasing(0.7,value=random)",
        "RandomErasing(0.7,value=random),Normalize(cifar10)",
        "RandomErasing(0.9,value=0.5),Normalize(cifar10),RandomErasing(0.7,value=random),"
        "RandomErasing(0.5,scale=(0.02,0.1),value=random),MixUp(0.4)",
    };
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        assert_same_batches(3, lists[i], YK_F32, A_DEVICE);
        assert_same_batches(1, lists[i], YK_F64, A_DEVICE);
    }
}

/* Pictures of more channels than a device has numbers for. */
YK_TEST(what_a_device_cannot_make_is_the_hosts)
{
    assert_same_batches(4, "RandomHorizontalFlip,RandomErasing(0.7,value=random)", YK_F32,
                        THE_HOST);
}

/* The last batch of 3 and, of one sample alone, none to mix it with. */
YK_TEST(samples_are_mixed_by_the_device)
{
    const char *const lists[] = {"RandomCrop(9,padding=2),Normalize(cifar10),MixUp(0.4)",
                                 "RandomErasing(0.5),CutMix", "Resize((6,6)),MixUp(0.2),CutMix",
                                 "RandomHorizontalFlip,OneHot"};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        assert_same_batches(3, lists[i], YK_F32, A_DEVICE);
        assert_same_batches(3, lists[i], YK_F64, A_DEVICE);
    }
}

/* ---- replicas -------------------------------------------------------------------------------- */

/* A model that is trained, on the first of the devices. */
static yk_model *create_classifier(void)
{
    char first[16];
    setenv("YK_FAKE_GPUS", "4", 1);
    snprintf(first, sizeof first, "%s:0", yk_test_device("sim"));
    yk_graph *graph = yk_graph_create();
    yk_value *images =
        yk_input(graph, "images", YK_F32, 4, (int64_t[]){YK_BATCH, CHANNELS, SIDE, SIDE});
    yk_value *labels = yk_input(graph, "labels", YK_I32, 1, (int64_t[]){YK_BATCH});
    yk_model_options options = YK_MODEL_OPTIONS_INIT;
    options.device = first;
    options.logits = yk_nn_linear(yk_flatten(images), "fc", 10);
    yk_model *model;
    assert_ok(yk_model_create(&model, yk_cross_entropy(options.logits, labels, NULL), &options));
    return model;
}

static yk_data_parallel *replicate(yk_model *model, int count)
{
    yk_data_parallel *dp;
    char devices[64] = "";
    for (int i = 0; i < count; i++) {
        size_t at = strlen(devices);
        snprintf(devices + at, sizeof devices - at, "%s%s:%d", i ? "," : "", yk_test_device("sim"),
                 i);
    }
    assert_ok(yk_data_parallel_create(
        &dp, model,
        YK_WITH(yk_data_parallel_options, YK_DATA_PARALLEL_OPTIONS_INIT, o.devices = devices)));
    return dp;
}

/* Parts of 2, 2 and 1 samples, and at the end 1, 1 and 1: fewer than replicas. */
YK_TEST(each_replica_makes_its_part_of_a_batch)
{
    const char *const lists[] = {"RandomCrop(9,padding=2),RandomHorizontalFlip,Normalize(cifar10)",
                                 "RandomResizedCrop(6),RandomErasing(0.7,value=random)",
                                 "RandomErasing(0.5),CutMix", "Resize((6,6)),MixUp(0.2),CutMix"};
    yk_model *model = create_classifier();
    yk_data_parallel *dp = replicate(model, REPLICAS);
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        assert_same_for(model, CHANNELS, lists[i], YK_F32, REPLICAS_DEVICES);
    yk_data_parallel_destroy(dp);
    yk_model_destroy(model);
}

static double train_on(yk_model *model, yk_loader *loader)
{
    const yk_batch *batch = yk_loader_next(loader);
    assert_non_null(batch);
    assert_ok(yk_model_forward(model, batch));
    assert_ok(yk_model_backward(model));
    return yk_model_loss(model);
}

YK_TEST(replicas_train_on_their_parts)
{
    yk_dataset *dataset = create_dataset(CHANNELS);
    yk_model *model = create_classifier();
    yk_data_parallel *dp = replicate(model, REPLICAS);
    yk_loader *host = create_loader(dataset, windows[2], YK_F32, NULL, 0);
    yk_loader *devices = create_loader(dataset, windows[2], YK_F32, model, 0);
    for (int step = 0; step < 5; step++) {
        double expected = train_on(model, host);
        assert_true(train_on(model, devices) == expected);
    }
    yk_loader_destroy(host);
    yk_data_parallel_destroy(dp); /* the loader keeps the devices */
    yk_model_destroy(model);
    yk_loader_destroy(devices);
    yk_dataset_destroy(dataset);
}

/* Test-time augmentation sees the parts as one tensor. */
YK_TEST(replicas_evaluate_their_parts)
{
    yk_dataset *dataset = create_dataset(CHANNELS);
    yk_model *model = create_classifier();
    yk_data_parallel *dp = replicate(model, REPLICAS);
    yk_evaluation results[2];
    for (int i = 0; i < 2; i++) {
        yk_loader *loader = create_loader(dataset, windows[1], YK_F32, i ? model : NULL, 0);
        assert_ok(yk_evaluate(&results[i], model, loader,
                              YK_WITH(yk_evaluate_options, YK_EVALUATE_OPTIONS_INIT,
                                      o.tta = YK_TTA_TRANSLATE, o.tta_confidence = 0.3)));
        yk_loader_destroy(loader);
    }
    assert_int_equal(results[0].count, SAMPLES);
    assert_int_equal(results[1].count, SAMPLES);
    assert_true(results[1].loss == results[0].loss);
    assert_true(results[1].top5 == results[0].top5);
    assert_true(results[1].tta_accuracy == results[0].tta_accuracy);
    yk_data_parallel_destroy(dp);
    yk_model_destroy(model);
    yk_dataset_destroy(dataset);
}

/* Of a model without replicas any more, too; those of others refuse the parts. */
YK_TEST(a_batch_in_parts_is_read_by_other_models)
{
    yk_dataset *dataset = create_dataset(CHANNELS);
    yk_model *model = create_classifier(), *other = create_classifier();
    yk_data_parallel *dp = replicate(model, REPLICAS);
    yk_loader *loader = create_loader(dataset, windows[2], YK_F32, model, 0);
    const yk_batch *batch = yk_loader_next(loader);
    assert_non_null(batch);
    assert_ok(yk_model_forward(model, batch));
    double loss = yk_model_loss(model);
    yk_data_parallel_destroy(dp);
    assert_ok(yk_model_forward(model, batch));
    assert_float_equal(yk_model_loss(model), loss, 1e-5);
    dp = replicate(other, 2);
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_model_forward(other, batch));
    assert_contains(yk_last_error(), "create its loader after yk_data_parallel_create");
    yk_data_parallel_destroy(dp);
    yk_loader_destroy(loader);
    yk_model_destroy(other);
    yk_model_destroy(model);
    yk_dataset_destroy(dataset);
}

/* ---- the ring -------------------------------------------------------------------------------- */

/* Workers write to a batch again when the device has read it, not before. */
YK_TEST(seeking_and_ending_wait_for_the_device)
{
    yk_dataset *dataset = create_dataset(CHANNELS);
    yk_model *model = create_model();
    yk_loader *expected = create_loader(dataset, windows[2], YK_F32, NULL, 0);
    yk_loader *made = create_loader(dataset, windows[2], YK_F32, model, 0);
    for (int64_t batch = 4; batch >= 0; batch--) {
        assert_ok(yk_loader_seek(made, 7, batch));
        assert_ok(yk_loader_seek(expected, 7, batch));
        const yk_batch *one = yk_loader_next(made), *right = yk_loader_next(expected);
        assert_non_null(one);
        if (batch % 2 == 0) /* others are never read */
            assert_same_tensor(&one->tensors[0], &right->tensors[0]);
    }
    yk_loader_destroy(made);
    yk_loader_destroy(expected);
    yk_model_destroy(model); /* only the loader's reference was left for a while */
    yk_dataset_destroy(dataset);
}

/* A sample that cannot be read is no reason to fail before it is used. */
static yk_status read_most(void *data, void *worker, int64_t index, yk_field_buffer *buffers)
{
    (void)data, (void)worker;
    if (index == 2)
        return yk_set_error(YK_ERROR_FORMAT, "torn");
    uint8_t *pixels = yk_field_buffer_reserve(&buffers[0], SIDE * SIDE);
    if (!pixels)
        return YK_ERROR_OUT_OF_MEMORY;
    memset(pixels, (int)index, SIDE * SIDE);
    return YK_OK;
}

YK_TEST(damaged_pictures_are_skipped_as_on_the_host)
{
    static const yk_field field = {"images", YK_FIELD_IMAGE, YK_U8, 3, {1, SIDE, SIDE}};
    yk_dataset_ops ops = YK_DATASET_OPS_INIT;
    ops.count = 4;
    ops.field_count = 1;
    ops.fields = &field;
    ops.read = read_most;
    yk_dataset *dataset;
    yk_loader *loader;
    yk_model *model = create_model();
    assert_ok(yk_dataset_create(&dataset, &ops, NULL));
    assert_ok(yk_loader_create(&loader, dataset,
                               YK_WITH(yk_loader_options, YK_LOADER_OPTIONS_INIT, o.batch_size = 4,
                                       o.skip_damaged = true, o.model = model)));
    const yk_batch *batch = yk_loader_next(loader);
    assert_non_null(batch);
    float here[4 * SIDE * SIDE];
    assert_ok(yk_tensor_read(&batch->tensors[0], here));
    const int expected[] = {0, 1, 3, 3};
    for (int i = 0; i < 4; i++)
        assert_true(here[i * SIDE * SIDE] == (float)expected[i] / 255.0f);
    yk_loader_destroy(loader);
    yk_dataset_destroy(dataset);
    yk_model_destroy(model);
}

YK_TEST(a_loader_for_a_device_tells_why_it_cannot_be_created)
{
    yk_loader *loader;
    yk_model *model = create_model();
    yk_dataset *dataset = create_dataset(CHANNELS);
    assert_status(
        YK_ERROR_INVALID_ARGUMENT,
        yk_loader_create(&loader, dataset,
                         YK_WITH(yk_loader_options, YK_LOADER_OPTIONS_INIT, o.batch_size = BATCH,
                                 o.transforms = "Nonsense", o.model = model)));
    assert_null(loader);
    assert_contains(yk_last_error(), "Nonsense");
    yk_dataset_destroy(dataset);
    yk_model_destroy(model);
}

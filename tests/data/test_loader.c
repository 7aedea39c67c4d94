/* The loader: order, epochs, seeking, failure and end, with any number of workers. */
#define _GNU_SOURCE
#include "cifar_files.h"
#include "images.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* FNV-1a over everything that a batch holds. */
static uint64_t hash_bytes(uint64_t hash, const void *data, size_t size)
{
    for (const unsigned char *p = data, *end = p + size; p < end; p++)
        hash = (hash ^ *p) * 0x100000001b3u;
    return hash;
}

static uint64_t hash_batch(uint64_t hash, const yk_batch *batch)
{
    for (int i = 0; i < batch->count; i++)
        hash = hash_bytes(hash, batch->tensors[i].data, yk_tensor_bytes(&batch->tensors[i]));
    return hash_bytes(hash, batch->indices, (size_t)batch->size * sizeof *batch->indices);
}

static uint64_t hash_epoch(yk_loader *loader, int64_t *samples)
{
    uint64_t hash = 0xcbf29ce484222325u;
    *samples = 0;
    for (const yk_batch *batch; (batch = yk_loader_next(loader));) {
        hash = hash_batch(hash, batch);
        *samples += batch->size;
    }
    assert_ok(yk_loader_status(loader));
    return hash;
}

YK_TEST(batches_have_names_shapes_and_the_samplers_indices)
{
    yk_dataset *dataset = draw_images(50);
    yk_loader *loader;
    assert_ok(yk_loader_create(&loader, dataset,
                               YK_WITH(yk_loader_options, YK_LOADER_OPTIONS_INIT, o.batch_size = 16,
                                       o.shuffle = true, o.seed = 3,
                                       o.transforms = YK_CIFAR10_NORMALIZE)));
    assert_int_equal(yk_loader_batches(loader), 4);
    for (int epoch = 0; epoch < 3; epoch++) {
        int64_t expected[50], at = 0;
        yk_sampler_options sampler = YK_SAMPLER_OPTIONS_INIT;
        sampler.samples = 50;
        sampler.world_size = 1;
        sampler.shuffle = true;
        sampler.seed = 3;
        assert_ok(yk_sampler_indices(&sampler, epoch, expected));
        for (const yk_batch *batch; (batch = yk_loader_next(loader)); at += batch->size) {
            assert_int_equal(yk_loader_epoch(loader), epoch);
            assert_int_equal(batch->size, at == 48 ? 2 : 16);
            assert_int_equal(batch->count, 2);
            assert_string_equal(batch->names[0], "images");
            assert_string_equal(batch->names[1], "labels");
            const yk_tensor *images = &batch->tensors[0], *labels = &batch->tensors[1];
            assert_int_equal(images->ndim, 4);
            assert_int_equal(images->dims[0], batch->size);
            assert_int_equal(yk_tensor_count(images), batch->size * 3072);
            assert_int_equal(images->dtype, YK_F32);
            assert_int_equal(labels->ndim, 1);
            assert_int_equal(labels->dims[0], batch->size);
            assert_int_equal(labels->dtype, YK_I32);
            for (int64_t i = 0; i < batch->size; i++) {
                int label;
                const uint8_t *pixels = image_of(dataset, batch->indices[i], &label);
                assert_int_equal(batch->indices[i], expected[at + i]);
                assert_int_equal(((int32_t *)labels->data)[i], label);
                float value = ((float)pixels[5] / 255.0f - 0.4914f) / 0.2023f;
                assert_true(((float *)images->data)[i * 3072 + 5] == value);
            }
        }
        assert_int_equal(at, 50);
        assert_int_equal(yk_loader_epoch(loader), epoch); /* until the next call */
    }
    yk_loader_destroy(loader);
    yk_dataset_destroy(dataset);
}

YK_TEST(promise_29_batches_are_the_same_for_any_number_of_workers)
{
    yk_dataset *dataset = draw_images(203);
    uint64_t expected[3] = {0};
    for (int workers = 1; workers <= 8; workers += workers > 1 ? 2 : 1)
        for (int prefetch = 1; prefetch < 5; prefetch += 3) {
            yk_loader *loader;
            assert_ok(yk_loader_create(&loader, dataset,
                                       YK_WITH(yk_loader_options, YK_LOADER_OPTIONS_INIT,
                                               o.batch_size = 10, o.shuffle = true, o.seed = 7,
                                               o.transforms = YK_CIFAR10_AUGMENT,
                                               o.workers = workers, o.prefetch = prefetch)));
            for (int epoch = 0; epoch < 3; epoch++) {
                int64_t samples;
                uint64_t hash = hash_epoch(loader, &samples);
                assert_int_equal(samples, 203);
                if (workers == 1 && prefetch == 1)
                    expected[epoch] = hash;
                assert_true(hash == expected[epoch]);
            }
            yk_loader_destroy(loader);
        }
    assert_true(expected[0] != expected[1] && expected[1] != expected[2]);
    yk_dataset_destroy(dataset);
}

/* Draws by weight: the sampler's indices, for any number of workers; weights may go meanwhile. */
YK_TEST(samples_are_drawn_by_their_weights)
{
    yk_dataset *dataset = draw_images(50);
    double weights[50];
    int64_t expected[2][50];
    for (int i = 0; i < 50; i++)
        weights[i] = i < 40 ? 1 : 10;
    for (int epoch = 0; epoch < 2; epoch++)
        assert_ok(yk_sampler_indices(YK_WITH(yk_sampler_options, YK_SAMPLER_OPTIONS_INIT,
                                             o.samples = 50, o.seed = 3, o.weights = weights),
                                     epoch, expected[epoch]));
    for (int workers = 1; workers <= 3; workers += 2) {
        double given[50];
        yk_loader *loader;
        memcpy(given, weights, sizeof given);
        assert_ok(
            yk_loader_create(&loader, dataset,
                             YK_WITH(yk_loader_options, YK_LOADER_OPTIONS_INIT, o.batch_size = 16,
                                     o.seed = 3, o.weights = given, o.workers = workers)));
        memset(given, 0, sizeof given);
        for (int epoch = 0; epoch < 2; epoch++) {
            int64_t at = 0;
            for (const yk_batch *batch; (batch = yk_loader_next(loader)); at += batch->size)
                assert_memory_equal(batch->indices, &expected[epoch][at],
                                    (size_t)batch->size * sizeof(int64_t));
            assert_int_equal(at, 50);
        }
        yk_loader_destroy(loader);
    }
    yk_dataset_destroy(dataset);
}

/* One sample alone has a weight, so that each batch is made of it. */
YK_TEST(a_sample_that_comes_up_again_is_transformed_in_another_way)
{
    enum { COUNT = 24 };
    yk_dataset *dataset = draw_images(COUNT);
    double weights[COUNT] = {[7] = 1};
    yk_loader *loader, *again;
    yk_loader_options options = YK_LOADER_OPTIONS_INIT;
    options.batch_size = COUNT;
    options.transforms = YK_CIFAR10_AUGMENT;
    options.weights = weights;
    assert_ok(yk_loader_create(&loader, dataset, &options));
    options.batch_size = 5; /* the same choices at the same places */
    assert_ok(yk_loader_create(&again, dataset, &options));
    const yk_batch *batch = yk_loader_next(loader);
    const char *images = batch->tensors[0].data;
    size_t bytes = yk_tensor_bytes(&batch->tensors[0]) / COUNT;
    int different = 0;
    for (int i = 1; i < COUNT; i++) {
        assert_int_equal(batch->indices[i], 7);
        different += memcmp(images, images + (size_t)i * bytes, bytes) != 0;
    }
    assert_true(different > COUNT / 2);
    for (const yk_batch *part; (part = yk_loader_next(again)); images += 5 * bytes)
        assert_memory_equal(part->tensors[0].data, images, (size_t)part->size * bytes);
    yk_loader_destroy(again);
    yk_loader_destroy(loader);
    yk_dataset_destroy(dataset);
}

YK_TEST(epochs_shorter_than_the_ring_do_not_mix)
{
    yk_dataset *dataset = draw_images(5);
    yk_loader *loader;
    assert_ok(yk_loader_create(
        &loader, dataset,
        YK_WITH(yk_loader_options, YK_LOADER_OPTIONS_INIT, o.batch_size = 100, o.shuffle = true,
                o.transforms = YK_CIFAR10_AUGMENT, o.workers = 3, o.prefetch = 4)));
    assert_int_equal(yk_loader_batches(loader), 1);
    for (int64_t epoch = 0; epoch < 200; epoch++) {
        int64_t expected[5];
        yk_sampler_options sampler = YK_SAMPLER_OPTIONS_INIT;
        sampler.samples = 5;
        sampler.world_size = 1;
        sampler.shuffle = true;
        assert_ok(yk_sampler_indices(&sampler, epoch, expected));
        const yk_batch *batch = yk_loader_next(loader);
        assert_non_null(batch);
        assert_int_equal(batch->size, 5);
        assert_memory_equal(batch->indices, expected, sizeof expected);
        assert_int_equal(yk_loader_epoch(loader), epoch);
        assert_null(yk_loader_next(loader));
    }
    yk_loader_destroy(loader);
    yk_dataset_destroy(dataset);
}

YK_TEST(drop_last_and_exact)
{
    yk_dataset *dataset = draw_images(25);
    yk_loader *loader;
    int64_t samples;
    assert_ok(yk_loader_create(
        &loader, dataset,
        YK_WITH(yk_loader_options, YK_LOADER_OPTIONS_INIT, o.batch_size = 10, o.drop_last = true)));
    assert_int_equal(yk_loader_batches(loader), 2);
    hash_epoch(loader, &samples);
    assert_int_equal(samples, 20);
    yk_loader_destroy(loader);
    assert_ok(yk_loader_create(
        &loader, dataset,
        YK_WITH(yk_loader_options, YK_LOADER_OPTIONS_INIT, o.batch_size = 30, o.drop_last = true)));
    assert_int_equal(yk_loader_batches(loader), 0); /* nothing, again and again, without a hang */
    for (int i = 0; i < 3; i++)
        assert_null(yk_loader_next(loader));
    assert_int_equal(yk_loader_epoch(loader), 2);
    assert_ok(yk_loader_status(loader));
    yk_loader_destroy(loader);
    assert_ok(yk_loader_create(
        &loader, dataset,
        YK_WITH(yk_loader_options, YK_LOADER_OPTIONS_INIT, o.batch_size = 10, o.exact = true)));
    hash_epoch(loader, &samples);
    assert_int_equal(samples, 25);
    yk_loader_destroy(loader);
    yk_dataset_destroy(dataset);
}

YK_TEST(seeks_to_any_batch)
{
    yk_dataset *dataset = draw_images(103);
    uint64_t hashes[3][11];
    yk_loader *loader;
    assert_ok(yk_loader_create(&loader, dataset,
                               YK_WITH(yk_loader_options, YK_LOADER_OPTIONS_INIT, o.batch_size = 10,
                                       o.shuffle = true, o.transforms = YK_CIFAR10_AUGMENT,
                                       o.workers = 3)));
    for (int epoch = 0; epoch < 3; epoch++) {
        for (int i = 0; i < 11; i++)
            hashes[epoch][i] = hash_batch(1, yk_loader_next(loader));
        assert_null(yk_loader_next(loader));
    }
    for (int i = 0; i < 60; i++) {
        int epoch = i * 7 % 3, batch = i * 5 % 12;
        assert_ok(yk_loader_seek(loader, epoch, batch));
        assert_int_equal(yk_loader_epoch(loader), epoch);
        if (batch < 11)
            assert_true(hash_batch(1, yk_loader_next(loader)) == hashes[epoch][batch]);
        if (batch >= 10) {
            assert_null(yk_loader_next(loader));
            if (epoch < 2)
                assert_true(hash_batch(1, yk_loader_next(loader)) == hashes[epoch + 1][0]);
        }
    }
    assert_ok(yk_loader_seek(loader, 1000000000, 3));
    assert_non_null(yk_loader_next(loader));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_loader_seek(loader, 0, 12));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_loader_seek(loader, -1, 0));
    yk_loader_destroy(loader);
    yk_dataset_destroy(dataset);
}

YK_TEST(double_precision_images)
{
    yk_dataset *dataset = draw_images(7);
    yk_loader *loader;
    assert_ok(yk_loader_create(
        &loader, dataset,
        YK_WITH(yk_loader_options, YK_LOADER_OPTIONS_INIT, o.batch_size = 7, o.dtype = YK_F64)));
    const yk_batch *batch = yk_loader_next(loader);
    assert_int_equal(batch->tensors[0].dtype, YK_F64);
    for (int i = 0; i < 7; i++) {
        double value = ((double *)batch->tensors[0].data)[i * 3072 + 11];
        assert_true(value == image_of(dataset, i, NULL)[11] / 255.0);
    }
    yk_loader_destroy(loader);
    yk_dataset_destroy(dataset);
}

/* Ended at any moment, with batches ready, being made, or in the consumer's hands. */
YK_TEST(can_be_destroyed_at_any_moment)
{
    yk_dataset *dataset = draw_images(300);
    for (int round = 0; round < 120; round++) {
        yk_loader *loader;
        assert_ok(yk_loader_create(
            &loader, dataset,
            YK_WITH(yk_loader_options, YK_LOADER_OPTIONS_INIT, o.batch_size = 16, o.shuffle = true,
                    o.transforms = YK_CIFAR10_AUGMENT, o.workers = 1 + round % 4)));
        for (int i = 0; i < round % 7 * 4; i++)
            yk_loader_next(loader);
        yk_loader_destroy(loader);
    }
    yk_loader_destroy(NULL);
    yk_dataset_destroy(dataset);
}

/* A file cut short under the workers' hands: the cause comes with next(), and again; no SIGBUS. */
YK_TEST(promise_28_a_failing_worker_is_an_explicit_error)
{
    char path[512];
    yk_dataset *dataset;
    yk_loader *loader;
    const char *folder = fresh_folder();
    write_cifar(folder, false, 100);
    assert_ok(yk_cifar10_open(&dataset, folder, YK_SPLIT_TRAIN));
    assert_ok(yk_loader_create(&loader, dataset,
                               YK_WITH(yk_loader_options, YK_LOADER_OPTIONS_INIT, o.batch_size = 8,
                                       o.shuffle = true, o.workers = 2)));
    assert_non_null(yk_loader_next(loader));
    snprintf(path, sizeof path, "%s/cifar-10-batches-py/data_batch_4", folder);
    assert_int_equal(truncate(path, 4096), 0);
    int batches = 1;
    while (yk_loader_next(loader))
        assert_true(++batches < 63);
    assert_int_equal(yk_loader_status(loader), YK_ERROR_IO);
    assert_contains(yk_last_error(), "loader worker");
    assert_contains(yk_last_error(), "data_batch_4: offset ");
    assert_contains(yk_last_error(), "the file ends here");
    assert_null(yk_loader_next(loader));
    assert_int_equal(yk_loader_status(loader), YK_ERROR_IO);
    yk_loader_destroy(loader);
    yk_dataset_destroy(dataset);
}

YK_TEST(refuses_options_that_make_no_sense)
{
    yk_dataset *dataset = draw_images(10);
    yk_loader *loader;
    assert_status(
        YK_ERROR_INVALID_ARGUMENT,
        yk_loader_create(&loader, dataset,
                         YK_WITH(yk_loader_options, YK_LOADER_OPTIONS_INIT, o.batch_size = 0)));
    assert_contains(yk_last_error(), "batch size 0: expected 1 to 2147483647");
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_loader_create(&loader, dataset,
                                   YK_WITH(yk_loader_options, YK_LOADER_OPTIONS_INIT,
                                           o.batch_size = (int64_t)INT32_MAX + 1)));
    assert_contains(yk_last_error(), "batch size 2147483648: expected 1 to 2147483647");
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_loader_create(&loader, dataset,
                                   YK_WITH(yk_loader_options, YK_LOADER_OPTIONS_INIT,
                                           o.batch_size = 1, o.workers = -1)));
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_loader_create(&loader, dataset,
                                   YK_WITH(yk_loader_options, YK_LOADER_OPTIONS_INIT,
                                           o.batch_size = 1, o.dtype = YK_BF16)));
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_loader_create(&loader, dataset,
                                   YK_WITH(yk_loader_options, YK_LOADER_OPTIONS_INIT,
                                           o.batch_size = 1, o.exact = true, o.drop_last = true)));
    assert_status(
        YK_ERROR_INVALID_ARGUMENT,
        yk_loader_create(&loader, dataset,
                         YK_WITH(yk_loader_options, YK_LOADER_OPTIONS_INIT, o.batch_size = 1,
                                 o.transforms = "RandomCrop(64,padding=2)")));
    yk_dataset_destroy(dataset);
}

YK_TEST(more_samples_than_any_memory_has_are_refused)
{
    yk_dataset *dataset;
    assert_ok(
        yk_random_create(&dataset, YK_SPLIT_TRAIN,
                         YK_WITH(yk_random_options, YK_RANDOM_OPTIONS_INIT, o.count = INT64_MAX)));
    for (int virtual_ranks = 0; virtual_ranks <= 2; virtual_ranks += 2) {
        yk_loader *loader;
        assert_status(YK_ERROR_OUT_OF_MEMORY,
                      yk_loader_create(&loader, dataset,
                                       YK_WITH(yk_loader_options, YK_LOADER_OPTIONS_INIT,
                                               o.batch_size = 3, o.virtual_ranks = virtual_ranks)));
        assert_null(loader);
    }
    yk_dataset_destroy(dataset);
}

YK_TEST(a_loader_keeps_its_data_set_alive)
{
    yk_dataset *dataset = draw_images(20);
    yk_loader *loader;
    assert_ok(yk_loader_create(
        &loader, dataset, YK_WITH(yk_loader_options, YK_LOADER_OPTIONS_INIT, o.batch_size = 3)));
    yk_dataset_destroy(dataset);
    for (int epoch = 0; epoch < 2; epoch++)
        for (const yk_batch *batch; (batch = yk_loader_next(loader));)
            assert_true(batch->size >= 1);
    assert_ok(yk_loader_status(loader));
    yk_loader_destroy(loader);
}

YK_TEST(a_loader_tells_a_forked_child_and_far_epochs_apart)
{
    yk_dataset *dataset = draw_images(20);
    yk_loader *loader = (yk_loader *)dataset;
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_loader_create(&loader, NULL, NULL));
    assert_null(loader);
    assert_ok(yk_loader_create(&loader, dataset, NULL));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_loader_seek(loader, INT64_MAX, 0));
    assert_contains(yk_last_error(), "there are at most");
    pid_t pid = yk_test_fork();
    if (pid == 0) {
        bool told = !yk_loader_next(loader) && yk_loader_status(loader) == YK_ERROR_UNSUPPORTED &&
                    yk_loader_seek(loader, 0, 0) == YK_ERROR_UNSUPPORTED;
        yk_loader_destroy(loader);
        _exit(told ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_non_null(yk_loader_next(loader));
    yk_loader_destroy(loader);
    yk_dataset_destroy(dataset);
}

/* While the ring is full, no thread runs: the process uses no CPU time. */
YK_TEST(idle_workers_use_no_cpu)
{
    yk_dataset *dataset = draw_images(100);
    yk_loader *loader;
    assert_ok(yk_loader_create(
        &loader, dataset,
        YK_WITH(yk_loader_options, YK_LOADER_OPTIONS_INIT, o.batch_size = 10, o.workers = 4)));
    assert_non_null(yk_loader_next(loader));
    usleep(100000);
    struct timespec before, after;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
    usleep(300000);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
    double used =
        (double)(after.tv_sec - before.tv_sec) + 1e-9 * (double)(after.tv_nsec - before.tv_nsec);
    assert_true(used < 0.1);
    yk_loader_destroy(loader);
    yk_dataset_destroy(dataset);
}

/* Over three ranks each sample is evaluated once, though 100 does not divide by 3. */
static void count_each_sample(int rank, int world)
{
    int32_t seen[100] = {0};
    yk_group *group;
    yk_dataset *dataset = draw_images(100);
    yk_loader *loader;
    assert_ok(yk_group_init(&group, NULL));
    assert_ok(yk_loader_create(&loader, dataset,
                               YK_WITH(yk_loader_options, YK_LOADER_OPTIONS_INIT, o.group = group,
                                       o.batch_size = 7, o.exact = true)));
    for (const yk_batch *batch; (batch = yk_loader_next(loader));)
        for (int64_t i = 0; i < batch->size; i++) {
            assert_int_equal(batch->indices[i] % world, rank);
            seen[batch->indices[i]]++;
        }
    assert_ok(yk_all_reduce(group, seen, 100, YK_I32, YK_REDUCE_SUM, NULL));
    for (int i = 0; i < 100; i++)
        assert_int_equal(seen[i], 1);
    yk_loader_destroy(loader);
    yk_dataset_destroy(dataset);
    yk_group_destroy(group);
}

YK_TEST(promise_19_ranks_evaluate_each_sample_once)
{
    yk_test_ranks(3, count_each_sample);
}

/* The synthetic data set: balanced, reproducible, and to be learnt. */
#define _GNU_SOURCE
#include "harness.h"
#include "images.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 3072 };

YK_TEST(has_ten_balanced_classes)
{
    yk_dataset *train, *test;
    assert_ok(yk_synthetic_create(&train, YK_SPLIT_TRAIN, NULL));
    assert_ok(yk_synthetic_create(&test, YK_SPLIT_TEST, NULL));
    assert_int_equal(yk_dataset_size(train), 5000);
    assert_int_equal(yk_dataset_size(test), 1000);
    assert_int_equal(yk_dataset_classes(train), 10);
    assert_string_equal(yk_dataset_class_name(train, 0), "disc");
    int count[10] = {0};
    for (int64_t i = 0; i < 5000; i++) {
        int label;
        assert_non_null(image_of(train, i, &label));
        count[label]++;
    }
    for (int label = 0; label < 10; label++)
        assert_int_equal(count[label], 500);
    assert_memory_not_equal(image_of(train, 0, NULL), image_of(test, 0, NULL), BYTES);
    yk_dataset_destroy(train);
    yk_dataset_destroy(test);
}

/* Compares a data set that other threads read at the same time with one of this thread's own. */
static void *read_all(void *argument)
{
    yk_dataset *own;
    yk_reader *mine, *others;
    const yk_tensor *painted, *expected;
    assert_ok(yk_synthetic_create(&own, YK_SPLIT_TEST, NULL));
    assert_ok(yk_reader_create(&mine, own));
    assert_ok(yk_reader_create(&others, (const yk_dataset *)argument));
    for (int64_t i = 0; i < yk_dataset_size(own); i++) {
        assert_ok(yk_reader_read(others, i, &painted));
        assert_ok(yk_reader_read(mine, i, &expected));
        assert_memory_equal(painted[0].data, expected[0].data, BYTES);
    }
    yk_reader_destroy(mine);
    yk_reader_destroy(others);
    yk_dataset_destroy(own);
    return NULL;
}

YK_TEST(several_threads_may_be_the_first_to_read)
{
    enum { THREADS = 4 };
    yk_dataset *shared;
    pthread_t threads[THREADS];
    assert_ok(yk_synthetic_create(&shared, YK_SPLIT_TEST, NULL));
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, read_all, shared), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    yk_dataset_destroy(shared);
}

/* A loader's workers are painting when the process forks, and do not exist in the child. */
YK_TEST(a_forked_child_reads_what_the_parent_is_painting)
{
    yk_dataset *dataset = draw_images(5000);
    yk_loader *loader;
    assert_ok(yk_loader_create(
        &loader, dataset,
        YK_WITH(yk_loader_options, YK_LOADER_OPTIONS_INIT, o.batch_size = 5000, o.workers = 4)));
    usleep(20000); /* of the half second that they take */
    pid_t pid = yk_test_fork();
    if (pid == 0) {
        alarm(30);
        yk_reader *reader;
        const yk_tensor *fields;
        yk_status status = yk_reader_create(&reader, dataset);
        for (int64_t i = 0; i < 5000 && status == YK_OK; i++)
            status = yk_reader_read(reader, i, &fields);
        _exit(status == YK_OK ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    yk_loader_destroy(loader);
    yk_dataset_destroy(dataset);
}

YK_TEST(depends_on_seed_and_index_alone)
{
    yk_dataset *few, *many, *other;
    assert_ok(yk_synthetic_create(
        &few, YK_SPLIT_TRAIN,
        YK_WITH(yk_synthetic_options, YK_SYNTHETIC_OPTIONS_INIT, o.count = 30)));
    assert_ok(yk_synthetic_create(
        &many, YK_SPLIT_TRAIN,
        YK_WITH(yk_synthetic_options, YK_SYNTHETIC_OPTIONS_INIT, o.count = 90)));
    assert_ok(yk_synthetic_create(
        &other, YK_SPLIT_TRAIN,
        YK_WITH(yk_synthetic_options, YK_SYNTHETIC_OPTIONS_INIT, o.count = 30, o.seed = 1)));
    for (int64_t i = 0; i < 30; i++) {
        const uint8_t *image = image_of(few, i, NULL);
        assert_memory_equal(image, image_of(many, i, NULL), BYTES);
        assert_memory_not_equal(image, image_of(other, i, NULL), BYTES);
    }
    yk_dataset_destroy(few);
    yk_dataset_destroy(many);
    yk_dataset_destroy(other);
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_synthetic_create(
                      &few, YK_SPLIT_TRAIN,
                      YK_WITH(yk_synthetic_options, YK_SYNTHETIC_OPTIONS_INIT, o.count = -2)));
}

/*
 * How the brightness changes from pixel to pixel, by direction: enough to tell some classes from
 * others whatever their colours are. A nearest-neighbour vote on it must beat chance by far, and
 * must not be perfect: then the task would be no test of a network.
 */
enum { FEATURES = 16 };

static void features(const uint8_t *pixels, float out[FEATURES])
{
    memset(out, 0, FEATURES * sizeof *out);
    float total = 1;
    for (int y = 1; y < 31; y++)
        for (int x = 1; x < 31; x++) {
            float dx = 0, dy = 0;
            for (int c = 0; c < 3; c++) {
                const uint8_t *p = pixels + c * 1024 + y * 32 + x;
                dx += (float)(p[1] - p[-1]);
                dy += (float)(p[32] - p[-32]);
            }
            float strength = sqrtf(dx * dx + dy * dy);
            if (strength < 90)
                continue;
            float radius = hypotf((float)(x - 16), (float)(y - 16)) / 6;
            out[(int)((atan2f(dy, dx) + 3.1416f) * 7.99f / 6.2832f)] += 1;
            out[8 + (radius > 3 ? 3 : (int)radius)] += 1;
            out[12] += 1;
            total += 1;
        }
    for (int f = 0; f < 12; f++)
        out[f] /= total;
    out[12] /= 900;
}

YK_TEST(can_be_learnt_but_not_trivially)
{
    enum { TRAIN = 2000, TEST = 300 };
    yk_dataset *train, *test;
    assert_ok(yk_synthetic_create(
        &train, YK_SPLIT_TRAIN,
        YK_WITH(yk_synthetic_options, YK_SYNTHETIC_OPTIONS_INIT, o.count = TRAIN)));
    assert_ok(yk_synthetic_create(
        &test, YK_SPLIT_TEST,
        YK_WITH(yk_synthetic_options, YK_SYNTHETIC_OPTIONS_INIT, o.count = TEST)));
    float(*known)[FEATURES] = malloc(TRAIN * sizeof *known);
    for (int i = 0; i < TRAIN; i++)
        features(image_of(train, i, NULL), known[i]);
    int right = 0;
    for (int i = 0; i < TEST; i++) {
        int label, guess = -1;
        float one[FEATURES], least = INFINITY;
        features(image_of(test, i, &label), one);
        for (int j = 0; j < TRAIN; j++) {
            float distance = 0;
            for (int f = 0; f < 13; f++)
                distance += (one[f] - known[j][f]) * (one[f] - known[j][f]);
            if (distance < least) {
                least = distance;
                image_of(train, j, &guess);
            }
        }
        right += guess == label;
    }
    print_message("nearest neighbour: %d of %d\n", right, TEST);
    assert_in_range(right, TEST / 4, TEST * 9 / 10);
    free(known);
    yk_dataset_destroy(train);
    yk_dataset_destroy(test);
}

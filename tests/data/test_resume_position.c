/* Resuming within an epoch: on any number of ranks, at once, each remaining sample once. */
#define _GNU_SOURCE
#include "images.h"

#include <string.h>
#include <time.h>

enum { GLOBAL = 12, MOST = 600, EPOCH = 3 };

/* A loader of all of `ranks` ranks, which take turns. */
static yk_loader *load(const yk_dataset *dataset, int ranks, bool exact)
{
    yk_loader *loader;
    assert_ok(
        yk_loader_create(&loader, dataset,
                         YK_WITH(yk_loader_options, YK_LOADER_OPTIONS_INIT, o.virtual_ranks = ranks,
                                 o.batch_size = GLOBAL / ranks, o.shuffle = !exact, o.exact = exact,
                                 o.seed = 5, o.workers = 2)));
    assert_int_equal(yk_loader_virtual_ranks(loader), ranks);
    return loader;
}

/* Takes `batches` batches, or what is left when it is -1; counts the samples. */
static void take(yk_loader *loader, int64_t batches, int seen[MOST])
{
    const yk_batch *batch;
    while (batches-- != 0 && (batch = yk_loader_next(loader)))
        for (int64_t i = 0; i < batch->size; i++)
            seen[batch->indices[i]]++;
    assert_ok(yk_loader_status(loader));
}

/* Some steps of an epoch on `from` ranks, the rest on `to`. */
static void change_ranks(int64_t samples, int from, int to, int64_t steps)
{
    int seen[MOST] = {0}, twice = 0;
    yk_dataset *dataset = draw_images(samples);
    yk_loader *before = load(dataset, from, false), *after = load(dataset, to, false);
    assert_int_equal(yk_loader_batches(before) / from, yk_loader_batches(after) / to);
    assert_ok(yk_loader_seek(before, EPOCH, 0));
    take(before, steps * from, seen);
    assert_ok(yk_loader_seek(after, EPOCH, steps * to));
    take(after, -1, seen);
    for (int64_t i = 0; i < samples; i++) {
        assert_in_range(seen[i], 1, 2);
        twice += seen[i] - 1;
    }
    /* What DistributedSampler pads the last step with, so that the ranks' shares are equal. */
    assert_int_equal(twice, (to - samples % to) % to);
    yk_loader_destroy(before);
    yk_loader_destroy(after);
    yk_dataset_destroy(dataset);
}

YK_TEST(promise_17_each_remaining_sample_once_on_other_ranks)
{
    static const int from[] = {1, 2, 3, 4, 4, 6}, to[] = {2, 3, 2, 1, 6, 4};
    for (int i = 0; i < 6; i++)
        for (int64_t steps = 1; steps < 40; steps += 13) {
            change_ranks(480, from[i], to[i], steps);
            change_ranks(491, from[i], to[i], steps);
        }
}

YK_TEST(shares_are_the_ranks_of_the_sampler)
{
    enum { SAMPLES = 50, SHARES = 4 };
    int64_t expected[SHARES][SAMPLES], at[SHARES] = {0};
    yk_dataset *dataset = draw_images(SAMPLES);
    yk_loader *loader = load(dataset, SHARES, false);
    for (int share = 0; share < SHARES; share++)
        assert_ok(yk_sampler_indices(YK_WITH(yk_sampler_options, YK_SAMPLER_OPTIONS_INIT,
                                             o.samples = SAMPLES, o.world_size = SHARES,
                                             o.rank = share, o.shuffle = true, o.seed = 5),
                                     0, expected[share]));
    int turn = 0;
    for (const yk_batch *batch; (batch = yk_loader_next(loader)); turn = (turn + 1) % SHARES) {
        assert_memory_equal(batch->indices, expected[turn] + at[turn],
                            (size_t)batch->size * sizeof *batch->indices);
        at[turn] += batch->size;
    }
    assert_int_equal(turn, 0);
    assert_int_equal(at[SHARES - 1], 13);
    yk_loader_destroy(loader);
    yk_dataset_destroy(dataset);
}

/* Of 49 samples share 0 of 4 has 13, in five batches of three; the others have 12, in four. */
YK_TEST(shares_evaluate_each_sample_once)
{
    int seen[MOST] = {0};
    yk_dataset *dataset = draw_images(49);
    yk_loader *loader = load(dataset, 4, true);
    assert_int_equal(yk_loader_batches(loader), 17);
    take(loader, -1, seen);
    for (int i = 0; i < 49; i++)
        assert_int_equal(seen[i], 1);
    yk_loader_destroy(loader);
    yk_dataset_destroy(dataset);
}

/* In processor time, also that of the workers: what else the machine does is not counted. */
YK_TEST(promise_16_any_position_is_reached_at_once)
{
    struct timespec start, end;
    yk_dataset *dataset = draw_images(50000);
    yk_loader *loader;
    assert_ok(yk_loader_create(&loader, dataset,
                               YK_WITH(yk_loader_options, YK_LOADER_OPTIONS_INIT, o.batch_size = 64,
                                       o.shuffle = true, o.workers = 1)));
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &start);
    assert_ok(yk_loader_seek(loader, 100000, 700));
    assert_non_null(yk_loader_next(loader));
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
    double seconds =
        (double)(end.tv_sec - start.tv_sec) + 1e-9 * (double)(end.tv_nsec - start.tv_nsec);
    print_message("%.1f ms to batch 700 of epoch 100,000\n", 1e3 * seconds);
    assert_true(seconds < 1);
    yk_loader_destroy(loader);
    yk_dataset_destroy(dataset);
}

YK_TEST(shares_that_ranks_cannot_have_equally_are_refused)
{
    yk_loader *loader;
    yk_dataset *dataset = draw_images(20);
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_loader_create(&loader, dataset,
                                   YK_WITH(yk_loader_options, YK_LOADER_OPTIONS_INIT,
                                           o.virtual_ranks = -2, o.batch_size = 2)));
    yk_dataset_destroy(dataset);
}

/* The sampler against values that PyTorch 1.13 printed. */
#include "harness.h"

#include <math.h>
#include <openssl/sha.h>
#include <stdlib.h>

static void expect(const yk_sampler_options *options, int64_t epoch, const int64_t *expected,
                   int64_t count)
{
    int64_t indices[64];
    assert_int_equal(yk_sampler_count(options), count);
    assert_ok(yk_sampler_indices(options, epoch, indices));
    for (int64_t i = 0; i < count; i++)
        assert_int_equal(indices[i], expected[i]);
}

YK_TEST(promise_18_indices_are_randperm)
{
    yk_sampler_options options = YK_SAMPLER_OPTIONS_INIT;
    options.samples = 10;
    options.world_size = 1;
    options.shuffle = true;
    expect(&options, 0, (int64_t[]){4, 1, 7, 5, 3, 9, 0, 8, 6, 2}, 10);
    options.seed = 42;
    expect(&options, 0, (int64_t[]){2, 6, 1, 8, 4, 5, 0, 9, 3, 7}, 10);
    options.seed = 40; /* set_epoch adds to the seed */
    expect(&options, 2, (int64_t[]){2, 6, 1, 8, 4, 5, 0, 9, 3, 7}, 10);
    options.seed = 42 + (1ull << 32); /* of which 32 bits count */
    expect(&options, 0, (int64_t[]){2, 6, 1, 8, 4, 5, 0, 9, 3, 7}, 10);
}

YK_TEST(promise_18_randperm_of_50000)
{
    enum { SIZE = 50000 };
    int64_t *indices = malloc(SIZE * sizeof *indices);
    yk_sampler_options options = YK_SAMPLER_OPTIONS_INIT;
    options.samples = SIZE;
    options.world_size = 1;
    options.shuffle = true;
    assert_ok(yk_sampler_indices(&options, 0, indices));
    static const int64_t first[] = {36044, 49165, 37807, 11341}, last[] = {42128, 15898, 31476};
    assert_memory_equal(indices, first, sizeof first);
    assert_memory_equal(indices + SIZE - 3, last, sizeof last);
    unsigned char digest[SHA256_DIGEST_LENGTH];
    SHA256((const unsigned char *)indices, SIZE * sizeof *indices, digest);
    static const unsigned char expected[] = {0x62, 0xd5, 0x8f, 0x14, 0x1c, 0xe6, 0x5a, 0xe7};
    assert_memory_equal(digest, expected, sizeof expected);
    free(indices);
}

YK_TEST(promise_18_ranks_share_as_distributed_sampler_does)
{
    static const int64_t expected[4][3] = {{4, 3, 6}, {1, 9, 2}, {7, 0, 4}, {5, 8, 1}};
    for (int rank = 0; rank < 4; rank++) {
        yk_sampler_options options = YK_SAMPLER_OPTIONS_INIT;
        options.samples = 10;
        options.world_size = 4;
        options.rank = rank;
        options.shuffle = true;
        expect(&options, 0, expected[rank], 3);
    }
    /* Without shuffling: range(10) padded with 0 and 1; cut to 8 with drop_last. */
    for (int rank = 0; rank < 4; rank++) {
        yk_sampler_options options = YK_SAMPLER_OPTIONS_INIT;
        options.samples = 10;
        options.world_size = 4;
        options.rank = rank;
        expect(&options, 7, (int64_t[]){rank, rank + 4, (rank + 8) % 10}, 3);
        options.drop_last = true;
        expect(&options, 7, (int64_t[]){rank, rank + 4}, 2);
    }
}

YK_TEST(counts_of_the_largest_data_set_do_not_overflow)
{
    yk_sampler_options options = YK_SAMPLER_OPTIONS_INIT;
    options.samples = INT64_MAX;
    options.world_size = 2;
    assert_true(yk_sampler_count(&options) == INT64_MAX / 2 + 1);
    options.rank = 1;
    options.exact = true;
    assert_true(yk_sampler_count(&options) == INT64_MAX / 2);
    options.world_size = 0;
    assert_true(yk_sampler_count(&options) == 0);
    assert_true(yk_sampler_count(NULL) == 0);
}

YK_TEST(fewer_samples_than_ranks)
{
    for (int rank = 0; rank < 7; rank++) {
        /* PyTorch repeats the list as often as it takes. */
        yk_sampler_options options = YK_SAMPLER_OPTIONS_INIT;
        options.samples = 3;
        options.world_size = 7;
        options.rank = rank;
        expect(&options, 0, (int64_t[]){rank % 3}, 1);
        options.drop_last = true;
        expect(&options, 0, NULL, 0);
        options.drop_last = false;
        options.exact = true;
        expect(&options, 0, (int64_t[]){rank}, rank < 3);
        options.samples = 0;
        expect(&options, 0, NULL, 0);
    }
}

YK_TEST(promise_19_exact_counts_every_sample_once)
{
    for (int world = 1; world < 9; world++)
        for (int64_t size = 0; size < 30; size++) {
            int seen[30] = {0};
            for (int rank = 0; rank < world; rank++) {
                int64_t indices[30];
                yk_sampler_options options = YK_SAMPLER_OPTIONS_INIT;
                options.samples = size;
                options.world_size = world;
                options.rank = rank;
                options.shuffle = size % 2;
                options.exact = true;
                assert_ok(yk_sampler_indices(&options, 3, indices));
                int64_t count = yk_sampler_count(&options);
                assert_in_range(count, size / world, size / world + 1);
                for (int64_t i = 0; i < count; i++)
                    seen[indices[i]]++;
            }
            for (int64_t i = 0; i < size; i++)
                assert_int_equal(seen[i], 1);
        }
}

YK_TEST(refuses_what_makes_no_sense)
{
    int64_t indices[16];
    yk_sampler_options options = YK_SAMPLER_OPTIONS_INIT;
    options.samples = 10;
    options.world_size = 2;
    options.rank = 2;
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_sampler_indices(&options, 0, indices));
    assert_contains(yk_last_error(), "rank 2 of 2");
    options = (yk_sampler_options)YK_SAMPLER_OPTIONS_INIT;
    options.samples = -1;
    options.world_size = 1;
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_sampler_indices(&options, 0, indices));
    options = (yk_sampler_options)YK_SAMPLER_OPTIONS_INIT;
    options.samples = 10;
    options.world_size = 0;
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_sampler_indices(&options, 0, indices));
    options = (yk_sampler_options)YK_SAMPLER_OPTIONS_INIT;
    options.samples = 1 << 30;
    options.world_size = 1;
    options.shuffle = true;
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_sampler_indices(&options, 0, indices));
    options = (yk_sampler_options)YK_SAMPLER_OPTIONS_INIT;
    options.samples = 10;
    options.world_size = 1;
    options.exact = true;
    options.drop_last = true;
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_sampler_indices(&options, 0, indices));
    assert_contains(yk_last_error(), "exact");
}

/* ---- weights: values that PyTorch 2.15 printed
 * --------------------------------------------------- */

YK_TEST(weighted_draws_are_torchs)
{
    static const double weights[] = {1, 2, 3, 4, 0, 10, 0.5, 7, 1, 1};
    yk_sampler_options options = YK_SAMPLER_OPTIONS_INIT;
    options.samples = 10;
    options.weights = weights;
    expect(&options, 0, (int64_t[]){9, 7, 5, 7, 5, 7, 2, 5, 5, 3}, 10);
    options.seed = 40; /* the epoch adds to the seed */
    expect(&options, 2, (int64_t[]){1, 1, 2, 1, 5, 5, 8, 7, 1, 2}, 10);
    options.world_size = 4; /* which share them as any other order */
    options.rank = 3;
    expect(&options, 2, (int64_t[]){1, 7, 1}, 3);
    options.drop_last = true;
    expect(&options, 2, (int64_t[]){1, 7}, 2);
}

YK_TEST(weighted_draws_of_50000)
{
    enum { SIZE = 50000 };
    int64_t *indices = malloc(SIZE * sizeof *indices), sum = 0;
    double *weights = malloc(SIZE * sizeof *weights);
    yk_sampler_options options = YK_SAMPLER_OPTIONS_INIT;
    options.samples = SIZE;
    options.seed = 3;
    options.weights = weights;
    for (int i = 0; i < SIZE; i++)
        weights[i] = i % 10 + 1;
    assert_ok(yk_sampler_indices(&options, 0, indices));
    static const int64_t first[] = {1707, 14338, 38647, 8747}, last[] = {31877, 33265, 27958};
    assert_memory_equal(indices, first, sizeof first);
    assert_memory_equal(indices + SIZE - 3, last, sizeof last);
    for (int64_t i = 0; i < SIZE; i++)
        sum += (i + 1) * indices[i];
    assert_int_equal(sum % 1000003, 650344);
    free(weights);
    free(indices);
}

YK_TEST(refuses_weights_that_make_no_sense)
{
    int64_t indices[3];
    double weights[] = {1, 2, 3};
    yk_sampler_options options = YK_SAMPLER_OPTIONS_INIT;
    options.samples = 3;
    options.weights = weights;
    options.shuffle = true;
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_sampler_indices(&options, 0, indices));
    assert_contains(yk_last_error(), "exclude shuffle and exact");
    assert_int_equal(yk_sampler_count(&options), 0);
    options.shuffle = false;
    static const double bad[] = {-1, NAN, INFINITY};
    for (int i = 0; i < 3; i++) {
        weights[1] = bad[i];
        assert_status(YK_ERROR_INVALID_ARGUMENT, yk_sampler_indices(&options, 0, indices));
        assert_contains(yk_last_error(), "the weight of sample 1 is");
    }
    weights[0] = weights[1] = weights[2] = 0;
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_sampler_indices(&options, 0, indices));
    assert_contains(yk_last_error(), "all weights are 0");
}

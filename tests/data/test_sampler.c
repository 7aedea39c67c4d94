/* The sampler against values that PyTorch 1.13 printed. */
#include "harness.h"

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

/* Parts of any size between all ranks, on any backend (YOKE_BACKEND). */
#define _GNU_SOURCE
#include "harness.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_RANKS = 5 };

static yk_group *join(void)
{
    yk_group *group = NULL;
    assert_ok(
        yk_group_init(&group, YK_WITH(yk_group_options, YK_GROUP_OPTIONS_INIT, o.timeout_s = 60)));
    return group;
}

/* How many elements one rank gives to another in a round: none, few, or as many as do not fit into
 * any buffer of a backend. */
static size_t size_of(int round, int from, int to)
{
    static const size_t sizes[] = {0, 3, 700, 0, 40001, 1, 9000};
    if (round == 0)
        return 0;
    if (round == 1) /* all to one */
        return to == 0 ? 1000 + (size_t)from : 0;
    if (round == 2) /* a ring of large ones */
        return to == from + 1 ? 3 << 20 : 0;
    return sizes[(size_t)(5 * from + 3 * to + round) % (sizeof sizes / sizeof *sizes)];
}

static int32_t element(int round, int from, int to, size_t i)
{
    return (int32_t)(100000 * round + 10000 * from + 1000 * to) + (int32_t)(i % 997);
}

/* One round: its buffers are malloced, so that sanitizers see where they end. */
typedef struct trade {
    size_t give[MOST_RANKS], take[MOST_RANKS];
    int32_t *in, *out;
    yk_work *work;
} trade;

static size_t sum_of(const size_t *counts, int world)
{
    size_t sum = 0;
    for (int r = 0; r < world; r++)
        sum += counts[r];
    return sum;
}

static void start_trade(trade *t, yk_group *group, int round, bool works)
{
    int rank = yk_group_rank(group), world = yk_group_size(group);
    for (int r = 0; r < world; r++) {
        t->give[r] = size_of(round, rank, r);
        t->take[r] = size_of(round, r, rank);
    }
    t->in = malloc(sum_of(t->give, world) * sizeof *t->in);
    t->out = malloc(sum_of(t->take, world) * sizeof *t->out);
    int32_t *at = t->in;
    for (int to = 0; to < world; to++)
        for (size_t i = 0; i < t->give[to]; i++)
            *at++ = element(round, rank, to, i);
    assert_ok(
        yk_all_to_all_v(group, t->out, t->take, t->in, t->give, YK_I32, works ? &t->work : NULL));
}

static void finish_trade(trade *t, yk_group *group, int round, bool works)
{
    int rank = yk_group_rank(group), world = yk_group_size(group);
    if (works)
        assert_ok(yk_work_wait(t->work));
    const int32_t *got = t->out;
    for (int from = 0; from < world; from++)
        for (size_t i = 0; i < size_of(round, from, rank); i++, got++)
            if (*got != element(round, from, rank, i))
                fail_msg("round %d, element %zu from rank %d: %d, not %d", round, i, from, *got,
                         element(round, from, rank, i));
    free(t->in);
    free(t->out);
}

static void parts_body(int rank, int world)
{
    (void)rank, (void)world;
    yk_group *group = join();
    trade t;
    for (int round = 0; round < 12; round++) {
        start_trade(&t, group, round, round % 2);
        finish_trade(&t, group, round, round % 2);
    }
    yk_group_destroy(group);
}

YK_TEST(parts_of_any_size_1)
{
    yk_test_ranks(1, parts_body);
}

YK_TEST(parts_of_any_size_2)
{
    yk_test_ranks(2, parts_body);
}

YK_TEST(parts_of_any_size_5)
{
    yk_test_ranks(5, parts_body);
}

/* The counts were copied, so they may be overwritten at once. */
YK_TEST_RANKS(many_works_among_other_calls, 3)
{
    enum { WORKS = 12 };
    yk_group *group = join();
    trade trades[WORKS];
    yk_work *sums[WORKS];
    int32_t values[WORKS];
    for (int w = 0; w < WORKS; w++) {
        start_trade(&trades[w], group, w, true);
        memset(trades[w].give, 0xff, sizeof trades[w].give);
        memset(trades[w].take, 0xff, sizeof trades[w].take);
        values[w] = rank + w;
        assert_ok(yk_all_reduce(group, &values[w], 1, YK_I32, YK_REDUCE_SUM, &sums[w]));
        if (w == WORKS / 2) {
            trade now;
            start_trade(&now, group, 5, false);
            finish_trade(&now, group, 5, false);
        }
    }
    for (int w = WORKS - 1; w >= 0; w--) {
        assert_ok(yk_work_wait(sums[w]));
        assert_int_equal(values[w], world * w + 3);
        finish_trade(&trades[w], group, w, true);
    }
    yk_group_destroy(group);
}

/* Every dtype, with the memory of the group on one side. */
YK_TEST_RANKS(parts_of_every_dtype, 2)
{
    yk_group *group = join();
    void *shared;
    assert_ok(yk_group_alloc(group, 4096, &shared));
    for (int dtype = 0; dtype < YK_DTYPE_COUNT; dtype++) {
        size_t width = yk_dtype_size((yk_dtype)dtype);
        size_t give[2] = {1 + (size_t)rank, 5}, take[2] = {rank ? 5 : 1, rank ? 5 : 2};
        unsigned char *in = shared, out[160];
        for (int to = 0, at = 0; to < world; to++)
            for (size_t i = 0; i < give[to] * width; i++)
                in[at++] = (unsigned char)(100 * rank + 50 * to + (int)i);
        assert_ok(yk_all_to_all_v(group, out, take, in, give, (yk_dtype)dtype, NULL));
        for (int from = 0, at = 0; from < world; from++)
            for (size_t i = 0; i < take[from] * width; i++)
                assert_int_equal(out[at++], (unsigned char)(100 * from + 50 * rank + (int)i));
        assert_ok(yk_barrier(group)); /* before the next round writes to it */
    }
    yk_group_destroy(group);
}

YK_TEST_RANKS(parts_within_parts_of_a_group, 4)
{
    (void)world;
    yk_group *group = join(), *part;
    trade t;
    assert_ok(yk_group_split(&part, group, rank % 2, -rank));
    for (int round = 3; round < 6; round++) {
        start_trade(&t, part, round, true);
        finish_trade(&t, part, round, true);
    }
    yk_group_destroy(part);
    yk_group_destroy(group);
}

/* ---- mistakes -------------------------------------------------------------------------------- */

/* All ranks learn which two disagree, before anything moves. */
YK_TEST_RANKS(promise_05_sizes_that_do_not_fit, 3)
{
    yk_group *group = join();
    int32_t in[9], out[9];
    for (int round = 0; round < 4; round++) {
        yk_work *work = NULL;
        size_t give[3] = {2, 2, 2}, take[3] = {2, 2, 2};
        memset(in, 1, sizeof in);
        memset(out, 0x55, sizeof out);
        if (rank == 2 && round % 2 == 0)
            take[1] = 3;
        yk_status status =
            yk_all_to_all_v(group, out, take, in, give, YK_I32, round > 1 ? &work : NULL);
        if (work)
            status = yk_work_wait(work);
        assert_int_equal(status, round % 2 ? YK_OK : YK_ERROR_MISMATCH);
        if (round % 2 == 0) {
            assert_contains(yk_last_error(), "all_to_all_v(int32), operation ");
            assert_contains(yk_last_error(), "ranks disagree in count: rank 1 gives 2 to rank 2, "
                                             "which takes 3");
        }
        assert_int_equal(out[0], round % 2 ? in[0] : 0x55555555);
    }
    assert_ok(yk_barrier(group));
    yk_group_destroy(group);
}

YK_TEST_RANKS(promise_05_another_dtype_or_call, 3)
{
    yk_group *group = join();
    double in[3] = {0}, out[3];
    const size_t one[3] = {1, 1, 1};
    assert_status(YK_ERROR_MISMATCH,
                  yk_all_to_all_v(group, out, one, in, one, rank == 1 ? YK_F64 : YK_F32, NULL));
    assert_contains(yk_last_error(), "ranks disagree in dtype: rank 0 called "
                                     "all_to_all_v(float32), rank 1 called all_to_all_v(float64)");
    assert_status(YK_ERROR_MISMATCH, rank == 2
                                         ? yk_all_to_all(group, out, in, 1, YK_F32, NULL)
                                         : yk_all_to_all_v(group, out, one, in, one, YK_F32, NULL));
    assert_contains(yk_last_error(), "rank 0 called all_to_all_v(float32), rank 2 called "
                                     "all_to_all(float32 x 1)");
    assert_ok(yk_all_to_all_v(group, out, one, in, one, YK_F32, NULL));
    yk_group_destroy(group);
}

/* Refused arguments of one rank are a mismatch for the others. */
YK_TEST_RANKS(promise_06_refused_parts_of_one_rank, 3)
{
    yk_group *group = join();
    float in[6] = {0}, out[6];
    const size_t one[3] = {1, 1, 1}, huge[3] = {1, SIZE_MAX / 2, SIZE_MAX / 2};
    for (int way = 0; way < 6; way++) {
        bool wrong = rank == 1;
        yk_work *work = NULL;
        yk_status status =
            yk_all_to_all_v(group, wrong && way == 0 ? in + 1 : out, wrong && way == 1 ? NULL : one,
                            wrong && way == 2 ? NULL : in, wrong && way == 3 ? huge : one,
                            wrong && way == 4 ? (yk_dtype)77 : YK_F32, way % 2 ? &work : NULL);
        if (work)
            status = yk_work_wait(work);
        assert_int_equal(status, way == 5 ? YK_OK
                                 : wrong  ? YK_ERROR_INVALID_ARGUMENT
                                          : YK_ERROR_MISMATCH);
        if (way < 5)
            assert_contains(yk_last_error(),
                            wrong ? "all_to_all_v: " : "rank 1 cannot take part: all_to_all_v: ");
    }
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_all_to_all_v(NULL, out, one, in, one, YK_F32, NULL));
    assert_ok(yk_barrier(group));
    yk_group_destroy(group);
}

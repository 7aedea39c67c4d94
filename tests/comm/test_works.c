/*
 * Works of a group on any backend (YOKE_BACKEND): many in flight, blocking calls in between,
 * refusals and mismatches among them, several groups at once.
 */
#define _GNU_SOURCE
#include "harness.h"

#include <stdlib.h>
#include <string.h>

#include "comm/group_internal.h"

enum { WORKS = 24, LARGEST = 40001 };

static const size_t counts[] = {1, 0, 33, 1000, LARGEST, 7, 4096, 300};

static yk_group *join(void)
{
    yk_group *group = NULL;
    assert_ok(
        yk_group_init(&group, YK_WITH(yk_group_options, YK_GROUP_OPTIONS_INIT, o.timeout_s = 60)));
    return group;
}

/* Work number `index` of rank 0 ... world - 1: which collective it is follows from the index. */
typedef struct job {
    yk_work *work;
    size_t count;
    int64_t *in, *out; /* (world * count) each */
} job;

/* Element i of work `index` on that rank. */
static int64_t element(int index, int rank, size_t i)
{
    return (int64_t)i % 101 + 1000 * rank + 7 * index;
}

static int64_t total(int index, int world, size_t i)
{
    int64_t sum = 0;
    for (int r = 0; r < world; r++)
        sum += element(index, r, i);
    return sum;
}

static void start_job(job *j, yk_group *group, int index)
{
    int rank = yk_group_rank(group), world = yk_group_size(group), root = index % world;
    j->count = counts[(size_t)(index + index / 8) % (sizeof counts / sizeof *counts)];
    size_t all = (size_t)world * j->count;
    j->in = calloc(all + 1, sizeof *j->in);
    j->out = calloc(all + 1, sizeof *j->out);
    for (size_t i = 0; i < all; i++)
        j->in[i] = element(index, rank, i);
    switch (index % 8) {
    case 0:
        assert_ok(yk_all_reduce(group, j->in, j->count, YK_I64, YK_REDUCE_SUM, &j->work));
        break;
    case 1:
        assert_ok(yk_broadcast(group, j->in, j->count, YK_I64, root, &j->work));
        break;
    case 2:
        assert_ok(yk_all_gather(group, j->out, j->in, j->count, YK_I64, &j->work));
        break;
    case 3:
        assert_ok(
            yk_reduce_scatter(group, j->out, j->in, j->count, YK_I64, YK_REDUCE_SUM, &j->work));
        break;
    case 4:
        assert_ok(yk_gather(group, j->out, j->in, j->count, YK_I64, root, &j->work));
        break;
    case 5:
        assert_ok(yk_reduce(group, j->in, j->count, YK_I64, YK_REDUCE_SUM, root, &j->work));
        break;
    case 6:
        assert_ok(yk_scatter(group, j->out, j->in, j->count, YK_I64, root, &j->work));
        break;
    default:
        assert_ok(yk_all_to_all(group, j->out, j->in, j->count, YK_I64, &j->work));
    }
}

/* Element i of the result on this rank; *known is false where it has none. */
static int64_t result(int index, int rank, int world, size_t count, size_t i, bool *known)
{
    int root = index % world;
    *known = index % 8 == 2 || index % 8 == 4 || index % 8 == 7 || i < count;
    switch (index % 8) {
    case 0:
        return total(index, world, i);
    case 1:
        return element(index, root, i);
    case 3:
        return total(index, world, (size_t)rank * count + i);
    case 5:
        *known = *known && rank == root;
        return total(index, world, i);
    case 6:
        return element(index, root, (size_t)rank * count + i);
    case 7:
        return element(index, (int)(i / count), (size_t)rank * count + i % count);
    default:
        *known = *known && (index % 8 == 2 || rank == root);
        return element(index, (int)(i / count), i % count);
    }
}

static void finish_job(job *j, yk_group *group, int index)
{
    int rank = yk_group_rank(group), world = yk_group_size(group);
    assert_ok(yk_work_wait(j->work));
    bool in_place = index % 8 < 2 || index % 8 == 5;
    const int64_t *got = in_place ? j->in : j->out;
    for (size_t i = 0; i < (size_t)world * j->count; i++) {
        bool known;
        int64_t expected = result(index, rank, world, j->count, i, &known);
        if (known && got[i] != expected)
            fail_msg("work %d, element %zu: %lld, not %lld", index, i, (long long)got[i],
                     (long long)expected);
    }
    free(j->in);
    free(j->out);
}

/* Every collective in flight with every other, waited for in another order, calls in between. */
YK_TEST_RANKS(many_works_of_all_kinds, 3)
{
    job jobs[WORKS];
    yk_group *group = join();
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < WORKS; i++) {
            start_job(&jobs[i], group, i + round);
            if (i % 9 == 8)
                assert_ok(yk_barrier(group));
        }
        for (int i = 0; i < WORKS; i++) {
            int index = i * 7 % WORKS;
            finish_job(&jobs[index], group, index + round);
        }
    }
    yk_group_destroy(group);
}

/*
 * A blocking call follows the works that were posted before it, on the same memory: it waits until
 * they are done, and may then be driven by its caller. The next work follows it in turn. The
 * numbers come out right in no other order.
 */
YK_TEST_RANKS(blocking_calls_keep_their_place_among_works, 3)
{
    enum { ROUNDS = 12 };
    yk_group *group = join();
    int64_t *values = malloc(LARGEST * sizeof *values), *copy = malloc(LARGEST * sizeof *copy);
    for (int round = 0; round < ROUNDS; round++) {
        size_t count = counts[(size_t)round % (sizeof counts / sizeof *counts)];
        yk_work *before, *after;
        for (size_t i = 0; i < count; i++) {
            values[i] = rank + (int64_t)i % 11;
            copy[i] = rank == round % 3 ? (int64_t)i : -1;
        }
        assert_ok(yk_all_reduce(group, values, count, YK_I64, YK_REDUCE_SUM, &before));
        assert_ok(yk_all_reduce(group, values, count, YK_I64, YK_REDUCE_MAX, NULL));
        assert_true(yk_work_done(before));
        for (size_t i = 0; i < count; i++) {
            assert_int_equal(values[i], 3 + 3 * ((int64_t)i % 11));
            values[i] += rank;
        }
        assert_ok(yk_all_reduce(group, values, count, YK_I64, YK_REDUCE_SUM, &after));
        assert_ok(yk_broadcast(group, copy, count, YK_I64, round % 3, NULL));
        assert_true(yk_work_done(after));
        for (size_t i = 0; i < count; i++) {
            assert_int_equal(values[i], 12 + 9 * ((int64_t)i % 11));
            assert_int_equal(copy[i], i);
        }
        assert_ok(yk_work_wait(before));
        assert_ok(yk_work_wait(after));
    }
    free(values);
    free(copy);
    yk_group_destroy(group);
}

/* One rank calls something else among works that agree: only that work fails, on every rank. */
YK_TEST_RANKS(promise_06_a_mismatch_among_works_in_flight, 3)
{
    enum { COUNT = 9, ODD = 4 };
    yk_group *group = join();
    yk_work *works[COUNT];
    float data[COUNT][64];
    for (int i = 0; i < COUNT; i++) {
        for (int k = 0; k < 64; k++)
            data[i][k] = (float)(rank + i);
        size_t count = i == ODD && rank == 2 ? 63 : 64;
        assert_ok(yk_all_reduce(group, data[i], count, YK_F32, YK_REDUCE_SUM, &works[i]));
    }
    for (int i = 0; i < COUNT; i++) {
        if (i == ODD) {
            assert_status(YK_ERROR_MISMATCH, yk_work_wait(works[i]));
            assert_contains(yk_last_error(), "rank 0 called all_reduce(float32 x 64, sum)");
            assert_contains(yk_last_error(), "rank 2 called all_reduce(float32 x 63, sum)");
        } else {
            assert_ok(yk_work_wait(works[i]));
        }
        assert_true(data[i][0] == (float)(i == ODD ? rank + i : 3 * i + 3));
    }
    assert_ok(yk_barrier(group));
    yk_group_destroy(group);
}

/* A sum with what is done around it. */
typedef struct around {
    float data[64], value;
    bool before, after;
} around;

static void fill(void *context)
{
    around *a = context;
    assert_false(a->before);
    for (int k = 0; k < 64; k++)
        a->data[k] = a->value;
    a->before = true;
}

static void triple(void *context)
{
    around *a = context;
    assert_true(a->before && !a->after);
    for (int k = 0; k < 64; k++)
        a->data[k] *= 3;
    a->after = true;
}

/* Afterwards nothing is done if the sum fails. */
YK_TEST_RANKS(something_is_done_before_and_after_a_sum, 3)
{
    enum { COUNT = 9, ODD = 4 };
    yk_group *group = join();
    yk_work *works[COUNT];
    around sums[COUNT] = {0};
    for (int i = 0; i < COUNT; i++) {
        sums[i].value = (float)(rank + i);
        size_t count = i == ODD && rank == 1 ? 63 : 64;
        assert_ok(yki_group_sum_between(group, sums[i].data, count, YK_F32, fill, triple, &sums[i],
                                        &works[i]));
    }
    for (int i = 0; i < COUNT; i++) {
        assert_status(i == ODD ? YK_ERROR_MISMATCH : YK_OK, yk_work_wait(works[i]));
        assert_int_equal(sums[i].after, i != ODD);
        for (int k = 0; k < 64; k++)
            assert_true(sums[i].data[k] == (float)(i == ODD ? rank + i : 3 * (3 * i + 3)));
    }
    assert_ok(yk_barrier(group));
    yk_group_destroy(group);
}

/* The arguments of one rank are refused among works that agree. */
YK_TEST_RANKS(promise_06_refused_arguments_among_works_in_flight, 3)
{
    enum { COUNT = 7, ODD = 3 };
    yk_group *group = join();
    yk_work *works[COUNT];
    int32_t data[COUNT];
    for (int i = 0; i < COUNT; i++) {
        data[i] = rank;
        int root = i == ODD && rank == 1 ? 99 : 2;
        assert_ok(yk_broadcast(group, &data[i], 1, YK_I32, root, &works[i]));
    }
    for (int i = 0; i < COUNT; i++) {
        yk_status expected = i != ODD    ? YK_OK
                             : rank == 1 ? YK_ERROR_INVALID_ARGUMENT
                                         : YK_ERROR_MISMATCH;
        assert_status(expected, yk_work_wait(works[i]));
        assert_int_equal(data[i], i == ODD ? rank : 2);
    }
    assert_ok(yk_barrier(group));
    yk_group_destroy(group);
}

/* Two groups of the same ranks, which meet in a different order on each rank. */
YK_TEST_RANKS(two_groups_at_once, 3)
{
    enum { COUNT = 12 };
    yk_group *groups[2] = {join()};
    yk_work *works[2][COUNT];
    int32_t data[2][COUNT];
    assert_ok(yki_group_channel(&groups[1], groups[0]));
    for (int i = 0; i < 2 * COUNT; i++) {
        int g = rank == 1 ? i / COUNT : i % 2, at = rank == 1 ? i % COUNT : i / 2;
        data[g][at] = rank + 10 * g + at;
        assert_ok(yk_all_reduce(groups[g], &data[g][at], 1, YK_I32, YK_REDUCE_SUM, &works[g][at]));
    }
    for (int i = 0; i < COUNT; i++)
        for (int g = 0; g < 2; g++) {
            assert_ok(yk_work_wait(works[g][i]));
            assert_int_equal(data[g][i], 3 + world * (10 * g + i));
        }
    assert_ok(yk_barrier(groups[1]));
    yk_group_destroy(groups[0]);
}

/* Memory of yk_group_alloc among works; what is not freed is freed with the group. */
YK_TEST_RANKS(memory_between_works, 2)
{
    enum { COUNT = 5000 };
    yk_group *group = join();
    for (int round = 0; round < 10; round++) {
        void *memory = NULL, *more = NULL;
        yk_work *work;
        assert_ok(yk_group_alloc(group, COUNT * sizeof(double), &memory));
        assert_int_equal((uintptr_t)memory % 64, 0);
        double *values = memory;
        for (int i = 0; i < COUNT; i++) {
            assert_true(values[i] == 0);
            values[i] = rank + i;
        }
        assert_ok(yk_all_reduce(group, values, COUNT, YK_F64, YK_REDUCE_SUM, &work));
        assert_ok(yk_group_alloc(group, (size_t)round * 100, &more));
        assert_ok(yk_work_wait(work));
        for (int i = 0; i < COUNT; i++)
            assert_true(values[i] == 2 * i + 1);
        assert_ok(yk_group_free(group, memory));
        if (round % 2)
            assert_ok(yk_group_free(group, more));
    }
    double mine;
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_group_free(group, &mine));
    assert_ok(yk_barrier(group));
    yk_group_destroy(group);
}

/* alloc is collective, so its sizes are compared, too. */
YK_TEST_RANKS(promise_05_allocations_of_different_sizes, 3)
{
    yk_group *group = join();
    void *memory = &memory;
    assert_status(YK_ERROR_MISMATCH, yk_group_alloc(group, rank == 1 ? 128 : 256, &memory));
    assert_contains(yk_last_error(), "rank 0 called alloc(256 bytes)");
    assert_contains(yk_last_error(), "rank 1 called alloc(128 bytes)");
    assert_null(memory);
    assert_ok(yk_group_alloc(group, 64, &memory));
    yk_group_destroy(group);
}

/* Whatever order the backend adds in, the sum is the same on all ranks: models stay equal. */
YK_TEST_RANKS(all_ranks_get_the_same_bits, 5)
{
    enum { COUNT = 20011 };
    yk_group *group = join();
    float *data = malloc(COUNT * sizeof *data), *all = malloc(5 * COUNT * sizeof *all);
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < COUNT; i++)
            data[i] = 1.0f / (float)(1 + (i * 31 + rank * 17 + round) % 9973);
        assert_ok(yk_all_reduce(group, data, COUNT, YK_F32,
                                round % 2 ? YK_REDUCE_AVG : YK_REDUCE_SUM, NULL));
        assert_ok(yk_all_gather(group, all, data, COUNT, YK_F32, NULL));
        for (int r = 0; r < world; r++)
            assert_memory_equal(all + (size_t)r * COUNT, data, COUNT * sizeof *data);
    }
    free(data);
    free(all);
    yk_group_destroy(group);
}

/* A part of the result may already be in its place. */
YK_TEST_RANKS(in_place, 3)
{
    yk_group *group = join();
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        size_t count = counts[c], all = (size_t)world * count;
        int64_t *data = calloc(all + 1, sizeof *data), *mine = data + (size_t)rank * count;
        for (size_t i = 0; i < count; i++)
            mine[i] = element(0, rank, i);
        assert_ok(yk_all_gather(group, data, mine, count, YK_I64, NULL));
        for (size_t i = 0; i < all; i++)
            assert_int_equal(data[i], element(0, (int)(i / count), i % count));
        memset(data, 0, all * sizeof *data);
        for (size_t i = 0; i < count; i++)
            mine[i] = element(1, rank, i);
        assert_ok(yk_gather(group, data, mine, count, YK_I64, 1, NULL));
        for (size_t i = 0; i < all && rank == 1; i++)
            assert_int_equal(data[i], element(1, (int)(i / count), i % count));
        free(data);
    }
    yk_group_destroy(group);
}

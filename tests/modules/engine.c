/* The sums are of small integers, so that every order of additions gives the same bits. */
#define _GNU_SOURCE
#include "engine.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void require_module(const char *file)
{
    char path[512];
    const char *named = getenv("YOKE_BUILD"), *build = named ? named : "build";
    snprintf(path, sizeof path, "%s/%s", build, file);
    if (access(path, R_OK))
        skip_because("%s was not built", file);
    setenv("YOKE_MODULES", build, 1);
}

const char *require_network(void)
{
    const char *module = getenv("YOKE_BACKEND");
    char file[64];
    if (!module)
        return "tcp";
    snprintf(file, sizeof file, "libyoke-%s.so", module);
    require_module(file);
    return module;
}

yk_group *open_network(double timeout_s)
{
    yk_group *group;
    const char *name = require_network();
    assert_ok(yk_group_init(&group, YK_WITH(yk_group_options, YK_GROUP_OPTIONS_INIT,
                                            o.backend = name, o.timeout_s = timeout_s)));
    assert_string_equal(yk_group_backend(group), name);
    return group;
}

/* ---- numbers --------------------------------------------------------------------------------- */

static const yk_dtype dtypes[] = {YK_F32, YK_F64, YK_BF16, YK_F16, YK_I32, YK_I64};
static const yk_reduce_op ops[] = {YK_REDUCE_SUM, YK_REDUCE_AVG, YK_REDUCE_MIN, YK_REDUCE_MAX,
                                   YK_REDUCE_PRODUCT};

enum { DTYPES = sizeof dtypes / sizeof *dtypes, OPS = sizeof ops / sizeof *ops };

/* f16 of small non-negative integers. */
static uint16_t f16_of(int value)
{
    int exponent = 0;
    while (value >> (exponent + 1))
        exponent++;
    return value ? (uint16_t)((exponent + 15) << 10 | ((value << 10 >> exponent) & 0x3ff)) : 0;
}

static uint16_t bf16_of(int value)
{
    float f = (float)value;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return (uint16_t)(bits >> 16);
}

static void put(void *data, size_t i, yk_dtype dtype, int value)
{
    switch (dtype) {
    case YK_F32:
        ((float *)data)[i] = (float)value;
        return;
    case YK_F64:
        ((double *)data)[i] = value;
        return;
    case YK_BF16:
        ((uint16_t *)data)[i] = bf16_of(value);
        return;
    case YK_F16:
        ((uint16_t *)data)[i] = f16_of(value);
        return;
    case YK_I32:
        ((int32_t *)data)[i] = value;
        return;
    case YK_I64:
        ((int64_t *)data)[i] = value;
        return;
    default:
        ((uint8_t *)data)[i] = (uint8_t)value;
    }
}

/* What rank has at i: all of 1, 2 or 4, and a multiple of the ranks' number for averages. */
static int element(int rank, size_t i, int world, yk_reduce_op op)
{
    int value = 1 << (rank + (int)(i % 7)) % 3;
    return op == YK_REDUCE_AVG ? value * world : value;
}

static int expected(size_t i, int world, yk_reduce_op op)
{
    int result = element(0, i, world, op);
    for (int r = 1; r < world; r++) {
        int value = element(r, i, world, op);
        if (op == YK_REDUCE_MIN)
            result = value < result ? value : result;
        else if (op == YK_REDUCE_MAX)
            result = value > result ? value : result;
        else
            result = op == YK_REDUCE_PRODUCT ? result * value : result + value;
    }
    return op == YK_REDUCE_AVG ? result / world : result;
}

/* ---- collectives ----------------------------------------------------------------------------- */

static void check_reductions(yk_group *group, size_t n, yk_dtype dtype, yk_reduce_op op)
{
    int rank = yk_group_rank(group), world = yk_group_size(group);
    size_t width = yk_dtype_size(dtype), all = n * (size_t)world;
    char *data = calloc(all + 1, width), *want = calloc(all + 1, width);
    char *part = calloc(n + 1, width);
    for (size_t i = 0; i < all; i++) {
        put(data, i, dtype, element(rank, i, world, op));
        put(want, i, dtype, expected(i, world, op));
    }
    assert_ok(yk_reduce_scatter(group, part, data, n, dtype, op, NULL));
    assert_memory_equal(part, want + (size_t)rank * n * width, n * width);
    assert_ok(yk_all_reduce(group, data, all, dtype, op, NULL));
    assert_memory_equal(data, want, all * width);
    free(data);
    free(want);
    free(part);
}

static void check_reductions_to_root(yk_group *group, size_t n, yk_dtype dtype, yk_reduce_op op)
{
    int rank = yk_group_rank(group), world = yk_group_size(group);
    size_t width = yk_dtype_size(dtype);
    char *data = calloc(n + 1, width), *want = calloc(n + 1, width);
    for (size_t i = 0; i < n; i++)
        put(want, i, dtype, expected(i, world, op));
    for (int root = 0; root < world; root++) {
        for (size_t i = 0; i < n; i++)
            put(data, i, dtype, element(rank, i, world, op));
        assert_ok(yk_reduce(group, data, n, dtype, op, root, NULL));
        if (rank == root)
            assert_memory_equal(data, want, n * width);
    }
    free(data);
    free(want);
}

static void check_copies(yk_group *group, size_t n, int root)
{
    int rank = yk_group_rank(group), world = yk_group_size(group);
    size_t all = n * (size_t)world;
    int32_t *mine = calloc(n + 1, sizeof *mine), *every = calloc(all + 1, sizeof *every);
    int32_t *want = calloc(all + 1, sizeof *want);
    for (size_t i = 0; i < all; i++)
        want[i] = (int32_t)(i * 3 + (size_t)root);
    memcpy(mine, want + (size_t)rank * n, n * sizeof *mine);
    assert_ok(yk_all_gather(group, every, mine, n, YK_I32, NULL));
    assert_memory_equal(every, want, all * sizeof *want);
    memset(every, 0, all * sizeof *every);
    assert_ok(yk_gather(group, rank == root ? every : NULL, mine, n, YK_I32, root, NULL));
    if (rank == root)
        assert_memory_equal(every, want, all * sizeof *want);
    int32_t *traded = calloc(all + 1, sizeof *traded);
    for (size_t i = 0; i < all; i++)
        every[i] = want[i] + rank;
    assert_ok(yk_all_to_all(group, traded, every, n, YK_I32, NULL));
    for (size_t i = 0; i < all; i++)
        assert_true(traded[i] == want[(size_t)rank * n + i % n] + (int)(i / n));
    free(traded);
    if (rank == root)
        memcpy(every, want, all * sizeof *want);
    memset(mine, 0, n * sizeof *mine);
    assert_ok(yk_scatter(group, mine, rank == root ? every : NULL, n, YK_I32, root, NULL));
    assert_memory_equal(mine, want + (size_t)rank * n, n * sizeof *mine);
    if (rank == root)
        memcpy(every, want, all * sizeof *want);
    assert_ok(yk_broadcast(group, every, all, YK_I32, root, NULL));
    assert_memory_equal(every, want, all * sizeof *want);
    free(mine);
    free(every);
    free(want);
}

static void check_many_works(yk_group *group)
{
    enum { WORKS = 12, COUNT = 5000 };
    static float data[WORKS][COUNT];
    int world = yk_group_size(group);
    yk_work *work[WORKS];
    for (int w = 0; w < WORKS; w++) {
        for (int i = 0; i < COUNT; i++)
            data[w][i] = (float)(w + i % 100);
        assert_ok(yk_all_reduce(group, data[w], COUNT, YK_F32, YK_REDUCE_SUM, &work[w]));
    }
    for (int w = 0; w < WORKS; w++) {
        assert_ok(yk_work_wait(work[w]));
        for (int i = 0; i < COUNT; i++)
            assert_true(data[w][i] == (float)(world * (w + i % 100)));
    }
}

void check_collectives(yk_group *group)
{
    static const size_t sizes[] = {0, 1, 37, 9001, 100003};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        for (int d = 0; d < DTYPES; d++)
            for (int o = 0; o < OPS; o++)
                if (sizes[s] < 10000 || ops[o] == YK_REDUCE_AVG) {
                    check_reductions(group, sizes[s], dtypes[d], ops[o]);
                    check_reductions_to_root(group, sizes[s], dtypes[d], ops[o]);
                }
        for (int root = 0; root < yk_group_size(group); root++)
            check_copies(group, sizes[s], root);
        assert_ok(yk_barrier(group));
    }
    check_many_works(group);
}

/* ---- messages and mismatches ----------------------------------------------------------------- */

void check_messages(yk_group *group)
{
    static const size_t sizes[] = {0, 1, 100003};
    int rank = yk_group_rank(group), world = yk_group_size(group);
    int next = (rank + 1) % world, previous = (rank + world - 1) % world;
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        size_t n = sizes[s];
        int64_t *out = calloc(n + 1, sizeof *out), *in = calloc(n + 1, sizeof *in);
        for (size_t i = 0; i < n; i++)
            out[i] = (int64_t)i * 10 + rank;
        for (int turn = 0; turn < 2; turn++)
            if ((rank == 0) == (turn == 0))
                assert_ok(yk_send(group, out, n, YK_I64, next));
            else
                assert_ok(yk_recv(group, in, n, YK_I64, previous));
        for (size_t i = 0; i < n; i++)
            assert_true(in[i] == (int64_t)i * 10 + previous);
        free(out);
        free(in);
    }
    if (rank > 1)
        return;
    int32_t few[4] = {0};
    assert_status(YK_ERROR_MISMATCH, rank == 0 ? yk_send(group, few, 4, YK_I32, 1)
                                               : yk_recv(group, few, 3, YK_I32, 0));
    assert_contains(yk_last_error(), "rank 0 called send");
    assert_ok(rank == 0 ? yk_send(group, few, 4, YK_I32, 1) : yk_recv(group, few, 4, YK_I32, 0));
}

/* Messages that ranks exchange carry the data of small calls: here some do and others do not. */
static void check_mismatched_sizes(yk_group *group)
{
    enum { LARGEST = 1 << 20 };
    static const size_t sizes[] = {1, 1000, 20000, 100000, LARGEST};
    enum { SIZES = sizeof sizes / sizeof *sizes };
    int rank = yk_group_rank(group), last = yk_group_size(group) - 1;
    float *data = calloc(LARGEST, sizeof *data);
    for (size_t i = 0; i < SIZES; i++)
        for (size_t j = 0; j < SIZES; j++) {
            size_t n = rank == last ? sizes[j] : sizes[i];
            yk_status expected = i == j ? YK_OK : YK_ERROR_MISMATCH;
            data[0] = data[n - 1] = 1;
            assert_status(expected, yk_all_reduce(group, data, n, YK_F32, YK_REDUCE_SUM, NULL));
            assert_true(data[n - 1] == (i == j ? (float)(last + 1) : 1));
            data[0] = data[n - 1] = (float)rank;
            assert_status(expected, yk_broadcast(group, data, n, YK_F32, last, NULL));
            assert_true(data[n - 1] == (float)(i == j ? last : rank));
        }
    assert_status(YK_ERROR_MISMATCH, yk_broadcast(group, data, 8, YK_F32, rank == last, NULL));
    assert_status(YK_ERROR_MISMATCH,
                  yk_reduce(group, data, 8, YK_F32, YK_REDUCE_SUM, rank == last, NULL));
    free(data);
}

void check_mismatches(yk_group *group)
{
    int rank = yk_group_rank(group);
    float data[8] = {0};
    check_mismatched_sizes(group);
    assert_status(YK_ERROR_MISMATCH,
                  yk_all_reduce(group, data, rank ? 8 : 7, YK_F32, YK_REDUCE_SUM, NULL));
    assert_contains(yk_last_error(), "rank 0 called");
    assert_contains(yk_last_error(), "rank 1 called");
    assert_status(YK_ERROR_MISMATCH,
                  rank ? yk_barrier(group) : yk_broadcast(group, data, 8, YK_F32, 0, NULL));
    assert_status(rank ? YK_ERROR_MISMATCH : YK_ERROR_INVALID_ARGUMENT,
                  yk_all_reduce(group, rank ? data : NULL, 8, YK_F32, YK_REDUCE_SUM, NULL));
    data[0] = 1;
    assert_ok(yk_all_reduce(group, data, 8, YK_F32, YK_REDUCE_SUM, NULL));
    assert_true(data[0] == (float)yk_group_size(group));
}

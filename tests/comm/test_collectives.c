/*
 * One conformance suite for all collectives: every operation against what plain loops give, for
 * 1 to 5 ranks, every dtype and reduction, sizes on both sides of every threshold, buffers in
 * private and in shared memory, blocking and asynchronous.
 */
#define _GNU_SOURCE
#include "harness.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "comm/group_internal.h"
#include "tensor/element.h"

enum { LARGEST = 300001 };

static const size_t counts[] = {0, 1, 3, 7, 33, 1000, 2049, 70001, LARGEST};
static const yk_dtype dtypes[] = {YK_F32, YK_F64, YK_BF16, YK_F16, YK_I32, YK_I64};
static const yk_reduce_op ops[] = {YK_REDUCE_SUM, YK_REDUCE_AVG, YK_REDUCE_MIN, YK_REDUCE_MAX,
                                   YK_REDUCE_PRODUCT};

#define LENGTH(array) (sizeof(array) / sizeof *(array))

static yk_group *join(void)
{
    yk_group *group = NULL;
    assert_ok(
        yk_group_init(&group, YK_WITH(yk_group_options, YK_GROUP_OPTIONS_INIT, o.timeout_s = 60)));
    return group;
}

/* Element i of rank r: small integers, so that sums and products are exact in every dtype. They
 * repeat, and so does what is computed of them. */
enum { PERIOD = 4 };

static double element(int rank, size_t i)
{
    return (double)((i * 7 + (size_t)rank * 3) % PERIOD) - 1;
}

static double reduced(int world, size_t i, yk_dtype dtype, yk_reduce_op op)
{
    double value = element(0, i);
    for (int r = 1; r < world; r++) {
        double next = element(r, i);
        value = op == YK_REDUCE_MIN       ? fmin(value, next)
                : op == YK_REDUCE_MAX     ? fmax(value, next)
                : op == YK_REDUCE_PRODUCT ? value * next
                                          : value + next;
    }
    if (op != YK_REDUCE_AVG)
        return value;
    return dtype == YK_I32 || dtype == YK_I64 ? trunc(value / world) : value / world;
}

static bool close_enough(double got, double expected, yk_dtype dtype)
{
    double tolerance = dtype == YK_BF16  ? 1e-2
                       : dtype == YK_F16 ? 1e-3
                       : dtype == YK_F32 ? 1e-6
                                         : 1e-14;
    return fabs(got - expected) <= tolerance;
}

static void fill(void *data, yk_dtype dtype, int rank, size_t count)
{
    size_t bytes = count * yk_dtype_size(dtype), done = PERIOD * yk_dtype_size(dtype);
    for (size_t i = 0; i < count && i < PERIOD; i++)
        yki_element_set(dtype, data, i, element(rank, i));
    for (; done < bytes; done *= 2)
        memcpy((char *)data + done, data, done < bytes - done ? done : bytes - done);
}

/* One period is compared with what is expected, and all others with it. Only where these are not
 * the same, in the last bits perhaps, is every element looked at. */
static void expect(const void *data, size_t count, yk_dtype dtype, const double expected[PERIOD],
                   const char *what)
{
    const size_t size = yk_dtype_size(dtype);
    const char *second = (const char *)data + PERIOD * size;
    bool repeats = count > PERIOD && memcmp(data, second, (count - PERIOD) * size) == 0;
    for (size_t i = 0; i < (repeats ? PERIOD : count); i++)
        if (!close_enough(yki_element_get(dtype, data, i), expected[i % PERIOD], dtype))
            fail_msg("%s, %s, element %zu: %g, not %g", what, yk_dtype_name(dtype), i,
                     yki_element_get(dtype, data, i), expected[i % PERIOD]);
}

/* Elements of the rank, from the first one on. */
static void expect_of(int rank, size_t first, const void *data, size_t count, yk_dtype dtype,
                      const char *what)
{
    double expected[PERIOD];
    for (size_t i = 0; i < PERIOD; i++)
        expected[i] = element(rank, first + i);
    expect(data, count, dtype, expected, what);
}

/* Elements of all ranks, reduced. */
static void expect_reduced(int world, yk_reduce_op op, size_t first, const void *data, size_t count,
                           yk_dtype dtype, const char *what)
{
    double expected[PERIOD];
    for (size_t i = 0; i < PERIOD; i++)
        expected[i] = reduced(world, first + i, dtype, op);
    expect(data, count, dtype, expected, what);
}

/* ---- all_reduce ------------------------------------------------------------------------------ */

static void check_all_reduce(yk_group *group, void *data, size_t count, yk_dtype dtype,
                             yk_reduce_op op, bool asynchronous)
{
    int rank = yk_group_rank(group), world = yk_group_size(group);
    yk_work *work = NULL;
    fill(data, dtype, rank, count);
    assert_ok(yk_all_reduce(group, data, count, dtype, op, asynchronous ? &work : NULL));
    if (work)
        assert_ok(yk_work_wait(work));
    expect_reduced(world, op, 0, data, count, dtype, "all_reduce");
}

static void all_reduce_body(int rank, int world)
{
    (void)rank, (void)world;
    yk_group *group = join();
    void *shared, *private = malloc(LARGEST * sizeof(double));
    assert_ok(yk_group_alloc(group, LARGEST * sizeof(double), &shared));
    assert_int_equal((uintptr_t)shared % 64, 0);
    for (size_t c = 0; c < LENGTH(counts); c++)
        for (size_t d = 0; d < LENGTH(dtypes); d++)
            for (size_t o = 0; o < LENGTH(ops); o++) {
                if (counts[c] > 3000 && (d + o) % 3) /* the whole product only where it is cheap */
                    continue;
                check_all_reduce(group, private, counts[c], dtypes[d], ops[o], o == 1);
                check_all_reduce(group, shared, counts[c], dtypes[d], ops[o], o == 2);
            }
    free(private);
    yk_group_destroy(group);
}

YK_TEST(all_reduce_1)
{
    yk_test_ranks(1, all_reduce_body);
}

YK_TEST(all_reduce_2)
{
    yk_test_ranks(2, all_reduce_body);
}

YK_TEST(all_reduce_3)
{
    yk_test_ranks(3, all_reduce_body);
}

YK_TEST(all_reduce_4)
{
    yk_test_ranks(4, all_reduce_body);
}

YK_TEST(all_reduce_5)
{
    yk_test_ranks(5, all_reduce_body);
}

/* Element i is NaN on rank i only: whichever operand it is, it stays. MPI leaves this open. */
YK_TEST_RANKS(not_a_number_stays_in_min_and_max, 3)
{
    yk_group *group = join();
    char data[3 * sizeof(double)];
    const char *backend = getenv("YOKE_BACKEND");
    for (size_t d = 0; d < LENGTH(dtypes) && dtypes[d] != YK_I32; d++)
        for (int max = 0; max < 2 && !(backend && strcmp(backend, "mpi") == 0); max++) {
            for (int i = 0; i < world; i++)
                yki_element_set(dtypes[d], data, i, i == rank ? NAN : i);
            assert_ok(yk_all_reduce(group, data, (size_t)world, dtypes[d],
                                    max ? YK_REDUCE_MAX : YK_REDUCE_MIN, NULL));
            for (int i = 0; i < world; i++)
                if (!isnan(yki_element_get(dtypes[d], data, i)))
                    fail_msg("%s: the NaN of rank %d is gone", yk_dtype_name(dtypes[d]), i);
        }
    yk_group_destroy(group);
}

/* ---- reduce ---------------------------------------------------------------------------------- */

static void check_reduce(yk_group *group, void *data, size_t count, yk_dtype dtype, yk_reduce_op op,
                         int root, bool asynchronous)
{
    int rank = yk_group_rank(group), world = yk_group_size(group);
    yk_work *work = NULL;
    fill(data, dtype, rank, count);
    assert_ok(yk_reduce(group, data, count, dtype, op, root, asynchronous ? &work : NULL));
    if (work)
        assert_ok(yk_work_wait(work));
    if (rank == root)
        expect_reduced(world, op, 0, data, count, dtype, "reduce");
}

/* In private memory, in shared memory, and in that of all ranks but the first. */
static void check_reduce_anywhere(yk_group *group, void *private, void *shared, size_t count,
                                  yk_dtype dtype, yk_reduce_op op)
{
    int world = yk_group_size(group), root = (int)(count + dtype + op) % world;
    void *mixed = yk_group_rank(group) ? shared : private;
    check_reduce(group, private, count, dtype, op, root, op == YK_REDUCE_AVG);
    check_reduce(group, shared, count, dtype, op, root, op == YK_REDUCE_MIN);
    if (op == YK_REDUCE_SUM)
        check_reduce(group, mixed, count, dtype, op, root, false);
}

static void reduce_body(int rank, int world)
{
    (void)rank;
    yk_group *group = join();
    void *shared, *private = malloc(LARGEST * sizeof(double));
    assert_ok(yk_group_alloc(group, LARGEST * sizeof(double), &shared));
    for (size_t c = 0; c < LENGTH(counts); c++) {
        for (size_t d = 0; d < LENGTH(dtypes); d++)
            for (size_t o = 0; o < LENGTH(ops); o++)
                if (counts[c] < 3000 || (d + o) % 3 == 0)
                    check_reduce_anywhere(group, private, shared, counts[c], dtypes[d], ops[o]);
        for (int root = 0; root < world; root++)
            check_reduce(group, private, counts[c], YK_F32, YK_REDUCE_SUM, root, true);
    }
    free(private);
    yk_group_destroy(group);
}

YK_TEST(reduce_1)
{
    yk_test_ranks(1, reduce_body);
}

YK_TEST(reduce_2)
{
    yk_test_ranks(2, reduce_body);
}

YK_TEST(reduce_3)
{
    yk_test_ranks(3, reduce_body);
}

YK_TEST(reduce_4)
{
    yk_test_ranks(4, reduce_body);
}

YK_TEST(reduce_5)
{
    yk_test_ranks(5, reduce_body);
}

/* The rank that is to get the result changes from call to call; the others are ahead of it. */
YK_TEST_RANKS(reductions_to_one_rank_after_the_other, 4)
{
    enum { ROUNDS = 40, MOST = 70000 }; /* three chunks of memory that is not shared */
    static const size_t sizes[] = {3, 500, MOST};
    yk_group *group = join();
    int64_t *data = malloc(MOST * sizeof *data);
    for (int round = 0; round < ROUNDS; round++) {
        size_t count = sizes[round % 3];
        for (size_t i = 0; i < count; i++)
            data[i] = (int64_t)i + rank + round;
        assert_ok(yk_reduce(group, data, count, YK_I64, YK_REDUCE_SUM, round % world, NULL));
        for (size_t i = 0; i < count && rank == round % world; i++)
            assert_true(data[i] == 4 * ((int64_t)i + round) + 6);
    }
    free(data);
    yk_group_destroy(group);
}

/* ---- order ----------------------------------------------------------------------------------- */

/* Results that depend on the order of additions are bitwise those of rank order, on every rank. */
static void rank_order_body(int rank, int world)
{
    enum { COUNT = 250000 }; /* several chunks of memory that is not shared */
    yk_group *group = join();
    if (!yki_group_adds_in_rank_order(group)) { /* the backend promises no order */
        yk_group_destroy(group);
        return;
    }
    float *data = malloc(COUNT * sizeof *data), *expected = malloc(COUNT * sizeof *expected);
    for (int way = 0; way < 4; way++) {
        bool to_all = way < 2;
        void *buffer = data;
        if (way % 2)
            assert_ok(yk_group_alloc(group, COUNT * sizeof *data, &buffer));
        float *mine = buffer;
        for (int i = 0; i < COUNT; i++) {
            expected[i] = 0;
            for (int r = 0; r < world; r++) {
                float value = (float)sin(i + 1000.0 * r) * (float)pow(10, (i + r) % 7);
                expected[i] = r ? expected[i] + value : value;
                if (r == rank)
                    mine[i] = value;
            }
        }
        assert_ok(to_all ? yk_all_reduce(group, mine, COUNT, YK_F32, YK_REDUCE_SUM, NULL)
                         : yk_reduce(group, mine, COUNT, YK_F32, YK_REDUCE_SUM, 1, NULL));
        if (to_all || rank == 1)
            assert_memory_equal(mine, expected, COUNT * sizeof *mine);
    }
    free(data);
    free(expected);
    yk_group_destroy(group);
}

YK_TEST(reductions_are_bitwise_in_rank_order)
{
    yk_test_ranks(3, rank_order_body);
}

/* Two and four have loops of their own. */
YK_TEST(reductions_of_two_are_bitwise_in_rank_order)
{
    yk_test_ranks(2, rank_order_body);
}

YK_TEST(reductions_of_four_are_bitwise_in_rank_order)
{
    yk_test_ranks(4, rank_order_body);
}

/* ---- the others ------------------------------------------------------------------------------ */

static void check_copies(yk_group *group, char *in, char *out, size_t count, yk_dtype dtype)
{
    int rank = yk_group_rank(group), world = yk_group_size(group), root = world - 1;
    size_t n = (size_t)world * count, own = (size_t)rank * count;
    size_t bytes = count * yk_dtype_size(dtype); /* of a rank's part */

    fill(out, dtype, rank, count);
    assert_ok(yk_broadcast(group, out, count, dtype, root, NULL));
    expect_of(root, 0, out, count, dtype, "broadcast");

    fill(in, dtype, rank, count);
    memset(out, 0x55, (size_t)world * bytes);
    assert_ok(yk_all_gather(group, out, in, count, dtype, NULL));
    for (int r = 0; r < world; r++)
        expect_of(r, 0, out + (size_t)r * bytes, count, dtype, "all_gather");

    memset(out, 0x55, (size_t)world * bytes);
    assert_ok(yk_gather(group, rank == root ? out : NULL, in, count, dtype, root, NULL));
    for (int r = 0; r < world && rank == root; r++)
        expect_of(r, 0, out + (size_t)r * bytes, count, dtype, "gather");

    fill(in, dtype, rank, n);
    assert_ok(yk_scatter(group, out, rank == root ? in : NULL, count, dtype, root, NULL));
    expect_of(root, own, out, count, dtype, "scatter");

    memset(out, 0x55, (size_t)world * bytes);
    assert_ok(yk_all_to_all(group, out, in, count, dtype, NULL));
    for (int r = 0; r < world; r++)
        expect_of(r, own, out + (size_t)r * bytes, count, dtype, "all_to_all");

    assert_ok(yk_reduce_scatter(group, out, in, count, dtype, YK_REDUCE_SUM, NULL));
    expect_reduced(world, YK_REDUCE_SUM, own, out, count, dtype, "reduce_scatter");
    assert_ok(yk_barrier(group));
}

static void copies_body(int rank, int world)
{
    (void)rank;
    yk_group *group = join();
    size_t bytes = (size_t)world * LARGEST * sizeof(double);
    void *in, *out, *private_in = malloc(bytes), *private_out = malloc(bytes);
    assert_ok(yk_group_alloc(group, bytes, &in));
    assert_ok(yk_group_alloc(group, bytes, &out));
    for (size_t c = 0; c < LENGTH(counts); c++)
        for (size_t d = 0; d < LENGTH(dtypes); d++) {
            if (counts[c] > 3000 && d % 3)
                continue;
            check_copies(group, private_in, private_out, counts[c], dtypes[d]);
            check_copies(group, in, out, counts[c], dtypes[d]);
            check_copies(group, in, private_out, counts[c], dtypes[d]);
        }
    free(private_in);
    free(private_out);
    yk_group_destroy(group);
}

YK_TEST(copies_1)
{
    yk_test_ranks(1, copies_body);
}

YK_TEST(copies_2)
{
    yk_test_ranks(2, copies_body);
}

YK_TEST(copies_4)
{
    yk_test_ranks(4, copies_body);
}

/* A ring of sends: even ranks send first, odd ones receive first. */
YK_TEST_RANKS(send_and_recv, 4)
{
    yk_group *group = join();
    int next = (rank + 1) % world, previous = (rank + world - 1) % world;
    void *shared;
    double *in = malloc(LARGEST * sizeof *in), *out = malloc(LARGEST * sizeof *out);
    assert_ok(yk_group_alloc(group, LARGEST * sizeof *out, &shared));
    for (size_t c = 0; c < LENGTH(counts); c++)
        for (int place = 0; place < 2; place++) {
            double *source = place ? shared : out;
            fill(source, YK_F64, rank, counts[c]);
            for (int turn = 0; turn < 2; turn++) {
                if (rank % 2 == turn)
                    assert_ok(yk_send(group, source, counts[c], YK_F64, next));
                else
                    assert_ok(yk_recv(group, in, counts[c], YK_F64, previous));
            }
            expect_of(previous, 0, in, counts[c], YK_F64, "recv");
        }
    free(in);
    free(out);
    yk_group_destroy(group);
}

/* Many works in flight, waited for in the reverse order; a blocking call in between. */
YK_TEST_RANKS(works_run_in_order, 3)
{
    enum { WORKS = 40 };
    yk_group *group = join();
    yk_work *works[WORKS];
    int64_t values[WORKS];
    for (int i = 0; i < WORKS; i++) {
        values[i] = i + rank;
        assert_ok(yk_all_reduce(group, &values[i], 1, YK_I64, YK_REDUCE_SUM, &works[i]));
    }
    assert_ok(yk_barrier(group));
    for (int i = WORKS - 1; i >= 0; i--) {
        assert_true(yk_work_done(works[i]));
        assert_ok(yk_work_wait(works[i]));
        assert_int_equal(values[i], world * i + world * (world - 1) / 2);
    }
    yk_group_destroy(group);
}

/* Groups after one another from the same environment. */
YK_TEST_RANKS(groups_after_one_another, 3)
{
    for (int i = 0; i < 4; i++) {
        yk_group *group = join();
        int32_t value = rank;
        assert_ok(yk_all_reduce(group, &value, 1, YK_I32, YK_REDUCE_MAX, NULL));
        assert_int_equal(value, world - 1);
        yk_group_destroy(group);
    }
}

/* The descriptors cross: a rank that is ahead must not post to one that is taking its letters. */
YK_TEST_RANKS(many_ranks_allocate_again_and_again, 5)
{
    yk_group *group = join();
    for (int i = 0; i < 200; i++) {
        void *memory;
        assert_ok(yk_group_alloc(group, 4096, &memory));
        assert_ok(yk_group_free(group, memory));
    }
    yk_group_destroy(group);
}

static void arguments_body(int rank, int world)
{
    (void)rank;
    yk_group *group = join();
    float x = 1;
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_all_reduce(group, NULL, 4, YK_F32, YK_REDUCE_SUM, NULL));
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_all_reduce(group, &x, 1, YK_U8, YK_REDUCE_SUM, NULL));
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_all_reduce(group, &x, SIZE_MAX / 2, YK_F32, YK_REDUCE_SUM, NULL));
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_all_reduce(group, &x, 1, YK_F32, (yk_reduce_op)9, NULL));
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_reduce(group, NULL, 4, YK_F32, YK_REDUCE_SUM, 0, NULL));
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_reduce(group, &x, 1, YK_U8, YK_REDUCE_SUM, 0, NULL));
    assert_contains(yk_last_error(), "reduce: reductions do not support uint8");
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_reduce(group, &x, 1, YK_F32, (yk_reduce_op)9, 0, NULL));
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_reduce(group, &x, 1, YK_F32, YK_REDUCE_SUM, -1, NULL));
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_reduce(group, &x, 1, YK_F32, YK_REDUCE_SUM, world, NULL));
    assert_contains(yk_last_error(), "reduce: root ");
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_broadcast(group, &x, 1, YK_F32, 99, NULL));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_broadcast(group, &x, 1, (yk_dtype)77, 0, NULL));
    float parts[4] = {0};
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_all_to_all(group, parts + world - 1, parts, 1, YK_F32, NULL));
    assert_contains(yk_last_error(), "all_to_all: in and out overlap");
    assert_ok(yk_all_to_all(group, parts + world, parts, 1, YK_F32, NULL));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_send(group, &x, 1, YK_F32, yk_group_rank(group)));
    assert_ok(yk_all_reduce(group, &x, 1, YK_F32, YK_REDUCE_SUM, NULL));
    yk_group_destroy(group);
}

YK_TEST(refused_arguments_leave_the_group_whole)
{
    yk_test_ranks(2, arguments_body);
}

YK_TEST(refused_arguments_of_one)
{
    yk_test_ranks(1, arguments_body);
}

YK_TEST(a_timeout_that_never_comes_is_refused)
{
    const double timeouts[] = {0, -2, -INFINITY, NAN};
    for (size_t i = 0; i < sizeof timeouts / sizeof *timeouts; i++) {
        yk_group *group = (yk_group *)(uintptr_t)1;
        assert_status(YK_ERROR_INVALID_ARGUMENT,
                      yk_group_init(&group, YK_WITH(yk_group_options, YK_GROUP_OPTIONS_INIT,
                                                    o.timeout_s = timeouts[i])));
        assert_contains(yk_last_error(), "timeout_s is ");
        assert_null(group);
    }
}

/* ---- for devices ----------------------------------------------------------------------------- */

/* Calls whose buffers are a device's: they are compared as any, and nothing is touched. */
YK_TEST_RANKS(calls_that_are_only_compared_move_no_data, 3)
{
    yk_group *group = join();
    for (int operation = YK_OPERATION_ALL_REDUCE; operation < YK_OPERATION_BARRIER; operation++)
        for (size_t count = 1; count < 1000000; count *= 99) {
            yki_call call = {.base = {.what = {.operation = (uint8_t)operation, .count = count},
                                      .compare_only = true}};
            assert_ok(yki_group_submit(group, &call, YK_OK, NULL));
            call.base.what.count += rank == 2;
            assert_status(YK_ERROR_MISMATCH, yki_group_submit(group, &call, YK_OK, NULL));
            assert_contains(yk_last_error(), "ranks disagree in count");
        }
    assert_ok(yk_barrier(group));
    yk_group_destroy(group);
}

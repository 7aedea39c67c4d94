/* Collectives on a device's memory, entered in its streams. */
#define _GNU_SOURCE
#include "blocked_stream.h"
#include "comm/plane.h"
#include "device/sim/sim.h"
#include "harness.h"

#include <signal.h>
#include <unistd.h>

enum { COUNT = 1000, RANKS = 3 };

typedef struct fixture {
    yk_group *group;
    yki_device *device;
    yki_plane *plane;
    int rank, world;
} fixture;

static void begin(fixture *f, double timeout_s)
{
    assert_ok(yk_group_init(
        &f->group, YK_WITH(yk_group_options, YK_GROUP_OPTIONS_INIT, o.timeout_s = timeout_s)));
    f->rank = yk_group_rank(f->group);
    f->world = yk_group_size(f->group);
    assert_ok(yki_device_create(&f->device, "sim", &(yki_device_options){.threads = 1}));
    assert_ok(yki_plane_open(&f->plane, f->group, f->device));
    assert_non_null(f->plane);
}

static void end(fixture *f)
{
    yki_plane_close(f->plane);
    yki_device_destroy(f->device);
    yk_group_destroy(f->group);
}

static yki_stream *stream_of(const fixture *f)
{
    return yki_device_stream(f->device);
}

static void *alloc(const fixture *f, size_t bytes)
{
    void *memory;
    assert_ok(yki_device_alloc(f->device, bytes, &memory));
    return memory;
}

static void copy(const fixture *f, void *to, const void *from, size_t bytes,
                 yki_direction direction)
{
    assert_ok(yki_device_copy(f->device, to, from, bytes, direction, stream_of(f)));
}

static yk_descriptor describe(yk_operation operation, yk_dtype dtype, yk_reduce_op reduce, int root,
                              size_t count)
{
    return (yk_descriptor){.operation = (uint8_t)operation,
                           .dtype = (uint8_t)dtype,
                           .reduce = (uint8_t)reduce,
                           .root = root,
                           .count = count};
}

/* ---- the same bits as on the host ------------------------------------------------------------ */

/* Small numbers, whose bytes mean something in every dtype. */
static void fill(const fixture *f, unsigned char *data, size_t bytes, yk_dtype dtype, int seed)
{
    for (size_t i = 0; i < bytes; i++)
        data[i] = (unsigned char)((i * 7 + (size_t)f->rank * 3 + (size_t)seed) % 3);
    for (size_t i = 0; dtype == YK_F32 && i < bytes / 4; i++)
        ((float *)(void *)data)[i] = (float)(i % 17) + 0.1F * (float)(f->rank + seed);
    for (size_t i = 0; dtype == YK_F64 && i < bytes / 8; i++)
        ((double *)(void *)data)[i] = (double)(i % 17) + 0.1 * (f->rank + seed);
    for (size_t i = 0; (dtype == YK_BF16 || dtype == YK_F16) && i < bytes / 2; i++)
        ((uint16_t *)(void *)data)[i] =
            (uint16_t)(0x3c00 + 37 * i % 200 + (size_t)(f->rank + seed));
}

static yk_status run_on_host(const fixture *f, const yk_descriptor *what, const void *in, void *out)
{
    yk_dtype dtype = (yk_dtype)what->dtype;
    yk_reduce_op op = (yk_reduce_op)what->reduce;
    switch ((yk_operation)what->operation) {
    case YK_OPERATION_ALL_REDUCE:
        return yk_all_reduce(f->group, out, what->count, dtype, op, NULL);
    case YK_OPERATION_REDUCE:
        return yk_reduce(f->group, out, what->count, dtype, op, what->root, NULL);
    case YK_OPERATION_BROADCAST:
        return yk_broadcast(f->group, out, what->count, dtype, what->root, NULL);
    case YK_OPERATION_ALL_GATHER:
        return yk_all_gather(f->group, out, in, what->count, dtype, NULL);
    case YK_OPERATION_REDUCE_SCATTER:
        return yk_reduce_scatter(f->group, out, in, what->count, dtype, op, NULL);
    case YK_OPERATION_GATHER:
        return yk_gather(f->group, out, in, what->count, dtype, what->root, NULL);
    case YK_OPERATION_ALL_TO_ALL:
        return yk_all_to_all(f->group, out, in, what->count, dtype, NULL);
    default:
        return yk_scatter(f->group, out, in, what->count, dtype, what->root, NULL);
    }
}

/* Enters it between copies from and to the host, and compares. */
static void expect_the_same(const fixture *f, const yk_descriptor *what)
{
    enum { MOST = RANKS * COUNT * 8 };
    static unsigned char in[MOST], expected[MOST], got[MOST];
    bool in_place = what->operation <= YK_OPERATION_BROADCAST;
    bool known = what->operation != YK_OPERATION_REDUCE || f->rank == what->root;
    size_t bytes = RANKS * what->count * yk_dtype_size((yk_dtype)what->dtype);
    unsigned char *device_in = alloc(f, bytes),
                  *device_out = in_place ? device_in : alloc(f, bytes);
    fill(f, in, bytes, (yk_dtype)what->dtype, 1);
    memset(expected, 0, bytes);
    if (in_place)
        memcpy(expected, in, bytes);
    copy(f, device_in, in, bytes, YKI_TO_DEVICE);
    assert_ok(yki_plane_run(f->plane, what, device_in, device_out, stream_of(f)));
    copy(f, got, device_out, bytes, YKI_TO_HOST);
    assert_ok(run_on_host(f, what, in, expected));
    assert_ok(yki_stream_wait(f->device, stream_of(f)));
    if (known)
        assert_memory_equal(got, expected, bytes);
    yki_device_free(f->device, device_in, bytes);
    if (!in_place)
        yki_device_free(f->device, device_out, bytes);
}

YK_TEST_RANKS(every_collective_has_the_bits_of_the_host, RANKS)
{
    static const yk_dtype dtypes[] = {YK_F32, YK_F64, YK_BF16, YK_F16, YK_I32, YK_I64, YK_U8};
    fixture f;
    begin(&f, 60);
    for (int operation = YK_OPERATION_ALL_REDUCE; operation < YK_OPERATION_BARRIER; operation++) {
        bool reduces = operation == YK_OPERATION_ALL_REDUCE || operation == YK_OPERATION_REDUCE ||
                       operation == YK_OPERATION_REDUCE_SCATTER;
        bool has_root =
            operation != YK_OPERATION_ALL_REDUCE && operation != YK_OPERATION_REDUCE_SCATTER &&
            operation != YK_OPERATION_ALL_GATHER && operation != YK_OPERATION_ALL_TO_ALL;
        for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
            for (int op = YK_REDUCE_SUM; op <= (reduces ? YK_REDUCE_PRODUCT : YK_REDUCE_SUM);
                 op++) {
                yk_descriptor what =
                    describe((yk_operation)operation, dtypes[d], (yk_reduce_op)op, has_root, COUNT);
                if (!reduces || dtypes[d] != YK_U8)
                    expect_the_same(&f, &what);
            }
    }
    end(&f);
}

/* ---- order ----------------------------------------------------------------------------------- */

/* Only one rank ever looks, so the others work because it waits for them. */
YK_TEST_RANKS(a_rank_that_does_not_wait_answers_those_that_do, RANKS)
{
    fixture f;
    begin(&f, 60);
    float value = (float)rank + 1, got = 0;
    float *data = alloc(&f, sizeof value);
    yk_descriptor what = describe(YK_OPERATION_ALL_REDUCE, YK_F32, YK_REDUCE_SUM, 0, 1);
    copy(&f, data, &value, sizeof value, YKI_TO_DEVICE);
    for (int i = 0; i < 3; i++)
        assert_ok(yki_plane_run(f.plane, &what, data, data, stream_of(&f)));
    if (rank == 1) {
        copy(&f, &got, data, sizeof got, YKI_TO_HOST);
        assert_ok(yki_stream_wait(f.device, stream_of(&f)));
        assert_true(got == 54);
    }
    assert_ok(yk_barrier(f.group)); /* the others wait on the host meanwhile */
    assert_ok(yki_stream_wait(f.device, stream_of(&f)));
    yki_device_free(f.device, data, sizeof value);
    end(&f);
}

/* NCCL asks for one order of the collectives of all communicators on a GPU, which the simulated
 * device insists on: these come from two groups, in streams that do not wait for each other. */
YK_TEST_RANKS(collectives_of_two_groups_come_in_one_order, RANKS)
{
    fixture f;
    yk_group *other_group;
    yki_plane *second, *again;
    yki_stream *other;
    begin(&f, 60);
    assert_ok(yk_group_duplicate(&other_group, f.group));
    assert_ok(yki_plane_open(&second, other_group, f.device));
    assert_ok(yki_plane_open(&again, other_group, f.device));
    assert_true(second != f.plane && again == second);
    yki_plane_close(again);
    assert_ok(yki_stream_create(f.device, &other));
    float one = 1, got[2];
    float *data = alloc(&f, 2 * sizeof one);
    yk_descriptor what = describe(YK_OPERATION_ALL_REDUCE, YK_F32, YK_REDUCE_SUM, 0, 1);
    for (int i = 0; i < 2; i++)
        assert_ok(yki_device_copy(f.device, data + i, &one, sizeof one, YKI_TO_DEVICE,
                                  i ? other : stream_of(&f)));
    for (int round = 0; round < 4; round++) {
        assert_ok(yki_plane_run(f.plane, &what, data, data, stream_of(&f)));
        assert_ok(yki_plane_run(second, &what, data + 1, data + 1, other));
    }
    /* Each rank waits for the two in another order. */
    assert_ok(yki_stream_wait(f.device, rank % 2 ? other : stream_of(&f)));
    assert_ok(yki_stream_wait(f.device, rank % 2 ? stream_of(&f) : other));
    copy(&f, got, data, sizeof got, YKI_TO_HOST);
    assert_ok(yki_stream_wait(f.device, stream_of(&f)));
    assert_true(got[0] == 81 && got[1] == 81);
    yki_stream_destroy(f.device, other);
    yki_device_free(f.device, data, 2 * sizeof one);
    yki_plane_close(second);
    yk_group_destroy(other_group);
    end(&f);
}

/* ---- mistakes -------------------------------------------------------------------------------- */

YK_TEST_RANKS(promise_05_mismatches_are_found_before_anything_is_entered, RANKS)
{
    fixture f;
    begin(&f, 60);
    float *data = alloc(&f, 8 * sizeof *data);
    yk_descriptor what = describe(YK_OPERATION_ALL_REDUCE, YK_F32, YK_REDUCE_SUM, 0, 4),
                  other = what;
    other.count = 5;
    assert_status(YK_ERROR_MISMATCH,
                  yki_plane_run(f.plane, rank == 1 ? &other : &what, data, data, stream_of(&f)));
    assert_contains(yk_last_error(), "rank 0 called all_reduce(float32 x 4");
    assert_contains(yk_last_error(), "rank 1 called all_reduce(float32 x 5");
    /* promise_06: both remain usable. */
    assert_ok(yki_plane_run(f.plane, &what, data, data, stream_of(&f)));
    assert_ok(yki_stream_wait(f.device, stream_of(&f)));
    assert_ok(yk_barrier(f.group));
    yki_device_free(f.device, data, 8 * sizeof *data);
    end(&f);
}

YK_TEST_RANKS(a_backend_that_was_asked_for_must_fit, 2)
{
    yk_group *group;
    yki_device *device;
    yki_plane *plane;
    assert_ok(yki_device_create(&device, "sim", &(yki_device_options){.threads = 1}));
    assert_ok(
        yk_group_init(&group, YK_WITH(yk_group_options, YK_GROUP_OPTIONS_INIT, o.backend = "sim")));
    assert_string_equal(yk_group_backend(group), "shm");
    assert_ok(yki_plane_open(&plane, group, device));
    assert_non_null(plane);
    yki_plane_close(plane);
    yki_device_destroy(device);
    assert_ok(yki_device_create(&device, "ref", &(yki_device_options){.threads = 1}));
    assert_status(YK_ERROR_UNSUPPORTED, yki_plane_open(&plane, group, device));
    assert_contains(yk_last_error(), "backend sim, which was asked for, does not move the memory");
    yk_group_destroy(group);
    yki_device_destroy(device);
}

/* ---- deaths and delays ----------------------------------------------------------------------- */

/* Rank 1 enters the second collective, but never comes to it. */
static void wait_for_rank_1(int rank, double timeout_s, int signal, yk_status expected,
                            const char *words)
{
    fixture f;
    begin(&f, timeout_s);
    float *data = alloc(&f, COUNT * sizeof *data);
    yk_descriptor what = describe(YK_OPERATION_ALL_REDUCE, YK_F32, YK_REDUCE_AVG, 0, COUNT);
    assert_ok(yki_plane_run(f.plane, &what, data, data, stream_of(&f)));
    assert_ok(yki_stream_wait(f.device, stream_of(&f)));
    if (rank == 1)
        assert_ok(yk_test_block_stream(f.device, stream_of(&f)));
    assert_ok(yki_plane_run(f.plane, &what, data, data, stream_of(&f)));
    if (rank == 1)
        kill(getpid(), signal);
    assert_status(expected, yki_stream_wait(f.device, stream_of(&f)));
    assert_contains(yk_last_error(), "all_reduce(float32 x 1000, avg), operation ");
    assert_contains(yk_last_error(), words);
    /* What comes next fails alike, and the device can still be used. */
    assert_status(expected, yki_plane_run(f.plane, &what, data, data, stream_of(&f)));
    assert_contains(yk_last_error(), words);
    yki_device_free(f.device, data, COUNT * sizeof *data);
    end(&f);
}

static void killed_body(int rank, int world)
{
    (void)world;
    wait_for_rank_1(rank, 60, SIGKILL, YK_ERROR_PEER_FAILED, "rank 1 is dead");
}

static void assert_others_passed(int world, const int *statuses)
{
    for (int r = 0; r < world; r++)
        if (r != 1)
            assert_int_equal(statuses[r], 0);
}

YK_TEST(promise_01_a_rank_dies_in_a_collective_of_its_device)
{
    int statuses[RANKS];
    yk_test_ranks_status(RANKS, killed_body, statuses, NULL);
    assert_others_passed(RANKS, statuses);
}

static void stopped_body(int rank, int world)
{
    (void)world;
    wait_for_rank_1(rank, 3, SIGSTOP, YK_ERROR_TIMEOUT, "1 did not take part");
}

static bool has_ended(pid_t pid)
{
    char path[32], state = 'Z';
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    if (file && fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
        state = 'Z';
    if (file)
        fclose(file);
    return state == 'Z';
}

/* Ends the stopped rank once the others have ended. */
static void end_rank_1(const pid_t *pids, int world)
{
    for (int r = 0; r < world; r++)
        for (int naps = 0; r != 1 && naps < 4000 && !has_ended(pids[r]); naps++)
            usleep(20000);
    kill(pids[1], SIGKILL);
}

YK_TEST(promise_02_a_stopped_rank_is_named_at_the_timeout)
{
    int statuses[RANKS];
    yk_test_ranks_status(RANKS, stopped_body, statuses, end_rank_1);
    assert_others_passed(RANKS, statuses);
}

/*
 * The mpi backend on an Open MPI that is not what it seems. Most cases are about messages that
 * arrive after the group that expected them is gone: MPI writes them to memory that it was once
 * given, so this memory must still be there.
 */
#define _GNU_SOURCE
#include "../faults/rank_lines.h"
#include "engine.h"
#include "unruly/unruly_mpi.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

enum { OF_EXCHANGE = 1, OF_DATA = 4, LARGE = 100000 }; /* tags of modules/mpi/mpi_engine.h */

static void *unruly;

#define UNRULY(name) ((__typeof__(&name))dlsym(unruly, #name))

/* Before the module opens the real MPI, so that it finds the unruly one first. */
static yk_group *open_unruly(void)
{
    yk_group *group;
    char path[512];
    snprintf(path, sizeof path, "%s/tests/modules/libyoke_unruly_mpi.so", getenv("YOKE_BUILD"));
    unruly = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    assert_non_null(unruly);
    assert_ok(yk_group_init(&group, YK_WITH(yk_group_options, YK_GROUP_OPTIONS_INIT,
                                            o.backend = "mpi", o.timeout_s = 60)));
    assert_ok(yk_barrier(group));
    set_timeout(group, 3);
    return group;
}

static void exit_together(int rank, int world)
{
    leave_text("alive", rank, "yes");
    await_texts("alive", world); /* mpirun ends all when one has ended */
    _exit(3);
}

/* Rank 1 delivers what it has withheld when rank 0 has no group any more. */
static void end(yk_group *group)
{
    int rank = yk_group_rank(group);
    leave_line(rank);
    if (rank == 0) {
        yk_group_destroy(group);
        leave_text("closed", 0, "yes");
    } else {
        await_text("closed", 0);
        UNRULY(unruly_mpi_deliver)();
    }
    for (double until = yki_now() + 1; yki_now() < until; usleep(1000))
        UNRULY(unruly_mpi_progress)();
    exit_together(rank, 2);
}

static void run(int world, void (*body)(void))
{
    char output[8192], program[512] = "";
    open_lines();
    if (getenv("YK_TEST_RANK"))
        body();
    require_module("libyoke-mpi-openmpi.so");
    if (yk_test_command(output, sizeof output, "command -v mpirun.openmpi"))
        skip_because("mpirun.openmpi is not installed");
    assert_true(readlink("/proc/self/exe", program, sizeof program - 1) > 0);
    yk_test_openmpi();
    int code = yk_test_command(output, sizeof output,
                               "YK_TEST_RANK=0 OMP_NUM_THREADS=1 timeout -k 5 60 mpirun.openmpi "
                               "--oversubscribe -n %d '%s' %s </dev/null",
                               world, program, yk_test_running_case());
    for (int r = 0; r < world; r++)
        if (code != 3 || text_of("alive", r)[0] == '\0')
            fail_msg("mpirun ended with %d:\n%s", code, output);
}

static void fail_in_exchange(void)
{
    float x = 1;
    yk_group *group = open_unruly();
    if (yk_group_rank(group) == 0)
        UNRULY(unruly_mpi_fail)();
    else
        UNRULY(unruly_mpi_withhold)(OF_EXCHANGE);
    yk_status status = yk_all_reduce(group, &x, 1, YK_F32, YK_REDUCE_SUM, NULL);
    if (yk_group_rank(group) == 0) /* rank 1 has got its message */
        assert_status(YK_ERROR_NETWORK, status);
    end(group);
}

YK_TEST(a_message_to_an_mpi_engine_that_has_failed_finds_its_place)
{
    run(2, fail_in_exchange);
    assert_contains(line_of(0), "backend of rank 0 has failed: MPI_Test");
}

/* The buffer is the caller's again, who frees it. */
static void receive_too_late(void)
{
    yk_group *group = open_unruly();
    double *buffer = malloc(LARGE * sizeof *buffer); /* mapped, and unmapped when it is freed */
    yk_status status = YK_OK;
    if (yk_group_rank(group) == 1) {
        UNRULY(unruly_mpi_withhold)(OF_DATA);
        assert_ok(yk_send(group, buffer, LARGE, YK_F64, 0));
    } else
        status = yk_recv(group, buffer, LARGE, YK_F64, 1);
    assert_status(yk_group_rank(group) == 1 ? YK_OK : YK_ERROR_TIMEOUT, status);
    free(buffer);
    end(group);
}

YK_TEST(a_receive_of_mpi_that_is_given_up_is_taken_back)
{
    run(2, receive_too_late);
    assert_contains(line_of(0), "recv");
}

/* MPI looks through what it has been given, so that a message takes the longer the more there is.
 */
static void send_many(void)
{
    enum { MANY = 1000, FEW = 100 };
    static int32_t out[MANY], in[MANY];
    static yk_message messages[2 * MANY];
    yk_group *group = open_unruly();
    int rank = yk_group_rank(group);
    for (int i = 0; i < MANY; i++) {
        out[i] = MANY * rank + i;
        messages[2 * i] = (yk_message){.kind = YK_MESSAGE_SEND,
                                       .peer = 1 - rank,
                                       .data = &out[i],
                                       .count = 1,
                                       .dtype = YK_I32};
        messages[2 * i + 1] = (yk_message){
            .kind = YK_MESSAGE_RECV, .peer = 1 - rank, .data = &in[i], .count = 1, .dtype = YK_I32};
    }
    set_timeout(group, 60);
    UNRULY(unruly_mpi_count)();
    assert_ok(yk_batch_send_recv(group, messages, 2 * MANY, NULL));
    for (int i = 0; i < MANY; i++)
        assert_int_equal(in[i], MANY * (1 - rank) + i);
    assert_in_range(UNRULY(unruly_mpi_most)(), 1, FEW);
    yk_group_destroy(group);
    exit_together(rank, 2);
}

YK_TEST(a_batch_gives_mpi_few_messages_at_once)
{
    run(2, send_many);
}

/* ---- tags ------------------------------------------------------------------------------------ */

/* Rank 2 has groups with both other ranks, which may be created at the same time. */
static void create_groups(void)
{
    enum { GROUPS = 150, LEADERS = 2 };
    static int tags[LEADERS][GROUPS];
    yk_group *group = open_unruly();
    int rank = yk_group_rank(group);
    set_timeout(group, 60);
    for (int leader = 0; leader < LEADERS; leader++)
        for (int i = 0; i < GROUPS; i++) {
            yk_group *part;
            bool absent = rank == 1 - leader;
            assert_ok(yk_group_split(&part, group, absent ? YK_COLOR_NONE : 0, 0));
            tags[leader][i] = UNRULY(unruly_mpi_creation)();
            yk_group_destroy(part);
        }
    for (int i = 0; rank == 2 && i < GROUPS * GROUPS; i++)
        assert_int_not_equal(tags[0][i / GROUPS], tags[1][i % GROUPS]);
    yk_group_destroy(group);
    exit_together(rank, 3);
}

YK_TEST(groups_of_different_leaders_are_created_with_different_tags)
{
    run(3, create_groups);
}

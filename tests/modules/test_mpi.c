/*
 * The mpi backend under the real mpiruns. Each case starts itself again in ranks; those that call
 * exit() end MPI as a program does.
 */
#define _GNU_SOURCE
#include "engine.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct mpi_kind {
    const char *launcher, *options, *module;
} mpi_kind;

static const mpi_kind openmpi = {"mpirun.openmpi", "--oversubscribe", "libyoke-mpi-openmpi.so"};
static const mpi_kind mpich = {"mpirun.mpich", "", "libyoke-mpi-mpich.so"};

static yk_group *open_mpi(double timeout_s)
{
    yk_group *group;
    assert_ok(yk_group_init(&group, YK_WITH(yk_group_options, YK_GROUP_OPTIONS_INIT,
                                            o.backend = "mpi", o.timeout_s = timeout_s)));
    assert_string_equal(yk_group_backend(group), "mpi");
    return group;
}

/* In a rank runs body; otherwise starts the ranks, and returns mpirun's exit code. */
static int run_ranks(const mpi_kind *mpi, int world, void (*body)(void), char *output, size_t size)
{
    char program[512] = "";
    if (getenv("YK_TEST_RANK")) {
        body();
        exit(0);
    }
    require_module(mpi->module);
    if (yk_test_command(output, size, "command -v %s", mpi->launcher))
        skip_because("%s is not installed", mpi->launcher);
    assert_true(readlink("/proc/self/exe", program, sizeof program - 1) > 0);
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    setenv("OMP_NUM_THREADS", "1", 1);
    return yk_test_command(output, size,
                           "YK_TEST_RANK=0 timeout -k 5 100 %s %s -n %d '%s' %s </dev/null",
                           mpi->launcher, mpi->options, world, program, yk_test_running_case());
}

static void expect_success(const mpi_kind *mpi, int world, void (*body)(void))
{
    char output[8192];
    int code = run_ranks(mpi, world, body, output, sizeof output);
    if (code)
        fail_msg("%s ended with %d:\n%s", mpi->launcher, code, output);
}

static void every_call(void)
{
    yk_group *group = open_mpi(60);
    check_collectives(group);
    check_messages(group);
    check_mismatches(group);
    yk_group_destroy(group);
}

YK_TEST(two_ranks_of_openmpi_run_every_call)
{
    expect_success(&openmpi, 2, every_call);
}

YK_TEST(two_ranks_of_mpich_run_every_call)
{
    expect_success(&mpich, 2, every_call);
}

YK_TEST(three_ranks_of_openmpi_run_every_call)
{
    expect_success(&openmpi, 3, every_call);
}

YK_TEST(three_ranks_of_mpich_run_every_call)
{
    expect_success(&mpich, 3, every_call);
}

/* As if MPI's largest count were 1,000 elements. */
static void in_pieces(void)
{
    setenv("YOKE_TEST_MPI_COUNT", "1000", 1);
    yk_group *group = open_mpi(60);
    check_collectives(group);
    check_messages(group);
    yk_group_destroy(group);
}

YK_TEST(counts_beyond_those_of_mpi_are_split)
{
    expect_success(&openmpi, 3, in_pieces);
}

/* Rank 1 comes too late: the call is cancelled, and the process still ends. */
static void one_is_late(void)
{
    yk_group *group = open_mpi(2);
    float data = 1;
    assert_ok(yk_barrier(group));
    if (yk_group_rank(group) == 1)
        sleep(20); /* until mpirun ends it */
    assert_status(YK_ERROR_TIMEOUT, yk_all_reduce(group, &data, 1, YK_F32, YK_REDUCE_SUM, NULL));
    assert_contains(yk_last_error(), "rank 1");
    yk_group_destroy(group);
    fprintf(stderr, "the late rank was noticed\n");
    _exit(3);
}

YK_TEST(a_late_rank_ends_the_call_under_openmpi)
{
    char output[8192];
    assert_int_not_equal(run_ranks(&openmpi, 2, one_is_late, output, sizeof output), 0);
    assert_contains(output, "the late rank was noticed");
}

YK_TEST(a_late_rank_ends_the_call_under_mpich)
{
    char output[8192];
    assert_int_not_equal(run_ranks(&mpich, 2, one_is_late, output, sizeof output), 0);
    assert_contains(output, "the late rank was noticed");
}

/* As on several hosts: each rank believes that it is alone on its own. */
static void meet_through_mpi(void)
{
    setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "1", 1);
    setenv("OMPI_COMM_WORLD_LOCAL_RANK", "0", 1);
    setenv("MPI_LOCALNRANKS", "1", 1);
    setenv("MPI_LOCALRANKID", "0", 1);
    yk_group *group = open_mpi(60);
    assert_ok(yk_barrier(group));
    yk_group_destroy(group);
}

YK_TEST(ranks_of_openmpi_meet_through_mpi)
{
    expect_success(&openmpi, 3, meet_through_mpi);
}

YK_TEST(ranks_of_mpich_meet_through_mpi)
{
    expect_success(&mpich, 3, meet_through_mpi);
}

/* Without any mpirun the error says what to do. */
YK_TEST_RANKS(without_mpirun_the_launcher_is_named, 2)
{
    yk_group *group;
    require_module("libyoke-mpi-openmpi.so");
    assert_status(YK_ERROR_UNSUPPORTED,
                  yk_group_init(&group, YK_WITH(yk_group_options, YK_GROUP_OPTIONS_INIT,
                                                o.backend = "mpi", o.timeout_s = 30)));
    assert_contains(yk_last_error(), "use mpirun.openmpi");
}

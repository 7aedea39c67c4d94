/* Real mpirun of Open MPI and of MPICH: two hosts with two ranks each, started over ssh. */
#define _GNU_SOURCE
#include "meet.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char output[64 * 1024];

static void make_hosts(const char *mpirun, const char *package)
{
    need_programs(mpirun, package);
    yk_test_hosts(2);
}

/* mpirun of Open MPI from n1, with the slots of each of two hosts. It passes on those variables
 * only that it is told of, and complains of those that are not set. */
static int open_mpi(const char *options, const char *program)
{
    const char *sanitizers = getenv("ASAN_OPTIONS")   ? "-x ASAN_OPTIONS -x UBSAN_OPTIONS "
                                                        "-x LSAN_OPTIONS"
                             : getenv("TSAN_OPTIONS") ? "-x TSAN_OPTIONS"
                                                      : "";
    yk_test_openmpi();
    return yk_test_command(output, sizeof output,
                           "%s timeout 60 mpirun.openmpi --mca plm_rsh_agent %s "
                           "--mca oob_tcp_if_include eth0 --mca btl_tcp_if_include eth0 "
                           "-np 4 --host n1:2,n2:2 --oversubscribe -x YOKE_MODULES %s %s %s",
                           yk_test_on(1), yk_test_ssh(), sanitizers, options, program);
}

static int mpich(const char *options, const char *program)
{
    static const char *ssh; /* which can be asked for once */
    ssh = ssh ? ssh : yk_test_ssh();
    return yk_test_command(output, sizeof output,
                           "%s timeout 60 mpirun.mpich -launcher ssh -launcher-exec %s -iface eth0 "
                           "-np 4 -hosts n1:2,n2:2 %s %s",
                           yk_test_on(1), ssh, options, program);
}

YK_TEST(open_mpi_starts_ranks_on_two_hosts)
{
    yk_test_run_as_rank(meet, 0);
    make_hosts("mpirun.openmpi", "openmpi-bin");
    if (open_mpi("", meeting_rank()))
        fail_with(output);
    assert_met(output, 4, 2);
}

YK_TEST(open_mpi_is_the_network_where_it_is_asked_for)
{
    yk_test_run_as_rank(meet, 0);
    make_hosts("mpirun.openmpi", "openmpi-bin");
    if (open_mpi("-x YOKE_BACKEND=mpi", meeting_rank()))
        fail_with(output);
    assert_met(output, 4, 2);
}

YK_TEST(open_mpi_is_the_network_of_hosts_without_ipv4)
{
    yk_test_run_as_rank(meet, 0);
    make_hosts("mpirun.openmpi", "openmpi-bin");
    yk_test_only_ipv6();
    if (open_mpi("-x YOKE_BACKEND=mpi", meeting_rank()))
        fail_with(output);
    assert_met(output, 4, 2);
}

YK_TEST(mpich_starts_ranks_on_two_hosts)
{
    yk_test_run_as_rank(meet, 0);
    make_hosts("mpirun.mpich", "mpich");
    if (mpich("", meeting_rank()))
        fail_with(output);
    assert_met(output, 4, 2);
}

/* Where ranks begin MPI_Finalize of MPICH while others still work, 9 of 10 such jobs hang. */
YK_TEST(mpich_is_the_network_where_it_is_asked_for)
{
    yk_test_run_as_rank(meet, 0);
    make_hosts("mpirun.mpich", "mpich");
    for (int i = 0; i < 3; i++) {
        if (mpich("-env YOKE_BACKEND mpi", meeting_rank()) ||
            strstr(output, "MPI_Finalize did not return"))
            fail_with(output);
        assert_met(output, 4, 2);
    }
}

static void meet_without_limit(int rank, int world)
{
    (void)rank, (void)world;
    yk_group *group;
    YK_CHECK(yk_group_init(
        &group, YK_WITH(yk_group_options, YK_GROUP_OPTIONS_INIT, o.timeout_s = INFINITY)));
    YK_CHECK(yk_barrier(group));
    yk_group_destroy(group);
    exit(0);
}

/* The time of MPI_Init, too: it used to be over at once. */
YK_TEST(ranks_may_wait_for_each_other_without_limit)
{
    yk_test_run_as_rank(meet_without_limit, 0);
    make_hosts("mpirun.openmpi", "openmpi-bin");
    if (open_mpi("", meeting_rank()))
        fail_with(output);
}

/* One rank has more to do than the others, for longer than these wait in MPI_Finalize. */
static void leave_one_by_one(int rank, int world)
{
    (void)rank, (void)world;
    yk_group *group;
    YK_CHECK(
        yk_group_init(&group, YK_WITH(yk_group_options, YK_GROUP_OPTIONS_INIT, o.timeout_s = 40)));
    bool stays = yk_group_rank(group) == 3;
    yk_group_destroy(group);
    if (stays)
        sleep(12);
    exit(0);
}

/* Where MPI has only told the ranks where to meet, none waits for the others at the end. */
YK_TEST(mpich_ranks_leave_when_they_are_done)
{
    yk_test_run_as_rank(leave_one_by_one, 0);
    make_hosts("mpirun.mpich", "mpich");
    if (mpich("", meeting_rank()) || strstr(output, "MPI_Finalize did not return"))
        fail_with(output);
}

YK_TEST(mpirun_trains_on_two_hosts)
{
    char command[1024];
    snprintf(
        command, sizeof command,
        "%s train --data synthetic --arch mlp --lr 0.02 --threads 1 --epochs 1 --output %s/run",
        getenv("YOKE_PROGRAM"), yk_test_directory());
    make_hosts("mpirun.openmpi", "openmpi-bin");
    if (open_mpi("-x YOKE_BACKEND=mpi", command))
        fail_with(output);
    assert_contains(output, "4 ranks");
    assert_contains(output, "2 hosts with 2 ranks each, as asked for;");
    assert_contains(output, "rank and size from mpirun of Open MPI\n");
    snprintf(command, sizeof command, "%s/run/model.pth", yk_test_directory());
    assert_int_equal(access(command, R_OK), 0);
}

/* The rows of DDP have 1, 2 and all ranks; what MPI tells of its four does not reach the others. */
static void measure_scaling(int (*mpirun)(const char *options, const char *program))
{
    char command[1024];
    snprintf(command, sizeof command,
             "%s bench scaling --data synthetic --arch mlp --lr 0.02 --max-steps 4 --repeats 1 "
             "--amp off",
             getenv("YOKE_PROGRAM"));
    if (mpirun("", command))
        fail_with(output);
    assert_contains(output, "\nDDP x2 ");
    assert_contains(output, "\nDDP x4 ");
}

YK_TEST(open_mpi_measures_scaling_on_two_hosts)
{
    make_hosts("mpirun.openmpi", "openmpi-bin");
    measure_scaling(open_mpi);
}

YK_TEST(mpich_measures_scaling_on_two_hosts)
{
    make_hosts("mpirun.mpich", "mpich");
    measure_scaling(mpich);
}

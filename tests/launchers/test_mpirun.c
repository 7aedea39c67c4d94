/* Real mpirun of Open MPI and of MPICH: two hosts with two ranks each, started over ssh. */
#define _GNU_SOURCE
#include "meet.h"

#include <stdlib.h>
#include <string.h>

static char output[64 * 1024];

/* Open MPI takes a rank for dead that does not end through exit(), where MPI is finalised. */
static void meet_and_exit(int rank, int world)
{
    meet(rank, world);
    exit(0);
}

/* mpirun of Open MPI from n1, with the slots of each of two hosts. */
static int open_mpi(const char *options, const char *program)
{
    need_programs("mpirun.openmpi", "openmpi-bin");
    yk_test_hosts(2);
    return yk_test_command(
        output, sizeof output,
        "%s timeout 60 mpirun.openmpi --allow-run-as-root --mca plm_rsh_agent %s "
        "--mca oob_tcp_if_include eth0 --mca btl_tcp_if_include eth0 "
        "-np 4 --host n1:2,n2:2 --oversubscribe -x YOKE_MODULES %s %s",
        yk_test_on(1), yk_test_ssh(), options, program);
}

static int mpich(const char *options, const char *program)
{
    need_programs("mpirun.mpich", "mpich");
    yk_test_hosts(2);
    return yk_test_command(output, sizeof output,
                           "%s timeout 60 mpirun.mpich -launcher ssh -launcher-exec %s -iface eth0 "
                           "-np 4 -hosts n1:2,n2:2 %s %s",
                           yk_test_on(1), yk_test_ssh(), options, program);
}

YK_TEST(open_mpi_starts_ranks_on_two_hosts)
{
    yk_test_run_as_rank(meet_and_exit, 0);
    if (open_mpi("", meeting_rank()))
        fail_with(output);
    assert_met(output, 4, 2);
}

YK_TEST(mpich_starts_ranks_on_two_hosts)
{
    yk_test_run_as_rank(meet_and_exit, 0);
    if (mpich("", meeting_rank()))
        fail_with(output);
    assert_met(output, 4, 2);
}

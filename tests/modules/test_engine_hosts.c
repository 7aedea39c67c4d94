/* The engines between hosts. */
#define _GNU_SOURCE
#include "../faults/rank_lines.h"
#include "engine.h"
#include "hosts.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static yk_group *open_group(const char *backend)
{
    yk_group *group;
    if (strcmp(backend, "tcp") != 0)
        require_module("libyoke-mpi-openmpi.so");
    assert_ok(yk_group_init(&group, YK_WITH(yk_group_options, YK_GROUP_OPTIONS_INIT,
                                            o.backend = backend, o.timeout_s = 60)));
    return group;
}

YK_TEST_HOST_RANKS(tcp_runs_every_call_between_hosts, 2, 2)
{
    yk_group *group = open_group("tcp");
    assert_int_equal(yk_group_local_size(group), 2);
    check_collectives(group);
    check_messages(group);
    check_mismatches(group);
    yk_group_destroy(group);
}

/* Rank 0's host is cut off in the middle of a stream of calls: both sides end with an error. */
static void reduce_until_cut(int rank, int world)
{
    (void)world;
    yk_group *group = open_group("tcp");
    static float data[10000];
    yk_status status = YK_OK;
    leave_text("running", rank, "yes");
    time_t start = time(NULL);
    while (status == YK_OK && time(NULL) < start + 50)
        status = yk_all_reduce(group, data, 10000, YK_F32, YK_REDUCE_AVG, NULL);
    assert_int_not_equal(status, YK_OK);
    yk_group_destroy(group);
}

static void cut_host_2(void)
{
    await_texts("running", 2);
    usleep(500000);
    yk_test_cut(2);
}

YK_TEST(tcp_ends_a_call_when_the_network_is_cut)
{
    open_lines();
    yk_test_host_ranks(2, 1, reduce_until_cut, NULL, cut_host_2);
}

/* ---- MPI ------------------------------------------------------------------------------------ */

static void every_call_of_mpi(void)
{
    yk_group *group = open_group("mpi");
    check_collectives(group);
    check_messages(group);
    yk_group_destroy(group);
}

/* Four ranks on two hosts, which nobody tells where to meet. What MPI uses between the hosts is
 * prescribed: the kernel is the same on both, from which it would conclude that they share memory.
 */
static void check_mpirun(const char *launcher, const char *options)
{
    char output[8192], program[512] = "";
    if (getenv("YK_TEST_RANK")) {
        every_call_of_mpi();
        exit(0);
    }
    require_module("libyoke-mpi-openmpi.so");
    if (yk_test_command(output, sizeof output, "command -v %s", launcher))
        skip_because("%s is not installed", launcher);
    yk_test_hosts(2);
    yk_test_openmpi();
    const char *ssh = yk_test_ssh();
    assert_true(readlink("/proc/self/exe", program, sizeof program - 1) > 0);
    char whole[1024];
    snprintf(whole, sizeof whole, options, ssh);
    int code = yk_test_command(
        output, sizeof output,
        "%s timeout -k 5 100 %s %s "
        "env YK_TEST_RANK=0 OMP_NUM_THREADS=1 ASAN_OPTIONS=\"$ASAN_OPTIONS\" "
        "TSAN_OPTIONS=\"$TSAN_OPTIONS\" YOKE_BUILD='%s' "
        "'%s' %s </dev/null",
        yk_test_on(1), launcher, whole, getenv("YOKE_BUILD"), program, yk_test_running_case());
    if (code)
        fail_msg("%s ended with %d:\n%s", launcher, code, output);
}

YK_TEST(mpi_runs_every_call_between_hosts_under_openmpi)
{
    check_mpirun("mpirun.openmpi", "--mca plm_rsh_agent %s --mca btl_tcp_if_include 10.77.0.0/16 "
                                   "--mca btl tcp,self --mca oob_tcp_if_include 10.77.0.0/16 "
                                   "--oversubscribe -H 10.77.0.1:2,10.77.0.2:2 -n 4");
}

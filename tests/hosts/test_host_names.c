/* Names that other hosts have, and what they are told of a job. */
#define _GNU_SOURCE
#include "host_job.h"

#include <stdlib.h>
#include <unistd.h>

/* ---- names and places ------------------------------------------------------------------------ */

/* As a cluster's name service does it: once the first pod is there. */
static void name_host_1(const char *name)
{
    char path[600];
    for (int host = 1; host <= 2; host++) {
        snprintf(path, sizeof path, "%s/n%d.etc_hosts", yk_test_hosts_folder(), host);
        FILE *file = fopen(path, "ae");
        assert_non_null(file);
        fprintf(file, "%s %s\n", yk_test_address(1), name);
        fclose(file);
    }
}

/* Waits until a host's launcher or rank has said so twice; the second line comes 5 s later. */
static void await_twice(int host, const char *text)
{
    double deadline = yk_test_now() + 15;
    while (count(test_job_output(&host_jobs[host]), text) < 2) {
        if (yk_test_now() > deadline)
            fail_msg("\"%s\"", host_jobs[host].output);
        usleep(5000);
    }
}

YK_TEST(a_rendezvous_whose_name_resolves_late_is_awaited)
{
    yk_test_hosts(2);
    start_on(2, "", "head:29400", "--nnodes 2 " RANKS_RUN("echo met"));
    await_twice(2, "cannot resolve the host name \"head\"");
    assert_contains(host_jobs[2].output, "waiting for the rendezvous at head:29400: ");
    name_host_1("head");
    start_on(1, "", "head:29400", "--nnodes 2 " RANKS_RUN("echo met"));
    assert_int_equal(end_of_job(2, 30), 0);
    assert_int_equal(count(host_jobs[2].output, "met"), 2);
}

/* So does the pod itself: its launcher cannot tell at first that it is to serve the rendezvous. */
static void meet_before_the_name_is_known(const char *of_host_1, const char *of_host_2)
{
    yk_test_hosts(2);
    start_on(1, "", "head:29400", of_host_1);
    start_on(2, "", "head:29400", of_host_2);
    await_twice(1, "cannot resolve the host name \"head\"");
    name_host_1("head");
    assert_int_equal(end_of_job(2, 30), 0);
    assert_int_equal(count(host_jobs[1].output, "met"), 2);
    assert_int_equal(count(host_jobs[2].output, "met"), 2);
}

YK_TEST(a_host_learns_late_that_the_rendezvous_is_its_own)
{
    static const char *const options = "--nnodes 2 " RANKS_RUN("echo met");
    meet_before_the_name_is_known(options, options);
}

YK_TEST(a_host_that_may_be_lost_learns_late_that_the_rendezvous_is_its_own)
{
    static const char *const options = "--nnodes 1:2 " RANKS_RUN("echo met");
    meet_before_the_name_is_known(options, options);
}

YK_TEST(node_0_serves_a_rendezvous_whose_name_it_does_not_know_yet)
{
    meet_before_the_name_is_known("--nnodes 2 --node-rank 0 " RANKS_RUN("echo met"),
                                  "--nnodes 2 --node-rank 1 " RANKS_RUN("echo met"));
}

/* Started without a launcher of yoke's, as tasks of Slurm or pods are. */
static void start_rank(int rank)
{
    char command[2000], program[512] = "";
    assert_true(readlink("/proc/self/exe", program, sizeof program - 1) > 0);
    snprintf(command, sizeof command,
             "%s env RANK=%d WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 MASTER_ADDR=head "
             "MASTER_PORT=29477 YOKE_SECRET=a-secret YOKE_TEST_IS_RANK=1 %s %s",
             yk_test_on(rank + 1), rank, program, yk_test_running_case());
    test_job_start_command(&host_jobs[rank + 1], command);
}

/* Returns true in a rank, which has met the other one. */
static bool has_met(void)
{
    yk_group *group;
    if (!getenv("YOKE_TEST_IS_RANK"))
        return false;
    assert_ok(yk_group_init(&group, NULL));
    assert_ok(yk_barrier(group));
    yk_group_destroy(group);
    return true;
}

YK_TEST(a_rank_awaits_a_name_that_resolves_late)
{
    if (has_met())
        return;
    yk_test_hosts(2);
    start_rank(1);
    await_twice(2, "cannot resolve the host name \"head\"");
    name_host_1("head");
    start_rank(0);
    assert_int_equal(end_of_job(2, 30), 0);
}

YK_TEST(rank_0_serves_the_store_before_it_knows_its_own_name)
{
    if (has_met())
        return;
    yk_test_hosts(2);
    start_rank(0);
    start_rank(1);
    await_twice(1, "cannot resolve the host name \"head\"");
    name_host_1("head");
    assert_int_equal(end_of_job(2, 30), 0);
}

/* ---- a name service that is lost ------------------------------------------------------------- */

/* Asks a name service whose host drops all packets. */
static void lose_name_service(int host)
{
    char on[1000], path[600], output[1024];
    snprintf(on, sizeof on, "%s", yk_test_on(host));
    snprintf(path, sizeof path, "%s/resolv.conf", yk_test_hosts_folder());
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fprintf(file, "nameserver 10.77.0.200\noptions timeout:30 attempts:5\n");
    fclose(file);
    int code = yk_test_command(output, sizeof output,
                               "%s mount --bind %s /etc/resolv.conf && %s ip neighbour add "
                               "10.77.0.200 lladdr 02:00:00:00:00:c8 dev eth0 nud permanent",
                               on, path, on);
    if (code)
        fail_msg("%s", output);
}

static void forget_names(int host)
{
    char path[600];
    snprintf(path, sizeof path, "%s/n%d.etc_hosts", yk_test_hosts_folder(), host);
    assert_int_equal(truncate(path, 0), 0);
}

/* It asks whether the lost host's launcher has ended, and goes on telling that host, in case that
 * only the network has failed, where the job is now. For both, it needs the address again. */
YK_TEST(promise_13_signals_stop_a_launcher_that_asks_for_a_lost_host)
{
    static const char *const options =
        "--nnodes 1:2 -- env -u YK_TEST_LAUNCHER sh -c 'echo node $GROUP_RANK; sleep 1000'";
    yk_test_hosts(2);
    name_host_1("head");
    lose_name_service(2);
    for (int host = 1; host <= 2; host++)
        start_on(host, "YOKE_HEARTBEAT_TIMEOUT=3", "head:29400", options);
    for (int host = 1; host <= 2; host++)
        test_job_await(&host_jobs[host], "node ");
    forget_names(2);
    yk_test_kill_host(1);
    test_job_await(&host_jobs[2], "host n2 takes over at ");
    sleep(8); /* by then it does so, after the numbers of the hosts */
    kill(find_rank(2, -1), SIGTERM);
    assert_int_equal(test_job_wait(&host_jobs[2], 30), 128 + SIGTERM);
}

static void stop_without_name_service(const char *options)
{
    yk_test_hosts(2);
    lose_name_service(2);
    start_on(2, "", "head:29400", options);
    test_job_await(&host_jobs[2], "waiting for the rendezvous at head:29400");
    assert_contains(host_jobs[2].output, "the name service does not answer");
    kill(find_rank(2, -1), SIGTERM);
    assert_int_equal(test_job_wait(&host_jobs[2], 30), 128 + SIGTERM);
}

YK_TEST(promise_13_signals_stop_a_launcher_whose_name_service_is_silent)
{
    stop_without_name_service("--nnodes 2 " RANKS_RUN("echo met"));
}

YK_TEST(promise_13_signals_stop_an_elastic_launcher_whose_name_service_is_silent)
{
    stop_without_name_service("--nnodes 1:2 " RANKS_RUN("echo met"));
}

YK_TEST(promise_13_signals_stop_a_node_whose_name_service_is_silent)
{
    stop_without_name_service("--nnodes 2 --node-rank 1 " RANKS_RUN("echo met"));
}

/* ---- what a job is doing --------------------------------------------------------------------- */

/* n3 takes no part in the job. */
YK_TEST(the_ranks_of_a_job_are_listed_from_another_host)
{
    static char listing[8192];
    static const char *const train =
        "--nproc-per-node 2 -- env -u YK_TEST_LAUNCHER %s train --data synthetic --arch mlp "
        "--threads 1 --epochs 100000 --output %s/run";
    char arguments[1200];
    bool listed = false;
    yk_test_hosts(3);
    snprintf(arguments, sizeof arguments, train, test_program(), yk_test_directory());
    start_job(2, arguments);
    for (double deadline = yk_test_now() + 30; !listed && yk_test_now() < deadline;
         usleep(100000)) {
        int rank, pid, step = 0, ranks = 0;
        char host[64];
        yk_test_command(listing, sizeof listing, "%s env YOKE_SECRET=a-secret %s ps n1:29400",
                        yk_test_on(3), test_program());
        for (const char *line = listing; line; line = strchr(line + 1, '\n'))
            if (sscanf(line, "%d %63s %d %d", &rank, host, &pid, &step) == 4 && step > 0)
                ranks += strcmp(host, rank < 2 ? "n1" : "n2") == 0 && pid > 0;
        listed = ranks == 4;
    }
    if (!listed)
        fail_msg("\"%s\"", listing);
    signal_rank(1, -1, SIGTERM);
    assert_int_equal(end_of_job(2, 40), 128 + SIGTERM);
}

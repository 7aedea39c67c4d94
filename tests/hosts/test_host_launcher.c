/* `yoke run` on real hosts: what all launchers say and how they end when something fails. */
#define _GNU_SOURCE
#include "../launcher/small_group.h"
#include "host_job.h"

#include <sys/stat.h>

static const char *const obedient =
    RANKS_RUN("trap \"echo stopped $RANK; exit 143\" TERM; echo ready; "
              "while :; do sleep 0.05; done");

/* Waits until both ranks of each host have said that they are ready. */
static void await_ready(int hosts)
{
    double deadline = yk_test_now() + 20;
    for (int host = 1; host <= hosts; host++)
        while (count(test_job_output(&host_jobs[host]), "ready") < 2) {
            assert_true(yk_test_now() < deadline);
            usleep(5000);
        }
}

static void start_obedient(int hosts)
{
    yk_test_hosts(hosts);
    start_job(hosts, obedient);
    await_ready(hosts);
}

YK_TEST(ranks_are_numbered_host_by_host)
{
    yk_test_hosts(4);
    start_job(4, RANKS_RUN("echo $RANK of $WORLD_SIZE, $GROUP_RANK of $GROUP_WORLD_SIZE"));
    assert_int_equal(end_of_job(4, 30), 0);
    bool seen[4] = {false};
    for (int host = 1; host <= 4; host++) {
        char line[64];
        for (int node = 0; node < 4; node++) {
            snprintf(line, sizeof line, "[rank %d] %d of 8, %d of 4\n", 2 * node, 2 * node, node);
            if (!strstr(host_jobs[host].output, line))
                continue;
            seen[node] = true;
            snprintf(line, sizeof line, "[rank %d] %d of 8, %d of 4\n", 2 * node + 1, 2 * node + 1,
                     node);
            assert_contains(host_jobs[host].output, line);
        }
    }
    assert_contains(host_jobs[1].output, "[rank 0] 0 of 8");
    assert_true(seen[0] && seen[1] && seen[2] && seen[3]);
}

static void start_static(int host, int index, const char *options)
{
    char arguments[400];
    snprintf(
        arguments, sizeof arguments,
        "--nnodes 2 --node-rank %d --rdzv-backend static --master-addr 10.77.0.1 "
        "--master-port 29400 %s " RANKS_RUN("echo $RANK at $MASTER_ADDR, as:$YOKE_LOCAL_ADDR:"),
        index, options);
    start_on(host, "", "10.77.0.1:29400", arguments);
}

/* Also where the second host is first, and where hosts say how they are reached. */
YK_TEST(hosts_of_a_static_rendezvous_are_numbered_by_their_options)
{
    yk_test_hosts(2);
    start_static(2, 1, "");
    usleep(300000);
    start_static(1, 0, "");
    assert_int_equal(end_of_job(2, 30), 0);
    assert_contains(host_jobs[1].output, "[rank 0] 0 at 10.77.0.1, as::\n");
    assert_contains(host_jobs[2].output, "[rank 3] 3 at 10.77.0.1, as::\n");
    start_static(2, 1, "--local-addr fd77::2");
    start_static(1, 0, "--local-addr 10.77.0.1");
    assert_int_equal(end_of_job(2, 30), 0);
    assert_contains(host_jobs[1].output, "[rank 1] 1 at 10.77.0.1, as:10.77.0.1:\n");
    assert_contains(host_jobs[2].output, "[rank 2] 2 at 10.77.0.1, as:fd77::2:\n");
}

/* On n1, n1 is 127.0.1.1. */
YK_TEST(the_rendezvous_may_have_a_name_or_an_ipv6_address)
{
    static const char *const endpoints[] = {"n1:29400", "[fd77::1]:29400"};
    yk_test_hosts(2);
    for (size_t i = 0; i < 2; i++) {
        start_on(2, "", endpoints[i], "--nnodes 2 " RANKS_RUN("echo at $MASTER_ADDR"));
        start_on(1, "", endpoints[i], "--nnodes 2 " RANKS_RUN("echo at $MASTER_ADDR"));
        assert_int_equal(end_of_job(2, 30), 0);
        assert_null(strstr(host_jobs[2].output, "at 127."));
        assert_contains(host_jobs[2].output, "at ");
    }
}

YK_TEST(promise_10_and_11_all_hosts_name_the_rank_that_failed_first)
{
    yk_test_hosts(2);
    start_job(2, RANKS_RUN("if [ $RANK = 3 ]; then echo a reason >&2; exit 42; fi; sleep 30"));
    assert_int_equal(end_of_job(2, 20), 42);
    for (int host = 1; host <= 2; host++) {
        assert_contains(host_jobs[host].output, "rank 3 (host n2");
        assert_contains(host_jobs[host].output, "exited with code 42");
        assert_contains(host_jobs[host].output, "[rank 3] a reason\n");
    }
}

YK_TEST(promise_01_a_killed_rank_is_named_on_all_hosts)
{
    char pid[32];
    start_obedient(2);
    snprintf(pid, sizeof pid, "pid %d", signal_rank(2, 2, SIGKILL));
    assert_int_equal(end_of_job(2, 20), 128 + SIGKILL);
    for (int host = 1; host <= 2; host++) {
        assert_contains(host_jobs[host].output, "rank 2 (host n2");
        assert_contains(host_jobs[host].output, pid);
        assert_contains(host_jobs[host].output, "killed by signal 9 (SIGKILL)");
        test_job_gone(&host_jobs[host], 5);
    }
}

/* Only n2 has little memory, so n1 cannot find the cause by itself. */
YK_TEST(promise_11_a_rank_killed_for_lack_of_memory_is_told_from_others_on_all_hosts)
{
    static const char *const arguments =
        "--nnodes 2 " RANKS_RUN("echo pid $$; test $RANK = 3 || exec sleep 60; echo a reason >&2; "
                                "sleep 0.2; " TAKES_300_MB);
    char group[512], enter[700], output[64];
    make_small_group(group, sizeof group);
    yk_test_hosts(2);
    snprintf(enter, sizeof enter,
             "YOKE_HEARTBEAT_TIMEOUT=3 sh -c 'echo $$ >%s/cgroup.procs; exec \"$@\"' sh", group);
    start_on(1, "YOKE_HEARTBEAT_TIMEOUT=3", "10.77.0.1:29400", arguments);
    start_on(2, enter, "10.77.0.1:29400", arguments);
    int code = end_of_job(2, 30);
    yk_test_command(output, sizeof output, "rmdir %s", group);
    assert_int_equal(code, 128 + SIGKILL);
    char line[64];
    snprintf(line, sizeof line, "rank 3 (host n2, pid %d) ",
             test_job_number(&host_jobs[2], "[rank 3] pid "));
    for (int host = 1; host <= 2; host++) {
        const char *last = strstr(host_jobs[host].output, line);
        assert_non_null(last);
        assert_contains(last, "killed by signal 9 (SIGKILL), probably by the kernel because memory "
                              "ran out");
        assert_contains(last, "[rank 3] a reason\n");
    }
}

YK_TEST(promise_12_lines_carry_their_rank_on_all_hosts)
{
    yk_test_hosts(2);
    start_job(2, RANKS_RUN("for i in $(seq 200); do echo $RANK has the line $i; done"));
    assert_int_equal(end_of_job(2, 30), 0);
    for (int host = 1; host <= 2; host++)
        for (int rank = 2 * host - 2; rank < 2 * host; rank++) {
            char words[64];
            snprintf(words, sizeof words, "[rank %d] %d has the line ", rank, rank);
            assert_int_equal(count(host_jobs[host].output, words), 200);
        }
}

YK_TEST(promise_13_sigterm_to_any_launcher_stops_all_hosts)
{
    start_obedient(2);
    signal_rank(2, -1, SIGTERM);
    assert_int_equal(end_of_job(2, 20), 128 + SIGTERM);
    assert_int_equal(count(host_jobs[1].output, "stopped"), 2);
    assert_int_equal(count(host_jobs[2].output, "stopped"), 2);
}

YK_TEST(promise_01_a_killed_launcher_is_named)
{
    start_obedient(2);
    signal_rank(2, -1, SIGKILL);
    assert_job_ends(&host_jobs[1], 20, 1);
    assert_contains(host_jobs[1].output, "n2");
    assert_contains(host_jobs[1].output, "is lost");
    test_job_gone(&host_jobs[2], 5);
}

YK_TEST(promise_01_a_host_without_power_is_named)
{
    start_obedient(3);
    yk_test_kill_host(3);
    assert_int_equal(end_of_job(2, 20), 1);
    for (int host = 1; host <= 2; host++) {
        assert_contains(host_jobs[host].output, "n3");
        assert_contains(host_jobs[host].output, "is lost");
        test_job_gone(&host_jobs[host], 5);
    }
}

YK_TEST(a_partition_ends_the_job_on_both_sides)
{
    start_obedient(2);
    yk_test_cut(2);
    double cut_at = yk_test_now();
    assert_job_ends(&host_jobs[1], 20, 1);
    assert_contains(host_jobs[1].output, "n2");
    assert_job_ends(&host_jobs[2], 20, 1);
    assert_contains(host_jobs[2].output, "which serves the job's store, is lost");
    /* YOKE_HEARTBEAT_TIMEOUT, and the end of the ranks */
    assert_true(yk_test_now() - cut_at < 3 + 5);
    test_job_gone(&host_jobs[1], 5);
    test_job_gone(&host_jobs[2], 5);
}

YK_TEST(a_short_cut_does_no_harm)
{
    yk_test_hosts(2);
    for (int host = 1; host <= 2; host++) {
        char arguments[512];
        snprintf(arguments, sizeof arguments, "--nnodes 2 %s", obedient);
        start_on(host, "YOKE_HEARTBEAT_TIMEOUT=5", "10.77.0.1:29400", arguments);
    }
    await_ready(2);
    yk_test_cut(2);
    sleep(1);
    yk_test_restore(2);
    sleep(7);
    assert_int_equal(waitpid(host_jobs[1].pid, NULL, WNOHANG), 0);
    signal_rank(1, -1, SIGTERM);
    assert_int_equal(end_of_job(2, 20), 128 + SIGTERM);
}

YK_TEST(the_loss_of_the_host_that_serves_the_rendezvous_is_named)
{
    start_obedient(2);
    yk_test_kill_host(1);
    assert_job_ends(&host_jobs[2], 20, 1);
    assert_contains(host_jobs[2].output, "which serves the job's store, is lost");
    test_job_gone(&host_jobs[2], 5);
}

YK_TEST(promise_32_a_launcher_without_the_secret_is_refused)
{
    yk_test_hosts(2);
    start_on(1, "", "10.77.0.1:29400", "--nnodes 2 " RANKS_RUN("true"));
    start_on(2, "YOKE_SECRET=wrong", "10.77.0.1:29400", "--nnodes 2 " RANKS_RUN("true"));
    assert_job_ends(&host_jobs[2], 20, 1);
    assert_contains(host_jobs[2].output, "YOKE_SECRET differs");
    signal_rank(1, -1, SIGTERM);
    assert_job_ends(&host_jobs[1], 20, 128 + SIGTERM);
}

YK_TEST(a_job_continues_with_the_hosts_that_are_left)
{
    yk_test_hosts(3);
    for (int host = 1; host <= 3; host++)
        start_on(host, "", "10.77.0.1:29400",
                 "--nnodes 2:3 " RANKS_RUN("trap \"exit 143\" TERM; echo ready; test "
                                           "$TORCHELASTIC_RESTART_COUNT = 1 && echo world "
                                           "$WORLD_SIZE && exit 0; while :; do sleep 0.05; done"));
    await_ready(3);
    yk_test_kill_host(3);
    assert_int_equal(end_of_job(2, 30), 0);
    for (int host = 1; host <= 2; host++)
        assert_int_equal(count(host_jobs[host].output, "world 4"), 2);
}

/* ---- ordinary users ------------------------------------------------------------------------- */

enum { NOBODY = 65534 };
static const char *const as_nobody = "setpriv --reuid 65534 --regid 65534 --clear-groups";

/* A rank of the first attempt is killed, and the next trains: on hosts of another user than root,
 * who owns neither the temporary folder nor the program. */
YK_TEST(a_job_of_an_ordinary_user_restarts)
{
    char output[1024], arguments[1024], variables[128];
    struct stat model;
    yk_test_hosts(2);
    if (getuid() != 0)
        skip_because("only root can become another user");
    assert_int_equal(chmod(yk_test_directory(), 0777), 0);
    if (yk_test_command(output, sizeof output, "%s sh -c 'cd %s && %s --version'", as_nobody,
                        yk_test_directory(), test_program()))
        skip_because("another user cannot run the program: %s", output);
    snprintf(arguments, sizeof arguments,
             "--nnodes 2 --nproc-per-node 2 --max-restarts 1 -- sh -c 'test "
             "$TORCHELASTIC_RESTART_COUNT.$RANK = 0.3 && echo last words >&2 && kill -KILL $$; "
             "exec %s train --data synthetic --arch mlp --threads 1 --batch-size 120 --lr 0.02 "
             "--epochs 1 --output %s/run'",
             test_program(), yk_test_directory());
    snprintf(variables, sizeof variables, "YOKE_HEARTBEAT_TIMEOUT=3 %s", as_nobody);
    for (int host = 1; host <= 2; host++)
        start_on(host, variables, "10.77.0.1:29400", arguments);
    int code = end_of_job(2, 60);
    if (code)
        fail_msg("exit code %d: \"%s\" \"%s\"", code, host_jobs[1].output, host_jobs[2].output);
    for (int host = 1; host <= 2; host++) {
        assert_contains(host_jobs[host].output, ") killed by signal 9 (SIGKILL)");
        assert_contains(host_jobs[host].output, "[rank 3] last words");
    }
    snprintf(output, sizeof output, "%s/run/model.pth", yk_test_directory());
    assert_int_equal(stat(output, &model), 0);
    assert_int_equal(model.st_uid, NOBODY);
}

/* The hosts that the other tests of this folder run on: names, addresses, links, lives. */
#define _GNU_SOURCE
#include "../faults/rank_lines.h"
#include "hosts.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Whether a host answers another, if only by refusing the connection. */
static bool reach(int from, int to)
{
    char output[1024];
    return yk_test_command(output, sizeof output, "%s timeout 1 bash -c '</dev/tcp/%s/9'",
                           yk_test_on(from), yk_test_address(to)) != 124;
}

YK_TEST(hosts_have_names_addresses_and_processes_of_their_own)
{
    char output[4096], on[700];
    yk_test_hosts(3);
    for (int host = 1; host <= 3; host++) {
        snprintf(on, sizeof on, "%s", yk_test_on(host));
        assert_int_equal(yk_test_command(output, sizeof output,
                                         "%s sh -c 'hostname; getent hosts $(hostname) n2; "
                                         "ls /dev/shm /sys/class/net; ps -e -o pid= | wc -l; "
                                         "touch /dev/shm/mine'",
                                         on),
                         0);
        char expected[256];
        snprintf(expected, sizeof expected,
                 "n%d\n127.0.1.1       n%d\n%s       n2\n/dev/shm:\n\n/sys/class/net:\neth0\nlo\n",
                 host, host, host == 2 ? "127.0.1.1" : "10.77.0.2");
        assert_memory_equal(output, expected, strlen(expected));
        assert_in_range(atoi(output + strlen(expected)), 3, 6);
    }
}

YK_TEST(links_are_cut_and_restored)
{
    yk_test_hosts(3);
    assert_true(reach(1, 2));
    yk_test_cut(2);
    assert_false(reach(1, 2));
    assert_true(reach(1, 3));
    yk_test_restore(2);
    assert_true(reach(1, 2));
    yk_test_kill_host(3);
    assert_false(reach(1, 3));
    assert_true(reach(2, 1));
}

YK_TEST(links_have_a_rate_and_counters)
{
    yk_test_hosts(2);
    char output[256];
    uint64_t before = yk_test_bytes_sent(1);
    assert_true(reach(1, 2));
    assert_true(yk_test_bytes_sent(1) > before);
    yk_test_limit_rate(1, "1gbit");
    yk_test_command(output, sizeof output, "%s tc qdisc show dev eth0", yk_test_on(1));
    assert_contains(output, "rate 1Gbit");
    assert_true(reach(1, 2));
    yk_test_limit_rate(1, "off");
    yk_test_command(output, sizeof output, "%s tc qdisc show dev eth0", yk_test_on(1));
    assert_null(strstr(output, "rate"));
}

static void announce(yk_store *store, const char *what, int rank)
{
    char key[32];
    snprintf(key, sizeof key, "%s/%d", what, rank);
    assert_ok(yk_store_set(store, key, "", 0));
}

static void await_all(yk_store *store, const char *what, int world)
{
    char key[32];
    for (int rank = 0; rank < world; rank++) {
        snprintf(key, sizeof key, "%s/%d", what, rank);
        assert_ok(yk_store_wait(store, key, 20));
    }
}

YK_TEST(ssh_runs_commands_on_other_hosts)
{
    char output[1024];
    yk_test_hosts(2);
    const char *ssh = yk_test_ssh();
    assert_int_equal(yk_test_command(output, sizeof output,
                                     "export YOKE_TEST_MARK=7; echo hello | %s %s n2 "
                                     "'hostname; cat; echo $YOKE_TEST_MARK; exit 5'",
                                     yk_test_on(1), ssh),
                     5);
    assert_string_equal(output, "n2\nhello\n7\n");
}

YK_TEST_HOST_RANKS(ranks_of_all_hosts_share_a_store, 2, 2)
{
    char name[16];
    int port = atoi(getenv("MASTER_PORT"));
    yk_store_server *server = NULL;
    yk_store *store;
    assert_int_equal(world, 4);
    assert_int_equal(gethostname(name, sizeof name), 0);
    assert_string_equal(name, rank < 2 ? "n1" : "n2");
    if (rank == 0)
        assert_ok(yk_store_serve(&server, getenv("MASTER_ADDR"), &port, NULL));
    assert_ok(yk_store_connect(&store, getenv("MASTER_ADDR"), port, NULL, 20));
    announce(store, "here", rank);
    await_all(store, "here", world);
    announce(store, "done", rank);
    if (rank == 0)
        await_all(store, "done", world);
    yk_store_destroy(store);
    yk_store_server_destroy(server);
}

/* Other tests may have hosts, too: of these, TMPDIR is in the folder of this test. */
static void kill_rank_2(void)
{
    await_text("running", 2);
    pid_t pid = yk_test_find_process(2, "", "RANK=2");
    assert_true(pid > 0);
    assert_int_equal(yk_test_find_process(1, "", "RANK=2"), 0);
    assert_int_equal(yk_test_find_process(0, yk_test_directory(), "RANK=2"), pid);
    assert_true(yk_test_pid_on_host(pid) < pid);
    kill(pid, SIGKILL);
}

static void wait_to_be_killed(int rank, int world)
{
    (void)world;
    if (rank != 2)
        return;
    leave_text("running", rank, "yes");
    pause();
}

YK_TEST(a_rank_of_a_host_is_found_and_killed)
{
    int statuses[4];
    open_lines();
    yk_test_host_ranks(2, 2, wait_to_be_killed, statuses, kill_rank_2);
    for (int rank = 0; rank < 4; rank++)
        assert_int_equal(statuses[rank], rank == 2 ? SIGKILL : 0);
}

YK_TEST(nothing_is_left_of_hosts_whose_test_is_killed)
{
    yk_test_hosts(1); /* skips */
    char output[256];
    const char *folder = yk_test_directory();
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    pid_t test = yk_test_fork();
    if (test == 0) {
        yk_test_hosts(2);
        assert_int_equal(write(ready[1], "", 1), 1);
        pause();
    }
    assert_int_equal(read(ready[0], output, 1), 1);
    assert_int_equal(
        yk_test_command(output, sizeof output, "kill -0 $(cat %s/hosts-1/n*.pid)", folder), 0);
    kill(test, SIGKILL);
    assert_int_equal(waitpid(test, NULL, 0), test);
    assert_int_equal(yk_test_command(output, sizeof output,
                                     "for pid in $(cat %s/hosts-1/n*.pid); do timeout 20 sh -c \""
                                     "while grep -q '^State:.[^Z]' /proc/$pid/status; do sleep "
                                     "0.01; done\" || exit 1; done 2>/dev/null",
                                     folder),
                     0);
}

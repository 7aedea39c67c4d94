/* Launchers that run one job together: ranks, causes, signals, and a job of many hosts. */
#define _GNU_SOURCE
#include "agents.h"

#include <sys/stat.h>

static const char *const print_ranks =
    "sh -c 'echo =$RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $GROUP_RANK $GROUP_WORLD_SIZE "
    "$ROLE_RANK $ROLE_WORLD_SIZE $TORCHELASTIC_RUN_ID='";

YK_TEST(ranks_are_numbered_host_by_host)
{
    char arguments[512];
    int port = yk_test_free_port();
    static const int local[] = {1, 3, 2};
    for (int i = 2; i >= 0; i--) { /* node 0, which serves the rendezvous, comes last */
        snprintf(arguments, sizeof arguments,
                 "run --nnodes 3 --node-rank %d --master-addr 127.0.0.1 --master-port %d "
                 "--rdzv-id job7 -n %d %s",
                 i, port, local[i], print_ranks);
        test_job_start(&agents[i], arguments);
    }
    for (int i = 0; i < 3; i++)
        assert_job_ends(&agents[i], 60, 0);
    assert_contains(agents[0].output, "[rank 0] =0 6 0 1 0 3 0 6 job7=\n");
    assert_contains(agents[1].output, "[rank 1] =1 6 0 3 1 3 1 6 job7=\n");
    assert_contains(agents[1].output, "[rank 3] =3 6 2 3 1 3 3 6 job7=\n");
    assert_contains(agents[2].output, "[rank 5] =5 6 1 2 2 3 5 6 job7=\n");
}

YK_TEST(the_same_command_on_each_host_finds_the_others)
{
    assert_job_code(&agents[0], run_two(print_ranks), 0);
    assert_contains(both_outputs(), "[rank 0] =0 2 0 1 0 2 0 2 none=\n");
    assert_contains(both_outputs(), "[rank 1] =1 2 0 1 1 2 1 2 none=\n");
}

static void sum_ranks(void)
{
    yk_group *group;
    assert_ok(yk_group_init(&group, NULL));
    int32_t sum = yk_group_rank(group) + 1;
    assert_ok(yk_all_reduce(group, &sum, 1, YK_I32, YK_REDUCE_SUM, NULL));
    printf("sum %d\n", sum);
    yk_group_destroy(group);
}

YK_TEST(ranks_of_two_launchers_meet_and_reduce)
{
    if (getenv("RANK")) {
        sum_ranks();
        return;
    }
    char self[256], arguments[512];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(length > 0);
    self[length] = '\0';
    snprintf(arguments, sizeof arguments, "-n 2 %s ranks_of_two_launchers_meet_and_reduce", self);
    assert_job_code(&agents[0], run_two(arguments), 0);
    assert_int_equal(count(both_outputs(), "] sum 10\n"), 4);
}

YK_TEST(promise_10_and_11_all_launchers_name_the_rank_that_failed_first)
{
    assert_job_code(&agents[0],
                    run_two("-n 2 sh -c 'if [ $RANK = 2 ]; then echo a reason >&2; exit 7; fi; "
                            "trap \"echo victim >&2; exit 1\" TERM; sleep 30 & wait'"),
                    7);
    for (int i = 0; i < 2; i++) {
        const char *verdict = strstr(agents[i].output, "yoke run: rank 2 (host ");
        assert_non_null(verdict);
        assert_contains(verdict, "exited with code 7");
        assert_contains(verdict, "its last lines on stderr:\n[rank 2] a reason\n");
        assert_null(strstr(verdict, "victim"));
    }
}

YK_TEST(promise_10_a_killed_rank_gives_its_signal)
{
    assert_job_code(&agents[0], run_two("-n 2 sh -c 'test $RANK = 3 && kill -9 $$; sleep 30'"),
                    128 + SIGKILL);
    assert_contains(agents[0].output, "killed by signal 9 (SIGKILL)");
    assert_contains(agents[1].output, "killed by signal 9 (SIGKILL)");
}

YK_TEST(a_program_that_is_not_there_gives_127_everywhere)
{
    assert_job_code(&agents[0], run_two("./no-such-program"), 127);
    assert_contains(both_outputs(), "cannot start ./no-such-program: No such file or directory");
}

YK_TEST(a_host_that_cannot_start_its_ranks_ends_the_job)
{
    static const char script[] = "#!/bin/sh\necho running\nexec sleep 60\n";
    char everywhere[4096], here[4400];
    snprintf(everywhere, sizeof everywhere, "%s", getenv("PATH"));
    snprintf(here, sizeof here, "%s:%s", everywhere, yk_test_directory());
    yk_test_write_file(yk_test_path("only-here"), script, strlen(script));
    assert_int_equal(chmod(yk_test_path("only-here"), 0700), 0);
    setenv("PATH", here, 1);
    start_agent(0, "2", "only-here");
    setenv("PATH", everywhere, 1);
    start_agent(1, "2", "only-here");
    for (int i = 0; i < 2; i++) {
        assert_job_ends(&agents[i], 20, 127);
        assert_contains(agents[i].output, "could not start its ranks");
    }
}

/* ---- signals -------------------------------------------------------------------------------- */

static void stop_one(int index, int number, int code)
{
    start_obedient();
    kill(agents[index].pid, number);
    assert_job_ends(&agents[0], 20, code);
    assert_job_ends(&agents[1], 20, code);
    assert_int_equal(count(both_outputs(), "] stopped "), 4);
}

YK_TEST(promise_13_sigterm_to_the_first_launcher_stops_all_ranks)
{
    stop_one(0, SIGTERM, 128 + SIGTERM);
}

YK_TEST(promise_13_sigint_to_the_other_launcher_stops_all_ranks)
{
    stop_one(1, SIGINT, 128 + SIGINT);
    assert_contains(agents[0].output, "SIGINT on another host: stopping 2 ranks");
}

YK_TEST(ranks_of_all_hosts_are_suspended_and_resumed)
{
    static const char *const busy = "-n 1 sh -c 'while :; do echo tick; sleep 0.02; done'";
    int status, before;
    start_agent(0, "2", busy);
    start_agent(1, "2", busy);
    test_job_await(&agents[0], "tick");
    test_job_await(&agents[1], "tick");
    kill(agents[1].pid, SIGTSTP);
    assert_int_equal(waitpid(agents[1].pid, &status, WUNTRACED), agents[1].pid);
    usleep(500000);
    before = count(both_outputs(), "tick");
    usleep(300000);
    assert_int_equal(count(both_outputs(), "tick"), before);
    kill(agents[1].pid, SIGCONT);
    for (double deadline = yk_test_now() + 20; count(both_outputs(), "tick") < before + 50;)
        assert_true(yk_test_now() < deadline);
    kill(agents[1].pid, SIGTSTP);
    assert_int_equal(waitpid(agents[1].pid, &status, WUNTRACED), agents[1].pid);
    kill(agents[0].pid, SIGTERM);
    assert_job_ends(&agents[0], 20, 143);
    kill(agents[1].pid, SIGCONT);
    assert_job_ends(&agents[1], 20, 143);
}

YK_TEST(promise_13_sigusr1_reaches_the_ranks_of_all_hosts)
{
    start_obedient();
    kill(agents[1].pid, SIGUSR1);
    for (int rank = 0; rank < 4; rank++) {
        char words[32];
        snprintf(words, sizeof words, "heard %d", rank);
        while (!strstr(both_outputs(), words))
            usleep(2000);
    }
    kill(agents[0].pid, SIGTERM);
    assert_job_ends(&agents[1], 20, 128 + SIGTERM);
    assert_job_ends(&agents[0], 20, 128 + SIGTERM);
}

YK_TEST(sigusr1_reaches_ranks_that_start_later)
{
    static const char *const options =
        "-n 1 sh -c 'trap \"echo heard; exit 138\" USR1; while :; do sleep 0.05; done'";
    yk_store *store;
    start_agent(0, "2", options);
    await_first_join(rendezvous_port);
    kill(agents[0].pid, SIGUSR1);
    assert_ok(yk_store_connect(&store, "localhost", rendezvous_port, "", 20));
    assert_ok(yk_store_wait(store, "orders/0", 20)); /* "forward", which comes back */
    yk_store_destroy(store);
    start_agent(1, "2", options);
    assert_job_ends(&agents[0], 20, 128 + SIGUSR1);
    assert_job_ends(&agents[1], 20, 128 + SIGUSR1);
    assert_contains(agents[0].output, "heard\n");
}

/* For longer than a host may be silent after a failure. */
YK_TEST(a_rank_that_fails_while_the_job_stops_leaves_the_others_their_grace_period)
{
    static const char *const options =
        "--grace 20 sh -c 'code=5; test $RANK = 0 || { code=143; wait=14; }; "
        "trap \"sleep 0$wait; echo stopped $RANK; exit $code\" TERM; echo ready; "
        "while :; do sleep 0.05; done'";
    start_agent(0, "2", options);
    start_agent(1, "2", options);
    test_job_await(&agents[0], "ready");
    test_job_await(&agents[1], "ready");
    kill(agents[0].pid, SIGTERM);
    for (int i = 0; i < 2; i++) {
        assert_job_ends(&agents[i], 30, 121);
        assert_contains(agents[i].output, "unclean stop: rank 0 (host ");
    }
    assert_contains(both_outputs(), "] stopped 1\n");
}

YK_TEST(a_second_signal_kills_the_ranks_of_all_hosts)
{
    static const char *const stubborn = "-n 1 sh -c 'trap \"\" TERM; echo ready; while :; do sleep "
                                        "0.05; done'";
    start_agent(0, "2", stubborn);
    start_agent(1, "2", stubborn);
    test_job_await(&agents[0], "ready");
    test_job_await(&agents[1], "ready");
    kill(agents[1].pid, SIGTERM);
    test_job_await(&agents[0], "SIGTERM on another host");
    test_job_signal_again(&agents[1], SIGTERM);
    assert_job_ends(&agents[0], 20, 122);
    assert_job_ends(&agents[1], 20, 122);
}

/* As srun and Kubernetes do, one after the other. */
YK_TEST(a_signal_to_each_launcher_is_one_request)
{
    static const char *const slow = "-n 1 sh -c 'trap \"\" TERM; echo ready; until [ -e $GO ]; do "
                                    "sleep 0.05; done; exit 143'";
    const char *go = yk_test_path("go");
    setenv("GO", go, 1);
    start_agent(0, "2", slow);
    start_agent(1, "2", slow);
    test_job_await(&agents[0], "ready");
    test_job_await(&agents[1], "ready");
    kill(agents[1].pid, SIGTERM);
    test_job_await(&agents[0], "SIGTERM on another host");
    kill(agents[0].pid, SIGTERM);
    usleep(300000);
    assert_int_equal(close(open(go, O_CREAT | O_WRONLY | O_CLOEXEC, 0600)), 0);
    assert_job_ends(&agents[0], 20, 143);
    assert_job_ends(&agents[1], 20, 143);
}

YK_TEST(a_launcher_that_waits_for_others_can_be_stopped)
{
    start_agent(0, "2", "true");
    usleep(200000);
    kill(agents[0].pid, SIGINT);
    assert_job_ends(&agents[0], 20, 128 + SIGINT);
    start_agent(1, "2", "--rdzv-conf is_host=0 true"); /* nobody serves this rendezvous */
    usleep(200000);
    kill(agents[1].pid, SIGTERM);
    assert_job_ends(&agents[1], 20, 128 + SIGTERM);
}

/* ---- restarts ------------------------------------------------------------------------------- */

/* Each attempt leaves the last lines of its rank in an order, which all hosts have read when the
 * next attempt but one begins. */
YK_TEST(orders_of_earlier_attempts_do_not_stay_in_the_store)
{
    yk_store *store;
    int64_t orders;
    int stay = 0;
    static const char *const arguments =
        "--max-restarts 5 sh -c 'test $TORCHELASTIC_RESTART_COUNT = 5 && echo the last && exec "
        "sleep 60; printf \"%0900d\\n\" 1 2 3 >&2; exit 7'";
    start_agent(0, "2", arguments);
    start_agent(1, "2", arguments);
    test_job_await(&agents[0], "the last");
    assert_ok(yk_store_connect(&store, "localhost", rendezvous_port, "", 20));
    assert_ok(yk_store_add(store, "orders", 0, &orders));
    for (int i = 0; i < (int)orders; i++) {
        static char text[1 << 20];
        char key[64];
        size_t size;
        snprintf(key, sizeof key, "orders/%d", i);
        assert_ok(yk_store_get(store, key, text, sizeof text, &size, 20));
        stay += size > 500;
    }
    assert_int_equal(stay, 1);
    yk_store_destroy(store);
    kill(agents[0].pid, SIGTERM);
    test_job_wait(&agents[0], 30);
    test_job_wait(&agents[1], 30);
}

/* ---- many hosts ----------------------------------------------------------------------------- */

enum { MOST_HOSTS = 1024 };

/* Of the program `true`, as cli/launch/link.c computes it. */
static unsigned long long program_hash(void)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < sizeof "true"; i++)
        hash = (hash ^ (unsigned char)"true"[i]) * UINT64_C(1099511628211);
    return hash;
}

/* Joins as launchers with long names would that are like the one that has joined as the first. */
static void join_as_others(yk_store *store)
{
    char join[640], key[64];
    for (int i = 1; i < MOST_HOSTS; i++) {
        int64_t id, number;
        assert_ok(yk_store_add(store, "agents", 1, &id));
        assert_ok(yk_store_add(store, "reports", 1, &number));
        snprintf(key, sizeof key, "reports/%d", (int)number - 1);
        int length = snprintf(join, sizeof join,
                              "join %d -1 1 1 %d %d 0 %llx\n%064d\n127.0.0.1\nnone\ntrue\n%s\n",
                              (int)id, MOST_HOSTS, MOST_HOSTS, program_hash(), i, yk_build());
        assert_ok(yk_store_set(store, key, join, (size_t)length));
    }
}

/* The order "round" of the first attempt; see cli/launch/orders.h. */
static char *await_round(yk_store *store)
{
    static char text[1 << 20];
    size_t size;
    for (int i = 0; strncmp(text, "round ", 6) != 0; i++) {
        char key[64];
        snprintf(key, sizeof key, "orders/%d", i);
        assert_ok(yk_store_get(store, key, text, sizeof text - 1, &size, 20));
        text[size] = '\0';
    }
    return text;
}

YK_TEST(all_hosts_of_a_large_job_are_told_their_ranks)
{
    yk_store *store;
    char last[80];
    start_agent(0, "1024", "true");
    await_first_join(rendezvous_port);
    assert_ok(yk_store_connect(&store, "localhost", rendezvous_port, "", 20));
    join_as_others(store);
    const char *order = await_round(store);
    snprintf(last, sizeof last, " %064d\n", MOST_HOSTS - 1);
    assert_int_equal(count(order, "\n"), 1 + MOST_HOSTS);
    assert_string_equal(order + strlen(order) - strlen(last), last);
    yk_store_destroy(store);
    kill(-agents[0].pid, SIGKILL);
    test_job_wait(&agents[0], 10);
    test_job_gone(&agents[0], 10);
}

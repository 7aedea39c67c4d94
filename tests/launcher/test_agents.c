/* Launchers that run one job together: ranks, causes, signals, misuse, restarts, lost launchers. */
#define _GNU_SOURCE
#include "agents.h"

#include <netinet/in.h>
#include <sys/socket.h>
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

static const char *const obedient =
    "-n 2 sh -c 'trap \"echo stopped $RANK; exit 143\" TERM; trap \"echo heard $RANK\" USR1; echo "
    "ready; while :; do sleep 0.05; done'";

static void start_obedient(void)
{
    start_agent(0, "2", obedient);
    start_agent(1, "2", obedient);
    for (double deadline = test_now() + 20; count(both_outputs(), "] ready") < 4; usleep(2000))
        if (test_now() > deadline)
            fail_msg("only some ranks are ready: \"%s\"", both_outputs());
}

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
    for (double deadline = test_now() + 20; count(both_outputs(), "tick") < before + 50;)
        assert_true(test_now() < deadline);
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

/* ---- lost launchers ------------------------------------------------------------------------- */

YK_TEST(promise_01_a_lost_launcher_ends_the_job_on_the_others)
{
    start_obedient();
    int loser = strstr(test_job_output(&agents[0]), "[rank 0]") ? 1 : 0;
    kill(-agents[loser].pid, SIGKILL);
    assert_job_ends(&agents[1 - loser], 20, 1);
    assert_contains(agents[1 - loser].output, "(ranks 2 to 3) is lost: its launcher (pid ");
    test_job_gone(&agents[loser], 2);
    test_job_wait(&agents[loser], 5);
}

YK_TEST(the_loss_of_the_rendezvous_ends_the_job_and_says_so)
{
    start_obedient();
    int server = strstr(test_job_output(&agents[0]), "[rank 0]") ? 0 : 1;
    kill(-agents[server].pid, SIGKILL);
    assert_job_ends(&agents[1 - server], 20, 1);
    assert_contains(agents[1 - server].output,
                    "the launcher on host localhost, which serves the job's store, is lost");
    test_job_gone(&agents[1 - server], 2);
    test_job_wait(&agents[server], 5);
}

/* For longer than ranks have to end after a failure. */
static const char *const slow_to_stop =
    "--grace 20 sh -c 'trap \"sleep 3; echo stopped $RANK; exit 143\" TERM; echo ready $RANK; "
    "while :; do sleep 0.05; done'";

/* Stops a job of two hosts and kills the launcher that serves the rendezvous; returns the other. */
static test_job *lose_rendezvous_of_stopping(const char *options)
{
    start_agent(0, "2", options);
    start_agent(1, "2", options);
    test_job_await(&agents[0], "ready ");
    test_job_await(&agents[1], "ready ");
    int server = strstr(agents[0].output, "ready 0") ? 0 : 1;
    kill(agents[server].pid, SIGTERM);
    test_job_await(&agents[1 - server], "SIGTERM on another host");
    kill(-agents[server].pid, SIGKILL);
    test_job_wait(&agents[server], 10);
    return &agents[1 - server];
}

YK_TEST(the_loss_of_the_rendezvous_leaves_ranks_that_stop_their_grace_period)
{
    test_job *other = lose_rendezvous_of_stopping(slow_to_stop);
    assert_job_ends(other, 20, 121);
    assert_contains(other->output, "] stopped 1\n");
    assert_contains(other->output, "unclean stop: the launcher on host localhost, which serves");
    assert_null(strstr(other->output, "still running"));
}

YK_TEST(ranks_are_killed_after_their_grace_period_if_the_rendezvous_is_lost)
{
    test_job *other = lose_rendezvous_of_stopping(
        "--grace 3 sh -c 'trap \"\" TERM; echo ready $RANK; while :; do sleep 0.05; done'");
    double killed_s = test_now();
    assert_job_ends(other, 20, 122);
    assert_true(test_now() - killed_s > 2);
    assert_contains(other->output, "killing rank 1: still running 3 s after SIGTERM");
}

/* ---- many hosts ----------------------------------------------------------------------------- */

enum { MOST_HOSTS = 1024 };

/* Joins as launchers with long names would that are like the one that has joined as the first. */
static void join_as_others(yk_store *store)
{
    char first[2048], join[2400];
    size_t size;
    assert_ok(yk_store_get(store, "reports/0", first, sizeof first - 1, &size, 20));
    first[size] = '\0';
    const char *end_of_host = strchr(strchr(first, '\n') + 1, '\n');
    int node_rank, end_of_rank;
    assert_int_equal(sscanf(first, "join %*d %d%n", &node_rank, &end_of_rank), 1);
    for (int i = 1; i < MOST_HOSTS; i++) {
        int64_t id, number;
        char key[64];
        assert_ok(yk_store_add(store, "agents", 1, &id));
        assert_ok(yk_store_add(store, "reports", 1, &number));
        snprintf(key, sizeof key, "reports/%d", (int)number - 1);
        int length =
            snprintf(join, sizeof join, "join %d -1%.*s\n%064d%s", (int)id,
                     (int)strcspn(first + end_of_rank, "\n"), first + end_of_rank, i, end_of_host);
        assert_ok(yk_store_set(store, key, join, (size_t)length));
    }
}

/* The order "round" of the first attempt; see cli/launch/coordinator.c. */
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

/* ---- misuse --------------------------------------------------------------------------------- */

YK_TEST(a_host_too_many_is_named)
{
    start_obedient();
    start_agent(2, "2", obedient);
    assert_job_ends(&agents[2], 20, 1);
    assert_contains(agents[2].output, "expected 2 hosts, but 3 came: host ");
    kill(agents[0].pid, SIGTERM);
    assert_job_ends(&agents[0], 20, 128 + SIGTERM);
    assert_job_ends(&agents[1], 20, 128 + SIGTERM);
}

/* A server of something else: it listens, and never says anything. */
YK_TEST(who_holds_the_port_of_the_rendezvous_is_named)
{
    char owner[64];
    struct sockaddr_in address = {.sin_family = AF_INET};
    rendezvous_port = yk_test_free_port();
    address.sin_port = htons((uint16_t)rendezvous_port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)), 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(fd, 8), 0);
    start_agent(0, "2", "true");
    assert_job_ends(&agents[0], 30, 1);
    snprintf(owner, sizeof owner, "is in use by pid %d (", (int)getpid());
    assert_contains(agents[0].output, owner);
    assert_contains(agents[0].output, "or another port in --rdzv-endpoint\n");
    close(fd);
}

/* Starts one launcher that waits, and one that it must refuse with these words. */
static void refuse_second(const char *first, const char *second, const char *words)
{
    char options[512];
    int port = yk_test_free_port();
    snprintf(options, sizeof options, "run --master-port %d --rdzv-conf join_timeout=20 %s", port,
             first);
    test_job_start(&agents[0], options);
    await_first_join(port);
    snprintf(options, sizeof options, "run --master-port %d --rdzv-conf join_timeout=20 %s", port,
             second);
    test_job_start(&agents[1], options);
    assert_job_ends(&agents[1], 20, 1);
    if (!strstr(agents[1].output, words))
        fail_msg("\"%s\" does not contain \"%s\"", agents[1].output, words);
    assert_int_equal(count(agents[1].output, "\n"), 1);
    kill(agents[0].pid, SIGTERM);
    assert_job_ends(&agents[0], 20, 128 + SIGTERM);
}

/* Hosts compare the name. */
YK_TEST(a_name_of_a_job_that_does_not_fit_is_refused)
{
    char arguments[512];
    static const char *const names[] = {"$(printf %0512d 0)", "'a\nb'", "$(printf %0511d 0)"};
    for (int i = 0; i < 3; i++) {
        snprintf(arguments, sizeof arguments,
                 "run --nnodes 2 --master-port %d --rdzv-conf join_timeout=0.2 --rdzv-id %s true",
                 yk_test_free_port(), names[i]);
        test_job_start(&agents[0], arguments);
        assert_job_ends(&agents[0], 20, i < 2 ? 2 : 1);
        assert_contains(agents[0].output, i < 2
                                              ? "--rdzv-id: expected at most 511 bytes in one line"
                                              : "only 1 of 2 hosts joined");
    }
}

YK_TEST(hosts_that_disagree_are_refused_and_told_why)
{
    refuse_second("--nnodes 2 true", "--nnodes 3 --node-rank 1 true", "--nnodes differs: 3 on");
    refuse_second("--nnodes 2 true", "--nnodes 2 --node-rank 1 false", "the programs differ: ");
    refuse_second("--nnodes 2 --rdzv-id a true", "--nnodes 2 --node-rank 1 --rdzv-id b true",
                  "belongs to the job \"a\", not to \"b\"");
    refuse_second("--nnodes 3 true", "--nnodes 3 --node-rank 0 true", "port");
}

YK_TEST(promise_32_a_host_without_the_secret_is_refused)
{
    setenv("YOKE_SECRET", "right", 1);
    start_agent(0, "2", "true");
    await_first_join(rendezvous_port); /* or the second would serve it */
    setenv("YOKE_SECRET", "wrong", 1);
    start_agent(1, "2", "true");
    assert_job_ends(&agents[1], 20, 1);
    assert_contains(agents[1].output, "cannot join the rendezvous");
    start_agent(1, "2", "--rdzv-conf secret=right true");
    assert_job_ends(&agents[0], 20, 0);
    assert_job_ends(&agents[1], 20, 0);
}

YK_TEST(promise_08_missing_hosts_are_reported)
{
    start_agent(0, "2", "--rdzv-conf join_timeout=6 true");
    assert_job_ends(&agents[0], 30, 1);
    assert_contains(agents[0].output, "s more for hosts: 1 of 2 have joined (");
    assert_contains(agents[0].output, "; they cannot reach localhost from elsewhere: give all");
    assert_contains(agents[0].output,
                    "only 1 of 2 hosts joined within 6 s (--rdzv-conf join_timeout): ");
}

YK_TEST(missing_hosts_are_told_the_option_that_names_the_first_one)
{
    char command[256];
    snprintf(command, sizeof command,
             "run --nnodes 2 --node-rank 0 --master-port %d --rdzv-conf join_timeout=6 true",
             yk_test_free_port());
    test_job_start(&agents[0], command);
    assert_job_ends(&agents[0], 30, 1);
    assert_contains(agents[0].output, "give all launchers the same --master-addr HOST");
}

YK_TEST(a_lost_host_is_awaited_by_name_until_the_join_timeout)
{
    char options[160];
    for (int i = 0; i < 2; i++) {
        snprintf(
            options, sizeof options,
            "--max-restarts 1 --rdzv-conf join_timeout=7,is_host=%d sh -c 'echo on; exec sleep "
            "60'",
            i == 0);
        start_agent(i, "2", options);
    }
    test_job_await(&agents[0], "on\n");
    test_job_await(&agents[1], "on\n");
    kill(agents[1].pid, SIGKILL);
    assert_job_ends(&agents[0], 40, 1);
    assert_contains(agents[0].output, "s more for hosts: 1 of 2 have joined (");
    assert_contains(agents[0].output, " was lost: start its launcher again");
    assert_contains(agents[0].output, "only 1 of 2 hosts joined within 7 s");
    test_job_wait(&agents[1], 20);
}

YK_TEST(a_late_host_is_told_what_to_do_after_a_takeover)
{
    start_agent(0, "1:2", "--rdzv-conf is_host=0,join_timeout=8 true"); /* the notice is at 5 s */
    assert_job_ends(&agents[0], 30, 1);
    assert_contains(agents[0].output, "waiting for the rendezvous at localhost:");
    if (count(agents[0].output, "have printed as --rdzv-endpoint)") != 2)
        fail_msg("the advice does not come twice: \"%s\"", agents[0].output);
    assert_contains(agents[0].output, "cannot join the rendezvous: nobody has served it within 8 s "
                                      "(--rdzv-conf join_timeout): cannot connect to localhost:");
}

/* ---- restarts ------------------------------------------------------------------------------- */

/* Rank 1 fails when rank 0, which the other launcher starts, has said something, too. */
YK_TEST(all_hosts_restart_after_a_failure)
{
    setenv("OTHER", yk_test_path("other"), 1);
    assert_job_code(&agents[0],
                    run_two("--max-restarts 2 sh -c 'echo attempt $TORCHELASTIC_RESTART_COUNT; "
                            "test $RANK = 0 && echo >$OTHER && exit 0; "
                            "until [ -s $OTHER ]; do sleep 0.01; done; "
                            "exit $((1 - $TORCHELASTIC_RESTART_COUNT))'"),
                    0);
    assert_int_equal(count(both_outputs(), "attempt 0\n"), 2);
    assert_int_equal(count(both_outputs(), "attempt 1\n"), 2);
    assert_int_equal(count(both_outputs(), "rank 1 (host "), 2);
}

YK_TEST(a_job_continues_with_the_remaining_hosts_and_lets_a_host_in_again)
{
    static const char *const options =
        "--rdzv-conf last_call_timeout=0.1 sh -c 'trap \"exit 143\" TERM; test -e $DONE; "
        "running=$?; echo $TORCHELASTIC_RESTART_COUNT:$GROUP_RANK/$WORLD_SIZE; "
        "test $running = 0 && exit 0; while :; do sleep 0.05; done'";
    char done[256];
    snprintf(done, sizeof done, "%s/done", yk_test_directory());
    setenv("DONE", done, 1);
    start_agent(0, "1:2", options);
    test_job_await(&agents[0], "0:0/1");
    start_agent(1, "1:2", options); /* more hosts: all start again */
    test_job_await(&agents[0], "1:0/2");
    test_job_await(&agents[1], "1:1/2");
    kill(-agents[1].pid, SIGKILL); /* fewer hosts: the others continue */
    test_job_await(&agents[0], "2:0/1");
    assert_contains(agents[0].output, "is lost: its launcher");
    test_job_wait(&agents[1], 5);
    close(open(done, O_CREAT | O_WRONLY, 0600));
    start_agent(2, "1:2", options);
    assert_job_ends(&agents[0], 20, 0);
    assert_job_ends(&agents[2], 20, 0);
    assert_contains(agents[2].output, "3:1/2");
}

YK_TEST(the_next_host_takes_over_a_lost_rendezvous)
{
    static const char *const options =
        "--rdzv-conf last_call_timeout=30 sh -c 'trap \"exit 143\" TERM; echo "
        "$TORCHELASTIC_RESTART_COUNT:$GROUP_RANK/$WORLD_SIZE; while :; do sleep 0.05; done'";
    for (int i = 0; i < 3; i++)
        start_agent(i, "1:3", options);
    int order[3] = {-1, -1, -1}; /* the launcher of each node */
    for (int i = 0; i < 3; i++) {
        test_job_await(&agents[i], "/3\n");
        order[atoi(strstr(agents[i].output, "0:") + 2)] = i;
    }
    for (int lost = 0; lost < 2; lost++) { /* first of three, then of the two that are left */
        kill(-agents[order[lost]].pid, SIGKILL);
        test_job_wait(&agents[order[lost]], 10);
        for (int node = lost + 1; node < 3; node++) {
            char line[32];
            snprintf(line, sizeof line, "%d:%d/%d\n", lost + 1, node - lost - 1, 2 - lost);
            test_job_await(&agents[order[node]], line);
        }
    }
    assert_contains(agents[order[2]].output, "takes over");
    kill(agents[order[2]].pid, SIGTERM);
    assert_job_ends(&agents[order[2]], 20, 128 + SIGTERM);
}

/* The third host comes late, when the job has been stopped already. */
static void stop_during_takeover(useconds_t late_us)
{
    static const char *const options = "sh -c 'trap \"exit 143\" TERM; echo node $GROUP_RANK; "
                                       "while :; do sleep 0.05; done'";
    int order[3] = {-1, -1, -1};
    char child[32];
    for (int i = 0; i < 3; i++)
        start_agent(i, "1:3", options);
    for (int i = 0; i < 3; i++) {
        test_job_await(&agents[i], "node ");
        order[atoi(strstr(agents[i].output, "node ") + 5)] = i;
    }
    assert_int_equal(yk_test_command(child, sizeof child, "pgrep -P %d", (int)agents[order[2]].pid),
                     0);
    kill(atoi(child), SIGSTOP);
    kill(-agents[order[0]].pid, SIGKILL);
    test_job_await(&agents[order[1]], "takes over at ");
    const char *place = strstr(agents[order[1]].output, "takes over at ");
    await_first_join(atoi(strchr(place, ':') + 1)); /* its own */
    kill(agents[order[1]].pid, SIGTERM);
    usleep(late_us);
    kill(atoi(child), SIGCONT);
    assert_job_ends(&agents[order[2]], 20, 128 + SIGTERM);
    assert_job_ends(&agents[order[1]], 20, 128 + SIGTERM);
}

YK_TEST(promise_13_sigterm_stops_a_job_whose_rendezvous_is_being_taken_over)
{
    stop_during_takeover(200000);
}

YK_TEST(promise_13_sigterm_stops_hosts_that_come_late_after_a_takeover)
{
    stop_during_takeover(4000000);
}

static const char *const tells_world =
    "sh -c 'trap \"exit 143\" TERM; echo $TORCHELASTIC_RESTART_COUNT:$GROUP_RANK/$WORLD_SIZE; "
    "while :; do sleep 0.05; done'";

/* Started again, its launcher serves a rendezvous of its own, but the job has moved to another. */
YK_TEST(the_lost_host_of_the_rendezvous_rejoins)
{
    start_agent(0, "1:2", tells_world);
    start_agent(1, "1:2", tells_world);
    test_job_await(&agents[0], "/2\n");
    test_job_await(&agents[1], "/2\n");
    int lost = strstr(agents[0].output, "0:0/2") ? 0 : 1;
    kill(-agents[lost].pid, SIGKILL);
    test_job_wait(&agents[lost], 10);
    test_job_await(&agents[1 - lost], "1:0/1\n");
    start_agent(2, "1:2", tells_world);
    test_job_await(&agents[2], "2:1/2\n");
    test_job_await(&agents[1 - lost], "2:0/2\n");
    assert_contains(agents[2].output, "the job has gone on without this host; joining it at ");
    kill(agents[2].pid, SIGTERM);
    assert_job_ends(&agents[2], 20, 128 + SIGTERM);
    assert_job_ends(&agents[1 - lost], 20, 128 + SIGTERM);
}

/* Two hosts make room for a third one when the first is lost. */
YK_TEST(the_next_host_takes_over_while_the_job_regroups)
{
    static const char *const options =
        "--rdzv-conf last_call_timeout=2 sh -c 'trap \"sleep 5; exit 143\" TERM; echo "
        "$TORCHELASTIC_RESTART_COUNT:$GROUP_RANK/$WORLD_SIZE; while :; do sleep 0.05; done'";
    start_agent(0, "1:3", options);
    start_agent(1, "1:3", options);
    test_job_await(&agents[0], "/2\n");
    test_job_await(&agents[1], "/2\n");
    int lost = strstr(agents[0].output, "0:0/2") ? 0 : 1;
    start_agent(2, "1:3", options);
    test_job_await(&agents[lost], "more hosts have come");
    test_job_await(&agents[1 - lost], "more hosts have come");
    kill(-agents[lost].pid, SIGKILL);
    test_job_wait(&agents[lost], 10);
    test_job_await(&agents[1 - lost], "1:0/1\n");
    assert_contains(agents[1 - lost].output, "takes over at ");
    assert_null(strstr(agents[1 - lost].output, "unclean stop"));
    kill(agents[1 - lost].pid, SIGTERM);
    assert_job_ends(&agents[1 - lost], 20, 128 + SIGTERM);
    test_job_wait(&agents[2], 20);
}

/* It has come before the loss of its predecessor was noticed. */
YK_TEST(a_host_that_returns_at_once_waits_for_its_place)
{
    start_agent(0, "1:2", tells_world);
    start_agent(1, "1:2", tells_world);
    test_job_await(&agents[0], "/2\n");
    test_job_await(&agents[1], "/2\n");
    int leaves = strstr(agents[0].output, "0:0/2") ? 1 : 0;
    start_agent(2, "1:2", tells_world);
    usleep(500000);
    kill(-agents[leaves].pid, SIGKILL);
    test_job_wait(&agents[leaves], 10);
    test_job_await(&agents[2], ":1/2\n");
    kill(agents[2].pid, SIGTERM);
    assert_job_ends(&agents[2], 20, 128 + SIGTERM);
    assert_job_ends(&agents[1 - leaves], 20, 128 + SIGTERM);
}

YK_TEST(sigint_to_a_launcher_without_a_place_stops_only_that_launcher)
{
    start_agent(0, "1:2", tells_world);
    start_agent(1, "1:2", tells_world);
    test_job_await(&agents[0], "/2\n");
    test_job_await(&agents[1], "/2\n");
    start_agent(2, "1:2", tells_world);
    test_job_await(&agents[2], "s for a place: expected 2 hosts, but 3 came: host ");
    kill(agents[2].pid, SIGINT);
    assert_job_ends(&agents[2], 20, 128 + SIGINT);
    assert_int_equal(count(agents[2].output, "for a place"), 1);
    usleep(500000);
    assert_null(strstr(both_outputs(), "stopping"));
    kill(agents[0].pid, SIGTERM);
    assert_job_ends(&agents[0], 20, 128 + SIGTERM);
    assert_job_ends(&agents[1], 20, 128 + SIGTERM);
}

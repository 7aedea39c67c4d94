/* Launchers that are lost, the one that serves the rendezvous among them, and restarts. */
#define _GNU_SOURCE
#include "agents.h"

#include "base/clock.h"

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
    double killed_s = yki_now();
    assert_job_ends(other, 20, 122);
    assert_true(yki_now() - killed_s > 2);
    assert_contains(other->output, "killing rank 1: still running 3 s after SIGTERM");
}

/* ---- a rendezvous that does not answer ------------------------------------------------------- */

/* Starts two hosts and suspends the one that serves the rendezvous; returns the other. */
static test_job *suspend_rendezvous(const char *options)
{
    start_agent(0, "2", options);
    start_agent(1, "2", options);
    while (!strstr(both_outputs(), "ready 0 ")) /* the case's deadline ends this */
        usleep(2000);
    int server = strstr(agents[0].output, "ready 0 ") ? 0 : 1;
    test_job_await(&agents[1 - server], "ready ");
    test_job_signal_all(&agents[server], SIGSTOP);
    return &agents[1 - server];
}

static void await_end_of(pid_t rank)
{
    for (double deadline = yk_test_now() + 20; kill(rank, 0) == 0; usleep(2000))
        if (yk_test_now() > deadline)
            fail_msg("rank %d is still there", (int)rank);
}

static void resume_rendezvous(int code)
{
    for (int i = 0; i < 2; i++)
        test_job_signal_all(&agents[i], SIGCONT);
    for (int i = 0; i < 2; i++)
        assert_job_ends(&agents[i], 20, code);
}

YK_TEST(a_failure_ends_the_ranks_of_a_host_while_the_rendezvous_is_stopped)
{
    test_job *other = suspend_rendezvous("-n 2 sh -c 'echo ready $RANK $$.; "
                                         "while :; do sleep 0.05; done'");
    pid_t killed = test_job_number(other, "ready 2 "),
          survivor = test_job_number(other, "ready 3 ");
    kill(killed, SIGKILL);
    await_end_of(survivor);
    resume_rendezvous(128 + SIGKILL);
}

YK_TEST(a_second_signal_kills_the_ranks_of_a_host_while_the_rendezvous_is_stopped)
{
    test_job *other = suspend_rendezvous(
        "-n 1 sh -c 'trap \"\" TERM; echo ready $RANK $$.; while :; do sleep 0.05; done'");
    pid_t rank = test_job_number(other, "ready 1 ");
    kill(other->pid, SIGTERM);
    test_job_await(other, "signal again to kill");
    test_job_signal_again(other, SIGTERM);
    await_end_of(rank);
    resume_rendezvous(122);
}

/* For longer than a store may be silent otherwise, which is 30 s. */
YK_TEST(a_job_waits_for_the_launcher_of_its_rendezvous_however_long_it_is_stopped)
{
    test_job *other = suspend_rendezvous("-n 1 sh -c 'trap \"exit 143\" TERM; "
                                         "echo ready $RANK $$.; while :; do sleep 0.2; done'");
    sleep(32);
    assert_null(strstr(test_job_output(other), "lost"));
    kill(other->pid, SIGTERM);
    resume_rendezvous(128 + SIGTERM);
}

/* ---- a host that does not answer ------------------------------------------------------------- */

/* Only the launcher is stopped, not the ranks, which end well everywhere. */
YK_TEST(a_host_that_does_not_report_the_end_of_its_ranks_is_named)
{
    const char *go = yk_test_path("go");
    static const char *const program =
        "sh -c 'echo launcher $PPID; until [ -e $GO ]; do sleep 0.02; done'";
    char words[2][256];
    setenv("GO", go, 1);
    for (int i = 0; i < 2; i++) {
        snprintf(words[i], sizeof words[i], "--rdzv-conf is_host=%s %s", i == 0 ? "yes" : "no",
                 program);
        start_agent(i, "2", words[i]);
    }
    pid_t launcher = test_job_number(&agents[1], "launcher ");
    test_job_await(&agents[0], "launcher ");
    kill(launcher, SIGSTOP);
    close(open(go, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    test_job_await(&agents[0], "waiting for host ");
    assert_contains(agents[0].output, "which has not reported the end of its ranks");
    kill(launcher, SIGCONT);
    for (int i = 0; i < 2; i++)
        assert_job_ends(&agents[i], 20, 0);
    assert_int_equal(count(agents[0].output, "waiting for host "), 1);
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

YK_TEST(no_host_tries_wrong_options_again)
{
    assert_job_code(&agents[0],
                    run_two("--max-restarts 2 sh -c 'echo attempt $TORCHELASTIC_RESTART_COUNT; "
                            "exit 2'"),
                    2);
    assert_contains(both_outputs(), "attempt 0\n");
    assert_null(strstr(both_outputs(), "attempt 1\n"));
    assert_int_equal(count(both_outputs(), "; not restarted, because exit code 2 means"), 2);
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

/* Their host answers that these launchers have ended, so no other host can continue the job. */
YK_TEST(a_job_continues_although_most_launchers_are_killed_at_once)
{
    static const char *const options =
        "--rdzv-conf last_call_timeout=30 sh -c 'trap \"exit 143\" TERM; echo "
        "$TORCHELASTIC_RESTART_COUNT:$GROUP_RANK/$WORLD_SIZE; while :; do sleep 0.05; done'";
    int first = 0;
    for (int i = 0; i < 3; i++)
        start_agent(i, "1:3", options);
    for (int i = 0; i < 3; i++) {
        test_job_await(&agents[i], "/3\n");
        first = strstr(agents[i].output, "0:0/") ? i : first;
    }
    for (int i = 0; i < 3; i++)
        if (i != first)
            kill(-agents[i].pid, SIGKILL);
    test_job_await(&agents[first], "1:0/1\n");
    for (int i = 0; i < 3; i++)
        if (i != first)
            test_job_wait(&agents[i], 10);
    kill(agents[first].pid, SIGTERM);
    assert_job_ends(&agents[first], 20, 128 + SIGTERM);
}

/* The job waits for another host meanwhile, and no attempt runs. */
YK_TEST(the_loss_of_the_rendezvous_ends_a_job_that_waits_for_a_lost_host)
{
    static const char *const options =
        "--max-restarts 3 sh -c 'trap \"exit 143\" TERM; echo node $GROUP_RANK; "
        "while :; do sleep 0.05; done'";
    int order[3];
    for (int i = 0; i < 3; i++)
        start_agent(i, "3", options);
    for (int i = 0; i < 3; i++)
        order[test_job_number(&agents[i], "node ")] = i;
    kill(-agents[order[2]].pid, SIGKILL);
    test_job_await(&agents[order[1]], "starting all ranks again");
    kill(-agents[order[0]].pid, SIGKILL);
    assert_job_ends(&agents[order[1]], 20, 1);
    assert_contains(agents[order[1]].output, "the launcher on host localhost, which serves the ");
    test_job_wait(&agents[order[0]], 10);
    test_job_wait(&agents[order[2]], 10);
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

/* Starts agents 0 and 1 and waits until their ranks have met; returns which has group rank 0. */
static int start_two_hosts(const char *nodes, const char *command)
{
    for (int i = 0; i < 2; i++)
        start_agent(i, nodes, command);
    for (int i = 0; i < 2; i++)
        test_job_await(&agents[i], "/2\n");
    return strstr(agents[0].output, "0:0/2") ? 0 : 1;
}

/* Started again, its launcher serves a rendezvous of its own, but the job has moved to another. */
YK_TEST(the_lost_host_of_the_rendezvous_rejoins)
{
    int lost = start_two_hosts("1:2", tells_world);
    kill(-agents[lost].pid, SIGKILL);
    test_job_wait(&agents[lost], 10);
    test_job_await(&agents[1 - lost], "1:0/1\n");
    start_agent(2, "1:2", tells_world);
    test_job_await(&agents[2], "2:1/2\n");
    test_job_await(&agents[1 - lost], "2:0/2\n");
    assert_contains(agents[2].output, "the job has continued without this host; joining it at ");
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
    int lost = start_two_hosts("1:3", options);
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
    assert_job_ends(&agents[2], 20, 1);
    assert_contains(agents[2].output, "the rendezvous is lost before this host had a place in the");
    assert_contains(agents[2].output, "closed by the server; start this launcher again");
}

/* One launcher is left of two, and two are the least. */
YK_TEST(a_job_that_has_lost_too_many_hosts_is_not_told_of_the_option_that_it_has)
{
    start_agent(0, "2:3",
                "--rdzv-conf last_call_timeout=0.1,join_timeout=7 --max-restarts 1 sh -c "
                "'echo node $GROUP_RANK; sleep 100'");
    start_agent(1, "2:3",
                "--rdzv-conf last_call_timeout=0.1,join_timeout=7 --max-restarts 1 sh -c "
                "'echo node $GROUP_RANK; sleep 100'");
    int first = test_job_number(&agents[0], "node ");
    test_job_await(&agents[1 - first], "node 1");
    kill(-agents[1 - first].pid, SIGKILL);
    assert_job_ends(&agents[first], 30, 1);
    assert_contains(agents[first].output, "waiting for hosts: 1 of 2 to 3 have joined (");
    assert_contains(agents[first].output, " was lost: start its launcher again\n");
    test_job_wait(&agents[1 - first], 10);
}

/* It has come before the loss of its predecessor was noticed. */
YK_TEST(a_host_that_returns_at_once_waits_for_its_place)
{
    int leaves = 1 - start_two_hosts("1:2", tells_world);
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
    assert_contains(agents[2].output, "stopped while it waited for a place; the job continues\n");
    usleep(500000);
    assert_null(strstr(both_outputs(), "stopping"));
    kill(agents[0].pid, SIGTERM);
    assert_job_ends(&agents[0], 20, 128 + SIGTERM);
    assert_job_ends(&agents[1], 20, 128 + SIGTERM);
}

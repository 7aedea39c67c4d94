/* Hosts that cannot take part in a job, or do not come: who is told what. */
#define _GNU_SOURCE
#include "agents.h"

#include <netinet/in.h>
#include <sys/socket.h>

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

/* What a launcher of another version would report when it joins. */
static void join_as(const char *report)
{
    yk_store *store;
    char key[64];
    int64_t number;
    assert_ok(yk_store_connect(&store, "localhost", rendezvous_port, "", 20));
    assert_ok(yk_store_add(store, "reports", 1, &number));
    snprintf(key, sizeof key, "reports/%d", (int)number - 1);
    assert_ok(yk_store_set(store, key, report, strlen(report)));
    yk_store_destroy(store);
}

YK_TEST(hosts_with_another_version_are_refused)
{
    char words[256];
    start_agent(0, "2", "true");
    await_first_join(rendezvous_port);
    join_as("join 7 -1 1 1 2 2 0 0\nhost2\n127.0.0.2\nnone\ntrue\n9.9.9-abc\n");
    snprintf(words, sizeof words,
             "refused another launcher: host host2 runs yoke 9.9.9-abc, but the host of the "
             "rendezvous yoke %s: all hosts need the same version\n",
             yk_build());
    test_job_await(&agents[0], words);
    join_as("join 8 -1 1 1 2 2 0 0\nhost3\n127.0.0.3\nnone\ntrue\n");
    test_job_await(&agents[0], "host host3 runs yoke (older than 0.2), ");
    join_as("join 9 in another form\n");
    test_job_await(&agents[0], "does not understand this launcher: all hosts need the same ");
    kill(agents[0].pid, SIGTERM);
    assert_job_ends(&agents[0], 20, 128 + SIGTERM);
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

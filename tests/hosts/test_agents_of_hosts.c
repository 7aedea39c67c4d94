/* Launchers on hosts of their own: addresses, lost hosts, cut links. */
#define _GNU_SOURCE
#include "../launcher/job.h"
#include "hosts.h"

#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>

enum { HOSTS = 3 };
static test_job agents[HOSTS + 1];

/* Starts `yoke run` on a host; the rendezvous is on n1. */
static void start_agent(int host, const char *nodes, const char *arguments)
{
    char command[4096];
    snprintf(command, sizeof command, "%s %s run --nnodes %s --rdzv-endpoint n1:29400 %s",
             yk_test_on(host), test_program(), nodes, arguments);
    setenv("YOKE_SECRET", "of this test", 1);
    test_job_start_command(&agents[host], command);
}

static const char *const endless = "sh -c 'trap \"exit 143\" TERM; echo "
                                   "$TORCHELASTIC_RESTART_COUNT:$RANK/$WORLD_SIZE; while :; do "
                                   "sleep 0.05; done'";

YK_TEST(promise_12_ranks_of_hosts_have_addresses_that_the_others_reach)
{
    yk_test_hosts(2);
    start_agent(1, "2", "-n 2 sh -c 'echo =$RANK $GROUP_RANK $MASTER_ADDR='");
    start_agent(2, "2", "sh -c 'echo =$RANK $GROUP_RANK $MASTER_ADDR='");
    for (int host = 1; host <= 2; host++)
        if (test_job_wait(&agents[host], 30) != 0)
            fail_msg("on n%d: %s", host, agents[host].output);
    /* n1 means 127.0.1.1 on n1 itself, which would be of no use to the others */
    assert_contains(agents[1].output, "[rank 1] =1 0 10.77.0.1=\n");
    assert_contains(agents[2].output, "[rank 2] =2 1 n1=\n");
}

YK_TEST(promise_01_a_cut_link_ends_the_job_on_both_sides)
{
    yk_test_hosts(2);
    start_agent(1, "2", endless);
    start_agent(2, "2", endless);
    test_job_await(&agents[1], "0:0/2");
    test_job_await(&agents[2], "0:1/2");
    yk_test_cut(2);
    assert_job_ends(&agents[1], 30, 1);
    assert_job_ends(&agents[2], 30, 1);
    assert_contains(agents[1].output, "host n2 (rank 1) is lost");
    assert_contains(agents[2].output, "the launcher on host n1, which serves the job's store, is "
                                      "lost");
}

/* Less than the 5 seconds after which a host counts as lost: packets are sent again in time. */
YK_TEST(a_link_that_returns_before_the_timeout_ends_no_job)
{
    char command[512];
    yk_test_hosts(2);
    snprintf(command, sizeof command,
             "%s train --data synthetic --arch mlp --threads 1 --batch-size 16 --lr 0.0001 "
             "--epochs 100000 --output %s/trained",
             test_program(), yk_test_directory());
    start_agent(1, "2", command);
    start_agent(2, "2", command);
    test_job_await(&agents[1], "images/s");
    for (int i = 0; i < 3; i++) {
        sleep(1);
        yk_test_cut(2);
        usleep(3600000);
        yk_test_restore(2);
    }
    sleep(3);
    kill(-agents[1].pid, SIGTERM);
    assert_int_not_equal(test_job_wait(&agents[1], 40), 1);
    assert_null(strstr(agents[1].output, "lost"));
    test_job_wait(&agents[2], 40);
}

YK_TEST(the_other_hosts_continue_after_a_power_cut)
{
    yk_test_hosts(3);
    for (int host = 1; host <= 3; host++)
        start_agent(host, "2:3", endless);
    for (int host = 1; host <= 3; host++)
        test_job_await(&agents[host], "/3");
    yk_test_kill_host(strstr(test_job_output(&agents[2]), ":1/3") ? 2 : 3);
    test_job_await(&agents[1], "1:0/2");
    assert_contains(agents[1].output, " (rank 1) is lost");
}

YK_TEST(another_host_takes_over_after_a_power_cut_of_the_rendezvous)
{
    yk_test_hosts(3);
    for (int host = 1; host <= 3; host++)
        start_agent(host, "1:3", endless);
    for (int host = 1; host <= 3; host++)
        test_job_await(&agents[host], "/3");
    yk_test_kill_host(1);
    int first = strstr(agents[2].output, ":1/3") ? 2 : 3;
    test_job_await(&agents[first], "1:0/2");
    test_job_await(&agents[5 - first], "1:1/2");
}

YK_TEST(a_host_that_is_cut_off_does_not_continue_on_its_own)
{
    yk_test_hosts(2);
    start_agent(1, "1:2", endless);
    start_agent(2, "1:2", endless);
    test_job_await(&agents[1], "0:0/2");
    test_job_await(&agents[2], "0:1/2");
    yk_test_cut(2);
    test_job_await(&agents[1], "1:0/1");
    assert_job_ends(&agents[2], 40, 1);
    assert_contains(agents[2].output, "only 1 of 2 hosts can: the job ends here");
}

/* The two others may have continued together, so the host of the rendezvous does not. */
YK_TEST(a_host_of_the_rendezvous_that_is_cut_off_from_most_others_says_why_it_ends)
{
    yk_test_hosts(3);
    for (int host = 1; host <= 3; host++)
        start_agent(host, "1:3", endless);
    for (int host = 1; host <= 3; host++)
        test_job_await(&agents[host], "/3");
    yk_test_cut(1);
    assert_job_ends(&agents[1], 40, 1);
    assert_contains(agents[1].output, "only 1 of 3 hosts can be reached: the job ends here");
    test_job_await(&agents[2], "/2");
    test_job_await(&agents[3], "/2");
}

static void lose_launcher(int host)
{
    kill(-agents[host].pid, SIGKILL);
    test_job_wait(&agents[host], 10);
}

/* Neither host can know by itself that the rendezvous has moved to the third. */
YK_TEST(lost_hosts_rejoin_wherever_the_rendezvous_is)
{
    yk_test_hosts(3);
    for (int host = 1; host <= 3; host++)
        start_agent(host, "1:3", endless);
    for (int host = 1; host <= 3; host++)
        test_job_await(&agents[host], "/3");
    int next = strstr(agents[2].output, ":1/3") ? 2 : 3, last = 5 - next;
    lose_launcher(1);
    test_job_await(&agents[next], "1:0/2");
    test_job_await(&agents[last], "1:1/2");
    lose_launcher(last);
    test_job_await(&agents[next], "2:0/1");
    start_agent(last, "1:3", endless);
    test_job_await(&agents[last], "3:1/2");
    start_agent(1, "1:3", endless);
    test_job_await(&agents[1], "4:2/3");
    test_job_await(&agents[next], "4:0/3");
}

/* Trains on three hosts, of which one loses power after the first checkpoint. */
static void train_and_lose(int lost)
{
    char arguments[1024], manifest[256];
    yk_test_hosts(3);
    setenv("YOKE_TIMEOUT", "60", 1);
    snprintf(arguments, sizeof arguments,
             "%s train --data synthetic --arch mlp --threads 1 --batch-size 120 --lr 0.02 --epochs "
             "4 --save-every 5 --output %s/trained",
             test_program(), yk_test_directory());
    for (int host = 1; host <= 3; host++)
        start_agent(host, "2:3", arguments);
    snprintf(manifest, sizeof manifest, "%s/trained/manifest.json", yk_test_directory());
    for (double deadline = yk_test_now() + 60; access(manifest, R_OK); usleep(5000))
        if (yk_test_now() > deadline)
            fail_msg("no checkpoint: %s", test_job_output(&agents[1]));
    yk_test_kill_host(lost);
    for (int host = 1; host <= 3; host++)
        if (host != lost && test_job_wait(&agents[host], 90) != 0)
            fail_msg("on n%d: %s", host, agents[host].output);
}

YK_TEST(promise_17_a_training_continues_on_the_remaining_hosts)
{
    train_and_lose(3);
    assert_contains(agents[1].output, "host n3 (rank ");
    assert_contains(agents[1].output, " is lost");
}

YK_TEST(promise_17_a_training_continues_without_the_host_of_the_rendezvous)
{
    train_and_lose(1);
    assert_contains(agents[2].output, "takes over at 10.77.0.");
}

YK_TEST(a_job_is_started_on_other_hosts_through_ssh)
{
    char command[4096];
    yk_test_hosts(3);
    setenv("YOKE_RSH", yk_test_ssh(), 1);
    snprintf(command, sizeof command,
             "%s %s run --hosts n1:2,n2:1,n3 sh -c 'echo $(hostname)=$RANK/$WORLD_SIZE'",
             yk_test_on(1), test_program());
    test_job_start_command(&agents[0], command);
    assert_job_ends(&agents[0], 60, 0);
    assert_contains(agents[0].output, "[rank 1] n1=1/4\n");
    assert_contains(agents[0].output, "[rank 2] n2=2/4\n");
    assert_contains(agents[0].output, "[rank 3] n3=3/4\n");
}

/* Listens at three of four ports from which that of a rendezvous is drawn, until it is killed. */
static void listen_at_most_ports(void)
{
    struct rlimit files = {16384, 16384};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
    for (int port = 20000; port < 30000; port++) {
        struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
        int fd = port % 4 ? socket(AF_INET, SOCK_STREAM, 0) : -1;
        if (fd >= 0 && bind(fd, (struct sockaddr *)&any, sizeof any) == 0)
            listen(fd, 1);
    }
    printf("listening\n");
    fflush(stdout);
    pause();
}

YK_TEST(a_job_started_through_ssh_finds_a_port_that_is_free_on_its_first_host)
{
    char command[4096], program[512] = "";
    if (getenv("YOKE_TEST_LISTENS")) {
        listen_at_most_ports();
        return;
    }
    assert_true(readlink("/proc/self/exe", program, sizeof program - 1) > 0);
    yk_test_hosts(2);
    setenv("YOKE_RSH", yk_test_ssh(), 1);
    snprintf(command, sizeof command, "%s env YOKE_TEST_LISTENS=1 %s %s", yk_test_on(2), program,
             yk_test_running_case());
    test_job_start_command(&agents[1], command);
    test_job_await(&agents[1], "listening");
    for (int i = 0; i < 3; i++) {
        snprintf(command, sizeof command, "%s %s run --hosts n2,n1 true", yk_test_on(1),
                 test_program());
        test_job_start_command(&agents[0], command);
        assert_job_ends(&agents[0], 60, 0);
    }
    kill(agents[1].pid, SIGKILL);
}

YK_TEST(a_job_started_through_ssh_restarts_after_a_failure_on_another_host)
{
    char command[4096];
    yk_test_hosts(2);
    setenv("YOKE_RSH", yk_test_ssh(), 1);
    snprintf(command, sizeof command,
             "%s %s run --hosts n1,n2 --max-restarts 1 sh -c 'echo "
             "start $TORCHELASTIC_RESTART_COUNT; test $TORCHELASTIC_RESTART_COUNT = 1 && exit; "
             "test $RANK = 1 && kill -KILL $$; exec sleep 300'",
             yk_test_on(1), test_program());
    test_job_start_command(&agents[0], command);
    if (test_job_wait(&agents[0], 60) != 0)
        fail_msg("%s", agents[0].output);
    assert_contains(agents[0].output, "rank 1 (host n2, pid ");
    assert_contains(agents[0].output, "[rank 0] start 1\n");
    assert_contains(agents[0].output, "[rank 1] start 1\n");
}

/* Its ssh would wait for the other side for a quarter of an hour. */
YK_TEST(a_job_started_through_ssh_ends_when_a_host_is_cut_off)
{
    char command[4096];
    yk_test_hosts(2);
    setenv("YOKE_RSH", yk_test_ssh(), 1);
    snprintf(command, sizeof command,
             "%s env YOKE_HEARTBEAT_TIMEOUT=3 %s run --hosts n1,n2 sh -c 'echo up; exec sleep 300'",
             yk_test_on(1), test_program());
    test_job_start_command(&agents[0], command);
    test_job_await(&agents[0], "[rank 1] up");
    test_job_await(&agents[0], "[rank 0] up");
    yk_test_cut(2);
    assert_job_ends(&agents[0], 40, 1);
    assert_contains(agents[0].output, "host n2 (rank 1) is lost");
    test_job_gone(&agents[0], 5);
}

/* Only ssh knows the secret, so nobody else could start the launcher that the job waits for. */
YK_TEST(a_job_started_through_ssh_restarts_on_a_host_that_returns)
{
    char command[4096];
    yk_test_hosts(2);
    setenv("YOKE_RSH", yk_test_ssh(), 1);
    snprintf(command, sizeof command,
             "%s env YOKE_HEARTBEAT_TIMEOUT=3 %s run --hosts n1,n2 --max-restarts 1 sh -c 'echo up "
             "$TORCHELASTIC_RESTART_COUNT; exec sleep 300'",
             yk_test_on(1), test_program());
    test_job_start_command(&agents[0], command);
    test_job_await(&agents[0], "[rank 1] up 0");
    test_job_await(&agents[0], "[rank 0] up 0");
    yk_test_cut(2);
    test_job_await(&agents[0], "; host n2 was lost: its launcher is started again");
    yk_test_restore(2);
    test_job_await(&agents[0], "[rank 1] up 1");
    yk_test_cut(2); /* the second loss is one too many */
    assert_job_ends(&agents[0], 40, 1);
    test_job_gone(&agents[0], 5);
}

YK_TEST(a_job_started_through_ssh_can_be_stopped_while_it_waits_for_a_host)
{
    char command[4096], output[256];
    yk_test_hosts(2);
    setenv("YOKE_RSH", yk_test_ssh(), 1);
    snprintf(
        command, sizeof command,
        "%s env YOKE_HEARTBEAT_TIMEOUT=3 %s run --hosts n1,n2 --max-restarts 1 sh -c 'echo up; "
        "exec sleep 300'",
        yk_test_on(1), test_program());
    test_job_start_command(&agents[0], command);
    test_job_await(&agents[0], "[rank 1] up");
    test_job_await(&agents[0], "[rank 0] up");
    yk_test_cut(2);
    test_job_await(&agents[0], "; host n2 was lost: its launcher is started again");
    yk_test_command(output, sizeof output, "%s pkill -INT -o -x yoke", yk_test_on(1));
    assert_job_ends(&agents[0], 10, 130);
    test_job_gone(&agents[0], 5);
}

YK_TEST(promise_03_nothing_is_left_on_other_hosts_when_ssh_is_killed)
{
    char command[4096];
    yk_test_hosts(2);
    setenv("YOKE_RSH", yk_test_ssh(), 1);
    snprintf(command, sizeof command, "%s %s run --hosts n1,n2 sh -c 'echo up; exec sleep 300'",
             yk_test_on(1), test_program());
    test_job_start_command(&agents[0], command);
    test_job_await(&agents[0], "[rank 1] up");
    test_job_await(&agents[0], "[rank 0] up");
    char output[256];
    yk_test_command(output, sizeof output, "%s pkill -KILL -x ssh", yk_test_on(1));
    assert_int_not_equal(test_job_wait(&agents[0], 30), 0);
    test_job_gone(&agents[0], 20);
}

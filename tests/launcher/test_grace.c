/* The grace period of a job that is being stopped. */
#define _GNU_SOURCE
#include "agents.h"

#include <sys/ioctl.h>
#include <sys/stat.h>

#include "comm/group_internal.h"

static test_job job;
static volatile sig_atomic_t stopped;

static void stop(int number)
{
    (void)number;
    stopped = 1;
}

/* A rank that takes longer to stop than it has, and says first whether it saves meanwhile. */
static void be_rank(bool saves)
{
    yk_group *group;
    signal(SIGTERM, stop);
    assert_ok(yk_group_init(&group, NULL));
    if (yk_group_rank(group) == 0)
        puts("ready");
    fflush(stdout);
    while (!stopped)
        usleep(1000);
    if (saves && yk_group_rank(group) == 0)
        yki_group_announce_save(group);
    if (saves)
        usleep(1400000);
    else
        sleep(60); /* until it is killed */
    yk_group_destroy(group);
    _exit(128 + SIGTERM);
}

/* The command of a rank that runs this case again. */
static const char *as_rank(const char *name)
{
    static char command[1024];
    char self[512] = "";
    assert_true(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
    snprintf(command, sizeof command, "-- %s %s", self, name);
    setenv("YK_TEST_IS_RANK", "1", 1);
    return command;
}

/* Runs this case again as ranks that have a second to stop; returns the job's exit code. */
static int stop_ranks(const char *name, const char *options)
{
    char command[1200];
    snprintf(command, sizeof command, "run %s --grace 1 %s", options, as_rank(name));
    test_job_start(&job, command);
    test_job_await(&job, "ready");
    kill(job.pid, SIGTERM);
    int code = test_job_wait(&job, 20);
    test_job_gone(&job, 5);
    return code;
}

YK_TEST(a_checkpoint_gets_a_grace_period_of_its_own)
{
    if (getenv("YK_TEST_IS_RANK"))
        be_rank(true);
    assert_int_equal(stop_ranks("a_checkpoint_gets_a_grace_period_of_its_own", "-n 2"),
                     128 + SIGTERM);
}

YK_TEST(so_does_that_of_a_rank_alone)
{
    if (getenv("YK_TEST_IS_RANK"))
        be_rank(true);
    assert_int_equal(stop_ranks("so_does_that_of_a_rank_alone", "-n 1"), 128 + SIGTERM);
}

YK_TEST(a_checkpoint_gets_a_grace_period_of_its_own_on_several_hosts)
{
    if (getenv("YK_TEST_IS_RANK"))
        be_rank(true);
    int code = stop_ranks("a_checkpoint_gets_a_grace_period_of_its_own_on_several_hosts",
                          "--hosts localhost:1,127.0.0.1:1");
    assert_job_code(&job, code, 128 + SIGTERM);
}

YK_TEST(ranks_on_several_hosts_are_killed_after_one_signal_for_a_true_reason)
{
    if (getenv("YK_TEST_IS_RANK"))
        be_rank(false);
    int code = stop_ranks("ranks_on_several_hosts_are_killed_after_one_signal_for_a_true_reason",
                          "--hosts localhost:1,127.0.0.1:1");
    assert_job_code(&job, code, 122);
    assert_contains(job.output, "killing rank 0: still running 1 s after SIGTERM");
    assert_null(strstr(job.output, "second signal"));
}

/* Hosts that have come later have stopped the ranks once before. */
YK_TEST(each_attempt_has_a_grace_period_for_its_checkpoint)
{
    static const char name[] = "each_attempt_has_a_grace_period_for_its_checkpoint";
    char arguments[1200];
    if (getenv("YK_TEST_IS_RANK"))
        be_rank(true);
    snprintf(arguments, sizeof arguments, "-n 2 --grace 1 --rdzv-conf last_call_timeout=0.1 %s",
             as_rank(name));
    start_agent(0, "1:2", arguments);
    test_job_await(&agents[0], "ready");
    start_agent(1, "1:2", arguments);
    for (double deadline = yk_test_now() + 20; count(both_outputs(), "ready") < 2; usleep(2000))
        assert_true(yk_test_now() < deadline);
    kill(agents[0].pid, SIGTERM);
    assert_job_ends(&agents[0], 20, 128 + SIGTERM);
    assert_job_ends(&agents[1], 20, 128 + SIGTERM);
}

YK_TEST(anything_else_does_not)
{
    if (getenv("YK_TEST_IS_RANK"))
        be_rank(false);
    assert_int_equal(stop_ranks("anything_else_does_not", "-n 2"),
                     122); /* docs/launcher.md: killed */
}

/* A rank that is busy for two seconds before it stops. */
static void be_busy_rank(void)
{
    signal(SIGTERM, stop);
    puts("ready");
    fflush(stdout);
    while (!stopped)
        usleep(1000);
    puts("stopping");
    fflush(stdout);
    for (int i = 0; i < 20; i++)
        usleep(100000);
    _exit(128 + SIGTERM);
}

/* A scheduler suspends a job of two ranks that is stopping, and lets it continue too late. */
static void suspend(const char *name, const char *options, unsigned seconds)
{
    char command[1200];
    snprintf(command, sizeof command, "run %s %s", options, as_rank(name));
    test_job_start(&job, command);
    while (count(test_job_output(&job), "ready") < 2)
        usleep(2000);
    kill(job.pid, SIGTERM);
    while (count(test_job_output(&job), "stopping\n") < 2)
        usleep(2000);
    test_job_signal_all(&job, SIGSTOP);
    sleep(seconds);
    test_job_signal_all(&job, SIGCONT);
    assert_job_ends(&job, 20, 128 + SIGTERM);
    test_job_gone(&job, 5);
}

YK_TEST(time_during_which_a_job_is_suspended_is_no_grace_period)
{
    if (getenv("YK_TEST_IS_RANK"))
        be_busy_rank();
    suspend("time_during_which_a_job_is_suspended_is_no_grace_period", "-n 2 --grace 6", 8);
}

YK_TEST(hosts_that_were_suspended_are_not_lost)
{
    if (getenv("YK_TEST_IS_RANK"))
        be_busy_rank();
    suspend("hosts_that_were_suspended_are_not_lost", "--hosts localhost:1,127.0.0.1:1 --grace 6",
            20);
}

/* The output of a job that is stopped waits for its reader no longer than the ranks may take. */
YK_TEST(a_reader_that_pauses_does_not_keep_a_stopped_job)
{
    char arguments[512];
    const char *path = yk_test_path("output");
    assert_int_equal(mkfifo(path, 0600), 0);
    int reader = open(path, O_RDWR | O_CLOEXEC), waiting = 0;
    assert_true(reader >= 0);
    snprintf(arguments, sizeof arguments, "run -n 1 --grace 1 yes >%s", path);
    test_job_start(&job, arguments);
    for (double deadline = yk_test_now() + 20; waiting < 60000 && yk_test_now() < deadline;
         usleep(2000))
        assert_int_equal(ioctl(reader, FIONREAD, &waiting), 0);
    kill(job.pid, SIGTERM);
    assert_job_ends(&job, 20, 128 + SIGTERM);
    test_job_gone(&job, 2);
    close(reader);
}

/* Such as one in which ^S was typed. */
YK_TEST(a_terminal_that_pauses_does_not_keep_a_stopped_job)
{
    char arguments[512], path[128];
    int terminal = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC), before = 0, waiting = 0;
    assert_true(terminal >= 0);
    assert_int_equal(grantpt(terminal), 0);
    assert_int_equal(unlockpt(terminal), 0);
    assert_int_equal(ptsname_r(terminal, path, sizeof path), 0);
    snprintf(arguments, sizeof arguments, "run -n 1 --grace 1 yes >%s 2>&1", path);
    test_job_start(&job, arguments);
    for (double deadline = yk_test_now() + 20; waiting == 0 || waiting > before; usleep(300000)) {
        assert_true(yk_test_now() < deadline);
        before = waiting;
        assert_int_equal(ioctl(terminal, FIONREAD, &waiting), 0);
    }
    kill(job.pid, SIGTERM);
    assert_job_ends(&job, 20, 128 + SIGTERM);
    test_job_gone(&job, 2);
    close(terminal);
}

/* ---- a launcher that does not answer --------------------------------------------------------- */

static void create_file(const char *path)
{
    assert_int_equal(close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600)), 0);
}

static void await_file(const char *path)
{
    for (double deadline = yk_test_now() + 20; access(path, F_OK); usleep(2000))
        if (yk_test_now() > deadline)
            fail_msg("%s is not there", path);
}

/* A rank that tells a stopped launcher something, and leaves a file when it goes on. */
static void tell_stopped_launcher(void (*tell)(yk_group *group))
{
    yk_group *group;
    assert_ok(yk_group_init(&group, NULL));
    if (yk_group_rank(group) == 0) {
        printf("launcher %d\n", (int)getppid());
        fflush(stdout);
        await_file(getenv("STOPPED"));
        tell(group);
        create_file(getenv("TOLD"));
    }
    assert_ok(yk_barrier(group));
    yk_group_destroy(group);
}

/* Of a job whose launcher is stopped, the ranks do not wait for it. */
static void run_with_stopped_launcher(const char *name, void (*tell)(yk_group *group))
{
    char command[1200], file[256];
    if (getenv("YK_TEST_IS_RANK")) {
        tell_stopped_launcher(tell);
        return;
    }
    snprintf(file, sizeof file, "%s", yk_test_path("stopped"));
    setenv("STOPPED", file, 1);
    setenv("TOLD", yk_test_path("told"), 1);
    snprintf(command, sizeof command, "run -n 2 %s", as_rank(name));
    test_job_start(&job, command);
    pid_t launcher = test_job_number(&job, "launcher ");
    kill(launcher, SIGSTOP);
    create_file(file);
    await_file(getenv("TOLD"));
    kill(launcher, SIGCONT);
    assert_job_ends(&job, 20, 0);
}

YK_TEST(a_checkpoint_is_announced_without_waiting_for_a_stopped_launcher)
{
    run_with_stopped_launcher("a_checkpoint_is_announced_without_waiting_for_a_stopped_launcher",
                              yki_group_announce_save);
}

static void report_cause(yk_group *group)
{
    yk_set_error(YK_ERROR_INVALID_ARGUMENT, "a test");
    yki_group_report_cause(group, YK_ERROR_INVALID_ARGUMENT);
}

YK_TEST(a_cause_is_reported_without_waiting_long_for_a_stopped_launcher)
{
    run_with_stopped_launcher("a_cause_is_reported_without_waiting_long_for_a_stopped_launcher",
                              report_cause);
}

/* Signals to `yoke run` and to its ranks: orderly stops, grace periods, readers that stall,
 * terminals that close, and what a launcher meets that signals are denied to. */
#define _GNU_SOURCE
#include "job.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>

static test_job job;

static int run(const char *arguments)
{
    test_job_start(&job, arguments);
    return test_job_wait(&job, 60);
}

static const char *const orderly =
    "run -n 2 sh -c 'trap \"echo saved $RANK; exit 0\" TERM; echo ready; sleep 30 & wait'";

static void stop_orderly(int number, int code)
{
    test_job_start(&job, orderly);
    test_job_await(&job, "[rank 0] ready");
    test_job_await(&job, "[rank 1] ready");
    kill(job.pid, number);
    assert_job_ends(&job, 30, code);
    assert_contains(job.output, "[rank 0] saved 0\n");
    assert_contains(job.output, "[rank 1] saved 1\n");
    test_job_gone(&job, 2);
}

YK_TEST(an_interrupt_ends_the_job_in_order)
{
    stop_orderly(SIGINT, 130);
}

YK_TEST(a_termination_ends_the_job_in_order)
{
    stop_orderly(SIGTERM, 143);
}

YK_TEST(who_does_not_stop_is_killed_after_the_grace)
{
    test_job_start(&job, "run -n 2 --grace 0.3 sh -c 'trap \"\" TERM; echo ready; while :; do "
                         "sleep 1; done'");
    test_job_await(&job, "[rank 0] ready");
    test_job_await(&job, "[rank 1] ready");
    kill(job.pid, SIGTERM);
    assert_job_ends(&job, 30, 122);
    assert_contains(job.output,
                    "unclean stop: killing rank 0, 1: still running 0.3 s after SIGTERM");
    test_job_gone(&job, 2);
}

YK_TEST(a_rank_that_fails_while_it_stops_makes_the_stop_unclean)
{
    test_job_start(&job, "run -n 2 sh -c 'trap \"[ $RANK = 1 ] && exit 3; exit 143\" TERM; echo "
                         "ready; while :; do sleep 0.05; done'");
    test_job_await(&job, "[rank 0] ready");
    test_job_await(&job, "[rank 1] ready");
    kill(job.pid, SIGTERM);
    assert_job_ends(&job, 30, 121);
    assert_contains(job.output, "unclean stop: rank 1 (pid ");
    assert_contains(job.output, "exited with code 3 after ");
}

YK_TEST(a_rank_that_crashes_while_it_stops_makes_the_stop_unclean)
{
    test_job_start(&job, "run -n 2 sh -c 'trap \"kill -SEGV \\$\\$\" TERM; echo ready; while :; do "
                         "sleep 0.05; done'");
    test_job_await(&job, "[rank 0] ready");
    test_job_await(&job, "[rank 1] ready");
    kill(job.pid, SIGTERM);
    assert_job_ends(&job, 30, 121);
    assert_contains(job.output, "unclean stop: rank ");
    assert_contains(job.output, "killed by signal 11 (SIGSEGV) after ");
}

YK_TEST(a_program_without_a_handler_stops_cleanly)
{
    test_job_start(&job, "run -n 2 sh -c 'echo ready; exec sleep 30'");
    test_job_await(&job, "[rank 0] ready");
    test_job_await(&job, "[rank 1] ready");
    kill(job.pid, SIGTERM);
    assert_job_ends(&job, 30, 143);
    assert_null(strstr(job.output, "unclean"));
}

/* SIGTERM ends a shell at once. What it has started is to stop like a program without a shell. */
static const char *const script =
    "run --grace %s sh -c 'sh -c \"trap \\\"%s\\\" TERM; echo ready; while :; do sleep 0.05; "
    "done\"; echo never'";

static void stop_script(const char *grace, const char *trap, int code)
{
    char command[512];
    snprintf(command, sizeof command, script, grace, trap);
    test_job_start(&job, command);
    test_job_await(&job, "ready");
    kill(job.pid, SIGTERM);
    assert_job_ends(&job, 30, code);
    assert_null(strstr(job.output, "never"));
    test_job_gone(&job, 2);
}

YK_TEST(a_program_in_a_script_has_its_grace_period)
{
    stop_script("20", "sleep 0.5; echo saved; exit 143", 143);
    assert_contains(job.output, "[rank 0] saved\n");
}

YK_TEST(a_program_in_a_script_that_does_not_stop_is_killed_after_the_grace)
{
    stop_script("0.5", "true", 122);
    assert_contains(job.output, "killing rank 0: still running 0.5 s after SIGTERM");
}

YK_TEST(a_rank_that_stops_unasked_is_named)
{
    assert_job_code(
        &job, run("run -n 2 --grace 5 sh -c '[ $RANK = 1 ] && exit 143; exec sleep 30'"), 143);
    assert_contains(job.output, "rank 1 (pid ");
    assert_contains(job.output,
                    "exited with code 143, as if SIGTERM had stopped it, but the launcher "
                    "received no such signal");
}

YK_TEST(a_second_interrupt_kills_at_once)
{
    test_job_start(&job, "run --grace 60 sh -c 'trap \"\" TERM; echo ready; while :; do sleep 1; "
                         "done'");
    test_job_await(&job, "ready");
    kill(job.pid, SIGINT);
    test_job_await(&job, "stopping 1 rank");
    test_job_signal_again(&job, SIGINT);
    assert_job_ends(&job, 30, 122);
    assert_contains(job.output, "unclean stop: killing rank 0: a second signal requested it");
}

/* timeout(1) signals the launcher and then its process group. Schedulers signal every process, so
 * that the guard passes on what the launcher has got already. */
YK_TEST(signals_that_come_together_are_one_request)
{
    const char *go = yk_test_path("go");
    setenv("GO", go, 1);
    test_job_start(&job, "run --grace 20 sh -c 'trap \"\" TERM; echo pid=$PPID.; until [ -e "
                         "$GO ]; do sleep 0.05; done; exit 143'");
    pid_t launcher = test_job_number(&job, "pid=");
    kill(launcher, SIGTERM);
    test_job_await(&job, "stopping 1 rank");
    kill(job.pid, SIGTERM);
    usleep(100000);
    kill(job.pid, SIGTERM);
    usleep(300000);
    assert_int_equal(close(open(go, O_CREAT | O_WRONLY | O_CLOEXEC, 0600)), 0);
    assert_job_ends(&job, 30, 143);
}

/* A job whose reader holds its pipe open but never reads; returns when only output is left. */
static int start_unread(void)
{
    char fifo[256], command[512];
    snprintf(fifo, sizeof fifo, "%s/unread", yk_test_directory());
    assert_int_equal(mkfifo(fifo, 0600), 0);
    int reader = open(fifo, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    assert_true(reader >= 0);
    snprintf(command, sizeof command, "run sh -c 'seq 1 30000; echo pid=$$. >&2' >%s", fifo);
    test_job_start(&job, command);
    pid_t rank = test_job_number(&job, "pid=");
    while (kill(rank, 0) == 0) /* until the launcher has seen its end */
        usleep(2000);
    return reader;
}

YK_TEST(a_reader_that_stalls_does_not_hold_up_a_stop)
{
    int reader = start_unread();
    kill(job.pid, SIGTERM);
    assert_job_ends(&job, 10, 143);
    close(reader);
    test_job_gone(&job, 2);
}

YK_TEST(promise_03_a_reader_that_stalls_does_not_keep_the_launcher_without_its_guard)
{
    int reader = start_unread();
    kill(job.pid, SIGKILL);
    assert_job_ends(&job, 10, 128 + SIGKILL);
    test_job_gone(&job, 2);
    close(reader);
}

/* The signalfd of a sandbox that denies it, by a filter of system calls. */
YK_TEST(a_denied_signalfd_is_named)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_signalfd4, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof filter / sizeof *filter, .filter = filter};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
        skip_because("this system has no filters of system calls");
    assert_job_code(&job, run("run true"), 1);
    assert_contains(job.output, "cannot watch for signals: signalfd: Operation not permitted");
}

YK_TEST(a_limit_on_open_files_is_named)
{
    char output[4096];
    assert_int_equal(yk_test_command(output, sizeof output, "ulimit -n 40; exec %s run -n 64 true",
                                     test_program()),
                     1);
    assert_contains(output, "Too many open files; the limit is 40");
    assert_contains(output, "and each rank needs 2: raise");
    assert_null(strstr(output, "start true"));
    assert_int_equal(
        yk_test_command(output, sizeof output,
                        "ulimit -n 64; exec %s run -n 28 --redirects 3 --log-dir %s true",
                        test_program(), yk_test_directory()),
        1);
    assert_contains(output, "and each rank needs 4: raise");
}

/* Whoever starts us may have blocked any signal: that does not make it one for us. */
YK_TEST(a_signal_that_is_none_of_ours_does_not_end_the_job)
{
    sigset_t blocked;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGWINCH);
    sigprocmask(SIG_BLOCK, &blocked, NULL);
    test_job_start(&job, "run sh -c 'echo launcher=$PPID.; sleep 0.5; echo done'");
    sigprocmask(SIG_UNBLOCK, &blocked, NULL);
    kill(test_job_number(&job, "launcher="), SIGWINCH);
    assert_job_ends(&job, 30, 0);
    assert_contains(job.output, "[rank 0] done\n");
}

YK_TEST(nohup_lets_a_job_outlive_its_terminal)
{
    signal(SIGHUP, SIG_IGN);
    test_job_start(&job, "run sh -c 'echo ready; sleep 0.5; echo done'");
    signal(SIGHUP, SIG_DFL);
    test_job_await(&job, "ready");
    kill(job.pid, SIGHUP);
    assert_job_ends(&job, 30, 0);
    assert_contains(job.output, "[rank 0] done\n");
}

/* When a terminal is closed, both the shell and the kernel send SIGHUP. */
YK_TEST(a_second_hangup_does_not_kill_the_job)
{
    signal(SIGHUP, SIG_DFL); /* the tests themselves may run under nohup */
    test_job_start(&job, "run sh -c 'trap \"sleep 0.5; echo saved; exit 143\" TERM; echo ready; "
                         "sleep 30 & wait'");
    test_job_await(&job, "ready");
    kill(job.pid, SIGHUP);
    test_job_await(&job, "SIGHUP: stopping 1 rank");
    kill(job.pid, SIGHUP);
    assert_job_ends(&job, 30, 128 + SIGHUP);
    assert_contains(job.output, "[rank 0] saved\n");
}

/* As some daemons leave it to their children; a shell would mend it. */
YK_TEST(a_parent_that_ignores_sigchld_does_not_hang_the_job)
{
    job.pid = yk_test_fork();
    if (job.pid == 0) {
        signal(SIGCHLD, SIG_IGN);
        execl(test_program(), "yoke", "run", "sh", "-c", "exit 3", (char *)NULL);
        _exit(127);
    }
    assert_job_ends(&job, 10, 3);
}

YK_TEST(a_parent_that_blocks_signals_does_not_keep_a_training_from_stopping)
{
    sigset_t blocked;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGTERM);
    sigprocmask(SIG_BLOCK, &blocked, NULL);
    test_job_train(&job, "");
    kill(job.pid, SIGTERM);
    assert_job_ends(&job, 30, 128 + SIGTERM);
}

YK_TEST(closed_standard_files_do_not_hang_the_job)
{
    test_job_start(&job, "run -n 2 sh -c 'echo out && echo err >&2 && exit 3' <&- >&- 2>&-");
    assert_job_ends(&job, 10, 3);
}

/* ^Z and fg. */
YK_TEST(a_job_is_suspended_and_resumed)
{
    int status, before;
    test_job_start(&job, "run -n 2 sh -c 'while :; do echo tick; sleep 0.02; done'");
    test_job_await(&job, "tick");
    kill(job.pid, SIGTSTP);
    assert_int_equal(waitpid(job.pid, &status, WUNTRACED), job.pid);
    assert_true(WIFSTOPPED(status));
    usleep(300000);
    before = count(test_job_output(&job), "tick");
    usleep(300000);
    assert_int_equal(count(test_job_output(&job), "tick"), before);
    kill(job.pid, SIGCONT);
    for (double deadline = yk_test_now() + 20; count(test_job_output(&job), "tick") < before + 10;)
        assert_true(yk_test_now() < deadline);
    kill(job.pid, SIGTSTP);
    assert_int_equal(waitpid(job.pid, &status, WUNTRACED), job.pid);
    kill(job.pid, SIGTERM);
    kill(job.pid, SIGCONT);
    assert_job_ends(&job, 20, 143);
}

/* Whether a signal that was sent to the process has not been read yet. */
static bool is_pending(pid_t pid, int number)
{
    char text[64];
    yk_test_command(text, sizeof text, "sed -n 's/^ShdPnd:\t*//p' /proc/%d/status", (int)pid);
    return strtoull(text, NULL, 16) >> (number - 1) & 1;
}

YK_TEST(sigusr1_waits_for_a_rank_that_is_still_starting)
{
    const char *go = yk_test_path("go");
    setenv("GO", go, 1);
    test_job_start(&job, "run sh -c 'echo launcher $PPID; until [ -e $GO ]; do sleep 0.05; done; "
                         "trap \"echo heard; exit 3\" USR1; while :; do sleep 0.05; done'");
    pid_t launcher = test_job_number(&job, "launcher ");
    kill(launcher, SIGUSR1);
    while (is_pending(launcher, SIGUSR1)) /* the case's deadline ends this */
        usleep(1000);
    close(open(go, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    assert_job_ends(&job, 20, 3);
    assert_contains(job.output, "heard\n");
}

/* It comes before the launcher's main, with the signal blocked. */
YK_TEST(sigusr1_waits_for_a_launcher_that_is_still_starting)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, NULL);
    test_job_start(&job, "run sh -c 'trap \"echo heard; exit 3\" USR1; while :; do sleep 0.05; "
                         "done'");
    kill(job.pid, SIGUSR1);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    assert_job_ends(&job, 20, 3);
    assert_contains(job.output, "heard\n");
}

/* A rank that reads signals instead of handling them. */
static void read_signal(void)
{
    sigset_t set;
    struct signalfd_siginfo info;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, NULL);
    int fd = signalfd(-1, &set, SFD_CLOEXEC);
    puts("ready");
    fflush(stdout);
    if (read(fd, &info, sizeof info) == sizeof info)
        puts("read");
    fflush(stdout);
    _exit(3);
}

YK_TEST(sigusr1_reaches_a_rank_that_blocks_it)
{
    char self[512] = "", command[1024];
    if (getenv("RANK"))
        read_signal();
    assert_true(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
    snprintf(command, sizeof command, "run %s sigusr1_reaches_a_rank_that_blocks_it", self);
    test_job_start(&job, command);
    test_job_await(&job, "ready");
    kill(job.pid, SIGUSR1);
    assert_job_ends(&job, 20, 3);
    assert_contains(job.output, "read\n");
}

YK_TEST(sigusr1_reaches_the_ranks)
{
    test_job_start(&job,
                   "run sh -c 'trap \"echo heard; exit 3\" USR1; echo ready; sleep 30 & wait'");
    test_job_await(&job, "ready");
    kill(job.pid, SIGUSR1);
    assert_job_ends(&job, 30, 3);
    assert_contains(job.output, "heard");
}

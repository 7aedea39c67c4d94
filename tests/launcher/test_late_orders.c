/* A launcher that takes its orders late: several have come when it looks for the first. */
#define _GNU_SOURCE
#include "agents.h"

#include <errno.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>

/* The launcher itself, which is the only child of the process that was started. */
static pid_t launcher_of(const test_job *job)
{
    char path[96];
    pid_t launcher = 0;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", job->pid, job->pid);
    for (double deadline = yk_test_now() + 20; !launcher && yk_test_now() < deadline;
         usleep(2000)) {
        FILE *file = fopen(path, "re");
        if (file && fscanf(file, "%d", &launcher) != 1)
            launcher = 0;
        if (file)
            fclose(file);
    }
    assert_true(launcher > 0);
    return launcher;
}

/* Whether the process' main thread waits in its poll, as the launcher's does for orders. */
static bool polls(pid_t process)
{
    char path[64];
    long call = -1;
    snprintf(path, sizeof path, "/proc/%d/syscall", process);
    FILE *file = fopen(path, "re");
    if (!file)
        skip_because("%s: %s", path, strerror(errno));
    if (fscanf(file, "%ld", &call) != 1)
        call = -1; /* it runs */
    fclose(file);
#ifdef SYS_poll
    if (call == SYS_poll)
        return true;
#endif
    return call == SYS_ppoll;
}

/* Holds the thread of a launcher that takes the orders; the one that reads them goes on. */
static pid_t hold_launcher(const test_job *job)
{
    pid_t launcher = launcher_of(job);
    double deadline = yk_test_now() + 20;
    while (!polls(launcher) && yk_test_now() < deadline)
        usleep(2000);
    assert_true(polls(launcher));
    if (ptrace(PTRACE_SEIZE, launcher, NULL, NULL))
        skip_because("no ptrace here: %s", strerror(errno));
    assert_int_equal(ptrace(PTRACE_INTERRUPT, launcher, NULL, NULL), 0);
    assert_int_equal(waitpid(launcher, NULL, __WALL), launcher);
    return launcher;
}

/* The orders are on their way when whoever caused them has printed something. */
static void let_go(pid_t launcher)
{
    usleep(500000);
    assert_int_equal(ptrace(PTRACE_DETACH, launcher, NULL, NULL), 0);
}

static void start(int index, const char *nodes, const char *program)
{
    char words[512];
    snprintf(words, sizeof words, "--rdzv-conf last_call_timeout=0.1,is_host=%s sh -c '%s'",
             index == 0 ? "T" : "No", program);
    start_agent(index, nodes, words);
}

YK_TEST(a_rank_has_failed_before_this_host_starts_its_own)
{
    static const char *const program = "test $RANK = 0 || exec sleep 60; echo a reason >&2; exit 7";
    start(1, "2", program);
    pid_t held = hold_launcher(&agents[1]);
    start(0, "2", program);
    test_job_await(&agents[0], "a reason");
    let_go(held);
    for (int i = 0; i < 2; i++) {
        assert_job_ends(&agents[i], 20, 7);
        assert_contains(agents[i].output, "yoke run: rank 0 (host ");
        assert_contains(agents[i].output, "exited with code 7");
    }
}

YK_TEST(more_hosts_have_come_before_this_host_starts_its_ranks)
{
    static const char *const program =
        "trap \"exit 143\" TERM; echo $TORCHELASTIC_RESTART_COUNT:$GROUP_RANK/$WORLD_SIZE; "
        "test $WORLD_SIZE = 3 && exit 0; while :; do sleep 0.05; done";
    start(1, "2:3", program);
    pid_t held = hold_launcher(&agents[1]);
    start(0, "2:3", program);
    test_job_await(&agents[0], "0:0/2");
    start(2, "2:3", program);
    test_job_await(&agents[0], "more hosts have come");
    let_go(held);
    for (int i = 0; i < 3; i++) {
        assert_job_ends(&agents[i], 20, 0);
        assert_contains(agents[i].output, "1:");
    }
}

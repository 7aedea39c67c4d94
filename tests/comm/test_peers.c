/* What a rank finds out about the processes of others on its machine. */
#define _GNU_SOURCE
#include "harness.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "comm/job/rendezvous.h"

static pid_t start_sleeper(const char *name)
{
    pid_t pid = yk_test_fork();
    if (pid > 0)
        return pid;
    prctl(PR_SET_NAME, name);
    raise(SIGSTOP);
    for (;;)
        pause();
}

static void await(pid_t pid, int what)
{
    siginfo_t info;
    assert_int_equal(waitid(P_PID, (id_t)pid, &info, what | WNOWAIT), 0);
}

/* As on systems without pidfds: gVisor, and Linux before 5.3. Its parent may be slow to reap it, or
 * wait for the others first. */
YK_TEST(without_pidfds_a_zombie_has_ended_too)
{
    yki_peer peer = {.pid = start_sleeper("sleeper"), .pidfd = -1};
    await(peer.pid, WSTOPPED);
    assert_false(yki_peer_ended(&peer));
    kill(peer.pid, SIGKILL);
    await(peer.pid, WEXITED);
    assert_true(yki_peer_ended(&peer));
    assert_int_equal(waitpid(peer.pid, NULL, 0), peer.pid);
    assert_true(yki_peer_ended(&peer));
}

/* A process may have any name. */
YK_TEST(a_stopped_process_is_known_whatever_its_name)
{
    static const char *const names[] = {"sleeper", "a) R (b", ""};
    for (int i = 0; i < 3; i++) {
        yki_peer peer = {.pid = start_sleeper(names[i]), .pidfd = -1};
        const yki_job job = {.world = 1, .peers = &peer};
        await(peer.pid, WSTOPPED);
        assert_string_equal(yki_job_doing(&job, 0), "is stopped");
        kill(peer.pid, SIGKILL);
        assert_int_equal(waitpid(peer.pid, NULL, 0), peer.pid);
    }
}

/* The kernel counts a process whose child of vfork() has not called exec yet as one that waits for
 * a disk. */
static pid_t start_in_disk_wait(void)
{
    pid_t pid = yk_test_fork();
    if (pid > 0)
        return pid;
    pid_t parent = getpid();
    if (vfork() == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(1);
        for (;;)
            pause();
    }
    _exit(1);
}

YK_TEST(a_process_that_waits_for_a_disk_is_known)
{
#ifdef __SANITIZE_THREAD__
    skip_because("ThreadSanitizer turns vfork() into fork()");
#endif
    yki_peer peer = {.pid = start_in_disk_wait(), .pidfd = -1};
    const yki_job job = {.world = 1, .peers = &peer};
    while (strcmp(yki_job_doing(&job, 0), "is running") == 0) /* the case's deadline ends this */
        usleep(1000);
    assert_string_equal(yki_job_doing(&job, 0), "waits for a disk or a file server");
    kill(peer.pid, SIGKILL);
    assert_int_equal(waitpid(peer.pid, NULL, 0), peer.pid);
}

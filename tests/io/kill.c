/* See kill.h. Takes the place of three functions of the C library. */
#define _GNU_SOURCE
#include "kill.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

const char *yk_test_last_name;
int yk_test_interruptions;

static _Atomic int64_t *taken; /* NULL while steps are not counted */

static void take_step(void)
{
    if (taken)
        atomic_fetch_add(taken, 1);
}

ssize_t write(int fd, const void *data, size_t size)
{
    take_step();
    return syscall(SYS_write, fd, data, size);
}

int fsync(int fd)
{
    take_step();
    if (yk_test_interruptions > 0) {
        yk_test_interruptions--;
        errno = EINTR;
        return -1;
    }
    return taken ? 0 : (int)syscall(SYS_fsync, fd);
}

int rename(const char *from, const char *to)
{
    take_step();
    int result = renameat(AT_FDCWD, from, AT_FDCWD, to);
    if (yk_test_last_name && strcmp(to, yk_test_last_name) == 0)
        raise(SIGKILL);
    return result;
}

void yk_test_count_steps(void)
{
    void *shared =
        mmap(NULL, sizeof *taken, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(shared != MAP_FAILED);
    taken = shared;
}

int64_t yk_test_steps(void)
{
    return atomic_load(taken);
}

void yk_test_kill_after(pid_t child, int64_t steps)
{
    int status;
    for (int64_t last = yk_test_steps() + steps; yk_test_steps() < last;) {
        if (waitpid(child, &status, WNOHANG) != 0)
            fail_msg("the process that saves has ended by itself: status %d", status);
        usleep(50);
    }
    kill(child, SIGKILL);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    assert_true(WIFSIGNALED(status));
}

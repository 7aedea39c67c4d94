/*
 * Starts a process with pipes. All memory is allocated before fork; the child only calls
 * async-signal-safe functions, since the launcher has other threads.
 */
#define _GNU_SOURCE
#include "launch/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <unistd.h>

#include "common/parent.h"

/* Both ends of the pipes. error carries errno to the launcher if exec fails. */
typedef struct channels {
    int in[2], out[2], err[2], error[2];
} channels;

static void close_pair(int pair[2])
{
    for (int i = 0; i < 2; i++)
        if (pair[i] >= 0)
            close(pair[i]);
}

static bool open_channels(channels *pipes)
{
    *pipes = (channels){{-1, -1}, {-1, -1}, {-1, -1}, {-1, -1}};
    return pipe2(pipes->in, O_CLOEXEC) == 0 && pipe2(pipes->out, O_CLOEXEC) == 0 &&
           pipe2(pipes->err, O_CLOEXEC) == 0 && pipe2(pipes->error, O_CLOEXEC) == 0;
}

static int take(int *end)
{
    int fd = *end;
    *end = -1;
    return fd;
}

static _Noreturn void become(const cli_process *process, const channels *pipes, bool takes_input,
                             pid_t launcher)
{
    cli_end_with_parent(launcher, SIGKILL);
    setpgid(0, 0);
    if (process->cores)
        sched_setaffinity(0, sizeof *process->cores, process->cores);
    int input = takes_input ? pipes->in[0] : open("/dev/null", O_RDONLY);
    if (input >= 0 && dup2(input, STDIN_FILENO) >= 0 && input != STDIN_FILENO)
        close(input);
    dup2(pipes->out[1], STDOUT_FILENO);
    dup2(pipes->err[1], STDERR_FILENO);

    signal(SIGPIPE, SIG_DFL); /* ignored by the launcher, but programs expect the default */
    signal(SIGXFSZ, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execvpe(process->program[0], process->program, process->environment);
    int reason = errno;
    if (write(pipes->error[1], &reason, sizeof reason) < 0)
        _exit(126);
    _exit(127);
}

pid_t cli_process_start(const cli_process *process, int *in, int *out, int *err)
{
    channels pipes;
    int reason = 0;
    pid_t pid = -1, launcher = getpid();
    if (!open_channels(&pipes) || (pid = fork()) < 0) {
        reason = errno;
        goto out;
    }
    if (pid == 0)
        become(process, &pipes, in != NULL, launcher);

    close(take(&pipes.error[1]));
    ssize_t got;
    do
        got = read(pipes.error[0], &reason, sizeof reason);
    while (got < 0 && errno == EINTR);
    if (got != sizeof reason) { /* end-of-file: exec succeeded and closed it */
        reason = 0;
        *out = take(&pipes.out[0]);
        *err = take(&pipes.err[0]);
        if (in)
            *in = take(&pipes.in[1]);
    }
out:
    close_pair(pipes.in);
    close_pair(pipes.out);
    close_pair(pipes.err);
    close_pair(pipes.error);
    errno = reason;
    return reason ? -1 : pid;
}

/*
 * Nothing outlives the launcher, however it dies. Three ties make that so:
 *
 * - Ranks ask for SIGKILL at the launcher's death (PR_SET_PDEATHSIG): the kernel ends them at once.
 *   That does not reach what the ranks have started.
 * - When the launcher is killed, everything below it is handed to the nearest living subreaper
 *   above, the guard, which sees its child die and kills what it was given.
 * - When the guard is killed, the launcher reads end-of-file from a pipe that only the guard holds
 *   open, and, being a subreaper itself, kills everything below it.
 *
 * The launcher runs in a session of its own, so that a signal to the user's process group (^C,
 * kill -9 -PGID) cannot hit both; the guard forwards the signals that ask for an end. The limit of
 * the design: whoever kills guard and launcher by SIGKILL in the same moment leaves grandchildren
 * (never ranks) alive, for no process is left that knows them.
 */
#define _GNU_SOURCE
#include "launch/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <yoke/group.h>

#include "cli.h"

enum { IMPATIENCE = 3 }; /* so many requests to stop end the launcher itself */

static bool asks_to_stop(int number)
{
    return number == SIGINT || number == SIGTERM || number == SIGQUIT || number == SIGHUP;
}

/* A hangup that nohup has us ignore must not even be blocked, which would have us see it. */
static sigset_t watched_signals(void)
{
    static const int watched[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
    sigset_t signals;
    sigemptyset(&signals);
    for (size_t i = 0; i < sizeof watched / sizeof *watched; i++)
        sigaddset(&signals, watched[i]);
    struct sigaction hangup;
    if (sigaction(SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler == SIG_IGN)
        sigdelset(&signals, SIGHUP);
    return signals;
}

/* Waits for the launcher, forwarding signals; then makes sure that nothing is left. */
static int guard(const cli_launch *launch, pid_t launcher, const sigset_t *signals)
{
    int status, requests = 0;
    for (;;) {
        int number = sigwaitinfo(signals, NULL);
        if (number == SIGCHLD) {
            if (waitpid(launcher, &status, WNOHANG) == launcher)
                break;
        } else if (number > 0) {
            requests += asks_to_stop(number);
            kill(launcher, requests > IMPATIENCE ? SIGKILL : number);
        }
    }
    if (!WIFSIGNALED(status))
        return WEXITSTATUS(status);
    bool clean = cli_tree_kill(5);
    char words[64];
    fprintf(stderr, "%s: the launcher, pid %d, %s; %s\n", launch->name, (int)launcher,
            cli_describe_status(status, words, sizeof words),
            clean ? "its job was ended" : "some of its processes do not die");
    return cli_exit_code(status);
}

int cli_launch_run(const cli_launch *launch)
{
    int lifeline[2];
    if (yk_group_check_launcher() != YK_OK) {
        fprintf(stderr, "%s: %s\n", launch->name, yk_last_error());
        return CLI_EXIT_FAILED;
    }
    if (pipe2(lifeline, O_CLOEXEC)) {
        fprintf(stderr, "%s: cannot create a pipe: %s\n", launch->name, strerror(errno));
        return CLI_EXIT_FAILED;
    }
    sigset_t signals = watched_signals();
    sigprocmask(SIG_BLOCK, &signals, NULL);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    fflush(NULL);

    pid_t launcher = fork();
    if (launcher < 0) {
        fprintf(stderr, "%s: cannot start a process: %s\n", launch->name, strerror(errno));
        return CLI_EXIT_FAILED;
    }
    if (launcher == 0) {
        close(lifeline[1]);
        setsid();
        prctl(PR_SET_CHILD_SUBREAPER, 1); /* not inherited by fork */
        prctl(PR_SET_PDEATHSIG, SIGCONT); /* were it stopped, it could not see the guard's end */
        int signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
        int code = CLI_EXIT_FAILED;
        if (signal_fd < 0)
            fprintf(stderr, "%s: cannot watch for signals: signalfd: %s\n", launch->name,
                    strerror(errno));
        else
            code = cli_job_run(launch, lifeline[0], signal_fd);
        fflush(NULL);
        _exit(code);
    }
    close(lifeline[0]);
    return guard(launch, launcher, &signals);
}

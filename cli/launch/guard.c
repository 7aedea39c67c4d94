/*
 * No process of a job outlives the launcher, however it dies. Three mechanisms ensure this:
 *
 * - Ranks request SIGKILL when the launcher dies (PR_SET_PDEATHSIG), so the kernel ends them at
 * once. This does not affect processes that the ranks have started.
 * - When the launcher is killed, its descendants become children of the nearest living subreaper,
 *   the guard, which notices the death and kills them.
 * - When the guard is killed, the launcher reads end-of-file from a pipe that only the guard holds
 *   open. The launcher is a subreaper too and kills its descendants.
 *
 * The launcher runs in its own session, so that a signal to the user's process group (^C,
 * kill -9 -PGID) cannot hit both; the guard forwards the signals of the user. The limit of the
 * design: if guard and launcher are killed by SIGKILL at the same moment, grandchildren (never
 * ranks) survive, because no process is left that knows them.
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
#include "common/errors.h"

enum { IMPATIENCE = 3 }; /* after this many requests to stop, the launcher itself is killed */

cli_launch cli_launch_defaults(void)
{
    cli_launch launch = {.master_address = "127.0.0.1",
                         .nodes_min = 1,
                         .nodes_max = 1,
                         .is_host = -1,
                         .secret = "",
                         .join_s = 600,
                         .last_call_s = 30,
                         .role = "default",
                         .run_id = "none",
                         .grace_s = 30};
    sigemptyset(&launch.stop_on);
    sigaddset(&launch.stop_on, SIGINT);
    sigaddset(&launch.stop_on, SIGTERM);
    sigaddset(&launch.stop_on, SIGHUP);
    sigaddset(&launch.stop_on, SIGQUIT);
    return launch;
}

static bool is_ignored(int number)
{
    struct sigaction action;
    return sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

/* SIGHUP that nohup ignores must not be blocked either: signalfd would report it. */
static sigset_t watched_signals(const cli_launch *launch)
{
    sigset_t signals = launch->stop_on;
    sigaddset(&signals, SIGCHLD);
    sigaddset(&signals, SIGUSR1);
    sigaddset(&signals, SIGUSR2);
    sigaddset(&signals, SIGCONT);
    if (!is_ignored(SIGTSTP))
        sigaddset(&signals, SIGTSTP);
    if (is_ignored(SIGHUP))
        sigdelset(&signals, SIGHUP);
    return signals;
}

/* Waits for the launcher and forwards signals; then ensures that no process is left. */
static int guard(const cli_launch *launch, pid_t launcher, const sigset_t *signals)
{
    int status, requests = 0;
    for (;;) {
        int number = sigwaitinfo(signals, NULL);
        if (number == SIGCHLD) {
            if (waitpid(launcher, &status, WNOHANG) == launcher)
                break;
        } else if (number > 0) {
            requests += sigismember(&launch->stop_on, number) == 1;
            kill(launcher, requests > IMPATIENCE ? SIGKILL : number);
            if (number == SIGTSTP)
                raise(SIGSTOP); /* for the shell; SIGCONT is forwarded then */
        }
    }
    if (!WIFSIGNALED(status))
        return WEXITSTATUS(status);
    bool clean = cli_tree_kill(5);
    char words[64];
    fprintf(stderr, "%s: the launcher, pid %d, %s; %s\n", launch->name, (int)launcher,
            cli_describe_status(status, words, sizeof words),
            clean ? "its job was stopped" : "some of its processes could not be killed");
    return cli_exit_code(status);
}

/* srun and mpirun may have started several launchers, each of which would start a whole job. */
static bool started_once(const cli_launch *launch)
{
    yk_place place;
    if (getenv("WORLD_SIZE") || yk_group_place(&place) != YK_OK || !place.source)
        return true;
    fprintf(
        stderr,
        "%s: %s has started %d processes, and each would start a separate job: let it start the "
        "program directly, or start a single process; YOKE_SEPARATE=1 allows separate jobs\n",
        launch->name, place.source, place.world_size);
    return false;
}

int cli_launch_run(const cli_launch *launch)
{
    int lifeline[2];
    if (launch->nodes_max == 1 && !started_once(launch))
        return CLI_EXIT_FAILED;
    if (pipe2(lifeline, O_CLOEXEC)) {
        fprintf(stderr, "%s: cannot create a pipe: %s\n", launch->name, strerror(errno));
        return CLI_EXIT_FAILED;
    }
    sigset_t signals = watched_signals(launch);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    fflush(NULL);

    pid_t launcher = fork();
    if (launcher < 0) {
        cli_complain_of_start(launch->name, "a process", errno);
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

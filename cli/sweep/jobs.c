/* See jobs.h. Signals are blocked and taken one after the other, so there are no handlers. */
#define _GNU_SOURCE
#include "sweep/jobs.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/parent.h"

/* Within this time, signals belong to one request: see ask_to_stop. */
static const double request_s = 0.5;

typedef struct slot {
    pid_t pid;
    double start_s;
} slot;

/* Runs in the child, which leaves the terminal's process group: ^C must reach it only as the signal
 * that the sweep sends. */
static void become_job(const cli_jobs *jobs, int job, pid_t parent, const sigset_t *mask)
{
    setpgid(0, 0);
    cli_end_with_parent(parent, SIGTERM);
    sigprocmask(SIG_SETMASK, mask, NULL);
    jobs->execute(jobs->context, job);
    _exit(127);
}

static void start_job(const cli_jobs *jobs, slot *slots, int job, const sigset_t *mask)
{
    pid_t parent = getpid(), pid = fork();
    if (pid == 0)
        become_job(jobs, job, parent, mask);
    slots[job] = (slot){.pid = pid, .start_s = cli_clock_s()};
    if (pid > 0) {
        setpgid(pid, pid); /* the job does so too: its group is there for whoever is first */
        jobs->report(jobs->context, job, -1, 0);
    } else {
        jobs->codes[job] = 1;
    }
}

static void end_job(const cli_jobs *jobs, slot *slots, int job, int status)
{
    jobs->codes[job] = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    slots[job].pid = 0;
    jobs->report(jobs->context, job, jobs->codes[job], cli_clock_s() - slots[job].start_s);
}

/* Collects the jobs that have ended; returns their number. */
static int collect(const cli_jobs *jobs, slot *slots, int started)
{
    int ended = 0, status;
    for (int job = 0; job < started; job++)
        if (slots[job].pid > 0 && waitpid(slots[job].pid, &status, WNOHANG) == slots[job].pid) {
            end_job(jobs, slots, job, status);
            ended++;
        }
    return ended;
}

static void signal_all(const slot *slots, int started, int number)
{
    for (int job = 0; job < started; job++)
        if (slots[job].pid > 0)
            kill(number == SIGKILL ? -slots[job].pid : slots[job].pid, number);
}

/* One request may be several signals: timeout(1) signals its child and then its process group, and
 * schedulers signal every process. Only a later signal is a second request. */
static void ask_to_stop(cli_jobs *jobs, const slot *slots, int started, int number)
{
    double now = cli_clock_s();
    if (jobs->stop_signal && now - jobs->asked_s < request_s)
        return;
    signal_all(slots, started, jobs->stop_signal ? SIGKILL : SIGTERM);
    jobs->stop_signal = number;
    jobs->asked_s = now;
}

void cli_jobs_run(cli_jobs *jobs)
{
    sigset_t waited, before;
    int started = 0, running = 0;
    jobs->stop_signal = 0;
    slot *slots = calloc((size_t)jobs->count, sizeof *slots);
    for (int job = 0; job < jobs->count; job++)
        jobs->codes[job] = CLI_JOB_NOT_STARTED;
    sigemptyset(&waited);
    sigaddset(&waited, SIGINT);
    sigaddset(&waited, SIGTERM);
    sigaddset(&waited, SIGCHLD);
    sigprocmask(SIG_BLOCK, &waited, &before);
    while (slots && (running > 0 || (!jobs->stop_signal && started < jobs->count))) {
        while (!jobs->stop_signal && started < jobs->count && running < jobs->at_a_time) {
            start_job(jobs, slots, started, &before);
            running += slots[started].pid > 0;
            started++;
        }
        int number = running > 0 ? sigwaitinfo(&waited, NULL) : 0;
        if (number == SIGINT || number == SIGTERM)
            ask_to_stop(jobs, slots, started, number);
        running -= collect(jobs, slots, started);
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    free(slots);
}

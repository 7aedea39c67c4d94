/*
 * How a job is ended.
 *
 * When a rank has failed, the others get a moment to report it and to exit, then SIGTERM, then
 * SIGKILL. When the launcher gets a signal, the ranks get SIGTERM and, after the grace period,
 * SIGKILL.
 */
#define _GNU_SOURCE
#include "launch/end.h"

#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/plural.h"

/* The survivors of a failure end within 2 s. */
static const double survivors_kill_s = 1.5;
/* The launcher looks at the time more often than that, unless it is suspended. */
static const double suspension_s = 2 * CLI_LONGEST_WAIT_S;
/* How long the store may take to tell whether a checkpoint is being written. */
static const double answer_s = 0.5;
/* Within this time, signals belong to one request: see ask_to_stop. */
static const double request_s = 0.5;

void cli_job_end_survivors(cli_job *job)
{
    double now = cli_clock_s();
    if (job->kill_at <= now + survivors_kill_s)
        return;
    job->term_at = now + CLI_SURVIVORS_TERM_S;
    job->kill_at = now + survivors_kill_s;
}

void cli_job_fail(cli_job *job)
{
    cli_job_end_regroup(job);
    job->failed_elsewhere = true;
    cli_job_end_survivors(job);
}

void cli_job_end_regroup(cli_job *job)
{
    if (job->regrouping)
        job->stop_signal = 0;
    job->regrouping = false;
}

void cli_member_signal(const cli_member *member, int number)
{
    bool whole = number != SIGUSR1 && number != SIGUSR2;
    if ((!whole || kill(-member->was, number)) && !member->group_left)
        kill(member->was, number);
}

static void end_member(cli_job *job, int i)
{
    job->members[i].pid = 0;
    job->members[i].group_left = false;
    job->running--;
    job->kind->ended(job, i);
}

/* Where SIGTERM has ended a script at once, the program that it has started has the rest of the
 * time to stop. */
static bool leaves_group(const cli_job *job, const cli_member *member)
{
    return job->kill_at < CLI_NEVER && WIFSIGNALED(member->status) &&
           WTERMSIG(member->status) == SIGTERM && kill(-member->was, 0) == 0;
}

/* Reaps every child that has ended: members, and orphans of theirs. */
static void reap(cli_job *job)
{
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
        for (int i = 0; i < job->started; i++) {
            cli_member *member = &job->members[i];
            if (member->pid != pid || member->group_left)
                continue;
            member->status = status;
            member->group_left = leaves_group(job, member);
            if (!member->group_left)
                end_member(job, i);
        }
    for (int i = 0; i < job->started; i++)
        if (job->members[i].group_left && !leaves_group(job, &job->members[i]))
            end_member(job, i);
}

/* ---- signals and deadlines ------------------------------------------------------------------ */

static void note_forwarded(cli_job *job, int number)
{
    job->usr_forwarded = job->usr_forwarded || number == SIGUSR1 || number == SIGUSR2;
    if (number == SIGTSTP || number == SIGCONT)
        job->suspended = number == SIGTSTP;
}

void cli_job_forward(cli_job *job, int number)
{
    note_forwarded(job, number);
    job->kind->signal(job, number);
}

void cli_job_stop(cli_job *job, int number)
{
    job->stop_signal = number;
    if (job->running == 0 || job->first_failed >= 0)
        return;
    job->kind->signal(job, SIGTERM);
    if (job->suspended) /* or they would not hear it */
        cli_job_forward(job, SIGCONT);
    job->kill_at = cli_clock_s() + job->kind->stop_s(job);
}

static void tell_others(cli_job *job, int number, bool again)
{
    if (job->peers)
        job->peers->stopping(job, number, again);
}

void cli_job_tell_stopping(cli_job *job, int number)
{
    tell_others(job, number, false);
}

void cli_job_request_stop(cli_job *job, int number)
{
    if (job->stop_signal && !job->regrouping)
        return;
    job->regrouping = false;
    cli_job_stop(job, number);
    cli_job_tell_stopping(job, number);
}

void cli_job_kill(cli_job *job)
{
    job->kill_at = cli_clock_s();
    job->asked_twice = true;
}

void cli_job_forward_to_all(cli_job *job, int number)
{
    note_forwarded(job, number);
    if (!job->peers || !job->peers->forward(job, number))
        cli_job_forward(job, number);
}

/*
 * One request may be several signals: timeout(1) signals its child and then its process group, and
 * srun, systemd and schedulers signal every process, so that the launcher gets the signal itself
 * and from the guard. Only a later signal is a second request, whoever has stopped the job
 * meanwhile: another host, or a rank.
 */
static void ask_to_stop(cli_job *job, int number)
{
    double now = cli_clock_s();
    bool stopping = job->stop_signal != 0 && !job->regrouping, again = job->asked_s > 0;
    if (again && now - job->asked_s < request_s)
        return;
    if (again && number == SIGHUP && job->running)
        return; /* when a terminal is closed, both the shell and the kernel send it */
    job->asked_s = now;
    job->regrouping = false;
    if (job->running == 0)
        job->output_abandoned |= job->out.pending.size || job->err.pending.size;
    else if (again)
        cli_job_kill(job);
    else if (!stopping && job->first_failed < 0)
        cli_sink_say(&job->err, "%s: SIG%s: stopping %d %s; signal again to kill",
                     job->launch->name, sigabbrev_np(number), job->running,
                     cli_plural(job->running, job->kind->one, job->kind->several));
    if (!stopping)
        cli_job_stop(job, number);
    tell_others(job, number, again);
}

void cli_job_handle_signals(cli_job *job)
{
    struct signalfd_siginfo info;
    while (read(job->signal_fd, &info, sizeof info) == sizeof info) {
        int number = (int)info.ssi_signo;
        if (number == SIGCHLD) {
            reap(job);
        } else if (sigismember(&job->launch->stop_on, number) == 1) {
            ask_to_stop(job, number);
        } else if (number != SIGCONT || job->suspended) { /* others send it, too */
            cli_job_forward_to_all(job, number);
        }
    }
}

static void kill_members(cli_job *job)
{
    job->kind->kill(job);
    for (int i = 0; i < job->started; i++) {
        cli_member *member = &job->members[i];
        member->killed = member->killed || member->pid != 0;
        if (member->group_left)
            end_member(job, i);
    }
}

/* Whether rank 0 is writing the last checkpoint of a job that is being stopped, and has not been
 * given more time for it yet. */
static bool grant_save(cli_job *job)
{
    char nothing[2];
    if (!job->stop_signal || job->first_failed >= 0 || job->asked_twice || job->save_granted ||
        !cli_store_thread_ask(job->store, "saving", nothing, sizeof nothing, answer_s))
        return false;
    job->save_granted = true;
    return true;
}

void cli_job_discount_suspension(cli_job *job)
{
    double now = cli_clock_s(), passed = now - job->awake_s;
    job->awake_s = now;
    if (passed < suspension_s)
        return;
    job->term_at += passed;
    job->kill_at += passed;
    job->give_up_at += passed;
}

void cli_job_keep_deadlines(cli_job *job)
{
    cli_job_discount_suspension(job);
    double now = job->awake_s;
    if (now >= job->start_at) {
        job->start_at = CLI_NEVER;
        job->kind->start(job);
    }
    if (now >= job->kill_at && grant_save(job)) {
        job->kill_at = now + job->launch->grace_s;
    } else if (now >= job->kill_at) {
        job->kill_at = CLI_NEVER;
        kill_members(job);
    } else if (now >= job->term_at) {
        job->term_at = CLI_NEVER;
        job->kind->signal(job, SIGTERM);
    }
}

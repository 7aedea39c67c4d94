/*
 * How a job ends.
 *
 * When a rank fails, the launcher writes to the store how it ended, so that the survivors can
 * report it. They get a moment to do so and to exit, then SIGTERM, then SIGKILL.
 *
 * When the launcher gets a signal, the ranks get SIGTERM and, after the grace period, SIGKILL. A
 * rank that exits with 128 + the number of such a signal has stopped cleanly, and so has the job.
 * If a rank fails meanwhile or has to be killed, the stop is unclean and has its own exit code,
 * since the last checkpoint may be missing.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli.h"
#include "clock.h"
#include "launch/job.h"
#include "launch/oom.h"

/* The survivors of a failure end within 2 s. */
static const double survivors_term_s = 0.8, survivors_kill_s = 1.5;

static void signal_ranks(cli_job *job, int number)
{
    if (job->launch->remote) {
        cli_remote_signal(job, number);
        return;
    }
    for (int rank = 0; rank < job->started; rank++)
        if (job->members[rank].pid)
            kill(job->members[rank].pid, number);
}

/* ---- ranks that have ended --------------------------------------------------------------------
 */

/* Ends the ranks, after a moment in which they can report what they have seen. */
static void end_survivors(cli_job *job)
{
    double now = cli_clock_s();
    if (job->kill_at <= now + survivors_kill_s)
        return;
    job->term_at = now + survivors_term_s;
    job->kill_at = now + survivors_kill_s;
}

void cli_job_fail(cli_job *job)
{
    job->failed_elsewhere = true;
    end_survivors(job);
}

const char *cli_member_describe(const cli_member *member, char *text, int size)
{
    char status[64];
    snprintf(text, (size_t)size, "%s%s", cli_describe_status(member->status, status, sizeof status),
             member->out_of_memory ? ", probably by the kernel because memory ran out" : "");
    return text;
}

/* How the rank ended, for the error lines of the survivors. */
static void tell_survivors(const cli_job *job, int rank)
{
    const cli_member *dead = &job->members[rank];
    char key[32], words[128], note[160];
    snprintf(key, sizeof key, "dead/%d", dead->rank);
    snprintf(note, sizeof note, "pid %d %s", (int)dead->was,
             cli_member_describe(dead, words, sizeof words));
    if (job->store)
        yk_store_set(job->store, key, note, strlen(note));
}

static bool was_requeued(int status)
{
    return WIFEXITED(status) && WEXITSTATUS(status) == CLI_EXIT_REQUEUED;
}

/* Returns the signal by which a rank has stopped cleanly (exit code 128 + n), or 0. */
static int obeyed_signal(int status)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
    if (was_requeued(status))
        return SIGTERM; /* Slurm is about to send it */
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        if (WIFEXITED(status) && WEXITSTATUS(status) == 128 + signals[i])
            return signals[i];
    return 0;
}

static bool ended_by_sigterm(int status)
{
    return obeyed_signal(status) == SIGTERM || (WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
}

/* Includes programs that do not handle the SIGTERM sent here: they had nothing to save. */
static bool stopped_cleanly(const cli_job *job, int rank)
{
    int status = job->members[rank].status;
    return obeyed_signal(status) ||
           (job->stop_signal && WIFSIGNALED(status) &&
            (WTERMSIG(status) == SIGTERM || WTERMSIG(status) == job->stop_signal));
}

/* A rank has stopped without the launcher's request. The others may be about to stop as well. */
static void rank_stopped(cli_job *job, int rank, int number)
{
    double now = cli_clock_s();
    const cli_member *stopped = &job->members[rank];
    bool forwarded = job->usr_forwarded && (number == SIGUSR1 || number == SIGUSR2);
    if (!forwarded && !was_requeued(stopped->status))
        cli_sink_say(&job->err,
                     "%s: rank %d (pid %d) exited with code %d, as if SIG%s had stopped it, but "
                     "the launcher received no such signal; stopping the job",
                     job->launch->name, stopped->rank, (int)stopped->was, 128 + number,
                     sigabbrev_np(number));
    job->stop_signal = number;
    job->term_at = now + survivors_term_s;
    job->kill_at = now + job->launch->grace_s;
    cli_agent_report_stop(job, number);
}

static void rank_failed(cli_job *job, int rank)
{
    cli_member *failed = &job->members[rank];
    failed->out_of_memory = WIFSIGNALED(failed->status) && WTERMSIG(failed->status) == SIGKILL &&
                            !failed->killed && cli_oom_kills() > job->oom_kills;
    tell_survivors(job, rank);
    if (failed->killed || job->first_failed >= 0)
        return;
    if (job->failed_elsewhere && ended_by_sigterm(failed->status))
        return;
    int obeyed = obeyed_signal(failed->status);
    if (obeyed && !job->stop_signal)
        rank_stopped(job, rank, obeyed);
    if (stopped_cleanly(job, rank))
        return;
    job->first_failed = rank;
    job->failed_s = cli_clock_s();
    job->stop_failed = job->stop_signal != 0; /* then the grace period continues */
    if (!job->stop_failed)
        end_survivors(job);
    cli_agent_report_failure(job);
}

/* Reaps every child that has ended: ranks, and orphans of ranks. */
static void reap(cli_job *job)
{
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
        for (int rank = 0; rank < job->started; rank++)
            if (job->members[rank].pid == pid) {
                job->members[rank].pid = 0;
                job->members[rank].status = status;
                job->running--;
                if (job->launch->remote)
                    cli_remote_ended(job, rank);
                else if (status)
                    rank_failed(job, rank);
            }
}

/* ---- signals and deadlines --------------------------------------------------------------------
 */

void cli_job_stop(cli_job *job, int number)
{
    job->stop_signal = number;
    if (job->running == 0 || job->first_failed >= 0)
        return;
    signal_ranks(job, SIGTERM);
    job->kill_at = cli_clock_s() + job->launch->grace_s;
}

void cli_job_request_stop(cli_job *job, int number)
{
    if (job->stop_signal && !job->regrouping)
        return;
    job->regrouping = false;
    cli_job_stop(job, number);
    cli_agent_report_stop(job, number);
}

void cli_job_kill(cli_job *job)
{
    job->kill_at = cli_clock_s();
    job->asked_twice = true;
}

void cli_job_forward(cli_job *job, int number)
{
    job->usr_forwarded = job->usr_forwarded || number == SIGUSR1 || number == SIGUSR2;
    signal_ranks(job, number);
}

static void ask_to_stop(cli_job *job, int number)
{
    bool again = job->stop_signal != 0 && !job->regrouping;
    job->regrouping = false;
    if (job->running == 0)
        job->output_abandoned = true;
    else if (again)
        cli_job_kill(job);
    else if (job->first_failed < 0)
        cli_sink_say(&job->err, "%s: SIG%s: stopping %d %s%s; signal again to kill",
                     job->launch->name, sigabbrev_np(number), job->running,
                     job->launch->remote ? "host" : "rank", job->running == 1 ? "" : "s");
    if (!again)
        cli_job_stop(job, number);
    cli_agent_report_stop(job, number);
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
        } else if (!cli_agent_report_signal(job, number)) {
            cli_job_forward(job, number);
        }
    }
}

/* Lists the ranks that still run, as in "0, 2, 5"; truncated if it does not fit. */
static void list_running(const cli_job *job, char *text, size_t size)
{
    size_t at = 0;
    text[0] = '\0';
    for (int rank = 0; rank < job->started && at + 16 < size; rank++)
        if (job->members[rank].pid)
            at += (size_t)snprintf(text + at, size - at, "%s%d", at ? ", " : "",
                                   job->members[rank].rank);
}

static void kill_ranks(cli_job *job)
{
    char ranks[256], why[64] = "a second signal requested it";
    bool stopping =
        job->stop_signal && !job->launch->remote && (job->first_failed < 0 || job->stop_failed);
    if (stopping && job->running > 0) {
        list_running(job, ranks, sizeof ranks);
        if (!job->asked_twice)
            snprintf(why, sizeof why, "still running %g s after SIGTERM", job->launch->grace_s);
        cli_sink_say(&job->err, "%s: unclean stop: killing rank %s: %s", job->launch->name, ranks,
                     why);
        job->stop_killed = true;
    }
    for (int rank = 0; rank < job->started; rank++)
        job->members[rank].killed = job->members[rank].killed || job->members[rank].pid != 0;
    signal_ranks(job, SIGKILL);
}

/* Whether rank 0 is writing the last checkpoint of a job that is being stopped, and has not been
 * given more time for it yet. */
static bool grant_save(cli_job *job)
{
    char nothing;
    size_t used;
    if (!job->stop_signal || job->first_failed >= 0 || job->asked_twice || job->save_granted ||
        !job->store || yk_store_get(job->store, "saving", &nothing, 1, &used, 0) != YK_OK)
        return false;
    job->save_granted = true;
    return true;
}

void cli_job_keep_deadlines(cli_job *job)
{
    double now = cli_clock_s();
    if (now >= job->kill_at && grant_save(job)) {
        job->kill_at = now + job->launch->grace_s;
    } else if (now >= job->kill_at) {
        job->kill_at = CLI_NEVER;
        kill_ranks(job);
    } else if (now >= job->term_at) {
        job->term_at = CLI_NEVER;
        signal_ranks(job, SIGTERM);
    }
}

/* ---- the verdict ------------------------------------------------------------------------------
 */

int cli_job_cause(const cli_job *job, bool *named)
{
    char report[1024], *end;
    size_t used;
    *named = false;
    if (!job->store ||
        yk_store_get(job->store, "failure", report, sizeof report - 1, &used, 0) != YK_OK)
        return job->first_failed;
    report[used] = '\0';
    long local = strtol(report, &end, 10) - job->round.first_rank;
    *named = end != report && local >= 0 && local < job->started && job->members[local].status &&
             !job->members[local].killed && !stopped_cleanly(job, (int)local);
    return *named ? (int)local : job->first_failed;
}

void cli_job_describe_failure(const cli_job *job, char *words, size_t size)
{
    const cli_member *failed = &job->members[job->first_failed];
    char status[128], host[256] = "", place[300] = "";
    if (job->agent && gethostname(host, sizeof host - 1) == 0)
        snprintf(place, sizeof place, "host %s, ", host);
    snprintf(words, size, "%srank %d (%spid %d) %s after %.1f s, the first to fail",
             job->stop_failed ? "unclean stop: " : "", failed->rank, place, (int)failed->was,
             cli_member_describe(failed, status, sizeof status), job->failed_s - job->start_s);
}

int cli_job_exit_code(const cli_job *job)
{
    if (job->stop_failed)
        return CLI_EXIT_STOP_FAILED;
    if (job->first_failed >= 0)
        return cli_exit_code(job->members[job->first_failed].status);
    if (job->stop_killed)
        return CLI_EXIT_STOP_KILLED;
    for (int rank = 0; rank < job->started; rank++)
        if (was_requeued(job->members[rank].status))
            return CLI_EXIT_REQUEUED;
    return job->stop_signal ? 128 + job->stop_signal : CLI_EXIT_OK;
}

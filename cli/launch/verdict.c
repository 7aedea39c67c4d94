/*
 * How ranks have ended, and what that means for the job.
 *
 * When a rank fails, the launcher writes to the store how it ended, so that the survivors can
 * report it. A rank that exits with 128 + the number of a signal that asks it to stop has stopped
 * cleanly, and so has the job. If a rank fails meanwhile or has to be killed, the stop is unclean
 * and has its own exit code, since the last checkpoint may be missing.
 */
#define _GNU_SOURCE
#include "launch/verdict.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "cli.h"
#include "common/clock.h"
#include "common/plural.h"
#include "launch/end.h"
#include "launch/net.h"
#include "launch/oom.h"

static const double answer_s = 2.5; /* how long the store may take to tell the cause */

const char *cli_member_describe(const cli_member *member, char *text, int size)
{
    char status[64];
    snprintf(text, (size_t)size, "%s%s", cli_describe_status(member->status, status, sizeof status),
             member->out_of_memory ? ", probably by the kernel because memory ran out" : "");
    return text;
}

static yk_status write_note(yk_store *store, const char *key, const char *note)
{
    return yk_store_set(store, key, note, strlen(note));
}

/* How the rank ended, for the error lines of the survivors. */
static void tell_survivors(const cli_job *job, int rank)
{
    const cli_member *dead = &job->members[rank];
    char key[32], words[128], note[160];
    snprintf(key, sizeof key, "dead/%d", dead->rank);
    snprintf(note, sizeof note, "pid %d %s", (int)dead->was,
             cli_member_describe(dead, words, sizeof words));
    cli_store_thread_post(job->store, write_note, key, note);
}

static bool was_requeued(int status)
{
    return WIFEXITED(status) && WEXITSTATUS(status) == CLI_EXIT_REQUEUED;
}

/* Returns the signal by which a rank has stopped cleanly (exit code 128 + n), or 0. */
static int obeyed_signal(int status)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};
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
    job->term_at = now + CLI_SURVIVORS_TERM_S;
    job->kill_at = now + job->launch->grace_s;
    cli_job_tell_stopping(job, number);
}

void cli_rank_ended(cli_job *job, int rank)
{
    cli_member *failed = &job->members[rank];
    if (failed->status == 0)
        return;
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
        cli_job_end_survivors(job);
    if (job->peers)
        job->peers->failed(job);
}

int cli_job_cause(const cli_job *job, bool *named)
{
    char report[1024], *end;
    *named = false;
    if (!cli_store_thread_ask(job->store, "failure", report, sizeof report, answer_s))
        return job->first_failed;
    long local = strtol(report, &end, 10) - job->round.first_rank;
    *named = end != report && local >= 0 && local < job->started && job->members[local].status &&
             !job->members[local].killed && !stopped_cleanly(job, (int)local);
    return *named ? (int)local : job->first_failed;
}

void cli_job_describe_failure(const cli_job *job, char *words, size_t size)
{
    const cli_member *failed = &job->members[job->first_failed];
    char status[128], host[256], place[300] = "";
    cli_net_own_name(host, sizeof host);
    if (job->peers)
        snprintf(place, sizeof place, "host %s, ", host);
    snprintf(words, size, "%srank %d (%spid %d) %s after %.1f s, the first to fail",
             job->stop_failed ? "unclean stop: " : "", failed->rank, place, (int)failed->was,
             cli_member_describe(failed, status, sizeof status), job->failed_s - job->start_s);
    if (job->launch->max_restarts > 0 &&
        cli_failure_is_final(job->round.attempt, cli_job_exit_code(job)))
        snprintf(words + strlen(words), size - strlen(words),
                 "; not restarted, because exit code %d means wrong options", CLI_EXIT_USAGE);
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

void cli_job_print_cause(cli_job *job, const char *words, int rank, const char *tail)
{
    cli_sink_say(&job->err, "%s: %s", job->launch->name, words);
    if (job->round.world > 1 && tail[0]) {
        cli_sink_say(&job->err, "%s: its last lines on stderr:", job->launch->name);
        cli_sink_repeat(&job->err, rank, tail);
    }
    if (job->echoes.hidden > 0)
        cli_sink_say(&job->err, "%s: %d %s of other ranks said the same", job->launch->name,
                     job->echoes.hidden, cli_plural(job->echoes.hidden, "line", "lines"));
}

/*
 * The launcher proper: serves the store, starts the ranks, waits for their end and gives account of
 * it. The exit code is the first failing rank's, whose last lines on stderr are printed again.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"
#include "launch/job.h"

/* ---- starting ------------------------------------------------------------------------------- */

static bool make_secret(char secret[33])
{
    unsigned char random[16];
    if (getrandom(random, sizeof random, 0) != sizeof random)
        return false;
    for (size_t i = 0; i < sizeof random; i++)
        snprintf(secret + 2 * i, 3, "%02x", random[i]);
    return true;
}

static bool serve_store(yki_job *job)
{
    job->port = job->launch->master_port;
    if (!make_secret(job->secret)) {
        fprintf(stderr, "%s: no random bytes: %s\n", job->launch->name, strerror(errno));
        return false;
    }
    if (yk_store_serve(&job->server, job->launch->master_address, &job->port, job->secret) ||
        yk_store_connect(&job->store, job->launch->master_address, job->port, job->secret, 10)) {
        fprintf(stderr, "%s\n", yk_last_error());
        return false;
    }
    return true;
}

static int terminal_columns(int fd)
{
    struct winsize window;
    if (!isatty(fd))
        return 0;
    return ioctl(fd, TIOCGWINSZ, &window) == 0 && window.ws_col ? window.ws_col : 80;
}

/* When both outputs are one terminal, one queue keeps them in order. */
static yki_sink *sink_for_out(yki_job *job)
{
    struct stat out, err;
    bool same = job->out.terminal && job->err.terminal && fstat(job->out.fd, &out) == 0 &&
                fstat(job->err.fd, &err) == 0 && out.st_rdev == err.st_rdev;
    return same ? &job->err : &job->out;
}

/* 0 or an exit code. */
static int start_rank(yki_job *job, const yki_rank_setting *setting, int rank)
{
    const yki_launch *launch = job->launch;
    yki_member *new = &job->members[rank];
    bool speaks = launch->rank0_speaks && rank == 0;
    new->out = (yki_stream){.fd = -1, .rank = rank, .speaks = speaks, .sink = sink_for_out(job)};
    new->err = (yki_stream){.fd = -1,
                            .rank = rank,
                            .speaks = speaks,
                            .status = speaks ? &job->status : NULL,
                            .sink = &job->err};
    new->pid = new->was = yki_rank_start(setting, rank, &new->out.fd, &new->err.fd);
    if (new->pid < 0) {
        int reason = errno;
        fprintf(stderr, "%s: cannot start %s: %s\n", launch->name, launch->program[0],
                strerror(reason));
        return reason == ENOENT ? 127 : 126; /* a shell's codes */
    }
    job->started++;
    job->running++;
    return 0;
}

/* 0, or the exit code of a job that could not be started. */
static int start(yki_job *job)
{
    if (!serve_store(job))
        return YKI_EXIT_FAILED;
    yki_rank_setting setting = {.launch = job->launch,
                                .port = job->port,
                                .secret = job->secret,
                                .terminal_columns = terminal_columns(STDERR_FILENO)};
    int code = 0;
    for (int rank = 0; rank < job->launch->ranks && code == 0; rank++)
        code = start_rank(job, &setting, rank);
    if (code)
        yki_tree_kill(YKI_TREE_KILL_S);
    return code;
}

/* ---- the whole ------------------------------------------------------------------------------ */

static void report_failure(yki_job *job)
{
    const yki_member *failed = &job->members[job->first_failed];
    char words[64];
    yki_sink_say(&job->err, "%s: rank %d (pid %d) %s after %.1f s, the first to fail",
                 job->launch->name, job->first_failed, (int)failed->was,
                 yki_describe_status(failed->status, words, sizeof words),
                 job->failed_s - job->start_s);
    if (job->launch->ranks > 1 && failed->err.tail_next) {
        yki_sink_say(&job->err, "%s: what it said last:", job->launch->name);
        yki_stream_repeat(&failed->err, &job->err);
    }
}

static int exit_code(const yki_job *job)
{
    if (job->first_failed >= 0)
        return yki_exit_code(job->members[job->first_failed].status);
    return job->stop_signal ? 128 + job->stop_signal : YKI_EXIT_OK;
}

static void flush_sink(yki_sink *sink)
{
    struct pollfd slot = {.fd = sink->fd, .events = POLLOUT};
    while (sink->pending.size && poll(&slot, 1, -1) >= 0)
        yki_sink_flush(sink);
}

static void finish(yki_job *job)
{
    yk_store_destroy(job->store);
    yk_store_server_destroy(job->server);
    for (int rank = 0; job->members && rank < job->started; rank++) {
        yki_stream_free(&job->members[rank].out);
        yki_stream_free(&job->members[rank].err);
    }
    yki_sink_free(&job->out);
    yki_sink_free(&job->err);
    free(job->status.data);
    free(job->members);
    free(job->polled);
}

int yki_job_run(const yki_launch *launch, int lifeline, int signal_fd)
{
    size_t ranks = (size_t)launch->ranks;
    yki_job job = {.launch = launch,
                   .members = calloc(ranks, sizeof(yki_member)),
                   .polled = calloc(yki_job_slots(launch->ranks), sizeof(struct pollfd)),
                   .signal_fd = signal_fd,
                   .lifeline = lifeline,
                   .start_s = yki_launch_now(),
                   .term_at = YKI_NEVER,
                   .kill_at = YKI_NEVER,
                   .first_failed = -1};
    signal(SIGPIPE, SIG_IGN);
    yki_sink_init(&job.out, STDOUT_FILENO, &job.status);
    yki_sink_init(&job.err, STDERR_FILENO, &job.status);
    if (!job.members || !job.polled || job.signal_fd < 0) {
        fprintf(stderr, "%s: cannot set up: %s\n", launch->name, strerror(errno));
        return YKI_EXIT_FAILED;
    }
    int code = start(&job);
    if (code == 0) {
        if (!yki_job_serve(&job)) { /* the guard was killed: all goes, and without a word */
            yki_tree_kill(YKI_TREE_KILL_S);
            return 128 + SIGKILL;
        }
        if (job.first_failed >= 0) {
            job.first_failed = yki_job_cause(&job);
            report_failure(&job);
        }
        flush_sink(&job.out);
        flush_sink(&job.err);
        code = exit_code(&job);
    }
    finish(&job);
    return code;
}

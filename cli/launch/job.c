/*
 * The launcher itself: serves the store, starts the ranks, waits for them and reports how they
 * ended. If a rank has failed, its last lines on stderr are repeated.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"
#include "clock.h"
#include "launch/job.h"

/* ---- starting ------------------------------------------------------------------------------- */

static bool serve_store(cli_job *job)
{
    job->port = job->launch->master_port;
    if (yk_store_secret(job->secret, sizeof job->secret) ||
        yk_store_serve(&job->server, job->launch->master_address, &job->port, job->secret) ||
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

/* If both outputs are the same terminal, a single queue keeps them in order. */
static cli_sink *sink_for_out(cli_job *job)
{
    struct stat out, err;
    bool same = job->out.terminal && job->err.terminal && fstat(job->out.fd, &out) == 0 &&
                fstat(job->err.fd, &err) == 0 && out.st_rdev == err.st_rdev;
    return same ? &job->err : &job->out;
}

/* Reports why a rank could not be started; returns the job's exit code, as a shell would. */
static int report_start(const cli_launch *launch, int rank, int reason)
{
    struct rlimit files;
    if ((reason == EMFILE || reason == ENFILE) && getrlimit(RLIMIT_NOFILE, &files) == 0) {
        fprintf(stderr,
                "%s: cannot start rank %d: %s; the limit is %llu and each rank needs two: raise "
                "it with `ulimit -n`\n",
                launch->name, rank, strerror(reason), (unsigned long long)files.rlim_cur);
        return CLI_EXIT_FAILED;
    }
    if (reason == EAGAIN || reason == ENOMEM) {
        fprintf(stderr, "%s: cannot start rank %d: %s\n", launch->name, rank, strerror(reason));
        return CLI_EXIT_FAILED;
    }
    fprintf(stderr, "%s: cannot start %s: %s\n", launch->name, launch->program[0],
            strerror(reason));
    return reason == ENOENT ? 127 : 126;
}

/* Returns 0, or an exit code. */
static int start_rank(cli_job *job, const cli_rank_setting *setting, int rank)
{
    const cli_launch *launch = job->launch;
    cli_member *member = &job->members[rank];
    bool speaks = launch->rank0_speaks && rank == 0;
    member->out = (cli_stream){.fd = -1, .rank = rank, .speaks = speaks, .sink = sink_for_out(job)};
    member->err = (cli_stream){.fd = -1,
                               .rank = rank,
                               .speaks = speaks,
                               .status = speaks ? &job->status : NULL,
                               .sink = &job->err};
    member->pid = member->was = cli_rank_start(setting, rank, &member->out.fd, &member->err.fd);
    if (member->pid < 0) {
        return report_start(launch, rank, errno);
    }
    job->started++;
    job->running++;
    return 0;
}

/* Returns 0, or the exit code of a job that could not be started. */
static int start_ranks(cli_job *job)
{
    if (!serve_store(job))
        return CLI_EXIT_FAILED;
    cli_rank_setting setting = {.launch = job->launch,
                                .port = job->port,
                                .secret = job->secret,
                                .terminal_columns = terminal_columns(STDERR_FILENO)};
    int code = 0;
    for (int rank = 0; rank < job->launch->ranks && code == 0; rank++)
        code = start_rank(job, &setting, rank);
    if (code)
        cli_tree_kill(CLI_TREE_KILL_S);
    return code;
}

/* ---- the job -------------------------------------------------------------------------------- */

static void report_failure(cli_job *job)
{
    const cli_member *failed = &job->members[job->first_failed];
    char words[64];
    cli_sink_say(&job->err, "%s: %srank %d (pid %d) %s after %.1f s, the first to fail",
                 job->launch->name, job->stop_failed ? "unclean stop: " : "", job->first_failed,
                 (int)failed->was, cli_describe_status(failed->status, words, sizeof words),
                 job->failed_s - job->start_s);
    if (job->launch->ranks > 1 && failed->err.tail_next) {
        cli_sink_say(&job->err, "%s: its last lines on stderr:", job->launch->name);
        cli_stream_repeat(&failed->err, &job->err);
    }
}

static void finish_job(cli_job *job)
{
    yk_store_destroy(job->store);
    yk_store_server_destroy(job->server);
    for (int rank = 0; job->members && rank < job->started; rank++) {
        cli_stream_free(&job->members[rank].out);
        cli_stream_free(&job->members[rank].err);
    }
    cli_sink_free(&job->out);
    cli_sink_free(&job->err);
    free(job->status.data);
    free(job->members);
    free(job->polled);
}

/* When the guard has been killed, all processes are killed without a message. */
static int run_to_end(cli_job *job)
{
    bool guarded = cli_job_serve(job);
    if (guarded && job->first_failed >= 0) {
        job->first_failed = cli_job_cause(job);
        report_failure(job);
    }
    if (guarded && cli_job_flush(job))
        return cli_job_exit_code(job);
    cli_tree_kill(CLI_TREE_KILL_S);
    return 128 + SIGKILL;
}

int cli_job_run(const cli_launch *launch, int lifeline, int signal_fd)
{
    size_t ranks = (size_t)launch->ranks;
    cli_job job = {.launch = launch,
                   .members = calloc(ranks, sizeof(cli_member)),
                   .polled = calloc(cli_job_slots(launch->ranks), sizeof(struct pollfd)),
                   .signal_fd = signal_fd,
                   .lifeline = lifeline,
                   .start_s = cli_clock_s(),
                   .term_at = CLI_NEVER,
                   .kill_at = CLI_NEVER,
                   .first_failed = -1};
    signal(SIGPIPE, SIG_IGN);
    cli_sink_init(&job.out, STDOUT_FILENO, &job.status);
    cli_sink_init(&job.err, STDERR_FILENO, &job.status);
    if (!job.members || !job.polled) {
        fprintf(stderr, "%s: no memory for %d ranks\n", launch->name, launch->ranks);
        return CLI_EXIT_FAILED;
    }
    int code = start_ranks(&job);
    if (code == 0)
        code = run_to_end(&job);
    finish_job(&job);
    return code;
}

/*
 * The launcher itself: starts the ranks, waits for them and reports how they ended. In a job of one
 * host it also serves the store; with several hosts, agent.c does the rest. If a rank has failed,
 * its last lines on stderr are repeated.
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
#include <sys/wait.h>
#include <unistd.h>

#include "cli.h"
#include "clock.h"
#include "launch/job.h"
#include "launch/oom.h"

/* ---- starting ------------------------------------------------------------------------------- */

/* In a job of one host the launcher serves the store itself. */
static bool reach_store(cli_job *job)
{
    cli_round *round = &job->round;
    yk_status status = YK_OK;
    if (!job->agent) {
        round->master_port = job->launch->master_port;
        status = yk_store_secret(round->secret, sizeof round->secret);
        if (status == YK_OK)
            status = yk_store_serve(&job->server, round->master_address, &round->master_port,
                                    round->secret);
    }
    if (status == YK_OK)
        status = yk_store_connect(&job->store, round->master_address, round->master_port,
                                  round->secret, 10);
    if (status != YK_OK)
        fprintf(stderr, "%s\n", yk_last_error());
    return status == YK_OK;
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

static void attach_logs(cli_job *job, int local_rank)
{
    cli_member *member = &job->members[local_rank];
    cli_logs_attach(&job->logs, job->launch, job->round.attempt, local_rank, CLI_STD_OUT,
                    &member->out);
    cli_logs_attach(&job->logs, job->launch, job->round.attempt, local_rank, CLI_STD_ERR,
                    &member->err);
}

/* Returns 0, or an exit code. */
static int start_rank(cli_job *job, int local_rank)
{
    const cli_launch *launch = job->launch;
    cli_member *member = &job->members[local_rank];
    int rank = job->round.first_rank + local_rank;
    bool speaks = launch->rank0_speaks && rank == 0;
    char error_file[CLI_LOGS_PATH + 64];
    cli_logs_path(&job->logs, job->round.attempt, local_rank, "error.json", error_file);
    cli_rank_setting setting = {.launch = launch,
                                .round = &job->round,
                                .local_rank = local_rank,
                                .terminal_columns = terminal_columns(STDERR_FILENO),
                                .error_file = error_file[0] ? error_file : NULL};
    cli_stream stream = {.fd = -1, .rank = rank, .speaks = speaks, .log = -1, .sink = &job->err};
    *member = (cli_member){.rank = rank, .out = stream, .err = stream};
    member->out.sink = sink_for_out(job);
    member->err.status = speaks ? &job->status : NULL;
    if (!cli_logs_add_rank(&job->logs, launch, job->round.attempt, local_rank))
        return CLI_EXIT_FAILED;
    member->pid = member->was = cli_rank_start(&setting, &member->out.fd, &member->err.fd);
    if (member->pid < 0)
        return report_start(launch, rank, errno);
    attach_logs(job, local_rank);
    job->started++;
    job->running++;
    return 0;
}

/* Returns 0, or the exit code of a job that could not be started. */
static int start_ranks(cli_job *job)
{
    if (!reach_store(job))
        return CLI_EXIT_FAILED;
    int code = 0;
    for (int i = 0; i < job->launch->ranks && code == 0; i++)
        code = start_rank(job, i);
    if (code)
        cli_tree_kill(CLI_TREE_KILL_S);
    return code;
}

/* ---- an attempt ----------------------------------------------------------------------------- */

static void begin_attempt(cli_job *job)
{
    job->start_s = cli_clock_s();
    job->oom_kills = cli_oom_kills();
    job->term_at = job->kill_at = CLI_NEVER;
    job->first_failed = -1;
    job->started = job->running = 0;
    job->stop_failed = job->stop_killed = job->failed_elsewhere = false;
}

void cli_job_finish_attempt(cli_job *job)
{
    yk_store_destroy(job->store);
    yk_store_server_destroy(job->server);
    job->store = NULL;
    job->server = NULL;
    for (int i = 0; i < job->started; i++) {
        cli_stream_free(&job->members[i].out);
        cli_stream_free(&job->members[i].err);
    }
    job->started = 0;
}

/* Ranks that the launcher has ended are not at fault and get no file. */
static void write_error_files(cli_job *job)
{
    for (int i = 0; i < job->started; i++) {
        const cli_member *member = &job->members[i];
        char words[128], message[192];
        bool ended = member->killed || (i != job->first_failed && WIFSIGNALED(member->status) &&
                                        WTERMSIG(member->status) == SIGTERM);
        if (!member->status || ended)
            continue;
        snprintf(message, sizeof message, "rank %d (pid %d) %s", member->rank, (int)member->was,
                 cli_member_describe(member, words, sizeof words));
        cli_logs_write_error(&job->logs, job->round.attempt, i, message,
                             cli_exit_code(member->status), &member->err);
    }
}

void cli_job_print_cause(cli_job *job, const char *words, int rank, const char *tail)
{
    cli_sink_say(&job->err, "%s: %s", job->launch->name, words);
    if (job->round.world > 1 && tail[0]) {
        cli_sink_say(&job->err, "%s: its last lines on stderr:", job->launch->name);
        cli_sink_repeat(&job->err, rank, tail);
    }
}

int cli_job_attempt(cli_job *job)
{
    begin_attempt(job);
    int code = start_ranks(job);
    if (code)
        return code;
    if (!cli_job_serve(job)) {
        job->unguarded = true;
        cli_tree_kill(CLI_TREE_KILL_S);
        return 128 + SIGKILL;
    }
    write_error_files(job);
    return cli_job_exit_code(job);
}

/* ---- a job of one host ---------------------------------------------------------------------- */

static void report_failure(cli_job *job)
{
    char words[512], tail[CLI_TAIL_SIZE];
    bool named;
    job->first_failed = cli_job_cause(job, &named);
    const cli_member *failed = &job->members[job->first_failed];
    cli_job_describe_failure(job, words, sizeof words);
    cli_stream_tail(&failed->err, tail, sizeof tail);
    cli_job_print_cause(job, words, failed->rank, tail);
}

/* Ranks are restarted after a failure, but not once the job has been asked to stop. */
static bool may_restart(const cli_job *job)
{
    return job->first_failed >= 0 && !job->stop_signal &&
           job->round.attempt < job->launch->max_restarts;
}

static int run_alone(cli_job *job)
{
    const cli_launch *launch = job->launch;
    for (int attempt = 0;; attempt++) {
        job->round = (cli_round){.attempt = attempt, .nodes = 1, .world = launch->ranks};
        snprintf(job->round.master_address, sizeof job->round.master_address, "%s",
                 launch->master_address);
        int code = cli_job_attempt(job);
        if (!job->unguarded && job->first_failed >= 0) {
            report_failure(job);
            code = cli_job_exit_code(job);
        }
        bool again = !job->unguarded && may_restart(job);
        cli_job_finish_attempt(job);
        if (!again)
            return code;
        cli_sink_say(&job->err, "%s: restarting all ranks (restart %d of %d)", launch->name,
                     attempt + 1, launch->max_restarts);
    }
}

/* ---- the job -------------------------------------------------------------------------------- */

static void finish_job(cli_job *job)
{
    cli_sink_free(&job->out);
    cli_sink_free(&job->err);
    free(job->status.data);
    free(job->members);
    free(job->polled);
}

int cli_job_run(const cli_launch *launch, int lifeline, int signal_fd)
{
    size_t ranks = (size_t)launch->ranks;
    cli_job job = {.launch = launch,
                   .members = calloc(ranks, sizeof(cli_member)),
                   .polled = calloc(cli_job_slots(launch->ranks), sizeof(struct pollfd)),
                   .signal_fd = signal_fd,
                   .lifeline = lifeline,
                   .control_fd = launch->controlled ? STDIN_FILENO : -1,
                   .term_at = CLI_NEVER,
                   .kill_at = CLI_NEVER,
                   .give_up_at = CLI_NEVER,
                   .first_failed = -1};
    signal(SIGPIPE, SIG_IGN);
    cli_sink_init(&job.out, STDOUT_FILENO, &job.status);
    cli_sink_init(&job.err, STDERR_FILENO, &job.status);
    int code = CLI_EXIT_FAILED;
    if (!job.members || !job.polled)
        fprintf(stderr, "%s: no memory for %d ranks\n", launch->name, launch->ranks);
    else if (launch->remote)
        code = cli_remote_run(&job);
    else if (cli_logs_open(&job.logs, launch))
        code = launch->nodes_max > 1 ? cli_agent_run(&job) : run_alone(&job);
    if (launch->remote)
        cli_job_finish_attempt(&job);
    if (!cli_job_flush(&job))
        code = 128 + SIGKILL;
    finish_job(&job);
    return code;
}

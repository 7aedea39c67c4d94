/* The ranks of one host, in one attempt: starts them and serves them until they have ended. */
#define _GNU_SOURCE
#include "launch/attempt.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli.h"
#include "common/clock.h"
#include "common/errors.h"
#include "launch/end.h"
#include "launch/oom.h"
#include "launch/prefix.h"
#include "launch/ready.h"
#include "launch/verdict.h"
#include "launch/wait.h"

/* ---- starting ------------------------------------------------------------------------------- */

bool cli_job_is_called_off(const cli_job *job)
{
    return job->stop_signal || job->called_off;
}

int cli_job_code_called_off(const cli_job *job)
{
    return 128 + (job->stop_signal ? job->stop_signal : SIGTERM);
}

static bool needs_no_store(const cli_job *job)
{
    return cli_job_is_called_off(job) || !cli_store_thread_is_opening(job->store);
}

/* Obeys signals and orders meanwhile. Returns 0, or an exit code. */
static int reach_store(cli_job *job)
{
    char why[512];
    const cli_round *round = &job->round;
    const cli_store_thread_options options = {.host = round->master_address,
                                              .port = round->store_port,
                                              .secret = round->secret,
                                              .connect_s = 10};
    if (!(job->store = cli_store_thread_start(&options))) {
        cli_complain_of_start(job->launch->name, "a thread", EAGAIN);
        return CLI_EXIT_FAILED;
    }
    if (!cli_job_await(job, needs_no_store)) {
        job->unguarded = true;
        return 128 + SIGKILL;
    }
    if (cli_job_is_called_off(job))
        return cli_job_code_called_off(job);
    if (cli_store_thread_is_open(job->store, why, sizeof why))
        return 0;
    fprintf(stderr, "%s\n", why);
    return CLI_EXIT_FAILED;
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

/* The descriptors that the launcher keeps open for a rank: its pipes and its log files. */
static int descriptors_of(const cli_launch *launch, int local_rank)
{
    int redirected = launch->redirects ? launch->redirects[local_rank] : 0;
    int copied = launch->tee ? launch->tee[local_rank] : 0;
    int logged = redirected | copied;
    return 2 + !!(logged & CLI_STD_OUT) + !!(logged & CLI_STD_ERR);
}

/* The system says of a script without its interpreter that the script is not there. */
static const char *explain_start(const char *program, int reason)
{
    bool there = reason == ENOENT && strchr(program, '/') && access(program, F_OK) == 0;
    return there ? "the interpreter that it names was not found" : strerror(reason);
}

/* Reports why a rank could not be started; returns the job's exit code, as a shell would. */
static int report_start(const cli_launch *launch, int rank, int local_rank, int reason)
{
    struct rlimit files;
    if ((reason == EMFILE || reason == ENFILE) && getrlimit(RLIMIT_NOFILE, &files) == 0) {
        fprintf(stderr,
                "%s: cannot start rank %d: %s; the limit is %llu and each rank needs %d: raise it "
                "with `ulimit -n`\n",
                launch->name, rank, strerror(reason), (unsigned long long)files.rlim_cur,
                descriptors_of(launch, local_rank));
        return CLI_EXIT_FAILED;
    }
    if (reason == EAGAIN || reason == ENOMEM) {
        fprintf(stderr, "%s: cannot start rank %d: %s\n", launch->name, rank, strerror(reason));
        return CLI_EXIT_FAILED;
    }
    fprintf(stderr, "%s: cannot start %s: %s\n", launch->name, launch->program[0],
            explain_start(launch->program[0], reason));
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

static void set_prefix(cli_job *job, int local_rank)
{
    cli_member *member = &job->members[local_rank];
    const cli_prefix_values values = {job->launch->role, member->rank, local_rank};
    if (!job->launch->prefix_template)
        return;
    cli_prefix_expand(member->prefix, sizeof member->prefix, job->launch->prefix_template, &values);
    member->out.prefix = member->err.prefix = member->prefix;
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
    *member = (cli_member){.rank = rank, .kept = job->early, .out = stream, .err = stream};
    set_prefix(job, local_rank);
    member->out.sink = sink_for_out(job);
    member->err.status = speaks ? &job->status : NULL;
    member->err.echoes = launch->rank0_speaks ? &job->echoes : NULL;
    if (!cli_logs_add_rank(&job->logs, launch, job->round.attempt, local_rank))
        return CLI_EXIT_FAILED;
    member->pid = member->was = cli_rank_start(&setting, &member->out.fd, &member->err.fd);
    if (member->pid < 0)
        return report_start(launch, rank, local_rank, errno);
    attach_logs(job, local_rank);
    job->started++;
    job->running++;
    return 0;
}

/* Returns 0, or the exit code of a job that could not be started. */
static int start_ranks(cli_job *job)
{
    int code = reach_store(job);
    if (code == 0 && !cli_logs_begin_attempt(&job->logs, job->launch, job->round.attempt))
        code = CLI_EXIT_FAILED;
    job->keeps_signals = job->early != 0;
    for (int i = 0; i < job->launch->ranks && code == 0; i++)
        code = start_rank(job, i);
    if (code) {
        cli_tree_kill(CLI_TREE_KILL_S);
        cli_job_finish_attempt(job);
    }
    return code;
}

/* ---- ending --------------------------------------------------------------------------------- */

static void signal_ranks(cli_job *job, int number)
{
    bool keeps = cli_is_kept(number);
    for (int rank = 0; rank < job->started; rank++) {
        cli_member *member = &job->members[rank];
        if (member->pid && keeps)
            cli_member_keep(member, number);
        else if (member->pid)
            cli_member_signal(member, number);
    }
    if (keeps && job->started == 0)
        job->early |= cli_signal_bit(number);
    job->keeps_signals = cli_job_send_kept(job);
}

static double stop_ranks_s(const cli_job *job)
{
    return job->launch->grace_s;
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
    char list[256], why[64] = "a second signal requested it";
    bool stopping = job->stop_signal && (job->first_failed < 0 || job->stop_failed);
    if (stopping && job->running > 0) {
        list_running(job, list, sizeof list);
        if (!job->asked_twice && job->failed_elsewhere)
            snprintf(why, sizeof why, "the job has failed on another host");
        else if (!job->asked_twice)
            snprintf(why, sizeof why, "still running %g s after SIGTERM", job->launch->grace_s);
        cli_sink_say(&job->err, "%s: unclean stop: killing rank %s: %s", job->launch->name, list,
                     why);
        job->stop_killed = true;
    }
    signal_ranks(job, SIGKILL);
}

const cli_kind cli_ranks = {.one = "rank",
                            .several = "ranks",
                            .signal = signal_ranks,
                            .stop_s = stop_ranks_s,
                            .kill = kill_ranks,
                            .ended = cli_rank_ended};

/* ---- an attempt ----------------------------------------------------------------------------- */

static void begin_attempt(cli_job *job)
{
    job->start_s = cli_clock_s();
    job->oom_kills = cli_oom_kills();
    job->term_at = job->kill_at = CLI_NEVER;
    job->first_failed = -1;
    job->started = job->running = 0;
    job->keeps_signals = false;
    job->stop_failed = job->stop_killed = job->failed_elsewhere = job->save_granted = false;
}

void cli_job_finish_attempt(cli_job *job)
{
    cli_store_thread_stop(job->store);
    job->store = NULL;
    for (int i = 0; i < job->started; i++) {
        cli_stream_free(&job->members[i].out);
        cli_stream_free(&job->members[i].err);
    }
    cli_echoes_free(&job->echoes);
    job->started = job->running = 0;
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

int cli_job_attempt(cli_job *job)
{
    begin_attempt(job);
    int code = start_ranks(job);
    if (code)
        return code;
    job->early = 0;
    if (!cli_job_serve(job))
        return 128 + SIGKILL;
    write_error_files(job);
    return cli_job_exit_code(job);
}

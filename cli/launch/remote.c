/*
 * `yoke run --hosts`: starts a launcher on each host, through ssh or what YOKE_RSH names, and on
 * this host without. Each is a member of this job as a rank would be, but signals reach it through
 * its stdin (control.h). The launchers report failures themselves, node 0 for all. The launcher of
 * a host that the job has lost, and waits for, is started again until its host takes it.
 */
#define _GNU_SOURCE
#include "launch/remote.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli.h"
#include "common/clock.h"
#include "common/plural.h"
#include "launch/control.h"
#include "launch/end.h"
#include "launch/process.h"
#include "launch/wait.h"

/* How long the other launchers may take to end by themselves once one has ended with an error, and
 * after a kill; and to stop, beyond what they give their ranks: more than agent.c's patience. */
static const double others_s = 10, kill_s = 5, stop_s = 20;
/* Between two attempts to start a launcher on a host that was lost. */
static const double again_s = 5;

extern char **environ;

/* ---- starting ------------------------------------------------------------------------------- */

static bool write_line(cli_member *member, const char *line)
{
    size_t size = strlen(line);
    return member->in >= 0 && write(member->in, line, size) == (ssize_t)size;
}

/* `sh -c COMMAND` here, `ssh HOST COMMAND` elsewhere. */
static pid_t start_process(const cli_host *host, const char *command, int *in, int *out, int *err)
{
    const char *rsh = getenv("YOKE_RSH");
    char *words[34];
    int count = 0;
    char *copy = strdup(rsh && *rsh ? rsh : "ssh"), *rest = copy;
    if (!copy)
        return -1;
    if (host->here) {
        words[count++] = (char *)"sh";
        words[count++] = (char *)"-c";
    } else {
        for (char *word; (word = strsep(&rest, " ")) && count < 31;)
            if (*word)
                words[count++] = word;
        words[count++] = (char *)host->name;
    }
    words[count++] = (char *)command;
    words[count] = NULL;
    pid_t pid =
        cli_process_start(&(cli_process){.program = words, .environment = environ}, in, out, err);
    int reason = errno;
    free(copy);
    errno = reason;
    return pid;
}

static bool take_reply(void *context, int i, const char *text, size_t size);

static bool start_host(cli_job *job, int i)
{
    const cli_remote *remote = job->launch->remote;
    cli_member *member = &job->members[i];
    cli_stream stream = {.fd = -1, .rank = i, .speaks = true, .log = -1, .sink = &job->err};
    *member =
        (cli_member){.rank = i, .missing = member->missing, .in = -1, .out = stream, .err = stream};
    member->out.sink = &job->out;
    member->out.obeys = take_reply;
    member->out.context = job;
    member->pid = member->was = start_process(&remote->hosts[i], remote->commands[i], &member->in,
                                              &member->out.fd, &member->err.fd);
    if (member->pid < 0) {
        member->pid = 0;
        const char *rsh = getenv("YOKE_RSH");
        fprintf(stderr, "%s: cannot run %s: %s\n", job->launch->name, rsh && *rsh ? rsh : "ssh",
                strerror(errno));
        return false;
    }
    job->running++;
    char line[300];
    snprintf(line, sizeof line, "%s\n", remote->secret);
    write_line(member, line);
    return true;
}

/* ---- ending --------------------------------------------------------------------------------- */

/* Whether a launcher was lost together with its connection, or never started. */
static bool is_unreached(const cli_member *ended)
{
    return WIFSIGNALED(ended->status) || WEXITSTATUS(ended->status) == CLI_EXIT_UNREACHED;
}

/* Names the launcher that has ended with an error while the others have not. They end together if
 * it was one of the job's, and each has said why otherwise. */
static void say_ended_alone(cli_job *job)
{
    const cli_member *ended = &job->members[job->first_failed];
    char words[64];
    if (!is_unreached(ended))
        cli_sink_say(&job->err, "%s: the launcher on host %s %s, but not %s: stopping %s",
                     job->launch->name, job->launch->remote->hosts[job->first_failed].name,
                     cli_describe_status(ended->status, words, sizeof words),
                     cli_plural(job->running, "the other one", "the others"),
                     cli_plural(job->running, "it", "them"));
}

/* One launcher tells all others of a signal that is only to be forwarded. */
static void signal_hosts(cli_job *job, int number)
{
    char line[32];
    bool stop = number == SIGTERM;
    if (stop && !job->stop_signal)
        say_ended_alone(job);
    if (stop)
        snprintf(line, sizeof line, "stop %d\n", job->stop_signal ? job->stop_signal : SIGTERM);
    else
        snprintf(line, sizeof line, "forward %d\n", number);
    for (int i = 0; i < (stop ? job->started : 1); i++)
        if (job->members[i].pid)
            write_line(&job->members[i], line);
    for (int i = 0; stop && i < job->started; i++)
        if (job->members[i].pid && job->members[i].missing) /* nothing reads the line */
            cli_member_signal(&job->members[i], SIGKILL);
}

/* The launchers keep the grace period themselves, and a second one for a checkpoint. */
static double stop_hosts_s(const cli_job *job)
{
    return 2 * job->launch->grace_s + stop_s;
}

/* The launchers kill their ranks and say so; those that are still there at the next deadline are
 * killed themselves. What they have written is not lost while the reader of the output pauses. */
static void kill_hosts(cli_job *job)
{
    bool again = job->kill_sent;
    if (!job->asked_twice && (cli_sink_is_full(&job->out) || cli_sink_is_full(&job->err))) {
        job->kill_at = cli_clock_s() + kill_s;
        return;
    }
    for (int i = 0; i < job->started; i++) {
        cli_member *member = &job->members[i];
        if (member->pid && again)
            cli_member_signal(member, SIGKILL);
        else if (member->pid)
            write_line(member, "kill\n");
    }
    if (!again)
        job->kill_at = cli_clock_s() + kill_s;
    job->kill_sent = true;
}

/* The launchers of a job end together, and what is left of it after an error cannot be reached. */
static void expect_others(cli_job *job)
{
    double at = cli_clock_s() + others_s + kill_s;
    job->kill_at = at < job->kill_at ? at : job->kill_at;
}

/* A launcher says when it runs, so that an end with 0 is known to be that of another program. */
static void check_run(cli_job *job, cli_member *ended)
{
    if (ended->status != 0 || ended->ready || job->stop_signal)
        return;
    cli_sink_say(&job->err, "%s: no launcher has run on host %s: YOKE_RSH must run the command",
                 job->launch->name, job->launch->remote->hosts[ended->rank].name);
    ended->status = W_EXITCODE(CLI_EXIT_UNREACHED, 0);
}

static bool is_ending(const cli_job *job)
{
    return job->stop_signal || job->first_failed >= 0;
}

/* Whether the job may soon say that it waits for a launcher that has ended. */
static bool may_be_missed(const cli_job *job, const cli_member *ended)
{
    return job->launch->max_restarts > 0 && ended->rank > 0 && ended->ready;
}

/* How long the other launchers are left alone when the first one has ended with an error. */
static double patience_s(const cli_job *job, const cli_member *ended)
{
    const char *heartbeat = getenv("YOKE_HEARTBEAT_TIMEOUT");
    if (!is_unreached(ended))
        return others_s;
    return may_be_missed(job, ended)
               ? others_s + (heartbeat && *heartbeat ? strtod(heartbeat, NULL) : 5)
               : 0;
}

static void fail(cli_job *job, const cli_member *ended)
{
    char words[64];
    job->first_failed = ended->rank;
    if (is_unreached(ended) && !job->stop_signal)
        cli_sink_say(&job->err, "%s: the launcher on host %s, or the connection to it, %s",
                     job->launch->name, job->launch->remote->hosts[ended->rank].name,
                     cli_describe_status(ended->status, words, sizeof words));
    if (!job->stop_signal)
        job->term_at = cli_clock_s() + patience_s(job, ended);
    if (job->kill_at >= CLI_NEVER)
        job->kill_at = cli_clock_s() + others_s + stop_hosts_s(job);
}

static void host_ended(cli_job *job, int i)
{
    cli_member *ended = &job->members[i];
    if (ended->in >= 0)
        close(ended->in);
    ended->in = -1;
    if (ended->missing && (is_unreached(ended) || cli_exit_code(ended->status) == 128 + SIGKILL)) {
        job->start_at = cli_clock_s() + again_s;
        return;
    }
    check_run(job, ended);
    if (ended->status != 0 && !is_unreached(ended))
        expect_others(job);
    if (ended->status != 0 && job->first_failed < 0)
        fail(job, ended);
}

/* ---- hosts that were lost ------------------------------------------------------------------- */

/* The job waits for the launcher of a host. A connection to the one before may still be open. */
static void miss_host(cli_job *job, int i)
{
    cli_member *member = &job->members[i];
    if (job->first_failed == i && !job->stop_signal) {
        job->first_failed = -1;
        job->term_at = job->kill_at = CLI_NEVER;
    }
    if (is_ending(job))
        return;
    member->missing = true;
    member->ready = false;
    if (member->pid)
        cli_member_signal(member, SIGKILL);
    else
        job->start_at = cli_clock_s();
}

static bool take_reply(void *context, int i, const char *text, size_t size)
{
    cli_job *job = context;
    char line[64];
    int node;
    snprintf(line, sizeof line, "%.*s", size < sizeof line ? (int)size : 0, text);
    if (strncmp(line, CLI_CONTROL_MARK, strlen(CLI_CONTROL_MARK)) != 0)
        return false;
    if (strcmp(line, CLI_CONTROL_READY) == 0) {
        job->members[i].ready = true;
        job->members[i].missing = false;
    } else if (i == 0 && sscanf(line, CLI_CONTROL_MARK "missing %d", &node) == 1 && node > 0 &&
               node < job->started) {
        miss_host(job, node);
    }
    return true;
}

/* What the launcher before has left in its pipes is printed. */
static void drain(cli_stream *stream)
{
    struct pollfd ready = {.fd = stream->fd, .events = POLLIN};
    while (stream->fd >= 0 && poll(&ready, 1, 0) > 0)
        cli_stream_read(stream);
    cli_stream_free(stream);
}

static void start_missing(cli_job *job)
{
    for (int i = 0; i < job->started && !is_ending(job); i++) {
        cli_member *member = &job->members[i];
        if (!member->missing || member->pid)
            continue;
        drain(&member->out);
        drain(&member->err);
        if (!start_host(job, i))
            job->start_at = cli_clock_s() + again_s;
    }
}

const cli_kind cli_remote_launchers = {.one = "host",
                                       .several = "hosts",
                                       .signal = signal_hosts,
                                       .stop_s = stop_hosts_s,
                                       .kill = kill_hosts,
                                       .ended = host_ended,
                                       .start = start_missing};

/* ---- the job -------------------------------------------------------------------------------- */

static int run_all(cli_job *job)
{
    job->start_s = cli_clock_s();
    for (int i = 0; i < job->launch->ranks; i++)
        if (start_host(job, i)) {
            job->started++;
        } else {
            cli_tree_kill(CLI_TREE_KILL_S);
            return CLI_EXIT_FAILED;
        }
    if (!cli_job_serve(job))
        return 128 + SIGKILL;
    int code = CLI_EXIT_OK;
    if (job->first_failed >= 0)
        code = cli_exit_code(job->members[job->first_failed].status);
    return code == CLI_EXIT_UNREACHED ? CLI_EXIT_FAILED : code;
}

int cli_remote_run(cli_job *job)
{
    int code = run_all(job);
    for (int i = 0; i < job->started; i++) {
        cli_stream_free(&job->members[i].out);
        cli_stream_free(&job->members[i].err);
    }
    return code;
}

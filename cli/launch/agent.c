/*
 * A launcher in a job on several hosts. It joins the rendezvous, and the coordinator, a thread of
 * one of the launchers, gives it orders: which ranks to start, when to stop them, how the job has
 * ended. All launchers print the cause of a failure and return the same exit code.
 *
 *     join ──> round ──> ranks run ──> report how they ended ──> again ──> round ...
 *                                                            └─> end
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "common/clock.h"
#include "common/plural.h"
#include "launch/agent.h"
#include "launch/attempt.h"
#include "launch/control.h"
#include "launch/end.h"
#include "launch/net.h"
#include "launch/verdict.h"
#include "launch/wait.h"

/* How long a stopped launcher waits for the others to end, beyond the grace period of ranks. */
static const double patience_s = 15, idle_patience_s = 3;

/* ---- orders --------------------------------------------------------------------------------- */

/* Of all that take part in an attempt, from the order "round ...". */
static void remember_hosts(cli_agent *agent, const char *text)
{
    char address[64];
    for (const char *line = text; (line = strchr(line, '\n')) && line[1];)
        if (sscanf(++line, "%*d %*d %*d %*d %63s", address) == 1)
            cli_hosts_known_add(&agent->known, address);
}

static void take_round(cli_job *job, const char *text)
{
    cli_round round = {0};
    int id = -1, first_rank = 0, own = cli_link_id(job->agent->link);
    cli_agent *agent = job->agent;
    char drawn[64];
    int restarts;
    if (sscanf(text, "round %d %d %d %d %d %d %63s", &round.attempt, &restarts, &round.world,
               &round.nodes, &round.store_port, &round.master_port, drawn) != 7)
        return;
    snprintf(round.secret, sizeof round.secret, "%s",
             strcmp(drawn, "-") == 0 ? job->launch->secret : drawn);
    for (const char *line = text; (line = strchr(line, '\n')) && line[1]; round.node++) {
        line++;
        if (sscanf(line, "%d %d", &id, &first_rank) == 2 && id == own)
            break;
    }
    remember_hosts(agent, text);
    if (id != own)
        return; /* a later one may need this host */
    round.first_rank = first_rank;
    cli_agent_master(job->launch, agent, round.master_address, sizeof round.master_address);
    job->round = round;
    free(agent->nodes);
    agent->nodes = strdup(text);
    agent->restarts = restarts;
    agent->successor = 0;
    agent->has_round = true;
    job->called_off = false;
    if (!job->stop_signal)
        job->give_up_at = CLI_NEVER;
}

/* Launchers of --hosts share a terminal, so the first of them prints what concerns all. */
static bool speaks_for_job(const cli_job *job)
{
    return !job->launch->controlled || job->launch->node_rank == 0;
}

/* Prints the cause of a failure that "again" and "end" carry; returns the exit code. */
static int take_outcome(cli_job *job, const char *text)
{
    int code = CLI_EXIT_FAILED, rank = -1;
    sscanf(text, "%*s %d %d", &code, &rank);
    const char *words = strchr(text, '\n');
    if (!words || words[1] == '\n' || !words[1])
        return code;
    const char *tail = strchr(++words, '\n');
    if (!speaks_for_job(job))
        return code;
    char line[1024];
    snprintf(line, sizeof line, "%.*s", tail ? (int)(tail - words) : 1023, words);
    cli_job_print_cause(job, line, rank, tail ? tail + 1 : "");
    return code;
}

/* Prints what an order "KIND ID TEXT" says if it is for this launcher; returns whether it is. */
static bool take_words(cli_job *job, const char *text)
{
    int id = -1, at = 0;
    if (sscanf(text, "%*s %d %n", &id, &at) != 1 || id != cli_link_id(job->agent->link))
        return false;
    cli_sink_say(&job->err, "%s: %s", job->launch->name, text + at);
    return true;
}

/* A host that was refused prints why, and so does that of the rendezvous, which may wait on. */
static void take_refusal(cli_job *job, const char *text)
{
    const char *why = strchr(text + strlen("refuse "), ' ');
    if (!take_words(job, text)) {
        if (job->agent->coordinator && why)
            cli_sink_say(&job->err, "%s: refused another launcher:%s", job->launch->name, why);
        return;
    }
    job->agent->over = true;
    job->agent->code = job->stop_signal ? 128 + job->stop_signal : CLI_EXIT_FAILED;
}

static void take_stop(cli_job *job, int number)
{
    if (job->stop_signal && !job->regrouping)
        return;
    job->regrouping = false;
    if (job->running && !job->launch->controlled)
        cli_sink_say(&job->err, "%s: SIG%s on another host: stopping %d %s", job->launch->name,
                     sigabbrev_np(number), job->running, cli_plural(job->running, "rank", "ranks"));
    cli_job_stop(job, number);
}

static void take_lost(cli_job *job, const char *why)
{
    cli_agent *agent = job->agent;
    agent->lost = true;
    snprintf(agent->why, sizeof agent->why, "%s", why);
    cli_job_end_regroup(job);
    if (job->running == 0)
        job->called_off = true;
    else if (!job->stop_signal) /* or they have their grace period */
        cli_job_fail(job);
}

static void take_moved(cli_job *job, const char *place)
{
    cli_agent *agent = job->agent;
    agent->moved = sscanf(place, "%d %255s", &agent->moved_port, agent->moved_host) == 2;
}

/*
 * Other hosts may have begun an attempt, and ended it, before this one has started its ranks. Then
 * there is nothing to stop here, and nothing is to be started until the next attempt.
 */
static void take_fail(cli_job *job)
{
    if (job->running)
        cli_job_fail(job);
    else
        job->called_off = true;
}

static void take_regroup(cli_job *job)
{
    if (job->running == 0)
        job->called_off = true;
    if (job->stop_signal || job->running == 0)
        return;
    cli_sink_say(&job->err, "%s: more hosts have come: stopping all ranks to start again with them",
                 job->launch->name);
    job->regrouping = true;
    cli_job_stop(job, SIGTERM);
}

/* A signal's number, or 0 for one that no launcher would send. */
static int signal_in(const char *text)
{
    int number = atoi(text);
    return number > 0 && sigabbrev_np(number) ? number : 0;
}

static void take_order(cli_job *job, const char *text)
{
    cli_agent *agent = job->agent;
    size_t length = strcspn(text, " \n");
    char kind[16];
    snprintf(kind, sizeof kind, "%.*s", (int)length, text);
    const char *rest = text[length] ? text + length + 1 : "";
    if (strcmp(kind, "say") == 0 && speaks_for_job(job))
        cli_sink_say(&job->err, "%s: %s", job->launch->name, rest);
    else if (strcmp(kind, "missing") == 0 && job->launch->controlled && speaks_for_job(job))
        cli_sink_say(&job->out, CLI_CONTROL_MARK "%s", text);
    else if (strcmp(kind, "refuse") == 0)
        take_refusal(job, text);
    else if (strcmp(kind, "hold") == 0)
        take_words(job, text);
    else if (strcmp(kind, "round") == 0)
        take_round(job, text);
    else if (strcmp(kind, "fail") == 0)
        take_fail(job);
    else if (strcmp(kind, "regroup") == 0)
        take_regroup(job);
    else if (strcmp(kind, "stop") == 0 && signal_in(rest))
        take_stop(job, signal_in(rest));
    else if (strcmp(kind, "kill") == 0 && job->running)
        cli_job_kill(job);
    else if (strcmp(kind, "forward") == 0 && signal_in(rest))
        cli_job_forward(job, signal_in(rest));
    else if (strcmp(kind, "lost") == 0)
        take_lost(job, rest);
    else if (strcmp(kind, "moved") == 0)
        take_moved(job, rest);
    else if (strcmp(kind, "serve") == 0)
        agent->elected = true;
    else if (strcmp(kind, "again") == 0) {
        take_outcome(job, text);
        agent->again = true;
        agent->unjudged = false;
        if (speaks_for_job(job))
            cli_sink_say(&job->err, "%s: starting all ranks again", job->launch->name);
    } else if (strcmp(kind, "end") == 0) {
        agent->code = take_outcome(job, text);
        agent->over = true;
    }
}

static int orders(const cli_job *job)
{
    return cli_link_fd(job->agent->link);
}

static void obey(cli_job *job)
{
    for (char *text; (text = cli_link_next(job->agent->link));) {
        take_order(job, text);
        free(text);
    }
}

/* ---- reports -------------------------------------------------------------------------------- */

__attribute__((format(printf, 2, 3))) static void report(cli_agent *agent, const char *format, ...)
{
    char text[CLI_TAIL_SIZE + 1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (!agent->lost)
        cli_link_report(agent->link, text);
}

static void report_failure(cli_job *job)
{
    report(job->agent, "failed %d %d", cli_link_id(job->agent->link), job->round.attempt);
}

static void report_stop(cli_job *job, int number, bool again)
{
    cli_agent *agent = job->agent;
    double patience =
        job->running || job->round.world ? 2 * job->launch->grace_s + patience_s : idle_patience_s;
    job->give_up_at = again && !job->running ? 0 : cli_clock_s() + patience;
    report(agent, again && agent->stop_reported ? "kill %d %d" : "stop %d %d",
           cli_link_id(agent->link), number);
    agent->stop_reported = agent->stop_reported || cli_link_id(agent->link) >= 0;
}

static bool report_signal(cli_job *job, int number)
{
    if (job->agent->lost || cli_link_id(job->agent->link) < 0)
        return false;
    report(job->agent, "forward %d %d", cli_link_id(job->agent->link), number);
    return true;
}

static void report_start_failure(cli_job *job, int code)
{
    char host[256];
    cli_net_own_name(host, sizeof host);
    report(job->agent, "ended %d %d f %d %d 0\nhost %s could not start its ranks\n",
           cli_link_id(job->agent->link), job->round.attempt, code, job->round.first_rank, host);
}

static void report_end(cli_job *job, int code)
{
    char words[512] = "", tail[CLI_TAIL_SIZE] = "";
    bool named = false;
    int id = cli_link_id(job->agent->link), rank = -1;
    if (job->started == 0 && cli_job_is_called_off(job)) {
        report(job->agent, "ended %d %d s %d -1 0\n\n", id, job->round.attempt, code);
        return;
    }
    if (job->started == 0) {
        report_start_failure(job, code);
        return;
    }
    if (job->first_failed >= 0) {
        job->first_failed = cli_job_cause(job, &named);
        const cli_member *failed = &job->members[job->first_failed];
        rank = failed->rank;
        code = cli_job_exit_code(job);
        cli_job_describe_failure(job, words, sizeof words);
        cli_stream_tail(&failed->err, tail, sizeof tail);
    }
    report(job->agent, "ended %d %d %c %d %d %d\n%s\n%s", id, job->round.attempt,
           rank >= 0 ? 'f'
           : code    ? 's'
                     : 'o',
           code, rank, named, words, tail);
}

/* ---- the job -------------------------------------------------------------------------------- */

static bool round_or_end(const cli_job *job)
{
    const cli_agent *agent = job->agent;
    bool stopped = job->stop_signal && cli_link_id(agent->link) < 0 && job->round.world == 0;
    return agent->has_round || agent->over || agent->lost || agent->moved || agent->elected ||
           stopped;
}

static bool verdict(const cli_job *job)
{
    return job->agent->again || job->agent->over || job->agent->lost;
}

/*
 * The exit code when the coordinator can no longer give one. If it is lost while the attempt is
 * being stopped, the ranks of its host have not stopped as they should.
 */
static int code_alone(const cli_job *job)
{
    const cli_agent *agent = job->agent;
    if (!job->stop_signal)
        return CLI_EXIT_FAILED;
    if (agent->lost && agent->unjudged && agent->own_code != CLI_EXIT_STOP_KILLED)
        return CLI_EXIT_STOP_FAILED;
    return agent->unjudged && agent->own_code ? agent->own_code : 128 + job->stop_signal;
}

static int end_alone(cli_job *job)
{
    cli_agent *agent = job->agent;
    if (agent->lost && job->round.world)
        cli_sink_say(&job->err,
                     "%s: %sthe launcher on host %s, which serves the job's store, is lost: %s",
                     job->launch->name, job->stop_signal && agent->unjudged ? "unclean stop: " : "",
                     agent->host, agent->why);
    else if (agent->lost && cli_link_id(agent->link) >= 0)
        cli_sink_say(
            &job->err,
            "%s: the rendezvous is lost before this host had a place in the job: %s; start "
            "this launcher again",
            job->launch->name, agent->why);
    else if (agent->lost)
        cli_sink_say(&job->err, "%s: cannot join the rendezvous: %s", job->launch->name,
                     agent->why);
    report(agent, "leave %d", cli_link_id(agent->link));
    return code_alone(job);
}

/* Runs one attempt, unless it is over already, and waits for the coordinator's verdict; false when
 * the guard is gone. */
static bool run_round(cli_job *job)
{
    job->agent->has_round = job->agent->again = false;
    cli_job_end_regroup(job);
    job->agent->unjudged = true;
    job->agent->own_code = CLI_EXIT_OK;
    if (job->stop_signal && !job->agent->stop_reported) /* it came before this host had joined */
        report_stop(job, job->stop_signal, false);
    int code = cli_job_is_called_off(job) ? cli_job_code_called_off(job) : cli_job_attempt(job);
    if (job->unguarded)
        return false;
    job->agent->own_code = code;
    report_end(job, code);
    cli_job_finish_attempt(job);
    return cli_job_await(job, verdict);
}

static int run_rounds(cli_job *job)
{
    cli_agent *agent = job->agent;
    while (cli_job_await(job, round_or_end)) {
        if (agent->over)
            break;
        if (agent->has_round) {
            if (!run_round(job))
                break;
            if (agent->over || agent->again)
                continue;
        }
        if (agent->elected && cli_agent_open_again(job->launch, agent))
            continue;
        if (agent->moved) {
            report(agent, "bye %d", cli_link_id(agent->link));
            if (cli_agent_follow(job))
                continue;
        }
        if (!agent->lost || !cli_agent_take_over(job))
            return end_alone(job);
    }
    if (!agent->over) {
        job->unguarded = true;
        return 128 + SIGKILL;
    }
    report(agent, "bye %d", cli_link_id(agent->link));
    return agent->code;
}

static const cli_peers peers = {.orders = orders,
                                .obey = obey,
                                .failed = report_failure,
                                .stopping = report_stop,
                                .forward = report_signal};

int cli_agent_run(cli_job *job)
{
    cli_agent agent = {.code = CLI_EXIT_FAILED};
    int code = CLI_EXIT_FAILED;
    bool opened = cli_agent_open(job->launch, &agent);
    if (opened) {
        job->agent = &agent;
        job->peers = &peers;
        code = run_rounds(job);
        job->peers = NULL;
        job->agent = NULL;
    }
    if (!job->unguarded) /* otherwise the others are to see that this host is lost */
        cli_agent_close(&agent);
    return code;
}

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
#include <unistd.h>

#include "cli.h"
#include "clock.h"
#include "launch/coordinator.h"
#include "launch/job.h"
#include "launch/link.h"
#include "launch/net.h"

/* How long a stopped launcher waits for the others to end, beyond the grace period of ranks. */
static const double patience_s = 15, idle_patience_s = 3;

struct cli_agent {
    cli_link *link;
    cli_coordinator *coordinator;
    yk_store_server *server; /* the rendezvous store, if it is served here */
    int port;                /* where the rendezvous store is */
    bool has_round;          /* the next attempt is in job->round */
    bool again;              /* the attempt is over, and another will follow */
    bool over;               /* the job has ended, with this code: */
    int code;
    bool lost; /* the store, and why: */
    char why[800];
};

/* ---- the rendezvous ------------------------------------------------------------------------- */

static bool may_serve(const cli_launch *launch)
{
    if (!launch->elects_host)
        return launch->node_rank == 0;
    return launch->is_host < 0 ? cli_net_is_this_host(launch->master_address)
                               : launch->is_host == 1;
}

/* On which address stores are served: a name that means this host only here is of no use. */
static const char *serving_host(const cli_launch *launch)
{
    const char *host = launch->master_address;
    bool local =
        strncmp(host, "127.", 4) == 0 || strcmp(host, "localhost") == 0 || strcmp(host, "::1") == 0;
    return !local && cli_net_is_loopback(host) ? "0.0.0.0" : host;
}

static void warn_no_secret(const cli_launch *launch)
{
    if (!launch->secret[0] && !cli_net_is_loopback(launch->master_address))
        fprintf(stderr,
                "%s: the rendezvous has no secret: whoever reaches %s:%d can join the job; set "
                "YOKE_SECRET to the same text on all hosts\n",
                launch->name, launch->master_address, launch->master_port);
}

static bool start_coordinator(const cli_launch *launch, cli_agent *agent)
{
    warn_no_secret(launch);
    cli_coordinator_options options = {.launch = launch,
                                       .host = serving_host(launch),
                                       .port = agent->port,
                                       .secret = launch->secret};
    agent->coordinator = cli_coordinator_start(&options);
    return agent->coordinator != NULL;
}

static bool open_agent(const cli_launch *launch, cli_agent *agent)
{
    int node_rank = launch->elects_host ? -1 : launch->node_rank;
    agent->port = launch->master_port;
    if (may_serve(launch)) {
        yk_status status =
            yk_store_serve(&agent->server, serving_host(launch), &agent->port, launch->secret);
        if (status == YK_OK) {
            node_rank = 0;
            if (!start_coordinator(launch, agent))
                return false;
        } else if (status != YK_ERROR_NETWORK || !launch->elects_host) {
            fprintf(stderr, "%s\n", yk_last_error());
            return false;
        } /* else another launcher on this host serves it */
    }
    cli_link_options options = {.launch = launch,
                                .host = launch->master_address,
                                .port = agent->port,
                                .secret = launch->secret,
                                .node_rank = node_rank};
    agent->link = cli_link_open(&options);
    if (!agent->link)
        fprintf(stderr, "%s: cannot start a thread\n", launch->name);
    return agent->link != NULL;
}

static void close_agent(cli_agent *agent)
{
    cli_link_close(agent->link);
    cli_coordinator_finish(agent->coordinator);
    yk_store_server_destroy(agent->server);
}

/* ---- orders --------------------------------------------------------------------------------- */

/* Where this host's ranks find their store. */
static void set_master(cli_job *job)
{
    const cli_launch *launch = job->launch;
    char own[256];
    const char *address = launch->master_address;
    bool renamed = job->agent->coordinator && strcmp(serving_host(launch), address) != 0;
    if (renamed && launch->local_address)
        address = launch->local_address;
    else if (renamed && cli_net_own_address(own, sizeof own))
        address = own;
    snprintf(job->round.master_address, sizeof job->round.master_address, "%s", address);
}

static void take_round(cli_job *job, const char *text)
{
    cli_round round = {0};
    int id = -1, first_rank = 0, own = cli_link_id(job->agent->link);
    char drawn[64];
    if (sscanf(text, "round %d %d %d %d %63s", &round.attempt, &round.world, &round.nodes,
               &round.master_port, drawn) != 5)
        return;
    snprintf(round.secret, sizeof round.secret, "%s",
             strcmp(drawn, "-") == 0 ? job->launch->secret : drawn);
    for (const char *line = text; (line = strchr(line, '\n')) && line[1]; round.node++) {
        line++;
        if (sscanf(line, "%d %d", &id, &first_rank) == 2 && id == own)
            break;
    }
    if (id != own)
        return; /* a later one may need this host */
    round.first_rank = first_rank;
    job->round = round;
    set_master(job);
    job->agent->has_round = true;
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

static void take_refusal(cli_job *job, const char *text)
{
    int id = -1, at = 0;
    if (sscanf(text, "refuse %d %n", &id, &at) != 1 || id != cli_link_id(job->agent->link))
        return;
    cli_sink_say(&job->err, "%s: %s", job->launch->name, text + at);
    job->agent->over = true;
    job->agent->code = CLI_EXIT_FAILED;
}

static void take_stop(cli_job *job, int number)
{
    if (job->stop_signal && !job->regrouping)
        return;
    job->regrouping = false;
    if (job->running && !job->launch->controlled)
        cli_sink_say(&job->err, "%s: SIG%s on another host: stopping %d rank%s", job->launch->name,
                     sigabbrev_np(number), job->running, job->running == 1 ? "" : "s");
    cli_job_stop(job, number);
}

static void take_lost(cli_job *job, const char *why)
{
    cli_agent *agent = job->agent;
    agent->lost = true;
    snprintf(agent->why, sizeof agent->why, "%s", why);
    if (job->running)
        cli_job_fail(job);
}

static void take_regroup(cli_job *job)
{
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
    else if (strcmp(kind, "refuse") == 0)
        take_refusal(job, text);
    else if (strcmp(kind, "round") == 0)
        take_round(job, text);
    else if (strcmp(kind, "fail") == 0 && job->running)
        cli_job_fail(job);
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
    else if (strcmp(kind, "again") == 0) {
        take_outcome(job, text);
        agent->again = true;
    } else if (strcmp(kind, "end") == 0) {
        agent->code = take_outcome(job, text);
        agent->over = true;
    }
}

int cli_agent_fd(const cli_agent *agent)
{
    return cli_link_fd(agent->link);
}

void cli_agent_handle_orders(cli_job *job)
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

void cli_agent_report_failure(cli_job *job)
{
    if (job->agent)
        report(job->agent, "failed %d %d", cli_link_id(job->agent->link), job->round.attempt);
}

void cli_agent_report_stop(cli_job *job, int number)
{
    cli_agent *agent = job->agent;
    if (!agent)
        return;
    bool again = job->give_up_at < CLI_NEVER;
    double patience =
        job->running || job->round.world ? job->launch->grace_s + patience_s : idle_patience_s;
    job->give_up_at = cli_clock_s() + patience;
    if (again && !job->running)
        job->give_up_at = 0;
    report(agent, again ? "kill %d %d" : "stop %d %d", cli_link_id(agent->link), number);
}

bool cli_agent_report_signal(cli_job *job, int number)
{
    if (!job->agent || job->agent->lost)
        return false;
    report(job->agent, "forward %d %d", cli_link_id(job->agent->link), number);
    return true;
}

static void report_start_failure(cli_job *job, int code)
{
    char host[256] = "?";
    gethostname(host, sizeof host - 1);
    report(job->agent, "ended %d %d f %d %d 0\nhost %s could not start its ranks\n",
           cli_link_id(job->agent->link), job->round.attempt, code, job->round.first_rank, host);
}

static void report_end(cli_job *job, int code)
{
    char words[512] = "", tail[CLI_TAIL_SIZE] = "";
    bool named = false;
    int id = cli_link_id(job->agent->link), rank = -1;
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
    bool stopped = job->stop_signal && cli_link_id(agent->link) < 0;
    return agent->has_round || agent->over || agent->lost || stopped;
}

static bool verdict(const cli_job *job)
{
    return job->agent->again || job->agent->over || job->agent->lost;
}

/* The exit code when the coordinator can no longer give one. */
static int end_alone(cli_job *job)
{
    cli_agent *agent = job->agent;
    if (agent->lost && job->round.world)
        cli_sink_say(&job->err,
                     "%s: the launcher on host %s, which serves the job's store, is lost: %s",
                     job->launch->name, job->launch->master_address, agent->why);
    else if (agent->lost)
        cli_sink_say(&job->err, "%s: cannot join the rendezvous: %s", job->launch->name,
                     agent->why);
    report(agent, "leave %d", cli_link_id(agent->link));
    return job->stop_signal ? 128 + job->stop_signal : CLI_EXIT_FAILED;
}

/* Runs one attempt and waits for the coordinator's verdict; false when the guard is gone. */
static bool run_round(cli_job *job)
{
    job->agent->has_round = job->agent->again = false;
    if (job->regrouping)
        job->stop_signal = 0;
    job->regrouping = false;
    if (job->stop_signal) { /* it came before the round did */
        report(job->agent, "ended %d %d s %d -1 0\n\n", cli_link_id(job->agent->link),
               job->round.attempt, 128 + job->stop_signal);
        return cli_job_await(job, verdict);
    }
    int code = cli_job_attempt(job);
    if (job->unguarded)
        return false;
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
        if (!agent->has_round)
            return end_alone(job);
        if (!run_round(job))
            break;
        if (!agent->over && !agent->again)
            return end_alone(job);
        if (agent->again && speaks_for_job(job))
            cli_sink_say(&job->err, "%s: starting all ranks again", job->launch->name);
    }
    if (!agent->over) {
        job->unguarded = true;
        return 128 + SIGKILL;
    }
    report(agent, "bye %d", cli_link_id(agent->link));
    return agent->code;
}

int cli_agent_run(cli_job *job)
{
    cli_agent agent = {.code = CLI_EXIT_FAILED};
    int code = CLI_EXIT_FAILED;
    bool opened = open_agent(job->launch, &agent);
    if (opened) {
        job->agent = &agent;
        code = run_rounds(job);
        job->agent = NULL;
    }
    if (!job->unguarded) /* otherwise the others are to see that this host is lost */
        close_agent(&agent);
    return code;
}

/*
 * Agents report to the coordinator, and it answers all of them with orders (orders.h). Reports:
 *
 *     join ID NODE_RANK RANKS PID MIN MAX STANDBY_PORT HASH \n HOST \n ADDRESS \n RUN_ID \n PROGRAM
 *         \n BUILD
 *     failed ID ATTEMPT                a rank of this host has failed
 *     stop ID SIGNAL, kill ID          the agent was asked to stop the job; asked a second time
 *     forward ID SIGNAL                a signal for all ranks
 *     ended ID ATTEMPT KIND CODE RANK NAMED \n WORDS \n TAIL     no rank runs here any more
 *     leave ID                         the agent gives up
 *     bye ID                           the agent has read the last order
 *
 * The store itself reports lost agents: it sets the key gone/ID when a connection ends. The ranks
 * of each attempt get another store, which the coordinator opens on a free port.
 */
#define _GNU_SOURCE
#include "launch/coordinator.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "common/clock.h"
#include "common/errors.h"
#include "launch/admission.h"
#include "launch/agents.h"
#include "launch/bus.h"
#include "launch/herald.h"
#include "launch/net.h"
#include "launch/orders.h"

static const double wait_s = 0.1, notice_s = 5, linger_s = 3;
/* Hosts that still run this long after another has ended well are named. */
static const double uneven_s = 10;
/* How long agents may take to stop their ranks after a failure, until they count as lost. */
static const double silence_s = 12;
/* How long the survivors of a lost rendezvous may take to come. */
static const double takeover_s = 10;
/* How long a lost host may take to say whether its launcher has ended. */
static const double answer_s = 2.5;
/* Between two looks around, this process must have been suspended. */
static const double suspension_s = 2;

typedef enum phase { FORMING, RUNNING, FINISHED } phase;

struct cli_coordinator {
    cli_coordinator_options options;
    pthread_t thread;
    atomic_bool closing, finished;
    yk_store *store;
    yk_store_server *ranks; /* the store of the attempt's ranks */
    cli_bus_reader reader;
    cli_orders orders;
    cli_agents agents;
    cli_admission admission;
    cli_net_question *ended; /* in a takeover: whether the lost launcher has ended, or NULL */
    phase phase;
    int attempt, restarts, world, nodes; /* world and nodes: of the last attempt */
    int master_port;                     /* for programs that serve a store of their own */
    double phase_s;                      /* when the phase began */
    double minimum_s;                    /* since when enough agents are there, or 0 */
    double looked_s;                     /* when look_around was last called */
    double noticed_s;                    /* when the agents were last told for whom they wait, */
    bool told_running;                   /* and that they wait for ranks that have not ended */
    double deadline_s;                   /* by which all ranks must have ended */
    double asked_s;                      /* when a lost host was last asked about its launcher */
    int stop_signal;                     /* the job was asked to stop */
    int code;                            /* of the job that has ended */
    bool failing, regrouping;
    cli_agent_record *first_failed; /* by the order of reports, or NULL */
    cli_agent_record *lost;         /* the first agent lost in this attempt, or NULL */
    char text[CLI_MESSAGE_SIZE];
};

static void enter(cli_coordinator *c, phase next)
{
    c->phase = next;
    c->phase_s = c->noticed_s = cli_clock_s();
    c->minimum_s = 0;
    c->deadline_s = 0;
}

/* Tells that the coordinator ends by itself, when all agents have read its last order. That of its
 * own host may have read it before the order has been given, and must not close it then. */
static void begin_to_finish(cli_coordinator *c)
{
    atomic_store(&c->finished, true);
    enter(c, FINISHED);
}

static void finish(cli_coordinator *c, int code, int rank, const char *words, const char *tail)
{
    c->code = code;
    begin_to_finish(c);
    cli_orders_give(&c->orders, "end %d %d\n%s\n%s", code, rank, words, tail);
}

/* All ranks are being stopped; an agent that does not report their end in time counts as lost. */
static void expect_end(cli_coordinator *c, double seconds)
{
    double deadline = cli_clock_s() + seconds + silence_s;
    if (c->deadline_s == 0 || deadline < c->deadline_s)
        c->deadline_s = deadline;
}

/* ---- joining -------------------------------------------------------------------------------- */

/* An agent that comes when the job has ended has as much time to read so as the others had. */
static void end_late(cli_coordinator *c)
{
    c->phase_s = cli_clock_s();
    cli_orders_give(&c->orders, "end %d -1\n\n", c->code);
}

static void handle_join(cli_coordinator *c, char *text)
{
    cli_agent_record *agent = cli_agents_add(&c->agents, text);
    int id;
    if (!agent && sscanf(text, "join %d", &id) == 1 && !cli_agents_find(&c->agents, id))
        cli_orders_give(&c->orders,
                        "refuse %d the host of the rendezvous, with yoke %s, does not understand "
                        "this launcher: all hosts need the same version",
                        id, yk_build());
    if (agent && c->phase == FINISHED)
        end_late(c);
    else if (agent)
        cli_admission_ask(&c->admission, agent);
}

/* ---- reports -------------------------------------------------------------------------------- */

/* While the job is stopping, the other ranks have their grace period, and its deadline. */
static void end_others(cli_coordinator *c)
{
    if (!c->failing && !c->stop_signal) {
        cli_orders_give(&c->orders, "fail");
        expect_end(c, 0);
    }
    c->failing = true;
}

static void handle_failed(cli_coordinator *c, cli_agent_record *agent)
{
    if (c->phase != RUNNING || c->failing)
        return;
    c->first_failed = agent;
    end_others(c);
}

/* A host that could not start its ranks has not reported a failure before. */
static void handle_ended(cli_coordinator *c, cli_agent_record *agent, char *report)
{
    cli_agent_ended(agent, report);
    c->noticed_s = cli_clock_s();
    c->told_running = false;
    if (agent->state == CLI_AGENT_ENDED && agent->kind == CLI_OUTCOME_FAILED)
        handle_failed(c, agent);
}

/* An agent without a place is no part of the job, and stops alone. */
static void handle_stop(cli_coordinator *c, cli_agent_record *agent, int number)
{
    if (agent->state == CLI_AGENT_HELD)
        cli_admission_refuse(&c->admission, agent,
                             "stopped while it waited for a place; the job continues");
    if (!cli_agent_is_present(agent) || c->stop_signal || c->phase == FINISHED)
        return;
    c->stop_signal = number;
    if (c->phase == RUNNING) {
        cli_orders_give(&c->orders, "stop %d", number);
        expect_end(c, 2 * c->options.launch->grace_s); /* see end.c: a save may take a second one */
    } else {
        finish(c, 128 + number, -1, "", "");
    }
}

static void handle_gone(cli_coordinator *c, cli_agent_record *agent)
{
    bool took_part = agent->state == CLI_AGENT_RUNNING;
    agent->state = CLI_AGENT_GONE;
    if (c->phase != RUNNING || !took_part)
        return;
    if (!c->lost)
        c->lost = agent;
    cli_agent_ask(agent);
    c->asked_s = cli_clock_s();
    end_others(c);
}

static void handle_report(cli_coordinator *c)
{
    char kind[16];
    int id, number = 0, at = 0;
    if (strncmp(c->text, "join ", 5) == 0) {
        handle_join(c, c->text);
        return;
    }
    if (sscanf(c->text, "%15s %d %d%n", kind, &id, &number, &at) < 2)
        return;
    cli_agent_record *agent = cli_agents_find(&c->agents, id);
    if (!agent)
        return;
    if (strcmp(kind, "failed") == 0 && number == c->attempt)
        handle_failed(c, agent);
    else if (strcmp(kind, "ended") == 0 && number == c->attempt)
        handle_ended(c, agent, c->text + at);
    else if (strcmp(kind, "stop") == 0)
        handle_stop(c, agent, number);
    else if (strcmp(kind, "kill") == 0 && cli_agent_is_present(agent))
        cli_orders_give(&c->orders, "kill");
    else if (strcmp(kind, "forward") == 0 && cli_agent_is_present(agent))
        cli_orders_give(&c->orders, "forward %d", number);
    else if (strcmp(kind, "bye") == 0)
        agent->bye = true;
    else if (strcmp(kind, "leave") == 0) {
        agent->bye = true;
        handle_gone(c, agent);
    }
}

/* `yoke run --hosts` starts the launcher of a lost host again. */
static void tell_missing(cli_coordinator *c, const cli_agent_record *agent)
{
    const cli_launch *launch = c->options.launch;
    bool awaited =
        c->phase == FORMING || (c->phase == RUNNING && c->restarts < launch->max_restarts);
    if (launch->controlled && awaited && !c->stop_signal && cli_agent_is_present(agent))
        cli_orders_give(&c->orders, "missing %d", agent->node_rank);
}

static void look_at_wills(cli_coordinator *c)
{
    for (int i = 0; i < c->agents.count; i++) {
        cli_agent_record *agent = c->agents.list[i];
        char key[64];
        bool gone;
        snprintf(key, sizeof key, "gone/%d", agent->id);
        if (agent->state != CLI_AGENT_GONE && yk_store_check(c->store, key, &gone) == YK_OK &&
            gone) {
            agent->bye = true;
            tell_missing(c, agent);
            handle_gone(c, agent);
        }
    }
}

/*
 * The host of a lost rendezvous has returned, with a new one, and the herald of the job that has
 * continued without it has found it.
 */
static void look_for_herald(cli_coordinator *c)
{
    char place[CLI_ADDRESS_SIZE + 16];
    size_t used;
    if (c->phase != FORMING || c->attempt > 0 ||
        yk_store_get(c->store, CLI_MOVED_KEY, place, sizeof place - 1, &used, 0) != YK_OK)
        return;
    begin_to_finish(c);
    cli_orders_give(&c->orders, "moved %.*s", (int)used, place);
}

/* Time during which this process was suspended, as by a scheduler that suspends whole jobs, does
 * not count: the other hosts were, too. */
static void discount_suspension(cli_coordinator *c, double passed)
{
    if (passed < suspension_s)
        return;
    c->phase_s += passed;
    c->noticed_s += passed;
    c->minimum_s += c->minimum_s != 0 ? passed : 0;
    c->deadline_s += c->deadline_s != 0 ? passed : 0;
}

/* Looks, four times a second at most, for events that no agent reports. */
static void look_around(cli_coordinator *c)
{
    double now = cli_clock_s();
    if (now - c->looked_s < 0.25)
        return;
    if (c->looked_s != 0)
        discount_suspension(c, now - c->looked_s);
    c->looked_s = now;
    look_at_wills(c);
    cli_admission_settle_held(&c->admission);
    look_for_herald(c);
}

/* ---- forming a round ------------------------------------------------------------------------ */

/*
 * Serves the store of the attempt's ranks. Its secret is that of the rendezvous, which is never
 * sent; without one it is drawn, so that at least no stranger joins by mistake.
 */
static bool serve_ranks(cli_coordinator *c, int *port, char drawn[YK_STORE_SECRET_SIZE])
{
    const char *secret = c->options.secret;
    yk_status status = YK_OK;
    *port = YK_PORT_ANY;
    snprintf(drawn, YK_STORE_SECRET_SIZE, "-");
    if (!secret[0]) {
        status = yk_store_secret(drawn, YK_STORE_SECRET_SIZE);
        secret = drawn;
    }
    if (status == YK_OK)
        status = yk_store_serve(&c->ranks, c->options.host, port, secret);
    if (status != YK_OK)
        finish(c, CLI_EXIT_FAILED, -1, yk_last_error(), "");
    return status == YK_OK;
}

/* The key "attempt" leads `yoke ps` to the store of the ranks: "PORT SECRET". */
static void publish_store(cli_coordinator *c, int port, const char *secret)
{
    char text[64];
    int size = snprintf(text, sizeof text, "%d %s", port, secret);
    yk_store_set(c->store, "attempt", text, (size_t)size);
}

static void start_round(cli_coordinator *c)
{
    char secret[YK_STORE_SECRET_SIZE];
    int port;
    if (!serve_ranks(c, &port, secret))
        return;
    if (!c->master_port)
        c->master_port = cli_net_claim_port(CLI_NET_PORT, CLI_NET_PORTS);
    c->nodes = cli_agents_number(&c->agents, &c->world);
    publish_store(c, port, secret);
    cli_orders_start(&c->orders, &c->agents,
                     &(cli_next_round){.attempt = c->attempt,
                                       .restarts = c->restarts,
                                       .world = c->world,
                                       .nodes = c->nodes,
                                       .port = port,
                                       .master_port = c->master_port,
                                       .secret = secret});
    c->failing = c->regrouping = false;
    c->first_failed = c->lost = NULL;
    enter(c, RUNNING);
}

static bool may_lose_hosts(const cli_coordinator *c)
{
    return c->options.launch->nodes_min < c->options.launch->nodes_max;
}

/* What to do about the host that the last attempt has lost; "" if it has lost none. */
static void advise(const cli_coordinator *c, char *text, size_t size)
{
    const char *here = c->options.launch->master_address; /* 127.0.0.1 by default */
    text[0] = '\0';
    if (c->lost && c->options.launch->controlled)
        snprintf(text, size, "; host %.200s was lost: its launcher is started again",
                 c->lost->host);
    else if (c->lost)
        snprintf(text, size, "; host %.200s was lost: start its launcher again%s", c->lost->host,
                 may_lose_hosts(c) ? "" : " (with --nnodes MIN:MAX, a job continues without it)");
    else if (strncmp(here, "127.", 4) == 0 || strcmp(here, "localhost") == 0)
        snprintf(text, size,
                 "; they cannot reach %.200s from elsewhere: give all launchers the same %s", here,
                 c->options.launch->elects_host ? "--rdzv-endpoint HOST:PORT"
                                                : "--master-addr HOST");
}

static void notice_missing(cli_coordinator *c, int present, double now)
{
    if (now - c->noticed_s < notice_s)
        return;
    c->noticed_s = now;
    char hosts[400], advice[400];
    const cli_launch *launch = c->options.launch;
    double left_s = launch->join_s - (now - c->phase_s);
    cli_agents_list_hosts(&c->agents, hosts, sizeof hosts);
    advise(c, advice, sizeof advice);
    if (launch->nodes_min == launch->nodes_max)
        cli_orders_give(&c->orders,
                        "say waiting %.0f s more for hosts: %d of %d have joined (%s)%s", left_s,
                        present, launch->nodes_min, hosts, advice);
    else
        cli_orders_give(&c->orders, "say waiting for hosts: %d of %d to %d have joined (%s)%s",
                        present, launch->nodes_min, launch->nodes_max, hosts, advice);
}

/* How many of the old hosts must come after a takeover; see rendezvous.c. */
static int quorum(const cli_coordinator *c)
{
    int nodes = c->options.expected + 1;
    return cli_net_refused(c->ended) ? 1 : nodes / 2 + 1;
}

/* The first attempt after a takeover: enough of the old hosts must come, and soon. */
static void form_after_takeover(cli_coordinator *c, int present, double now)
{
    char words[400];
    const cli_coordinator_options *o = &c->options;
    bool late = now - c->phase_s >= takeover_s;
    if (present >= quorum(c) && (late || present >= o->expected)) {
        if (present >= o->launch->nodes_min)
            start_round(c);
    } else if (late) {
        snprintf(
            words, sizeof words,
            "the host of the rendezvous cannot be reached, and only %d of %d hosts can: the job "
            "ends here, because the others may continue",
            present, o->expected + 1);
        finish(c, CLI_EXIT_FAILED, -1, words, "");
    }
}

static void finish_incomplete(cli_coordinator *c, int present)
{
    char words[1000], hosts[400], advice[400];
    const cli_launch *launch = c->options.launch;
    cli_agents_list_hosts(&c->agents, hosts, sizeof hosts);
    advise(c, advice, sizeof advice);
    snprintf(words, sizeof words,
             "only %d of %d hosts joined within %g s (--rdzv-conf join_timeout): %s%s", present,
             launch->nodes_min, launch->join_s, hosts, advice);
    finish(c, CLI_EXIT_FAILED, -1, words, "");
}

static void form_round(cli_coordinator *c)
{
    const cli_launch *launch = c->options.launch;
    double now = cli_clock_s();
    int present = cli_agents_present(&c->agents);
    bool enough = present >= launch->nodes_min;
    bool again = c->attempt > c->options.attempt; /* survivors do not wait for more hosts */
    if (enough && c->minimum_s == 0)
        c->minimum_s = now;
    if (c->options.expected > 0 && !again)
        form_after_takeover(c, present, now);
    else if (enough &&
             (present >= launch->nodes_max || again || now - c->minimum_s >= launch->last_call_s))
        start_round(c);
    if (c->phase == FORMING && now - c->phase_s >= launch->join_s)
        finish_incomplete(c, present);
    else if (c->phase == FORMING)
        notice_missing(c, present, now);
}

/* ---- the end of a round --------------------------------------------------------------------- */

/* Whether hosts that are not here may be the ones that continue, see rendezvous.c. Those whose
 * launchers have ended do not. */
static bool others_may_continue(const cli_coordinator *c)
{
    int known_ended = cli_agents_known_ended(&c->agents);
    return may_lose_hosts(c) && 2 * cli_agents_present(&c->agents) < c->nodes - known_ended;
}

/* Whether what the lost hosts answer would still make a difference. */
static bool awaits_answers(const cli_coordinator *c)
{
    return c->lost && !c->stop_signal && others_may_continue(c) &&
           cli_clock_s() - c->asked_s < answer_s;
}

/* Whether the job should be continued with another attempt; counts it. */
static bool may_restart(cli_coordinator *c, bool host_lost)
{
    const cli_launch *launch = c->options.launch;
    if (c->stop_signal || (host_lost && others_may_continue(c)))
        return false;
    if (host_lost && may_lose_hosts(c) && cli_agents_present(&c->agents) >= launch->nodes_min)
        return true; /* a change of membership is not a restart */
    if (c->restarts >= launch->max_restarts)
        return false;
    c->restarts++;
    return true;
}

/* Names the lost host and, if the job ends for that, the reason. */
static void describe_loss(const cli_coordinator *c, char *words, size_t size)
{
    cli_agent_describe_loss(c->lost, words, size);
    size_t used = strlen(words);
    if (!c->stop_signal && others_may_continue(c))
        snprintf(words + used, size - used,
                 "; only %d of %d hosts can be reached: the job ends here, because the others may "
                 "continue",
                 cli_agents_present(&c->agents), c->nodes);
}

static void next_attempt(cli_coordinator *c)
{
    c->attempt++;
    enter(c, FORMING);
}

/* Ends an attempt that has failed. */
static void conclude_failure(cli_coordinator *c)
{
    char words[512];
    int code = CLI_EXIT_FAILED, rank = -1;
    const char *tail = "";
    const cli_agent_record *cause = cli_agents_named(&c->agents);
    bool host_lost = !cause && c->lost;
    if (!cause && !c->lost)
        cause = c->first_failed && c->first_failed->kind == 'f' ? c->first_failed
                                                                : cli_agents_failed(&c->agents);
    if (cause) {
        code = cause->code;
        rank = cause->rank;
        tail = cause->tail;
        snprintf(words, sizeof words, "%s", cause->words);
    } else {
        describe_loss(c, words, sizeof words);
    }
    bool final = cause && cli_failure_is_final(c->attempt, code);
    if (!final && may_restart(c, host_lost)) {
        cli_orders_give(&c->orders, "again %d %d\n%s\n%s", code, rank, words, tail);
        next_attempt(c);
    } else {
        finish(c, c->stop_signal ? CLI_EXIT_STOP_FAILED : code, rank, words, tail);
    }
}

static void conclude(cli_coordinator *c)
{
    yk_store_server_destroy(c->ranks);
    c->ranks = NULL;
    if (c->lost || cli_agents_failed(&c->agents)) {
        conclude_failure(c);
        return;
    }
    int code = cli_agents_code(&c->agents);
    if (code != CLI_EXIT_OK && c->regrouping && !c->stop_signal) {
        cli_orders_give(&c->orders, "again 0 -1\n\n");
        next_attempt(c);
    } else {
        finish(c, code, -1, "", "");
    }
}

/* A launcher that is stopped does not report that its ranks have ended. */
static void notice_running(cli_coordinator *c, double now)
{
    char hosts[400];
    int running = cli_agents_running(&c->agents);
    if (running == c->nodes || c->told_running || now - c->noticed_s < uneven_s)
        return;
    c->told_running = true;
    cli_agents_list_running(&c->agents, hosts, sizeof hosts);
    cli_orders_give(
        &c->orders,
        "say waiting for host%s %s, which ha%s not reported the end of %s ranks; the others "
        "have ended well",
        running == 1 ? "" : "s", hosts, running == 1 ? "s" : "ve", running == 1 ? "its" : "their");
}

static void watch_round(cli_coordinator *c)
{
    double now = cli_clock_s();
    for (int i = 0; i < c->agents.count && c->deadline_s != 0 && now > c->deadline_s; i++)
        if (c->agents.list[i]->state == CLI_AGENT_RUNNING)
            handle_gone(c, c->agents.list[i]);
    if (cli_agents_running(&c->agents) == 0) {
        if (!awaits_answers(c))
            conclude(c);
    } else if (!c->failing && !c->stop_signal && !c->regrouping &&
               cli_agents_waiting(&c->agents) > 0) {
        c->regrouping = true;
        cli_orders_give(&c->orders, "regroup");
        expect_end(c, 2 * c->options.launch->grace_s); /* see end.c: a save may take a second one */
    } else if (c->deadline_s == 0) {
        notice_running(c, now);
    }
}

/* After a takeover, the other survivors may come when the job has been stopped already. */
static bool awaits_survivors(const cli_coordinator *c)
{
    return c->attempt == c->options.attempt && c->agents.count < c->options.expected;
}

static bool may_leave(const cli_coordinator *c)
{
    double waited_s = cli_clock_s() - c->phase_s;
    return awaits_survivors(c) ? waited_s > takeover_s
                               : cli_agents_all_left(&c->agents) || waited_s > linger_s;
}

/* ---- the thread ----------------------------------------------------------------------------- */

static void *run(void *context)
{
    cli_coordinator *c = context;
    yk_store_set(c->store, CLI_COORDINATOR_KEY, "", 0);
    enter(c, FORMING);
    while (!atomic_load(&c->closing)) {
        yk_status status = cli_bus_next(&c->reader, c->store, c->text, wait_s);
        if (status == YK_OK)
            handle_report(c);
        else if (status != YK_ERROR_TIMEOUT)
            break;
        look_around(c);
        if (c->phase == FORMING)
            form_round(c);
        else if (c->phase == RUNNING)
            watch_round(c);
        else if (may_leave(c))
            break;
    }
    return NULL;
}

cli_coordinator *cli_coordinator_start(const cli_coordinator_options *options)
{
    cli_coordinator *c = calloc(1, sizeof *c);
    if (!c) {
        fprintf(stderr, "%s: no memory for the rendezvous\n", options->launch->name);
        return NULL;
    }
    c->options = *options;
    c->attempt = options->attempt;
    c->restarts = options->restarts;
    atomic_init(&c->closing, false);
    atomic_init(&c->finished, false);
    const char *here = strcmp(options->host, "*") == 0 ? "127.0.0.1" : options->host;
    if (yk_store_connect(&c->store, here, options->port, options->secret, 10) != YK_OK) {
        fprintf(stderr, "%s\n", yk_last_error());
    } else {
        c->orders.store = c->store;
        c->admission = (cli_admission){options->launch, &c->agents, &c->orders};
        c->reader = (cli_bus_reader){.stream = CLI_BUS_REPORTS, .forgets = true};
        if (options->lost_host)
            c->ended = cli_net_ask(options->lost_host, options->lost_port);
        if (pthread_create(&c->thread, NULL, run, c) == 0)
            return c;
        cli_complain_of_start(options->launch->name, "a thread", EAGAIN);
    }
    cli_net_forget(c->ended);
    yk_store_destroy(c->store);
    free(c);
    return NULL;
}

void cli_coordinator_finish(cli_coordinator *c)
{
    if (!c)
        return;
    if (!atomic_load(&c->finished))
        atomic_store(&c->closing, true);
    pthread_join(c->thread, NULL);
    cli_net_forget(c->ended);
    cli_agents_free(&c->agents);
    yk_store_server_destroy(c->ranks);
    yk_store_destroy(c->store);
    free(c);
}

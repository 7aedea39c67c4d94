/*
 * Where a launcher finds the rendezvous, and who serves it.
 *
 * In a job that may lose hosts (--nnodes MIN:MAX), each launcher keeps an empty store ready. When
 * the host of the rendezvous is lost, all survivors turn to the store of the next node, whose
 * launcher then becomes the coordinator. If the network has failed rather than the host, the two
 * sides of it cannot tell; so that only one of them continues, the new coordinator must have more
 * than half of the hosts, unless the lost one answers that no launcher runs there any more.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/errors.h"
#include "launch/agent.h"
#include "launch/net.h"

static const double successor_s = 10; /* how long a successor may take to answer, */
static const double patience_s = 30;  /* and to start the next attempt */

static bool may_serve(const cli_launch *launch, const yk_host_name *name)
{
    if (!launch->elects_host)
        return launch->node_rank == 0;
    return launch->is_host < 0 ? name->own : launch->is_host == 1;
}

/* A name that means this host only here, or nothing yet, is no address to serve stores on. */
static bool names_no_address(const char *host, const yk_host_name *name)
{
    bool local =
        strncmp(host, "127.", 4) == 0 || strcmp(host, "localhost") == 0 || strcmp(host, "::1") == 0;
    return !local && (!name->known || name->loopback);
}

static const char *serving_host(const cli_agent *agent)
{
    return agent->everywhere ? "*" : agent->host;
}

void cli_agent_master(const cli_launch *launch, const cli_agent *agent, char *address, size_t size)
{
    bool renamed = agent->coordinator && agent->everywhere;
    if (renamed && launch->local_address)
        snprintf(address, size, "%s", launch->local_address);
    else if (!renamed || !cli_net_own_address(address, size))
        snprintf(address, size, "%s", agent->host);
}

static void warn_no_secret(const cli_launch *launch, const yk_host_name *name)
{
    char at[CLI_NET_ENDPOINT];
    if (!launch->secret[0] && !name->loopback)
        fprintf(stderr,
                "%s: the rendezvous has no secret: whoever reaches %s can join the job; set "
                "YOKE_SECRET to the same text on all hosts\n",
                launch->name, cli_net_endpoint(at, launch->master_address, launch->master_port));
}

static bool start_coordinator(const cli_launch *launch, cli_agent *agent,
                              cli_coordinator_options options)
{
    options.launch = launch;
    options.host = serving_host(agent);
    options.port = agent->port;
    options.secret = launch->secret;
    agent->coordinator = cli_coordinator_start(&options);
    return agent->coordinator != NULL;
}

static bool may_lose_hosts(const cli_launch *launch)
{
    return launch->nodes_min < launch->nodes_max;
}

/* At the port of the rendezvous, the herald finds the store; YK_PORT_ANY where another launcher of
 * this host serves the rendezvous. */
static bool open_standby(const cli_launch *launch, cli_agent *agent, int port)
{
    agent->standby_port = port;
    if (yk_store_serve(&agent->standby, "*", &agent->standby_port, launch->secret) == YK_OK)
        return true;
    agent->standby_port = YK_PORT_ANY; /* the other is taken */
    if (yk_store_serve(&agent->standby, "*", &agent->standby_port, launch->secret) == YK_OK)
        return true;
    fprintf(stderr, "%s\n", yk_last_error());
    return false;
}

static bool open_link(const cli_launch *launch, cli_agent *agent, int node_rank, double join_s,
                      const char *taken)
{
    cli_link_options options = {.launch = launch,
                                .host = agent->host,
                                .port = agent->port,
                                .secret = launch->secret,
                                .node_rank = node_rank,
                                .standby_port = agent->standby_port,
                                .finds = may_lose_hosts(launch) && !agent->coordinator &&
                                         !agent->successor,
                                .may_serve = agent->undecided,
                                .join_s = join_s,
                                .taken = taken};
    agent->link = cli_link_open(&options);
    if (!agent->link)
        cli_complain_of_start(launch->name, "a thread", EAGAIN);
    return agent->link != NULL;
}

/* Where the store of a standby has the port, others may be connected to it already. */
static yk_status serve(const cli_launch *launch, cli_agent *agent)
{
    if (!agent->standby || agent->standby_port != agent->port)
        return yk_store_serve(&agent->server, serving_host(agent), &agent->port, launch->secret);
    agent->server = agent->standby;
    agent->standby = NULL;
    agent->standby_port = 0;
    return YK_OK;
}

bool cli_agent_open(const cli_launch *launch, cli_agent *agent)
{
    const char *taken = NULL;
    int node_rank = launch->elects_host ? -1 : launch->node_rank;
    snprintf(agent->host, sizeof agent->host, "%s", launch->master_address);
    agent->port = launch->master_port;
    const yk_host_name name = cli_net_look_up(launch->master_address);
    agent->undecided = launch->elects_host && launch->is_host < 0 && !name.known;
    agent->everywhere = names_no_address(agent->host, &name);
    if (may_serve(launch, &name)) {
        yk_status status = serve(launch, agent);
        if (status == YK_OK) {
            node_rank = 0;
            warn_no_secret(launch, &name);
            if (!start_coordinator(launch, agent, (cli_coordinator_options){0}))
                return false;
        } else if (status != YK_ERROR_NETWORK || !launch->elects_host) {
            fprintf(stderr, "%s\n", yk_last_error());
            return false;
        } else { /* another launcher on this host may serve it */
            snprintf(agent->taken, sizeof agent->taken, "%s", cli_reason());
            taken = agent->taken;
        }
    }
    if (may_lose_hosts(launch) && !agent->server && !agent->standby &&
        !open_standby(launch, agent, name.own ? YK_PORT_ANY : launch->master_port))
        return false;
    return open_link(launch, agent, node_rank, launch->join_s, taken);
}

bool cli_agent_open_again(const cli_launch *launch, cli_agent *agent)
{
    cli_link_close(agent->link);
    agent->link = NULL;
    agent->elected = false;
    return cli_agent_open(launch, agent);
}

void cli_agent_close(cli_agent *agent)
{
    cli_herald_stop(agent->herald);
    cli_hosts_known_free(&agent->known);
    cli_link_close(agent->link);
    cli_coordinator_finish(agent->coordinator);
    yk_store_server_destroy(agent->server);
    yk_store_server_destroy(agent->standby);
    free(agent->nodes);
}

/* ---- taking over ---------------------------------------------------------------------------- */

/* The address and port of a node's store, from the order "round ..."; false if it has none. */
static bool find_node(const char *order, int node, char address[64], char host[256], int *port)
{
    for (const char *line = order; (line = strchr(line, '\n')) && line[1]; node--) {
        line++;
        if (node == 0)
            return sscanf(line, "%*d %*d %*d %d %63s %255s", port, address, host) == 3 && *port > 0;
    }
    return false;
}

/* Serves the rendezvous from now on, on the address by which the other hosts know this one. */
static bool become_coordinator(cli_job *job, const char *address)
{
    cli_agent *agent = job->agent;
    char lost[sizeof agent->host];
    int lost_port = agent->port;
    snprintf(lost, sizeof lost, "%s", agent->host);
    snprintf(agent->host, sizeof agent->host, "%s", address);
    agent->everywhere = false;
    agent->server = agent->standby;
    agent->standby = NULL;
    agent->port = agent->standby_port;
    agent->standby_port = 0;
    cli_hosts_known_add(&agent->known, job->launch->master_address);
    agent->herald = cli_herald_start(job->launch, &agent->known, agent->host, agent->port);
    return start_coordinator(job->launch, agent,
                             (cli_coordinator_options){.attempt = job->round.attempt + 1,
                                                       .restarts = agent->restarts,
                                                       .lost_host = lost,
                                                       .lost_port = lost_port,
                                                       .expected = job->round.nodes - 1});
}

bool cli_agent_take_over(cli_job *job)
{
    cli_agent *agent = job->agent;
    char address[64], host[256], at[CLI_NET_ENDPOINT];
    int port;
    if (!agent->nodes || agent->coordinator || job->stop_signal ||
        !find_node(agent->nodes, agent->successor + 1, address, host, &port))
        return false;
    agent->successor++;
    cli_sink_say(&job->err, "%s: the rendezvous is lost (%s); host %s takes over at %s",
                 job->launch->name, agent->why, host, cli_net_endpoint(at, address, port));
    cli_link_close(agent->link);
    agent->link = NULL;
    agent->lost = agent->has_round = agent->again = agent->unjudged = false;
    if (agent->successor == job->round.node && !become_coordinator(job, address))
        return false;
    snprintf(agent->host, sizeof agent->host, "%s", address);
    agent->port = port;
    job->give_up_at = cli_clock_s() + patience_s;
    return open_link(job->launch, agent, job->round.node, successor_s, NULL);
}

/* ---- following ------------------------------------------------------------------------------- */

bool cli_agent_follow(cli_job *job)
{
    cli_agent *agent = job->agent;
    const cli_launch *launch = job->launch;
    char at[CLI_NET_ENDPOINT];
    cli_sink_say(&job->err, "%s: the job has continued without this host; joining it at %s",
                 launch->name, cli_net_endpoint(at, agent->moved_host, agent->moved_port));
    cli_link_close(agent->link);
    cli_coordinator_finish(agent->coordinator);
    yk_store_server_destroy(agent->server);
    agent->link = NULL;
    agent->coordinator = NULL;
    agent->server = NULL;
    agent->moved = agent->lost = agent->has_round = false;
    if (!agent->standby && !open_standby(launch, agent, launch->master_port))
        return false;
    snprintf(agent->host, sizeof agent->host, "%s", agent->moved_host);
    agent->port = agent->moved_port;
    return open_link(launch, agent, launch->elects_host ? -1 : launch->node_rank, launch->join_s,
                     NULL);
}

/* See admission.h. */
#define _GNU_SOURCE
#include "launch/admission.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <yoke/status.h>

#include "common/clock.h"
#include "common/plural.h"

/* As --nnodes has it. */
static const char *print_nodes(char text[32], int least, int most)
{
    snprintf(text, 32, least == most ? "%d" : "%d:%d", least, most);
    return text;
}

/* Why an agent cannot take part, in `why`; empty if it can. */
static void check_agent(const cli_admission *a, const cli_agent_record *agent, char *why,
                        size_t size)
{
    const cli_launch *launch = a->launch;
    const cli_agent_record *first = cli_agents_first_present(a->agents);
    char ours[32], theirs[32];
    why[0] = '\0';
    if (strcmp(agent->run_id, launch->run_id) != 0)
        snprintf(why, size, "this rendezvous belongs to the job \"%.100s\", not to \"%.100s\"",
                 launch->run_id, agent->run_id);
    else if (strcmp(agent->build, yk_build()) != 0)
        snprintf(why, size,
                 "host %.200s runs yoke %s, but the host of the rendezvous yoke %s: all hosts need "
                 "the same version",
                 agent->host, agent->build[0] ? agent->build : "(older than 0.2)", yk_build());
    else if (agent->nodes_min != launch->nodes_min || agent->nodes_max != launch->nodes_max)
        snprintf(why, size, "--nnodes differs: %s on host %.200s, %s on the host of the rendezvous",
                 print_nodes(theirs, agent->nodes_min, agent->nodes_max), agent->host,
                 print_nodes(ours, launch->nodes_min, launch->nodes_max));
    else if (first && first != agent && first->program_hash != agent->program_hash)
        snprintf(why, size,
                 "the programs differ: \"%.150s\" on host %.100s, \"%.150s\" on host "
                 "%.100s",
                 first->program, first->host, agent->program, agent->host);
    else if (agent->node_rank >= launch->nodes_max)
        snprintf(why, size, "--node-rank %d of host %.150s: --nnodes is %d", agent->node_rank,
                 agent->host, launch->nodes_max);
}

void cli_admission_refuse(const cli_admission *a, cli_agent_record *agent, const char *why)
{
    agent->state = CLI_AGENT_GONE;
    agent->bye = true;
    cli_orders_give(a->orders, "refuse %d %s", agent->id, why);
}

/* Why there is no place for an agent, in `why`: too many have come, or one with its number. */
static bool lacks_place(const cli_admission *a, const cli_agent_record *agent, char *why,
                        size_t size)
{
    int places = a->launch->nodes_max, present = cli_agents_present(a->agents);
    const cli_agent_record *other = NULL;
    if (agent->node_rank >= 0)
        other = cli_agents_with_rank(a->agents, agent->node_rank, agent);
    if (present >= places)
        snprintf(why, size, "expected %d %s, but %d came: host %.200s (pid %d) is one too many",
                 places, cli_plural(places, "host", "hosts"), present + 1, agent->host, agent->pid);
    else if (other)
        snprintf(why, size,
                 "--node-rank %d was claimed twice, by host %.150s (pid %d) and by host %.150s "
                 "(pid %d)",
                 agent->node_rank, other->host, other->pid, agent->host, agent->pid);
    return present >= places || other;
}

/* How long a host that returns may come before its loss is noticed. */
static double return_s(const cli_launch *launch)
{
    const char *heartbeat = getenv("YOKE_HEARTBEAT_TIMEOUT");
    if (launch->nodes_min == launch->nodes_max && launch->max_restarts == 0)
        return 0; /* there is no use in returning */
    return (heartbeat && *heartbeat ? strtod(heartbeat, NULL) : 5) + 5;
}

/* Gives an agent a place, lets it wait for one, or refuses it. */
static void settle(const cli_admission *a, cli_agent_record *agent)
{
    char why[768];
    if (!lacks_place(a, agent, why, sizeof why))
        agent->state = CLI_AGENT_WAITING;
    else if (cli_clock_s() - agent->joined_s >= return_s(a->launch))
        cli_admission_refuse(a, agent, why);
}

void cli_admission_settle_held(const cli_admission *a)
{
    for (int i = 0; i < a->agents->count; i++)
        if (a->agents->list[i]->state == CLI_AGENT_HELD)
            settle(a, a->agents->list[i]);
}

static void tell_held(const cli_admission *a, const cli_agent_record *agent)
{
    char why[768];
    if (lacks_place(a, agent, why, sizeof why))
        cli_orders_give(a->orders, "hold %d waiting up to %g s for a place: %s", agent->id,
                        return_s(a->launch), why);
}

void cli_admission_ask(const cli_admission *a, cli_agent_record *agent)
{
    char why[768];
    check_agent(a, agent, why, sizeof why);
    if (why[0])
        cli_admission_refuse(a, agent, why);
    else
        settle(a, agent);
    if (agent->state == CLI_AGENT_HELD)
        tell_held(a, agent);
}

/* See agents.h. */
#define _GNU_SOURCE
#include "launch/agents.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "common/clock.h"

/* ---- reports -------------------------------------------------------------------------------- */

/* Takes the next line of a text; "" at its end. */
static const char *next_line(char **text)
{
    char *line = strsep(text, "\n");
    return line ? line : "";
}

static void copy(char *to, size_t size, const char *from)
{
    snprintf(to, size, "%s", from);
}

static bool read_join(cli_agent_record *a, char *report)
{
    unsigned long long hash;
    if (sscanf(next_line(&report), "join %d %d %d %d %d %d %d %llx", &a->id, &a->node_rank,
               &a->ranks, &a->pid, &a->nodes_min, &a->nodes_max, &a->standby_port, &hash) != 8)
        return false;
    a->program_hash = hash;
    copy(a->host, sizeof a->host, next_line(&report));
    copy(a->address, sizeof a->address, next_line(&report));
    copy(a->run_id, sizeof a->run_id, next_line(&report));
    copy(a->program, sizeof a->program, next_line(&report));
    copy(a->build, sizeof a->build, next_line(&report));
    return a->ranks > 0;
}

cli_agent_record *cli_agents_add(cli_agents *agents, char *report)
{
    if (agents->count == agents->capacity) {
        int capacity = 2 * agents->capacity + 16;
        cli_agent_record **grown = realloc(agents->list, (size_t)capacity * sizeof *grown);
        if (!grown)
            return NULL;
        agents->list = grown;
        agents->capacity = capacity;
    }
    cli_agent_record *agent = calloc(1, sizeof *agent);
    if (!agent || !read_join(agent, report) || cli_agents_find(agents, agent->id)) {
        free(agent);
        return NULL;
    }
    agent->node = -1;
    agent->state = CLI_AGENT_HELD;
    agent->joined_s = cli_clock_s();
    agents->list[agents->count++] = agent;
    return agent;
}

void cli_agents_free(cli_agents *agents)
{
    for (int i = 0; i < agents->count; i++) {
        cli_net_forget(agents->list[i]->ended);
        free(agents->list[i]);
    }
    free(agents->list);
}

cli_agent_record *cli_agents_find(const cli_agents *agents, int id)
{
    for (int i = 0; i < agents->count; i++)
        if (agents->list[i]->id == id)
            return agents->list[i];
    return NULL;
}

void cli_agent_ended(cli_agent_record *agent, char *report)
{
    char kind;
    int named;
    if (agent->state != CLI_AGENT_RUNNING ||
        sscanf(next_line(&report), " %c %d %d %d", &kind, &agent->code, &agent->rank, &named) != 4)
        return;
    agent->kind = (cli_agent_outcome)kind;
    agent->named = named;
    agent->state = CLI_AGENT_ENDED;
    copy(agent->words, sizeof agent->words, next_line(&report));
    copy(agent->tail, sizeof agent->tail, report ? report : "");
}

void cli_agent_describe_loss(const cli_agent_record *agent, char *words, size_t size)
{
    char ranks[64];
    if (agent->ranks == 1)
        snprintf(ranks, sizeof ranks, "rank %d", agent->first_rank);
    else
        snprintf(ranks, sizeof ranks, "ranks %d to %d", agent->first_rank,
                 agent->first_rank + agent->ranks - 1);
    snprintf(words, size,
             "host %.200s (%s) is lost: its launcher (pid %d) was killed, or the host or the "
             "network failed",
             agent->host, ranks, agent->pid);
}

/* Every launcher that may be lost listens on its own port; see rendezvous.c. */
void cli_agent_ask(cli_agent_record *agent)
{
    if (!agent->ended && agent->standby_port > 0)
        agent->ended = cli_net_ask(agent->address, agent->standby_port);
}

/* ---- membership ----------------------------------------------------------------------------- */

bool cli_agent_is_present(const cli_agent_record *agent)
{
    return agent->state != CLI_AGENT_GONE && agent->state != CLI_AGENT_HELD;
}

static int count_in(const cli_agents *agents, cli_agent_state state)
{
    int count = 0;
    for (int i = 0; i < agents->count; i++)
        count += agents->list[i]->state == state;
    return count;
}

int cli_agents_present(const cli_agents *agents)
{
    int count = 0;
    for (int i = 0; i < agents->count; i++)
        count += cli_agent_is_present(agents->list[i]);
    return count;
}

int cli_agents_waiting(const cli_agents *agents)
{
    return count_in(agents, CLI_AGENT_WAITING);
}

int cli_agents_running(const cli_agents *agents)
{
    return count_in(agents, CLI_AGENT_RUNNING);
}

int cli_agents_known_ended(const cli_agents *agents)
{
    int count = 0;
    for (int i = 0; i < agents->count; i++)
        count += cli_net_refused(agents->list[i]->ended);
    return count;
}

bool cli_agents_all_left(const cli_agents *agents)
{
    for (int i = 0; i < agents->count; i++)
        if (!agents->list[i]->bye)
            return false;
    return true;
}

cli_agent_record *cli_agents_first_present(const cli_agents *agents)
{
    for (int i = 0; i < agents->count; i++)
        if (cli_agent_is_present(agents->list[i]))
            return agents->list[i];
    return NULL;
}

cli_agent_record *cli_agents_with_rank(const cli_agents *agents, int node_rank,
                                       const cli_agent_record *other_than)
{
    for (int i = 0; i < agents->count; i++) {
        cli_agent_record *agent = agents->list[i];
        if (agent != other_than && cli_agent_is_present(agent) && agent->node_rank == node_rank)
            return agent;
    }
    return NULL;
}

static bool is_running(const cli_agent_record *agent)
{
    return agent->state == CLI_AGENT_RUNNING;
}

static void list_hosts(const cli_agents *agents, bool (*is_listed)(const cli_agent_record *agent),
                       char *text, size_t size)
{
    size_t at = 0;
    text[0] = '\0';
    for (int i = 0; i < agents->count; i++) {
        const cli_agent_record *agent = agents->list[i];
        if (is_listed(agent) && at + strlen(agent->host) + 3 < size)
            at += (size_t)snprintf(text + at, size - at, "%s%s", at ? ", " : "", agent->host);
    }
}

void cli_agents_list_hosts(const cli_agents *agents, char *text, size_t size)
{
    list_hosts(agents, cli_agent_is_present, text, size);
}

void cli_agents_list_running(const cli_agents *agents, char *text, size_t size)
{
    list_hosts(agents, is_running, text, size);
}

/* ---- rounds --------------------------------------------------------------------------------- */

static int place(int number)
{
    return number < 0 ? INT32_MAX : number; /* the unnumbered come last */
}

static int compare_agents(const void *a, const void *b)
{
    const cli_agent_record *one = *(cli_agent_record *const *)a;
    const cli_agent_record *two = *(cli_agent_record *const *)b;
    int first[] = {place(one->node_rank), place(one->node), one->id};
    int second[] = {place(two->node_rank), place(two->node), two->id};
    for (int i = 0; i < 3; i++)
        if (first[i] != second[i])
            return first[i] < second[i] ? -1 : 1;
    return 0;
}

int cli_agents_number(cli_agents *agents, int *world)
{
    int node = 0;
    *world = 0;
    qsort(agents->list, (size_t)agents->count, sizeof *agents->list, compare_agents);
    for (int i = 0; i < agents->count; i++) {
        cli_agent_record *agent = agents->list[i];
        cli_net_forget(agent->ended);
        agent->ended = NULL;
        if (!cli_agent_is_present(agent))
            continue;
        agent->node = node++;
        agent->first_rank = *world;
        *world += agent->ranks;
        agent->state = CLI_AGENT_RUNNING;
        agent->named = false;
        agent->words[0] = agent->tail[0] = '\0';
    }
    return node;
}

void cli_agents_print_round(const cli_agents *agents, char *text, size_t size)
{
    size_t at = 0;
    text[0] = '\0';
    for (int i = 0; i < agents->count && at < size; i++) {
        const cli_agent_record *agent = agents->list[i];
        if (agent->state == CLI_AGENT_RUNNING)
            at += (size_t)snprintf(text + at, size - at, "%d %d %d %d %s %s\n", agent->id,
                                   agent->first_rank, agent->ranks, agent->standby_port,
                                   agent->address, agent->host);
    }
}

/* ---- outcomes ------------------------------------------------------------------------------- */

cli_agent_record *cli_agents_failed(const cli_agents *agents)
{
    for (int i = 0; i < agents->count; i++)
        if (agents->list[i]->state == CLI_AGENT_ENDED &&
            agents->list[i]->kind == CLI_OUTCOME_FAILED)
            return agents->list[i];
    return NULL;
}

cli_agent_record *cli_agents_named(const cli_agents *agents)
{
    for (int i = 0; i < agents->count; i++)
        if (agents->list[i]->state == CLI_AGENT_ENDED && agents->list[i]->named)
            return agents->list[i];
    return NULL;
}

/* The worst one: a failed stop, a stop that needed a kill, a clean stop, success. */
int cli_agents_code(const cli_agents *agents)
{
    int code = CLI_EXIT_OK;
    for (int i = 0; i < agents->count; i++) {
        int other = agents->list[i]->state == CLI_AGENT_ENDED ? agents->list[i]->code : CLI_EXIT_OK;
        bool worse = other == CLI_EXIT_STOP_FAILED ||
                     (other == CLI_EXIT_STOP_KILLED && code != CLI_EXIT_STOP_FAILED);
        if (code == CLI_EXIT_OK || worse)
            code = other;
    }
    return code;
}

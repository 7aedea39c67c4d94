/* The agents of a job, one on each host, as the coordinator knows them. */
#ifndef YOKE_CLI_LAUNCH_AGENTS_H
#define YOKE_CLI_LAUNCH_AGENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "launch/launch.h"
#include "launch/net.h"
#include "launch/output.h"

typedef enum cli_agent_state {
    CLI_AGENT_HELD,    /* all places are taken, perhaps by one whose loss is not known yet */
    CLI_AGENT_WAITING, /* to take part in the next attempt */
    CLI_AGENT_RUNNING, /* its ranks */
    CLI_AGENT_ENDED,   /* no rank is left; it waits for what comes next */
    CLI_AGENT_GONE     /* refused, left or lost */
} cli_agent_state;

/* How an agent's part of an attempt ended. */
typedef enum cli_agent_outcome {
    CLI_OUTCOME_FAILED = 'f',  /* a rank failed */
    CLI_OUTCOME_STOPPED = 's', /* cleanly or not, because the job was asked to stop */
    CLI_OUTCOME_OK = 'o'
} cli_agent_outcome;

typedef struct cli_agent_record {
    int id, ranks, pid, nodes_min, nodes_max, standby_port;
    int node_rank; /* --node-rank, or -1 */
    int node;      /* its index in the last attempt that it took part in, or -1 */
    int first_rank;
    uint64_t program_hash;
    char host[256], address[64], run_id[CLI_RUN_ID_SIZE], program[200];
    char build[48]; /* its yk_build(), "" before version 0.2 */
    cli_agent_state state;
    double joined_s;
    bool bye;                /* expects no more orders */
    cli_net_question *ended; /* if it was lost in the last attempt: whether its launcher has ended,
                                as its host answers; or NULL */
    /* Of the last attempt: */
    cli_agent_outcome kind;
    int code, rank; /* the exit code, and the rank that failed first */
    bool named;     /* the library has named this rank as the cause */
    char words[512], tail[CLI_TAIL_SIZE];
} cli_agent_record;

typedef struct cli_agents {
    cli_agent_record **list; /* in the order of joining */
    int count, capacity;
} cli_agents;

/* Adds the agent that a report "join ..." describes; NULL if it is malformed. */
cli_agent_record *cli_agents_add(cli_agents *agents, char *report);
void cli_agents_free(cli_agents *agents);
cli_agent_record *cli_agents_find(const cli_agents *agents, int id);
/* Stores what follows the attempt's number in a report "ended ...". */
void cli_agent_ended(cli_agent_record *agent, char *report);
void cli_agent_describe_loss(const cli_agent_record *agent, char *words, size_t size);
/* Asks the host of an agent that is lost whether its launcher has ended. */
void cli_agent_ask(cli_agent_record *agent);

/* Whether an agent has a place: it is neither held nor gone. */
bool cli_agent_is_present(const cli_agent_record *agent);
/* How many are present, are waiting, and are running. */
int cli_agents_present(const cli_agents *agents);
int cli_agents_waiting(const cli_agents *agents);
int cli_agents_running(const cli_agents *agents);
/* How many of those that were lost in the last attempt are known to have ended. */
int cli_agents_known_ended(const cli_agents *agents);
bool cli_agents_all_left(const cli_agents *agents);
cli_agent_record *cli_agents_first_present(const cli_agents *agents);
/* Another agent that is present and has this --node-rank, or NULL. */
cli_agent_record *cli_agents_with_rank(const cli_agents *agents, int node_rank,
                                       const cli_agent_record *other_than);
/* The hosts of those that are present, or running: "n1, n2" */
void cli_agents_list_hosts(const cli_agents *agents, char *text, size_t size);
void cli_agents_list_running(const cli_agents *agents, char *text, size_t size);

/*
 * Numbers all that are present, for a new attempt: by --node-rank where it is given; otherwise
 * survivors keep their order, and others follow in the order of joining. Returns the number of
 * nodes, and the number of ranks in *world.
 */
int cli_agents_number(cli_agents *agents, int *world);
/* The lines of the order "round ...". */
void cli_agents_print_round(const cli_agents *agents, char *text, size_t size);

/* Of the attempt that has ended: the agent whose rank is the named cause, one that has failed
 * (NULL: none), and the exit code where none has. */
cli_agent_record *cli_agents_named(const cli_agents *agents);
cli_agent_record *cli_agents_failed(const cli_agents *agents);
int cli_agents_code(const cli_agents *agents);

#endif

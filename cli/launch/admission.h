/* Which agents get a place in a job, and what the others are told. */
#ifndef YOKE_CLI_LAUNCH_ADMISSION_H
#define YOKE_CLI_LAUNCH_ADMISSION_H

#include "launch/agents.h"
#include "launch/launch.h"
#include "launch/orders.h"

/* What the coordinator has. */
typedef struct cli_admission {
    const cli_launch *launch;
    cli_agents *agents;
    cli_orders *orders;
} cli_admission;

/* An agent that has just come gets a place, waits for one, or is refused. */
void cli_admission_ask(const cli_admission *a, cli_agent_record *agent);
/* Gives places that have become free to agents that wait, and refuses those that wait in vain. */
void cli_admission_settle_held(const cli_admission *a);
void cli_admission_refuse(const cli_admission *a, cli_agent_record *agent, const char *why);

#endif

/*
 * The orders that the coordinator gives to the agents, which read all of them (bus.h):
 *
 *     say TEXT, refuse ID TEXT
 *     missing NODE                     the job waits for this host, which --hosts starts again
 *     hold ID TEXT                     the agent has no place yet, and waits for one
 *     moved PORT ADDRESS               the job has another rendezvous (herald.h)
 *     round ATTEMPT RESTARTS WORLD NODES PORT MASTER_PORT SECRET \n
 *           ID FIRST_RANK RANKS PORT ADDRESS HOST \n ...          the ranks of each host
 *     fail                             stop the ranks: one has failed elsewhere
 *     regroup                          stop the ranks cleanly: hosts are waiting to take part
 *     stop SIGNAL, kill, forward SIGNAL
 *     again CODE RANK \n WORDS \n TAIL    the attempt has failed; another "round" will follow
 *     end CODE RANK \n WORDS \n TAIL      the job has ended
 *
 * The first PORT of a round is that of the store of its ranks, and SECRET that store's, or "-" for
 * that of the rendezvous. MASTER_PORT is for programs that serve a store themselves. WORDS is the
 * cause of a failure, or empty; RANK and TAIL are the rank that caused it and the last lines of its
 * stderr.
 */
#ifndef YOKE_CLI_LAUNCH_ORDERS_H
#define YOKE_CLI_LAUNCH_ORDERS_H

#include "launch/agents.h"
#include "launch/bus.h"

typedef struct cli_orders {
    yk_store *store;          /* of the rendezvous */
    int64_t kept, last_round; /* numbers of orders: see orders.c */
    char text[CLI_MESSAGE_SIZE];
} cli_orders;

/* What the order "round" begins with. */
typedef struct cli_next_round {
    int attempt, restarts, world, nodes, port, master_port;
    const char *secret;
} cli_next_round;

/* Gives an order to all agents. */
__attribute__((format(printf, 2, 3))) void cli_orders_give(cli_orders *orders, const char *format,
                                                           ...);
/* Gives the order to start an attempt, with the agents that cli_agents_number has numbered. */
void cli_orders_start(cli_orders *orders, const cli_agents *agents, const cli_next_round *round);

#endif

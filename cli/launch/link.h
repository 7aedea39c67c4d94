/*
 * An agent's connection to the rendezvous. A thread connects, joins and reads the coordinator's
 * orders; the launcher's loop, which must never wait for the network, takes them from a queue.
 */
#ifndef YOKE_CLI_LAUNCH_LINK_H
#define YOKE_CLI_LAUNCH_LINK_H

#include <stdbool.h>

#include "launch/bus.h"
#include "launch/launch.h"

typedef struct cli_link cli_link;

/* How to join. The texts stay valid until the link is closed. */
typedef struct cli_link_options {
    const cli_launch *launch;
    const char *host; /* of the rendezvous store */
    int port;
    const char *secret;
    int node_rank; /* the index of this host, or -1 */
    double join_s; /* how long to wait for the store */
    /* NULL, or why this agent cannot serve the store itself: the port is taken, by another launcher
     * of this host, which answers soon, or by something else. */
    const char *taken;
    int standby_port; /* of the store that this agent would serve if the coordinator were lost */
    bool finds;       /* the rendezvous may have moved, see herald.h */
    bool may_serve;   /* the name of its host is not known yet: it may be this one */
} cli_link_options;

/* Starts to join. NULL if it cannot be started. */
cli_link *cli_link_open(const cli_link_options *options);
/* Readable while the queue holds an order. */
int cli_link_fd(const cli_link *link);
/*
 * Takes the next order from the queue, which the caller frees; NULL if it is empty. The link itself
 * adds orders: "say TEXT", to be printed, and, as its last, "lost TEXT", when the store cannot be
 * reached (any more), "moved PORT ADDRESS", when it is to join another rendezvous, or "serve", when
 * this is its host.
 */
char *cli_link_next(cli_link *link);
/* The number of this agent, or -1 before it has joined, and for NULL. */
int cli_link_id(cli_link *link);
/* Reports to the coordinator some time later, if the store can be reached. */
void cli_link_report(cli_link *link, const char *text);
/* Leaves the store after the last report, soon if it does not answer, and frees the link. Accepts
 * NULL. */
void cli_link_close(cli_link *link);

#endif

/* A launcher in a job on several hosts; see agent.c and rendezvous.c. */
#ifndef YOKE_CLI_LAUNCH_AGENT_H
#define YOKE_CLI_LAUNCH_AGENT_H

#include "launch/coordinator.h"
#include "launch/herald.h"
#include "launch/job.h"
#include "launch/link.h"

typedef struct cli_agent {
    cli_link *link;
    cli_coordinator *coordinator;
    cli_herald *herald;       /* of a coordinator that has taken the rendezvous over, or NULL */
    cli_hosts_known known;    /* addresses of all hosts that took part in attempts */
    yk_store_server *server;  /* the rendezvous store, if it is served here */
    yk_store_server *standby; /* to be used if the host of the rendezvous is lost, or NULL */
    char host[256];           /* where the rendezvous store is */
    bool everywhere;          /* stores are served on all interfaces, for want of an address */
    bool undecided;           /* whether this is its host: the name is not known yet */
    bool elected;             /* it is */
    char taken[500];          /* why it cannot be served here */
    bool moved;               /* the rendezvous is elsewhere, here: */
    char moved_host[CLI_ADDRESS_SIZE];
    int moved_port;
    int port, standby_port;
    char *nodes;        /* the order "round ..." of the last attempt, or NULL */
    int restarts;       /* that the coordinator has counted by then */
    int successor;      /* the node that is to serve the rendezvous; 0: it is not lost */
    bool stop_reported; /* the coordinator has been told that the job is to stop */
    bool has_round;     /* the next attempt is in job->round */
    bool again;         /* the attempt is over, and another will follow */
    bool unjudged;      /* the coordinator has not told how the attempt has ended; */
    int own_code;       /* the exit code of this host's part of it */
    bool over;          /* the job has ended, with this code: */
    int code;
    bool lost; /* the store, and why: */
    char why[800];
} cli_agent;

/* Runs this host's part of a job on several hosts; returns the exit code. */
int cli_agent_run(cli_job *job);

/* ---- rendezvous.c --------------------------------------------------------------------------- */

/* Joins the rendezvous, and serves it if this is its host. Prints why it cannot. */
bool cli_agent_open(const cli_launch *launch, cli_agent *agent);
/* The name of the rendezvous has become known, and is this host's: serves it, and joins. */
bool cli_agent_open_again(const cli_launch *launch, cli_agent *agent);
void cli_agent_close(cli_agent *agent);
/* The address by which the ranks of this host reach stores on the host of the rendezvous. */
void cli_agent_master(const cli_launch *launch, const cli_agent *agent, char *address, size_t size);
/*
 * The rendezvous is lost: joins the one of the next host that may take it over, which may be this
 * one. False when there is none.
 */
bool cli_agent_take_over(cli_job *job);
/* The rendezvous has moved: joins the other one. */
bool cli_agent_follow(cli_job *job);

#endif

/*
 * Messages between the agents of a job (the launchers, one on each host) and their coordinator,
 * through the rendezvous store. There are two streams: reports, from all agents to the coordinator,
 * and orders, from the coordinator to all agents. A message is a text. See bus.c.
 */
#ifndef YOKE_CLI_LAUNCH_BUS_H
#define YOKE_CLI_LAUNCH_BUS_H

#include <stdbool.h>
#include <stdint.h>

#include <yoke/store.h>

#include "launch/hosts.h"

/* Room for the longest of them, the order "round ..." with a line for each host. */
enum { CLI_MESSAGE_SIZE = 400 * (CLI_HOSTS_MAX + 1), CLI_MESSAGE_SHORT = 256 };

typedef struct cli_bus_reader {
    const char *stream;
    int64_t next;  /* the number of the next message */
    double hole_s; /* since when a number has been taken without its message; 0: it is not */
    bool forgets;  /* as the stream's only reader, it leaves nothing of a message in the store */
} cli_bus_reader;

/* Exists in a rendezvous store that has a coordinator. */
#define CLI_COORDINATOR_KEY "coordinator"

#define CLI_BUS_REPORTS "reports"
#define CLI_BUS_ORDERS  "orders"

yk_status cli_bus_post(yk_store *store, const char *stream, const char *text);
/*
 * Empties the messages from number *first to before `end` that are longer than CLI_MESSAGE_SHORT
 * bytes, and sets *first to `end`. For messages that no reader needs any more.
 */
yk_status cli_bus_empty_long(yk_store *store, const char *stream, int64_t *first, int64_t end);
/* Starts reading a stream after the messages that it already holds. */
yk_status cli_bus_open(cli_bus_reader *reader, yk_store *store, const char *stream);
/*
 * Waits up to wait_s seconds for the next message and copies it to text[CLI_MESSAGE_SIZE];
 * YK_ERROR_TIMEOUT when there is none.
 */
yk_status cli_bus_next(cli_bus_reader *reader, yk_store *store, char *text, double wait_s);

#endif

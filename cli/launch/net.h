/* Questions about the names and addresses of hosts. */
#ifndef YOKE_CLI_LAUNCH_NET_H
#define YOKE_CLI_LAUNCH_NET_H

#include <stdbool.h>
#include <stddef.h>

#include <yoke/store.h>

/* What a name or an address means here. Waits 2 s at most for the name service. */
yk_host_name cli_net_look_up(const char *host);
/* Whether it belongs to this host. */
bool cli_net_is_this_host(const char *host);
/* The name of this host as one line of printable characters, though the system lets it be anything;
 * "?" where it has none. */
void cli_net_own_name(char *name, size_t size);
/* An address of this host by which other hosts can reach it; false if there is none. */
bool cli_net_own_address(char *address, size_t size);
/* Whether something on the host accepts connections at the port, at each of its addresses. */
bool cli_net_accepts(const char *host, int port);
/*
 * Asks a host whether anything listens on a port. A separate thread does so, because the host or
 * the name service may never answer. NULL if the thread cannot be started.
 */
typedef struct cli_net_question cli_net_question;
cli_net_question *cli_net_ask(const char *host, int port);
/* Whether the host has answered, at each of its addresses, that nothing does. Accepts NULL, which
 * has had no answer. */
bool cli_net_refused(cli_net_question *question);
/* Does not wait for the answer. Accepts NULL. */
void cli_net_forget(cli_net_question *question);
/* Ports that are not handed out by the system itself. */
enum { CLI_NET_PORT = 20000, CLI_NET_PORTS = 10000 };
/*
 * Draws one of these ports that nothing on this host uses, and that no other process has claimed in
 * this way: they may claim ports before they are served, or for another host. Claims last as long
 * as the process and those it has forked. Returns 0 if there is none.
 */
int cli_net_claim_port(int lowest, int ports);
/*
 * Splits "HOST", "HOST:PORT", "[ADDRESS]:PORT" and an IPv6 address without a port. *port keeps its
 * value where none is given. False when it is malformed.
 */
bool cli_net_split(const char *text, char *host, size_t size, int *port);
/* The opposite, for people: an IPv6 address is in brackets. */
enum { CLI_NET_ENDPOINT = 320 };
const char *cli_net_endpoint(char text[CLI_NET_ENDPOINT], const char *host, int port);

#endif

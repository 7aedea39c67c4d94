/*
 * After a takeover, launchers that come back look for the rendezvous where it was. The herald of
 * the new coordinator tells them where it is now: about once a second, it sets the key "moved" to
 * "PORT ADDRESS" in the store that each host known to the job serves at the rendezvous' first port.
 * That is either an empty store, which launchers of such jobs keep ready, or a new rendezvous on
 * the host of the lost one, where its launcher was started again.
 */
#ifndef YOKE_CLI_LAUNCH_HERALD_H
#define YOKE_CLI_LAUNCH_HERALD_H

#include "launch/launch.h"

#define CLI_MOVED_KEY "moved"

enum { CLI_ADDRESS_SIZE = 256 };

/* Hosts that have taken part in the job. */
typedef struct cli_hosts_known {
    char (*list)[CLI_ADDRESS_SIZE];
    int count;
} cli_hosts_known;

/* Adds a host unless it is known already; does nothing without memory. */
void cli_hosts_known_add(cli_hosts_known *known, const char *host);
void cli_hosts_known_free(cli_hosts_known *known);

typedef struct cli_herald cli_herald;

/* Starts to tell the known hosts, of which it takes a copy; NULL if it cannot. */
cli_herald *cli_herald_start(const cli_launch *launch, const cli_hosts_known *known,
                             const char *address, int port);
/* Accepts NULL. */
void cli_herald_stop(cli_herald *herald);

#endif

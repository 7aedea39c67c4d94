/* Host names and ports to TCP sockets; all of them close-on-exec. */
#ifndef YKI_ADDRESS_H
#define YKI_ADDRESS_H

#include <stdbool.h>

#include "base/error.h"
#include "comm/store/resolve.h"

/* "HOST:PORT" for people, with an IPv6 address in brackets. */
enum { YKI_ENDPOINT_TEXT = YKI_HOST_TEXT + 16 };
const char *yki_endpoint_text(char text[YKI_ENDPOINT_TEXT], const char *host, int port);

/*
 * Listens on host:*port; *port 0 picks a free one, which is written back. host "*" means all
 * interfaces, and so does a name whose address other hosts may not be able to use. An error about a
 * port in use names the process that holds it.
 */
yk_status yki_listen(int *fd, const char *host, int *port);
/*
 * Makes one attempt, which takes at most 2 s to look the name up and 2 s for each of its addresses.
 * The system alone would try for minutes where nobody answers. YK_ERROR_NOT_FOUND when the host's
 * name is not known, else YK_ERROR_NETWORK with errno's words; *again tells that this may change.
 */
yk_status yki_connect(int *fd, const char *host, int port, bool *again);

/* YOKE_HEARTBEAT_TIMEOUT in seconds, at least 3, 5 by default: after how long a silent host counts
 * as lost. */
yk_status yki_heartbeat_timeout(double *seconds);
/*
 * Makes the system end the connection when the other host has not answered for that long. The hosts
 * exchange keepalive packets for this, so that a process that is merely stopped is not lost.
 */
void yki_watch_connection(int fd, double heartbeat_s);

/* Room for a numeric address of either family, with its zone. */
enum { YKI_ADDRESS_TEXT = 64 };

/* The numeric addresses of a connection's two ends; "?" if the system does not know. */
void yki_local_address(char text[YKI_ADDRESS_TEXT], int fd);
void yki_remote_address(char text[YKI_ADDRESS_TEXT], int fd);

#endif

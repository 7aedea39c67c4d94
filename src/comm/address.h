/* Host names and ports to TCP sockets; all of them close-on-exec. */
#ifndef YKI_ADDRESS_H
#define YKI_ADDRESS_H

#include <stdbool.h>

#include "base/error.h"

/* Listens on host:*port; *port 0 picks a free one, which is written back. */
yk_status yki_listen(int *fd, const char *host, int *port);
/*
 * One attempt, of 2 s at most for each of the host's addresses: where nobody answers at all the
 * system itself would go on for minutes. YK_ERROR_NETWORK with errno's words; *again tells that
 * nobody listens or answers there (yet).
 */
yk_status yki_connect(int *fd, const char *host, int port, bool *again);

#endif

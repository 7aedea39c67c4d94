/* Host names and ports to TCP sockets; all of them close-on-exec. */
#ifndef YKI_ADDRESS_H
#define YKI_ADDRESS_H

#include "base/error.h"

/* Listens on host:*port; *port 0 picks a free one, which is written back. */
yk_status yki_listen(int *fd, const char *host, int *port);
/* One attempt. YK_NETWORK with errno's words; *refused tells that nobody listens there (yet). */
yk_status yki_connect(int *fd, const char *host, int port, int *refused);

#endif

/* Which process listens on a TCP port of this host. */
#ifndef YKI_PORT_OWNER_H
#define YKI_PORT_OWNER_H

#include <stdbool.h>

enum { YKI_PORT_OWNER = 80 };

/* "pid 4242 (python3)", or "another process" where /proc does not tell. */
void yki_port_owner(char text[YKI_PORT_OWNER], int port);

/* Whether any process listens on it. */
bool yki_port_is_served(int port);

#endif

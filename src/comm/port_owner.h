/* Which process listens on a TCP port of this host. */
#ifndef YKI_PORT_OWNER_H
#define YKI_PORT_OWNER_H

enum { YKI_PORT_OWNER = 80 };

/* "pid 4242 (python3)", or "another process" where /proc does not tell. */
void yki_port_owner(char text[YKI_PORT_OWNER], int port);

#endif

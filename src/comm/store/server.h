/* The store's server as the library uses it; programs use <yoke/store.h>. */
#ifndef YKI_STORE_SERVER_H
#define YKI_STORE_SERVER_H

#include <stdbool.h>

#include <yoke/store.h>

/* Whether other hosts can reach it: whether it listens at more than a loopback address. */
bool yki_store_server_is_public(const yk_store_server *server);

#endif

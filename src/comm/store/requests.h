/* What the store's clients ask for. */
#ifndef YKI_STORE_REQUESTS_H
#define YKI_STORE_REQUESTS_H

#include "comm/store/peer.h"

/* Serves the request that yki_store_peer_read has found. */
void yki_store_request_serve(yki_store_server *server, yki_store_peer *peer);
/* Answers a parked peer if its key exists or its deadline has passed. */
void yki_store_request_resume(yki_store_server *server, yki_store_peer *peer);
/* Sets the key of the peer's will, if it has one. */
void yki_store_execute_will(yki_store_server *server, yki_store_peer *peer);

#endif

/* A connection to the store, and one request over it. */
#ifndef YKI_STORE_CLIENT_H
#define YKI_STORE_CLIENT_H

#include <yoke/store.h>

#include "comm/store/wire.h"

/* One request, and where its reply goes. */
typedef struct yki_store_request {
    yki_store_operation operation;
    const char *key;    /* without the connection's prefix */
    const void *put[2]; /* the value to send, in two parts */
    size_t put_size[2];
    int64_t number;
    double wait_s; /* how long the server may wait for the key */
    void *value;   /* receives the value of the reply, at most size bytes */
    size_t size;
    yki_store_header reply; /* filled by yki_store_run() */
} yki_store_request;

/* yk_store_connect() without its patience: *again tells whether another attempt may succeed. */
yk_status yki_store_attempt(yk_store **out, const char *host, int port, const char *secret,
                            bool *again);
/* Sends the request and waits for its reply. */
yk_status yki_store_run(yk_store *store, yki_store_request *request);
/* Whether the connection was lost because the other end has closed it: its process has ended or
 * left, while a host that is down or cut off does not answer. */
bool yki_store_was_closed(const yk_store *store);
/* Whether it was lost because no reply has come, although the host is there: the process that
 * serves the store is stopped. */
bool yki_store_was_silent(const yk_store *store);
/* The bytes of the prefix of all keys of this connection. */
size_t yki_store_prefix_size(const yk_store *store);

#endif

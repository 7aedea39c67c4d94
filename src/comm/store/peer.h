/*
 * The connections of the store's clients, as its server sees them, and the server's state, which
 * holds them. Everything here runs on the server's thread.
 */
#ifndef YKI_STORE_PEER_H
#define YKI_STORE_PEER_H

#include <pthread.h>
#include <stdbool.h>

#include "comm/store/table.h"
#include "comm/store/wire.h"

/* What the next bytes of a client are. */
typedef enum store_input { STORE_INPUT_ANSWER, STORE_INPUT_HEADER, STORE_INPUT_BODY } store_input;

/*
 * A client as the server sees it. It has at most one request in flight, which bounds its memory to
 * one frame of input, one of output and its will.
 */
typedef struct yki_store_peer {
    struct yki_store_peer *next, **link;
    int fd;
    store_input expects;
    bool parked;     /* it waits for a key that does not exist yet */
    bool doomed;     /* to be dropped at the next opportunity */
    double deadline; /* of its answer to the handshake, then of the parked request */
    yki_store_header header;
    unsigned char nonce[YKI_STORE_NONCE];
    char *input, *output;
    size_t input_used, output_size, output_sent;
    char *will; /* key, zero, value; NULL if there is none */
    size_t will_size;
} yki_store_peer;

struct yk_store_server {
    pthread_t thread;
    int listener, poller, stop;
    double heartbeat_s;
    char *secret;
    double quiet_until; /* no further warning about wrong secrets until then */
    yki_store_peer *peers;
    int strangers;   /* of these, without proof */
    bool told_files; /* that it may not open enough of them */
    yki_store_table table;
};
typedef struct yk_store_server yki_store_server;

/* Accepts one connection and greets it. */
void yki_store_peer_accept(yki_store_server *server);
/* Closes the connection without looking at its will. */
void yki_store_peer_drop(yki_store_server *server, yki_store_peer *peer);
/* Reads what has arrived, without blocking, and answers the handshake. True once peer->header and
 * peer->input (the key, a zero, the value) are a whole request, which is then to be served. */
bool yki_store_peer_read(yki_store_server *server, yki_store_peer *peer);
/* Sends pending output. If the socket is full, EPOLLOUT tells when to send the rest. */
void yki_store_peer_flush(yki_store_server *server, yki_store_peer *peer);
/* Sends the reply to the peer's request, with `size` bytes of value; then it may send the next. */
void yki_store_peer_reply(yki_store_server *server, yki_store_peer *peer, yk_status status,
                          int64_t number, const void *value, size_t size);
/* Whether it has proved that it knows the secret. */
static inline bool yki_store_peer_admitted(const yki_store_peer *peer)
{
    return peer->expects != STORE_INPUT_ANSWER;
}

#endif

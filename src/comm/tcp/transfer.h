/*
 * What a rank and all others send each other at once, on connections whose bytes are nothing but
 * that. A transfer knows what may move now; yki_tcp_run moves it, and waits until something can.
 *
 * One thread sends and receives, and sleeps until much of the data has arrived: where a rank
 * computes on the same core, each switch to the network is taken from it.
 */
#ifndef YKI_TCP_TRANSFER_H
#define YKI_TCP_TRANSFER_H

#include <poll.h>

#include "comm/tcp/connection.h"

/* How far a transfer has come with another rank, in bytes. */
typedef struct tcp_progress {
    size_t received, sent;
} tcp_progress;

/* What precedes the descriptor of a call on a connection. */
typedef struct tcp_head {
    enum { TCP_COLLECTIVE = 1, TCP_SENT, TCP_WANTED, TCP_DATA } kind;
    uint32_t length; /* bytes that follow, of which the descriptor is the first part */
} tcp_head;

/* The connections of a rank with all others, and the memory of the transfer that is under way. */
typedef struct tcp_links {
    int rank, ranks;
    tcp_connection *connections; /* [ranks] */
    tcp_progress *progress;      /* [ranks] */
    tcp_head *heads;             /* [ranks], of exchanges */
    struct tcp_copy *copies;     /* [ranks] */
    struct tcp_peer *peers;      /* [ranks], of messages */
    char *pieces;                /* [piece_bytes], of reductions */
    size_t piece_bytes;
    const void **sources;   /* [ranks], of a reduction */
    struct pollfd *entries; /* [ranks] of a wait, and ... */
    int *waited;            /* ... their ranks */
} tcp_links;

typedef struct tcp_transfer tcp_transfer;

typedef struct tcp_transfer_ops {
    /* Bytes that can be received from another rank, and sent to it, as things are. The other rank
     * sends all that can be received without waiting for anything more of this one. */
    size_t (*incoming)(const tcp_transfer *transfer, int other);
    size_t (*outgoing)(const tcp_transfer *transfer, int other);
    /* Move some of them. */
    yk_status (*receive)(tcp_transfer *transfer, int other, const tcp_connection *from);
    yk_status (*send)(tcp_transfer *transfer, int other, const tcp_connection *to);
    /* Whether nothing more will move between another rank and this one. */
    bool (*is_over)(const tcp_transfer *transfer, int other);
} tcp_transfer_ops;

/* Concrete transfers begin with it. */
struct tcp_transfer {
    const tcp_transfer_ops *ops;
    tcp_links *links;
};

/* Allocates what links have. They have no connection yet. */
yk_status yki_tcp_links_create(tcp_links *links, int rank, int ranks);
void yki_tcp_links_destroy(tcp_links *links);
/* Ends whatever waits for another rank, here and there. */
void yki_tcp_links_reset(const tcp_links *links);

/* Begins a transfer, which has its links, with no progress. */
void yki_tcp_transfer_init(tcp_transfer *transfer, const tcp_transfer_ops *ops, tcp_links *links);
/* Sends what can be sent at once. */
yk_status yki_tcp_begin(tcp_transfer *transfer);
/* Waits at most wait_ms (-1: without limit), moves what can be moved, and says whether that is all.
 */
yk_status yki_tcp_continue(tcp_transfer *transfer, int wait_ms, bool *over);
/* The whole of a transfer. */
yk_status yki_tcp_run(tcp_transfer *transfer);

/* ---- exchange.c ------------------------------------------------------------------------------ */

/*
 * Each rank sends a message to all others, which begins with a descriptor. They lie in the order of
 * the ranks, `stride` bytes apart, which is the most that one may have; this rank's has `bytes`.
 */
typedef struct tcp_exchange {
    tcp_transfer base; /* first */
    char *messages;
    size_t stride;
    tcp_head head;        /* of this rank's message */
    yk_mismatch mismatch; /* with YK_ERROR_MISMATCH: a rank is not in a collective */
} tcp_exchange;

void yki_tcp_exchange_init(tcp_exchange *exchange, tcp_links *links, char *messages, size_t stride,
                           size_t bytes);

/* ---- copy.c ---------------------------------------------------------------------------------- */

/* What a rank and another one send each other. */
typedef struct tcp_copy {
    char *to;
    const char *from;
    size_t incoming, outgoing; /* in bytes */
} tcp_copy;

/* Copies what is in links->copies. */
yk_status yki_tcp_copy_all(tcp_links *links);

/* ---- broadcast.c ----------------------------------------------------------------------------- */

yk_status yki_tcp_broadcast(tcp_links *links, int root, void *data, size_t bytes);

/* ---- reduction.c ----------------------------------------------------------------------------- */

/*
 * Both add in the order of ranks (comm/engine/reduce.h). The first reduces `count` elements of each
 * rank's data in place, for `root` or, where that is negative, for all ranks. The second has
 * `count` elements for each rank in `in`, and leaves those of this rank in `out`, which may be this
 * rank's part of `in`.
 */
yk_status yki_tcp_reduce(tcp_links *links, int root, void *data, size_t count, yk_dtype dtype,
                         yk_reduce_op op);
yk_status yki_tcp_reduce_scatter(tcp_links *links, void *out, const void *in, size_t count,
                                 yk_dtype dtype, yk_reduce_op op);

/* ---- messages.c ------------------------------------------------------------------------------ */

yk_status yki_tcp_messages(tcp_links *links, yk_backend_call *call);
/* Frees what messages have left in links->peers. */
void yki_tcp_messages_free(tcp_links *links);

#endif

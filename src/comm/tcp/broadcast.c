/*
 * The root sends each other rank a part of its own, which that rank passes on to the others as it
 * comes: so the root sends the data once, and no rank sends more.
 */
#include "comm/tcp/transfer.h"

typedef struct broadcast {
    tcp_transfer base; /* first */
    int root;
    char *data;
    size_t bytes;
} broadcast;

/* Where the part begins that a rank passes on; of the rank after the last one, the end of all. The
 * root has none. */
static size_t start_of(const broadcast *b, int rank)
{
    size_t parts = (size_t)b->base.links->ranks - 1;
    size_t before = (size_t)(rank > b->root ? rank - 1 : rank);
    return b->bytes / parts * before + b->bytes % parts * before / parts;
}

static size_t part_of(const broadcast *b, int rank)
{
    return start_of(b, rank + 1) - start_of(b, rank);
}

/* Whose part comes from another rank. */
static int passes_on(const broadcast *b, int other)
{
    return other == b->root ? b->base.links->rank : other;
}

static size_t incoming(const tcp_transfer *transfer, int other)
{
    const broadcast *b = (const broadcast *)transfer;
    if (transfer->links->rank == b->root)
        return 0;
    return part_of(b, passes_on(b, other)) - transfer->links->progress[other].received;
}

/* Bytes of all that goes to another rank. */
static size_t total(const broadcast *b, int other)
{
    int rank = b->base.links->rank;
    return other == b->root ? 0 : part_of(b, rank == b->root ? other : rank);
}

static size_t outgoing(const tcp_transfer *transfer, int other)
{
    const broadcast *b = (const broadcast *)transfer;
    const tcp_progress *progress = transfer->links->progress;
    if (other == b->root)
        return 0;
    bool is_root = transfer->links->rank == b->root;
    return (is_root ? total(b, other) : progress[b->root].received) - progress[other].sent;
}

static yk_status receive(tcp_transfer *transfer, int other, const tcp_connection *from)
{
    const broadcast *b = (const broadcast *)transfer;
    size_t *received = &transfer->links->progress[other].received;
    return yki_tcp_receive(from, b->data + start_of(b, passes_on(b, other)) + *received,
                           incoming(transfer, other), received);
}

static yk_status send(tcp_transfer *transfer, int other, const tcp_connection *to)
{
    const broadcast *b = (const broadcast *)transfer;
    int rank = transfer->links->rank;
    size_t *sent = &transfer->links->progress[other].sent;
    return yki_tcp_send(to, b->data + start_of(b, rank == b->root ? other : rank) + *sent,
                        outgoing(transfer, other), sent);
}

static bool is_over(const tcp_transfer *transfer, int other)
{
    return incoming(transfer, other) == 0 &&
           transfer->links->progress[other].sent == total((const broadcast *)transfer, other);
}

yk_status yki_tcp_broadcast(tcp_links *links, int root, void *data, size_t bytes)
{
    static const tcp_transfer_ops ops = {incoming, outgoing, receive, send, is_over};
    broadcast b = {.root = root, .data = data, .bytes = bytes};
    yki_tcp_transfer_init(&b.base, &ops, links);
    return yki_tcp_run(&b.base);
}

/*
 * Each rank reduces one part: it receives the others' data of its part, and sends each of them its
 * own data of theirs. Then it sends what it has reduced to those who get the result. Both are one
 * stream in each direction, so that the second begins as soon as the first piece has been reduced.
 * What another rank has reduced only comes after this rank has sent it its own data of that.
 */
#include <string.h>

#include "base/memory.h"
#include "comm/engine/reduce.h"
#include "comm/tcp/transfer.h"

/* Pieces of all ranks, which are added while they are in the second-level cache. */
enum { PIECES_BYTES = 256 * 1024, LEAST_PIECE = 16 * 1024 };

/* Who gets the result of each part, beside a single rank. */
enum { ALL_RANKS = -1, OWNER_ALONE = -2 };

typedef struct reduction {
    tcp_transfer base; /* first */
    int root;          /* or one of the above */
    const char *data;  /* of all parts, */
    char *result;      /* which becomes the result; NULL where OWNER_ALONE has that */
    char *own;         /* this rank's part, which becomes the result */
    size_t count;      /* of elements in all parts */
    size_t width;
    yk_dtype dtype;
    yk_reduce_op op;
    size_t part;    /* bytes of this rank's part, */
    size_t reduced; /* those that have been reduced, */
    size_t room;    /* and those that a piece may have */
} reduction;

/* Where a rank's part begins; of the rank after the last one, the end of all. */
static size_t start_of(const reduction *r, int rank)
{
    size_t ranks = (size_t)r->base.links->ranks, before = (size_t)rank;
    return (r->count / ranks * before + r->count % ranks * before / ranks) * r->width;
}

static size_t part_of(const reduction *r, int rank)
{
    return start_of(r, rank + 1) - start_of(r, rank);
}

/* Bytes that a rank gets of the result of a part. */
static size_t result_of(const reduction *r, int rank, int part)
{
    return r->root == ALL_RANKS || r->root == rank ? part_of(r, part) : 0;
}

/* Bytes of the piece of this rank's part that is reduced next. */
static size_t piece_of(const reduction *r)
{
    size_t left = r->part - r->reduced;
    return left < r->room ? left : r->room;
}

static size_t incoming(const tcp_transfer *transfer, int other)
{
    const reduction *r = (const reduction *)transfer;
    size_t received = transfer->links->progress[other].received;
    return (received < r->part ? r->reduced + piece_of(r)
                               : r->part + result_of(r, transfer->links->rank, other)) -
           received;
}

static size_t outgoing(const tcp_transfer *transfer, int other)
{
    const reduction *r = (const reduction *)transfer;
    size_t sent = transfer->links->progress[other].sent, theirs = part_of(r, other);
    bool gets = result_of(r, other, transfer->links->rank) > 0;
    return theirs + (gets && sent >= theirs ? r->reduced : 0) - sent;
}

static bool has_piece(const reduction *r)
{
    const tcp_links *links = r->base.links;
    size_t end = r->reduced + piece_of(r);
    for (int other = 0; other < links->ranks; other++)
        if (other != links->rank && links->progress[other].received < end)
            return false;
    return true;
}

static void reduce_piece(reduction *r)
{
    const tcp_links *links = r->base.links;
    size_t bytes = piece_of(r);
    void *mine = r->own + r->reduced;
    for (int rank = 0; rank < links->ranks; rank++)
        links->sources[rank] = links->pieces + (size_t)rank * r->room;
    links->sources[links->rank] = mine;
    yki_reduce_ranks(&mine, 1, links->sources, links->ranks, bytes / r->width, r->dtype, r->op);
    r->reduced += bytes;
}

static yk_status receive(tcp_transfer *transfer, int other, const tcp_connection *from)
{
    reduction *r = (reduction *)transfer;
    size_t *received = &transfer->links->progress[other].received;
    size_t more = incoming(transfer, other);
    if (*received >= r->part)
        return yki_tcp_receive(from, r->result + start_of(r, other) + (*received - r->part), more,
                               received);
    char *piece = transfer->links->pieces + (size_t)other * r->room;
    YK_TRY(yki_tcp_receive(from, piece + (*received - r->reduced), more, received));
    if (has_piece(r))
        reduce_piece(r);
    return YK_OK;
}

static yk_status send(tcp_transfer *transfer, int other, const tcp_connection *to)
{
    const reduction *r = (const reduction *)transfer;
    size_t *sent = &transfer->links->progress[other].sent, theirs = part_of(r, other);
    const char *from =
        *sent < theirs ? r->data + start_of(r, other) + *sent : r->own + (*sent - theirs);
    return yki_tcp_send(to, from, outgoing(transfer, other), sent);
}

static bool is_over(const tcp_transfer *transfer, int other)
{
    const reduction *r = (const reduction *)transfer;
    const tcp_progress *progress = &transfer->links->progress[other];
    int rank = transfer->links->rank;
    return progress->received == r->part + result_of(r, rank, other) &&
           progress->sent == part_of(r, other) + result_of(r, other, rank);
}

/* Memory for a piece of each rank. */
static yk_status make_room(reduction *r, tcp_links *links)
{
    size_t ranks = (size_t)links->ranks, others = ranks > 1 ? ranks - 1 : 1;
    size_t room = PIECES_BYTES / others / r->width * r->width;
    r->room = room < LEAST_PIECE ? LEAST_PIECE : room;
    if (yki_reserve(&links->pieces, r->room * ranks, &links->piece_bytes, 1))
        return YK_OK;
    return yki_error(YK_ERROR_NETWORK, "tcp: no memory to reduce");
}

static yk_status run(reduction *r)
{
    YK_TRY(make_room(r, r->base.links));
    return yki_tcp_run(&r->base);
}

static void init(reduction *r, tcp_links *links, int root, size_t count, yk_dtype dtype,
                 yk_reduce_op op)
{
    static const tcp_transfer_ops ops = {incoming, outgoing, receive, send, is_over};
    *r = (reduction){
        .root = root, .count = count, .width = yk_dtype_size(dtype), .dtype = dtype, .op = op};
    yki_tcp_transfer_init(&r->base, &ops, links);
    r->part = part_of(r, links->rank);
}

yk_status yki_tcp_reduce(tcp_links *links, int root, void *data, size_t count, yk_dtype dtype,
                         yk_reduce_op op)
{
    reduction r;
    init(&r, links, root < 0 ? ALL_RANKS : root, count, dtype, op);
    r.data = r.result = data;
    r.own = r.result + start_of(&r, links->rank);
    return run(&r);
}

yk_status yki_tcp_reduce_scatter(tcp_links *links, void *out, const void *in, size_t count,
                                 yk_dtype dtype, yk_reduce_op op)
{
    reduction r;
    init(&r, links, OWNER_ALONE, count * (size_t)links->ranks, dtype, op);
    r.data = in;
    r.own = out;
    memmove(out, r.data + start_of(&r, links->rank), r.part);
    return run(&r);
}

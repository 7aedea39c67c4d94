/* Messages of all ranks to all others, with which calls begin. */
#include <string.h>

#include "comm/tcp/transfer.h"

enum { LEAST = sizeof(yk_descriptor) }; /* of a message */

static char *message_of(const tcp_exchange *exchange, int rank)
{
    return exchange->messages + (size_t)rank * exchange->stride;
}

/* A message follows its head, of which the lengths here are a part. */
static size_t incoming(const tcp_transfer *transfer, int other)
{
    size_t received = transfer->links->progress[other].received;
    size_t length = received < sizeof(tcp_head) ? LEAST : transfer->links->heads[other].length;
    return sizeof(tcp_head) + length - received;
}

static size_t outgoing(const tcp_transfer *transfer, int other)
{
    const tcp_exchange *exchange = (const tcp_exchange *)transfer;
    return sizeof(tcp_head) + exchange->head.length - transfer->links->progress[other].sent;
}

/* The other rank has called something else meanwhile, which nobody will answer. */
static yk_status out_of_step(tcp_exchange *exchange, int other)
{
    yk_mismatch *m = &exchange->mismatch;
    int rank = exchange->base.links->rank;
    *m = (yk_mismatch){.rank_a = rank, .rank_b = other, .out_of_step = true};
    memcpy(&m->what_a, message_of(exchange, rank), sizeof m->what_a);
    memcpy(&m->what_b, message_of(exchange, other), sizeof m->what_b);
    return YK_ERROR_MISMATCH;
}

static yk_status check_head(tcp_exchange *exchange, int other)
{
    const tcp_head *head = &exchange->base.links->heads[other];
    if (head->kind == TCP_SENT || head->kind == TCP_WANTED)
        return out_of_step(exchange, other);
    if (head->kind != TCP_COLLECTIVE || head->length < LEAST || head->length > exchange->stride)
        return yki_error(YK_ERROR_NETWORK, "tcp: another rank has sent what nobody awaits");
    return YK_OK;
}

static yk_status receive(tcp_transfer *transfer, int other, const tcp_connection *from)
{
    tcp_exchange *exchange = (tcp_exchange *)transfer;
    const size_t first = sizeof(tcp_head) + LEAST;
    size_t *received = &transfer->links->progress[other].received;
    char *head = (char *)&transfer->links->heads[other], *message = message_of(exchange, other);
    if (*received < sizeof(tcp_head))
        YK_TRY(yki_tcp_receive_two(
            from,
            (struct iovec[2]){{head + *received, sizeof(tcp_head) - *received}, {message, LEAST}},
            received));
    else
        YK_TRY(yki_tcp_receive(from, message + (*received - sizeof(tcp_head)),
                               incoming(transfer, other), received));
    return *received < first ? YK_OK : check_head(exchange, other);
}

static yk_status send(tcp_transfer *transfer, int other, const tcp_connection *to)
{
    tcp_exchange *exchange = (tcp_exchange *)transfer;
    size_t *sent = &transfer->links->progress[other].sent;
    char *head = (char *)&exchange->head, *message = message_of(exchange, transfer->links->rank);
    if (*sent >= sizeof(tcp_head))
        return yki_tcp_send(to, message + (*sent - sizeof(tcp_head)), outgoing(transfer, other),
                            sent);
    return yki_tcp_send_two(to,
                            (struct iovec[2]){{head + *sent, sizeof(tcp_head) - *sent},
                                              {message, exchange->head.length}},
                            sent);
}

static bool is_over(const tcp_transfer *transfer, int other)
{
    return incoming(transfer, other) == 0 && outgoing(transfer, other) == 0;
}

void yki_tcp_exchange_init(tcp_exchange *exchange, tcp_links *links, char *messages, size_t stride,
                           size_t bytes)
{
    static const tcp_transfer_ops ops = {incoming, outgoing, receive, send, is_over};
    yki_tcp_transfer_init(&exchange->base, &ops, links);
    exchange->messages = messages;
    exchange->stride = stride;
    exchange->head = (tcp_head){TCP_COLLECTIVE, (uint32_t)bytes};
    exchange->mismatch = (yk_mismatch){0};
}

/* Parts that go to other ranks as they are. */
#include "comm/tcp/transfer.h"

static size_t incoming(const tcp_transfer *transfer, int other)
{
    const tcp_links *links = transfer->links;
    return links->copies[other].incoming - links->progress[other].received;
}

static size_t outgoing(const tcp_transfer *transfer, int other)
{
    const tcp_links *links = transfer->links;
    return links->copies[other].outgoing - links->progress[other].sent;
}

static yk_status receive(tcp_transfer *transfer, int other, const tcp_connection *from)
{
    size_t *received = &transfer->links->progress[other].received;
    return yki_tcp_receive(from, transfer->links->copies[other].to + *received,
                           incoming(transfer, other), received);
}

static yk_status send(tcp_transfer *transfer, int other, const tcp_connection *to)
{
    size_t *sent = &transfer->links->progress[other].sent;
    return yki_tcp_send(to, transfer->links->copies[other].from + *sent, outgoing(transfer, other),
                        sent);
}

static bool is_over(const tcp_transfer *transfer, int other)
{
    return incoming(transfer, other) == 0 && outgoing(transfer, other) == 0;
}

yk_status yki_tcp_copy_all(tcp_links *links)
{
    static const tcp_transfer_ops ops = {incoming, outgoing, receive, send, is_over};
    tcp_transfer copy;
    yki_tcp_transfer_init(&copy, &ops, links);
    return yki_tcp_run(&copy);
}

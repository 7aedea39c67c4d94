/* See transfer.h. */
#include "comm/tcp/transfer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "comm/tcp/messages.h"

/* Bytes for which a wait lasts, at most: they are received, and used while they are in a cache. */
enum { MOST_AWAITED = 256 * 1024 };

/* ---- links ----------------------------------------------------------------------------------- */

yk_status yki_tcp_links_create(tcp_links *links, int rank, int ranks)
{
    size_t n = (size_t)ranks;
    *links = (tcp_links){.rank = rank,
                         .ranks = ranks,
                         .connections = yki_calloc(n, sizeof *links->connections),
                         .progress = yki_calloc(n, sizeof *links->progress),
                         .heads = yki_calloc(n, sizeof *links->heads),
                         .sources = yki_calloc(n, sizeof *links->sources),
                         .copies = yki_calloc(n, sizeof *links->copies),
                         .peers = yki_calloc(n, sizeof *links->peers),
                         .entries = yki_calloc(n, sizeof *links->entries),
                         .waited = yki_calloc(n, sizeof *links->waited)};
    for (int r = 0; links->connections && r < ranks; r++)
        links->connections[r].socket = -1;
    if (links->connections && links->progress && links->heads && links->sources && links->copies &&
        links->peers && links->entries && links->waited)
        return YK_OK;
    yki_tcp_links_destroy(links);
    return yki_error_memory(n * sizeof(tcp_peer), "the connections with other ranks");
}

void yki_tcp_links_destroy(tcp_links *links)
{
    for (int r = 0; links->connections && r < links->ranks; r++)
        yki_tcp_connection_close(&links->connections[r]);
    if (links->peers)
        yki_tcp_messages_free(links);
    free(links->connections);
    free(links->progress);
    free(links->heads);
    free(links->sources);
    free(links->copies);
    free(links->peers);
    free(links->pieces);
    free(links->entries);
    free(links->waited);
    *links = (tcp_links){0};
}

void yki_tcp_links_reset(const tcp_links *links)
{
    for (int r = 0; r < links->ranks; r++)
        yki_tcp_connection_reset(&links->connections[r]);
}

/* ---- transfers ------------------------------------------------------------------------------- */

void yki_tcp_transfer_init(tcp_transfer *transfer, const tcp_transfer_ops *ops, tcp_links *links)
{
    *transfer = (tcp_transfer){ops, links};
    memset(links->progress, 0, (size_t)links->ranks * sizeof *links->progress);
}

static bool is_over(const tcp_transfer *transfer)
{
    for (int other = 0; other < transfer->links->ranks; other++)
        if (other != transfer->links->rank && !transfer->ops->is_over(transfer, other))
            return false;
    return true;
}

yk_status yki_tcp_begin(tcp_transfer *transfer)
{
    const tcp_links *links = transfer->links;
    for (int other = 0; other < links->ranks; other++)
        if (other != links->rank && transfer->ops->outgoing(transfer, other) > 0)
            YK_TRY(transfer->ops->send(transfer, other, &links->connections[other]));
    return YK_OK;
}

/* Sleeps until a good part of what is coming from a rank can be received, or something can be sent.
 * Returns the number of ranks of which something may have happened, or -1. */
static int wait_for_any(const tcp_transfer *transfer, int wait_ms)
{
    const tcp_links *links = transfer->links;
    int count = 0;
    for (int other = 0; other < links->ranks; other++) {
        if (other == links->rank)
            continue;
        size_t incoming = transfer->ops->incoming(transfer, other);
        bool sends = transfer->ops->outgoing(transfer, other) > 0;
        if (incoming > 0)
            yki_tcp_connection_await(&links->connections[other],
                                     incoming < MOST_AWAITED ? incoming : MOST_AWAITED);
        if (incoming == 0 && !sends)
            continue;
        links->entries[count] =
            (struct pollfd){links->connections[other].socket,
                            (short)((incoming > 0 ? POLLIN : 0) | (sends ? POLLOUT : 0)), 0};
        links->waited[count++] = other;
    }
    int ready = poll(links->entries, (nfds_t)count, wait_ms);
    return ready < 0 && errno == EINTR ? 0 : ready < 0 ? -1 : count;
}

static yk_status move(tcp_transfer *transfer, int other, int happened)
{
    const tcp_connection *connection = &transfer->links->connections[other];
    bool ended = happened & (POLLERR | POLLHUP);
    if ((ended || happened & POLLIN) && transfer->ops->incoming(transfer, other) > 0)
        YK_TRY(transfer->ops->receive(transfer, other, connection));
    if ((ended || happened & POLLOUT) && transfer->ops->outgoing(transfer, other) > 0)
        YK_TRY(transfer->ops->send(transfer, other, connection));
    return YK_OK;
}

yk_status yki_tcp_continue(tcp_transfer *transfer, int wait_ms, bool *over)
{
    const tcp_links *links = transfer->links;
    *over = is_over(transfer);
    if (*over)
        return YK_OK;
    int count = wait_for_any(transfer, wait_ms);
    if (count < 0)
        return yki_tcp_failed("poll", errno);
    for (int i = 0; i < count; i++)
        if (links->entries[i].revents)
            YK_TRY(move(transfer, links->waited[i], links->entries[i].revents));
    *over = is_over(transfer);
    return YK_OK;
}

yk_status yki_tcp_run(tcp_transfer *transfer)
{
    bool over = false;
    YK_TRY(yki_tcp_begin(transfer));
    while (!over)
        YK_TRY(yki_tcp_continue(transfer, -1, &over));
    return YK_OK;
}

/*
 * The store's server: one thread, one epoll set, non-blocking sockets. It polls the listener and
 * the connections of all clients (peer.c), and drops those that failed.
 */
#define _GNU_SOURCE
#include "comm/store/server.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/thread.h"
#include "comm/store/address.h"
#include "comm/store/requests.h"

enum { EVENTS = 64 };

/* ---- the thread ------------------------------------------------------------------------------ */

/* Drops the clients that failed or did not prove themselves in time; whether one left a will. */
static bool drop_failed(yki_store_server *server, double now)
{
    bool willed = false;
    for (yki_store_peer *peer = server->peers, *next; peer; peer = next) {
        next = peer->next;
        if (!peer->doomed && (yki_store_peer_admitted(peer) || now < peer->deadline))
            continue;
        willed = willed || peer->will;
        yki_store_execute_will(server, peer);
        yki_store_peer_drop(server, peer);
    }
    return willed;
}

/* Returns the milliseconds until the earliest deadline, or -1 if there is none. */
static int tidy(yki_store_server *server)
{
    double now = yki_now(), earliest = 0;
    for (yki_store_peer *peer = server->peers; peer; peer = peer->next)
        if (peer->parked && !peer->doomed && now >= peer->deadline)
            yki_store_request_resume(server, peer);
    while (drop_failed(server, now)) /* the keys of wills answer others, which may fail, too */
        ;
    for (yki_store_peer *peer = server->peers; peer; peer = peer->next)
        if ((peer->parked || !yki_store_peer_admitted(peer)) &&
            (earliest == 0 || peer->deadline < earliest))
            earliest = peer->deadline;
    return earliest == 0 ? -1 : yki_milliseconds_until(earliest);
}

static void serve_event(yki_store_server *server, const struct epoll_event *event)
{
    yki_store_peer *peer = event->data.ptr;
    if (event->data.ptr == &server->listener) {
        yki_store_peer_accept(server);
        return;
    }
    if (!peer->doomed && event->events & EPOLLOUT)
        yki_store_peer_flush(server, peer);
    if (!peer->doomed && event->events & (EPOLLIN | EPOLLHUP | EPOLLERR) &&
        yki_store_peer_read(server, peer))
        yki_store_request_serve(server, peer);
}

static void *run_server(void *argument)
{
    yki_store_server *server = argument;
    for (;;) {
        struct epoll_event events[EVENTS];
        int count = epoll_wait(server->poller, events, EVENTS, tidy(server));
        for (int i = 0; i < count; i++) {
            if (events[i].data.ptr == &server->stop)
                return NULL;
            serve_event(server, &events[i]);
        }
    }
}

static void close_all(yk_store_server *server)
{
    while (server->peers)
        yki_store_peer_drop(server, server->peers);
    if (server->stop >= 0)
        close(server->stop);
    if (server->poller >= 0)
        close(server->poller);
    if (server->listener >= 0)
        close(server->listener);
    yki_store_table_fini(&server->table);
    free(server->secret);
    free(server);
}

/* On failure, close_all() releases what has been acquired. */
static yk_status start_server(yk_store_server *server, const char *host, int *port,
                              const char *secret)
{
    server->secret = yki_strdup(secret);
    if (!server->secret)
        return yki_error_memory(strlen(secret) + 1, "a store's secret");
    YK_TRY(yki_heartbeat_timeout(&server->heartbeat_s));
    YK_TRY(yki_listen(&server->listener, host, port));
    server->stop = eventfd(0, EFD_CLOEXEC);
    server->poller = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event stop = {.events = EPOLLIN, .data.ptr = &server->stop};
    struct epoll_event listener = {.events = EPOLLIN, .data.ptr = &server->listener};
    if (server->stop < 0 || server->poller < 0 ||
        epoll_ctl(server->poller, EPOLL_CTL_ADD, server->stop, &stop) ||
        epoll_ctl(server->poller, EPOLL_CTL_ADD, server->listener, &listener))
        return yki_error(YK_ERROR_IO, "store: cannot set up epoll: %s", strerror(errno));
    int error = yki_thread_create(&server->thread, "yoke-store", NULL, run_server, server);
    if (error)
        return yki_error(YK_ERROR_OUT_OF_MEMORY, "store: cannot start the server thread: %s",
                         yki_thread_error(error));
    return YK_OK;
}

yk_status yk_store_serve(yk_store_server **out, const char *host, int *port, const char *secret)
{
    YKI_NOT_NULL(out);
    *out = NULL;
    YKI_NOT_NULL(host);
    YKI_NOT_NULL(port);
    yk_store_server *server = yki_calloc(1, sizeof *server);
    if (!server)
        return yki_error_memory(sizeof *server, "a store");
    server->listener = server->poller = server->stop = -1;
    yk_status status = start_server(server, host, port, secret ? secret : "");
    if (status != YK_OK) {
        close_all(server);
        return status;
    }
    *out = server;
    return YK_OK;
}

void yk_store_server_destroy(yk_store_server *server)
{
    if (!server)
        return;
    uint64_t one = 1;
    if (write(server->stop, &one, sizeof one) == (ssize_t)sizeof one)
        pthread_join(server->thread, NULL);
    close_all(server);
}

bool yki_store_server_is_public(const yk_store_server *server)
{
    char address[YKI_ADDRESS_TEXT];
    yki_local_address(address, server->listener);
    return strncmp(address, "127.", 4) != 0 && strcmp(address, "::1") != 0;
}

yk_status yk_store_secret(char *secret, size_t size)
{
    unsigned char random[(YK_STORE_SECRET_SIZE - 1) / 2];
    if (!secret || size < YK_STORE_SECRET_SIZE)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "a secret needs a buffer of %d bytes, not %zu",
                         YK_STORE_SECRET_SIZE, secret ? size : 0);
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return yki_error(YK_ERROR_IO, "getrandom: %s", strerror(errno));
    for (size_t i = 0; i < sizeof random; i++)
        snprintf(secret + 2 * i, 3, "%02x", random[i]);
    return YK_OK;
}

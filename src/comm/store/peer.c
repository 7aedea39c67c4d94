/*
 * The connection of a client as the store's server sees it. The client must first prove that it
 * knows the secret; until then, only its answer to the handshake is read.
 */
#define _GNU_SOURCE
#include "comm/store/peer.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/open_files.h"
#include "comm/store/address.h"

#define ANSWER_DEADLINE_S 5.0
#define QUIET_S           10.0 /* between two warnings about wrong secrets */

enum { NO_FILES_NS = 10000000 };

/* ---- output ---------------------------------------------------------------------------------- */

static void watch(yki_store_server *server, yki_store_peer *peer, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = peer};
    epoll_ctl(server->poller, EPOLL_CTL_MOD, peer->fd, &event);
}

void yki_store_peer_flush(yki_store_server *server, yki_store_peer *peer)
{
    if (peer->output_size == 0)
        return;
    while (peer->output_sent < peer->output_size) {
        ssize_t sent = send(peer->fd, peer->output + peer->output_sent,
                            peer->output_size - peer->output_sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0) {
            if (errno == EAGAIN)
                watch(server, peer, EPOLLIN | EPOLLOUT);
            else
                peer->doomed = true;
            return;
        }
        peer->output_sent += (size_t)sent;
    }
    peer->output_size = peer->output_sent = 0;
    watch(server, peer, EPOLLIN);
}

void yki_store_peer_reply(yki_store_server *server, yki_store_peer *peer, yk_status status,
                          int64_t number, const void *value, size_t size)
{
    char *output = realloc(peer->output, YKI_STORE_HEADER + size);
    if (!output) {
        peer->doomed = true;
        return;
    }
    peer->output = output;
    yki_store_pack_header(
        (unsigned char *)output,
        &(yki_store_header){.code = status, .value_size = (uint32_t)size, .number = number});
    if (size)
        memcpy(output + YKI_STORE_HEADER, value, size);
    peer->output_size = YKI_STORE_HEADER + size;
    peer->output_sent = 0;
    peer->parked = false;
    peer->input_used = 0;
    if (!yki_store_peer_admitted(peer))
        server->strangers--;
    peer->expects = STORE_INPUT_HEADER;
    yki_store_peer_flush(server, peer);
}

/* ---- coming and going ------------------------------------------------------------------------ */

/* There is no room for another stranger: drops the oldest one that has not proved itself yet. */
static void drop_oldest_stranger(yki_store_server *server)
{
    yki_store_peer *oldest = NULL;
    for (yki_store_peer *peer = server->peers; peer; peer = peer->next)
        if (!yki_store_peer_admitted(peer) && !peer->doomed)
            oldest = peer;
    if (oldest)
        oldest->doomed = true; /* dropped before the next look at the listener */
    else                       /* do not spin: the listener stays readable */
        nanosleep(&(struct timespec){.tv_nsec = NO_FILES_NS}, NULL);
}

static void free_peer(yki_store_peer *peer)
{
    if (!peer)
        return;
    free(peer->input);
    free(peer->output);
    free(peer->will);
    free(peer);
}

static yki_store_peer *create_peer(void)
{
    yki_store_peer *peer = yki_calloc(1, sizeof *peer);
    if (!peer)
        return NULL;
    peer->input = malloc(YKI_STORE_ANSWER);
    peer->output = malloc(YKI_STORE_HELLO);
    if (peer->input && peer->output &&
        getrandom(peer->nonce, sizeof peer->nonce, 0) == (ssize_t)sizeof peer->nonce)
        return peer;
    free_peer(peer);
    return NULL;
}

/* The one who waits cannot be told: its connection is not open on this side. */
static void tell_of_files(yki_store_server *server, int reason)
{
    struct rlimit files;
    if (server->told_files || server->strangers > 0 || getrlimit(RLIMIT_NOFILE, &files))
        return;
    server->told_files = true;
    YKI_WARN("the store cannot take a process in: %s; the limit is %llu: raise it with `ulimit -n`",
             strerror(reason), (unsigned long long)files.rlim_cur);
}

void yki_store_peer_accept(yki_store_server *server)
{
    if (server->strangers >= YKI_STORE_MAX_STRANGERS) {
        drop_oldest_stranger(server);
        return;
    }
    int fd = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    const int reason = errno;
    if (fd < 0 && (reason == EMFILE || reason == ENFILE) && !yki_allow_more_open_files()) {
        tell_of_files(server, reason);
        drop_oldest_stranger(server);
    }
    if (fd < 0)
        return;
    yki_store_peer *peer = create_peer();
    if (!peer) {
        close(fd);
        return;
    }
    yki_watch_connection(fd, server->heartbeat_s);
    peer->fd = fd;
    peer->deadline = yki_now() + ANSWER_DEADLINE_S;
    peer->next = server->peers;
    peer->link = &server->peers;
    if (peer->next)
        peer->next->link = &peer->next;
    server->peers = peer;
    server->strangers++;
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = peer};
    epoll_ctl(server->poller, EPOLL_CTL_ADD, fd, &event);
    yki_store_pack_hello((unsigned char *)peer->output, peer->nonce);
    peer->output_size = YKI_STORE_HELLO;
    yki_store_peer_flush(server, peer);
}

void yki_store_peer_drop(yki_store_server *server, yki_store_peer *peer)
{
    *peer->link = peer->next;
    if (peer->next)
        peer->next->link = peer->link;
    if (!yki_store_peer_admitted(peer))
        server->strangers--;
    /* A process that was forked at this moment and has not called exec yet has the connection, too:
     * it would stay in the epoll set, and its events would carry a pointer to freed memory. */
    epoll_ctl(server->poller, EPOLL_CTL_DEL, peer->fd, NULL);
    close(peer->fd);
    free_peer(peer);
}

/* ---- the handshake --------------------------------------------------------------------------- */

static void refuse(yki_store_server *server, yki_store_peer *peer)
{
    char address[YKI_ADDRESS_TEXT];
    yki_store_peer_reply(server, peer, YK_ERROR_DENIED, 0, NULL, 0);
    peer->doomed = true;
    if (yki_now() < server->quiet_until)
        return;
    server->quiet_until = yki_now() + QUIET_S;
    yki_remote_address(address, peer->fd);
    YKI_WARN("the store has refused a client from %s, which does not know this job's secret "
             "(YOKE_SECRET)",
             address);
}

static void check_answer(yki_store_server *server, yki_store_peer *peer)
{
    unsigned char proof[YKI_STORE_PROOF];
    yki_store_answer got;
    if (!yki_store_unpack_answer(&got, (unsigned char *)peer->input)) {
        peer->doomed = true; /* not a yoke client, or one of another version */
        return;
    }
    yki_store_nonces nonces = {peer->nonce, got.nonce};
    if (!yki_store_prove(proof, server->secret, YKI_STORE_CLIENT, nonces) ||
        CRYPTO_memcmp(got.proof, proof, sizeof proof) != 0)
        refuse(server, peer);
    else if (yki_store_prove(proof, server->secret, YKI_STORE_SERVER, nonces))
        yki_store_peer_reply(server, peer, YK_OK, 0, proof, sizeof proof);
    else
        peer->doomed = true;
}

/* ---- input ----------------------------------------------------------------------------------- */

/* Reads up to `size` bytes into `at` without blocking; returns true once all have arrived. */
static bool read_some(yki_store_peer *peer, char *at, size_t size)
{
    while (peer->input_used < size) {
        ssize_t more = recv(peer->fd, at + peer->input_used, size - peer->input_used, MSG_DONTWAIT);
        if (more < 0 && errno == EINTR)
            continue;
        if (more <= 0) {
            peer->doomed = more == 0 || errno != EAGAIN;
            return false;
        }
        peer->input_used += (size_t)more;
    }
    return true;
}

/* Reads the header and makes room for the body: key, zero and value. */
static bool read_header(yki_store_peer *peer)
{
    if (!read_some(peer, peer->input, YKI_STORE_HEADER))
        return false;
    yki_store_unpack_header(&peer->header, (unsigned char *)peer->input);
    size_t body = (size_t)peer->header.key_size + 1 + peer->header.value_size;
    char *input = yki_store_request_valid(&peer->header)
                      ? realloc(peer->input, body > YKI_STORE_ANSWER ? body : YKI_STORE_ANSWER)
                      : NULL;
    if (!input) {
        peer->doomed = true;
        return false;
    }
    peer->input = input;
    peer->input_used = 0;
    peer->expects = STORE_INPUT_BODY;
    return true;
}

/* A zero is inserted after the key, which may contain none, so that it can be used as a string. */
static bool read_body(yki_store_peer *peer)
{
    size_t key_size = peer->header.key_size;
    if (peer->input_used <= key_size) { /* first the key, then its zero */
        if (!read_some(peer, peer->input, key_size))
            return false;
        peer->input[key_size] = '\0';
        if (strlen(peer->input) != key_size) {
            peer->doomed = true;
            return false;
        }
        peer->input_used = key_size + 1;
    }
    return read_some(peer, peer->input, key_size + 1 + peer->header.value_size);
}

bool yki_store_peer_read(yki_store_server *server, yki_store_peer *peer)
{
    if (peer->parked || peer->output_size) { /* a second request breaks the protocol */
        char byte;
        ssize_t more = recv(peer->fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK);
        peer->doomed = more >= 0 || errno != EAGAIN;
        return false;
    }
    if (peer->expects == STORE_INPUT_ANSWER) {
        if (read_some(peer, peer->input, YKI_STORE_ANSWER))
            check_answer(server, peer);
        return false;
    }
    return (peer->expects != STORE_INPUT_HEADER || read_header(peer)) && read_body(peer);
}

/*
 * The store's server: one thread, one epoll set, non-blocking sockets. A client must first
 * prove that it knows the secret; until then, only the proof is read. Each client has at most one
 * request in flight, which bounds its memory to one frame of input and one of output.
 *
 * A get or wait for a missing key is parked in its client. Whenever a key is set or the earliest
 * deadline passes, all parked clients are checked again. A job has few ranks and few keys, so plain
 * loops are fast enough.
 */
#define _GNU_SOURCE
#include <yoke/store.h>

#include <errno.h>
#include <openssl/crypto.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/thread.h"
#include "comm/address.h"
#include "comm/store_table.h"
#include "comm/store_wire.h"

#define PROOF_DEADLINE_S 5.0

enum { EVENTS = 64, NO_FILES_NS = 10000000 };

typedef struct client {
    struct client *next, **link;
    int fd;
    bool admitted, parked, doomed;
    double deadline; /* of the proof, then of the parked request */
    yki_store_header header;
    unsigned char nonce[YKI_STORE_NONCE];
    char *input, *output;
    size_t input_size, input_used, output_size, output_sent;
} client;

struct yk_store_server {
    pthread_t thread;
    int listener, poller, stop;
    char *secret;
    client *clients;
    int client_count;
    yki_store_table table;
};

/* ---- clients --------------------------------------------------------------------------------- */

static void drop_client(yk_store_server *server, client *c)
{
    *c->link = c->next;
    if (c->next)
        c->next->link = c->link;
    server->client_count--;
    close(c->fd);
    free(c->input);
    free(c->output);
    free(c);
}

static void watch_client(yk_store_server *server, client *c, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = c};
    epoll_ctl(server->poller, EPOLL_CTL_MOD, c->fd, &event);
}

/* Sends pending output; if the socket is full, waits for EPOLLOUT to send the rest. */
static void flush_output(yk_store_server *server, client *c)
{
    while (c->output_sent < c->output_size) {
        ssize_t sent = send(c->fd, c->output + c->output_sent, c->output_size - c->output_sent,
                            MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0) {
            if (errno == EAGAIN)
                watch_client(server, c, EPOLLIN | EPOLLOUT);
            else
                c->doomed = true;
            return;
        }
        c->output_sent += (size_t)sent;
    }
    c->output_size = c->output_sent = 0;
    watch_client(server, c, EPOLLIN);
}

static void send_reply(yk_store_server *server, client *c, yk_status status, int64_t number,
                       const void *value, size_t size)
{
    char *output = realloc(c->output, YKI_STORE_HEADER + size);
    if (!output) {
        c->doomed = true;
        return;
    }
    c->output = output;
    yki_store_pack_header(
        (unsigned char *)output,
        &(yki_store_header){.code = status, .value_size = (uint32_t)size, .number = number});
    if (size)
        memcpy(output + YKI_STORE_HEADER, value, size);
    c->output_size = YKI_STORE_HEADER + size;
    c->output_sent = 0;
    c->parked = false;
    c->input_used = 0;
    c->input_size = YKI_STORE_HEADER;
    flush_output(server, c);
}

/* Out of file descriptors: the oldest client that has not proved itself yet is dropped. */
static void drop_oldest_unproven(yk_store_server *server)
{
    client *oldest = NULL;
    for (client *c = server->clients; c; c = c->next)
        if (!c->admitted && !c->doomed)
            oldest = c;
    if (oldest)
        oldest->doomed = true; /* tidy() drops it before the next look at the listener */
    else                       /* do not spin: the listener stays readable */
        nanosleep(&(struct timespec){.tv_nsec = NO_FILES_NS}, NULL);
}

static void accept_client(yk_store_server *server)
{
    int fd = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE))
        drop_oldest_unproven(server);
    if (fd < 0)
        return;
    client *c = server->client_count < YKI_STORE_MAX_CLIENTS ? yki_calloc(1, sizeof *c) : NULL;
    if (!c || !(c->input = malloc(YKI_STORE_HANDSHAKE)) ||
        !(c->output = malloc(YKI_STORE_HANDSHAKE)) ||
        getrandom(c->nonce, sizeof c->nonce, 0) != (ssize_t)sizeof c->nonce) {
        if (c) {
            free(c->input);
            free(c->output);
        }
        free(c);
        close(fd);
        return;
    }
    c->fd = fd;
    c->deadline = yki_now() + PROOF_DEADLINE_S;
    c->input_size = YKI_STORE_HANDSHAKE;
    c->next = server->clients;
    c->link = &server->clients;
    if (c->next)
        c->next->link = &c->next;
    server->clients = c;
    server->client_count++;
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
    epoll_ctl(server->poller, EPOLL_CTL_ADD, fd, &event);
    yki_store_pack_handshake((unsigned char *)c->output, c->nonce);
    c->output_size = YKI_STORE_HANDSHAKE;
    flush_output(server, c);
}

static void check_proof(yk_store_server *server, client *c)
{
    unsigned char expected[YKI_STORE_PROOF];
    const unsigned char *proof = yki_store_unpack_handshake((unsigned char *)c->input);
    c->admitted = proof && yki_store_prove(expected, server->secret, c->nonce) &&
                  CRYPTO_memcmp(proof, expected, sizeof expected) == 0;
    send_reply(server, c, c->admitted ? YK_OK : YK_ERROR_DENIED, 0, NULL, 0);
    if (!c->admitted)
        c->doomed = true;
}

/* ---- requests -------------------------------------------------------------------------------- */

/* Answers a get or wait if its key exists or its deadline has passed; otherwise parks it. */
static void answer_waiting(yk_store_server *server, client *c)
{
    const yki_store_entry *entry = yki_store_table_find(&server->table, c->input);
    bool value = entry && c->header.code == YKI_STORE_GET;
    if (entry)
        send_reply(server, c, YK_OK, 0, value ? entry->value : NULL, value ? entry->value_size : 0);
    else if (yki_now() >= c->deadline)
        send_reply(server, c, YK_ERROR_TIMEOUT, 0, NULL, 0);
    else
        c->parked = true;
}

static void answer_parked(yk_store_server *server)
{
    for (client *c = server->clients; c; c = c->next)
        if (c->parked && !c->doomed)
            answer_waiting(server, c);
}

/* Numbers are stored as decimal text, so that get reads what add wrote. */
static void serve_add(yk_store_server *server, client *c, const char *key)
{
    char text[32];
    const yki_store_entry *entry = yki_store_table_find(&server->table, key);
    int64_t sum = 0;
    if (entry) {
        snprintf(text, sizeof text, "%.*s", (int)entry->value_size, entry->value);
        sum = strtoll(text, NULL, 10);
    }
    sum = (int64_t)((uint64_t)sum + (uint64_t)c->header.number);
    int size = snprintf(text, sizeof text, "%lld", (long long)sum);
    yk_status status = yki_store_table_set(&server->table, key, text, (size_t)size);
    send_reply(server, c, status, sum, NULL, 0);
}

/* c->input holds a whole frame: the key, a terminating zero that read_body() wrote, the value. */
static void serve_request(yk_store_server *server, client *c)
{
    const char *key = c->input;
    size_t key_size = c->header.key_size;
    int64_t milliseconds = c->header.number;
    switch ((yki_store_operation)c->header.code) {
    case YKI_STORE_SET:
        send_reply(
            server, c,
            yki_store_table_set(&server->table, key, key + key_size + 1, c->header.value_size), 0,
            NULL, 0);
        answer_parked(server);
        break;
    case YKI_STORE_ADD:
        serve_add(server, c, key);
        answer_parked(server);
        break;
    case YKI_STORE_CHECK:
        send_reply(server, c, YK_OK, yki_store_table_find(&server->table, key) != NULL, NULL, 0);
        break;
    case YKI_STORE_GET:
    case YKI_STORE_WAIT:
        c->deadline = yki_now() + 1e-3 * (double)(milliseconds > 0 ? milliseconds : 0);
        answer_waiting(server, c);
        break;
    default:
        c->doomed = true;
    }
}

/* ---- input ----------------------------------------------------------------------------------- */

/*
 * Parses the header and allocates room for key and value. The key may not contain zeros, so that
 * it can be used as a string; read_body() inserts a terminating zero between key and value.
 */
static bool read_request_header(client *c, const unsigned char bytes[YKI_STORE_HEADER])
{
    yki_store_unpack_header(&c->header, bytes);
    if (c->header.key_size == 0 || c->header.key_size > YKI_STORE_MAX_KEY ||
        c->header.value_size > YKI_STORE_MAX_VALUE)
        return false;
    size_t body = (size_t)c->header.key_size + 1 + c->header.value_size;
    char *input = realloc(c->input, body > YKI_STORE_HANDSHAKE ? body : YKI_STORE_HANDSHAKE);
    if (!input)
        return false;
    c->input = input;
    return true;
}

/* Reads up to `size` bytes into `at` without blocking; returns true once all have arrived. */
static bool read_some(client *c, char *at, size_t size)
{
    while (c->input_used < size) {
        ssize_t more = recv(c->fd, at + c->input_used, size - c->input_used, MSG_DONTWAIT);
        if (more < 0 && errno == EINTR)
            continue;
        if (more <= 0) {
            c->doomed = more == 0 || errno != EAGAIN;
            return false;
        }
        c->input_used += (size_t)more;
    }
    return true;
}

static bool read_body(client *c)
{
    size_t key_size = c->header.key_size, used = c->input_used;
    if (used < key_size) { /* first the key, which a zero then terminates */
        if (!read_some(c, c->input, key_size))
            return false;
        c->input[key_size] = '\0';
        if (strlen(c->input) != key_size) {
            c->doomed = true;
            return false;
        }
    }
    return read_some(c, c->input + 1, key_size + c->header.value_size);
}

static void read_client(yk_store_server *server, client *c)
{
    if (c->parked || c->output_size) { /* a second request breaks the protocol */
        char byte;
        ssize_t more = recv(c->fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK);
        c->doomed = more >= 0 || errno != EAGAIN;
        return;
    }
    if (!c->admitted) {
        if (read_some(c, c->input, YKI_STORE_HANDSHAKE))
            check_proof(server, c);
        return;
    }
    if (c->input_size == YKI_STORE_HEADER) {
        if (!read_some(c, c->input, YKI_STORE_HEADER))
            return;
        if (!read_request_header(c, (unsigned char *)c->input)) {
            c->doomed = true;
            return;
        }
        c->input_used = 0;
        c->input_size = 0; /* the body comes next */
    }
    if (read_body(c))
        serve_request(server, c);
}

/* ---- the thread ------------------------------------------------------------------------------ */

/* Drops clients that failed or did not prove themselves in time. Returns the milliseconds until the
 * earliest deadline, or -1 if there is none. */
static int tidy(yk_store_server *server)
{
    double now = yki_now(), earliest = 0;
    for (client *c = server->clients, *next; c; c = next) {
        next = c->next;
        if (c->parked && now >= c->deadline)
            answer_waiting(server, c);
        if (c->doomed || (!c->admitted && now >= c->deadline)) {
            drop_client(server, c);
            continue;
        }
        if ((c->parked || !c->admitted) && (earliest == 0 || c->deadline < earliest))
            earliest = c->deadline;
    }
    return earliest == 0 ? -1 : yki_milliseconds_until(earliest);
}

static void *run_server(void *argument)
{
    yk_store_server *server = argument;
    for (;;) {
        struct epoll_event events[EVENTS];
        int count = epoll_wait(server->poller, events, EVENTS, tidy(server));
        for (int i = 0; i < count; i++) {
            client *c = events[i].data.ptr;
            if (events[i].data.ptr == &server->stop)
                return NULL;
            if (events[i].data.ptr == &server->listener)
                accept_client(server);
            else {
                if (events[i].events & EPOLLOUT)
                    flush_output(server, c);
                if (!c->doomed && events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR))
                    read_client(server, c);
            }
        }
    }
}

static void close_all(yk_store_server *server)
{
    while (server->clients)
        drop_client(server, server->clients);
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
                         strerror(error));
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

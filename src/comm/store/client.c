/*
 * A connection to the store: the handshake, and requests, each of which blocks until its reply
 * arrives. The server holds a request for a missing key until its timeout, so there is always a
 * reply. If none arrives within the patience of the connection after that timeout, because the
 * server is stopped, the connection is reported as lost and not used again. A host that is gone is
 * noticed earlier, by the keepalive packets of address.c.
 */
#define _GNU_SOURCE
#include "comm/store/client.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "comm/store/address.h"

#define PATIENCE_S  30.0
#define HANDSHAKE_S 3.0
#define SLICE_S     1.0

struct yk_store {
    int fd;      /* open until the end, because yk_store_interrupt uses it on another thread */
    bool lost;   /* the connection is not used again */
    bool closed; /* by the server */
    bool silent; /* the server has not answered in time */
    double patience_s;
    char where[YKI_ENDPOINT_TEXT], address[YKI_ADDRESS_TEXT];
    char *prefix;
    size_t prefix_size;
};

static yk_status lose_connection(yk_store *store, const char *why)
{
    if (!store->lost)
        shutdown(store->fd, SHUT_RDWR);
    store->lost = true;
    return yki_error(YK_ERROR_NETWORK, "the connection to the store at %s is lost: %s",
                     store->where, why);
}

/*
 * Waits for input, at most *patience_s, of which it takes what it has waited. Waiting in slices
 * keeps the time in which this process was itself stopped from counting as the server's silence.
 */
static bool await_input(int fd, double *patience_s)
{
    for (;;) {
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        double slice = *patience_s < SLICE_S ? *patience_s : SLICE_S, start = yki_now();
        int got = poll(&ready, 1, yki_milliseconds_until(start + slice));
        if (got > 0)
            return true;
        if (got < 0 && errno != EINTR)
            return true; /* recv tells what is wrong */
        double waited = yki_now() - start;
        *patience_s -= waited < slice ? waited : slice;
        if (*patience_s <= 0)
            return false;
    }
}

static yk_status receive_all(yk_store *store, void *bytes, size_t size, double *patience_s)
{
    unsigned char *at = bytes;
    while (size > 0) {
        if (!await_input(store->fd, patience_s)) {
            store->silent = true;
            return lose_connection(store, "no answer");
        }
        ssize_t more = recv(store->fd, at, size, 0);
        if (more < 0 && errno == EINTR)
            continue;
        if (more <= 0) {
            store->closed = more == 0 || errno == ECONNRESET;
            return lose_connection(store, more ? strerror(errno) : "closed by the server");
        }
        at += more;
        size -= (size_t)more;
    }
    return YK_OK;
}

/* Reads a value that does not fit the caller's buffer, so that the next reply can be read. */
static yk_status skip_value(yk_store *store, size_t size, double *patience_s)
{
    char bytes[4096];
    for (size_t more; size > 0; size -= more) {
        more = size < sizeof bytes ? size : sizeof bytes;
        YK_TRY(receive_all(store, bytes, more, patience_s));
    }
    return YK_OK;
}

static yk_status send_all(yk_store *store, struct iovec *parts, size_t count)
{
    while (count > 0) {
        struct msghdr message = {.msg_iov = parts, .msg_iovlen = count};
        ssize_t sent = sendmsg(store->fd, &message, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0) {
            store->closed = errno == EPIPE || errno == ECONNRESET;
            return lose_connection(store, strerror(errno));
        }
        size_t left = (size_t)sent;
        for (; count > 0 && left >= parts->iov_len; parts++, count--)
            left -= parts->iov_len;
        if (count > 0) {
            parts->iov_base = (char *)parts->iov_base + left;
            parts->iov_len -= left;
        }
    }
    return YK_OK;
}

/* ---- requests -------------------------------------------------------------------------------- */

static bool has_key(const yki_store_request *request)
{
    return request->operation != YKI_STORE_LIST && request->operation != YKI_STORE_LEAVE;
}

static yk_status check_request(const yk_store *store, const yki_store_request *request)
{
    const char *missing = !store          ? "store"
                          : !request->key ? "key"
                          : (!request->put[0] && request->put_size[0] > 0) ||
                                  (!request->put[1] && request->put_size[1] > 0)
                              ? "value"
                              : NULL;
    if (missing)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "store: the %s is NULL", missing);
    size_t key_size = strlen(request->key), limit = YKI_STORE_MAX_KEY - store->prefix_size;
    if ((key_size == 0 && has_key(request)) || key_size > limit)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "store: the key has %zu bytes, expected 1 to %zu", key_size, limit);
    size_t most = request->operation == YKI_STORE_WILL ? YKI_STORE_MAX_WILL : YKI_STORE_MAX_VALUE;
    for (int i = 0; i < 2; i++)
        if (request->put_size[i] > most)
            return yki_error(YK_ERROR_INVALID_ARGUMENT,
                             "store: the value has %zu bytes, expected at most %zu",
                             request->put_size[i], most);
    return YK_OK;
}

static yk_status send_request(yk_store *store, const yki_store_request *request)
{
    unsigned char header[YKI_STORE_HEADER];
    size_t key_size = strlen(request->key),
           value_size = request->put_size[0] + request->put_size[1];
    yki_store_pack_header(header,
                          &(yki_store_header){.code = request->operation,
                                              .key_size = (uint32_t)(store->prefix_size + key_size),
                                              .value_size = (uint32_t)value_size,
                                              .number = request->number});
    struct iovec parts[] = {{header, sizeof header},
                            {store->prefix, store->prefix_size},
                            {(void *)request->key, key_size},
                            {(void *)request->put[0], request->put_size[0]},
                            {(void *)request->put[1], request->put_size[1]}};
    return send_all(store, parts, sizeof parts / sizeof *parts);
}

static yk_status receive_reply(yk_store *store, yki_store_request *request, double patience_s)
{
    unsigned char header[YKI_STORE_HEADER];
    YK_TRY(receive_all(store, header, sizeof header, &patience_s));
    yki_store_unpack_header(&request->reply, header);
    size_t size = request->reply.value_size;
    if (size > YKI_STORE_MAX_VALUE)
        return lose_connection(store, "malformed reply");
    if (size <= request->size)
        return receive_all(store, request->value, size, &patience_s);
    YK_TRY(skip_value(store, size, &patience_s));
    return yki_error(YK_ERROR_INVALID_ARGUMENT,
                     request->operation == YKI_STORE_LIST
                         ? "store: the keys that begin with \"%s\" take %zu bytes, but the buffer "
                           "has only %zu"
                         : "store: the value of \"%s\" has %zu bytes, but the buffer only %zu",
                     request->key, size, request->size);
}

/* The status that the server replied with. */
static yk_status reply_status(const yki_store_request *request)
{
    yk_status status = (yk_status)request->reply.code;
    if (status == YK_OK)
        return YK_OK;
    if (status == YK_ERROR_TIMEOUT)
        return yki_error(status, "store: no key \"%s\" within %g s", request->key, request->wait_s);
    return yki_error(status, "store: \"%s\": %s", request->key, yk_status_string(status));
}

yk_status yki_store_run(yk_store *store, yki_store_request *request)
{
    YK_TRY(check_request(store, request));
    if (store->lost)
        return lose_connection(store, "it failed before");
    YK_TRY(send_request(store, request));
    double wait_s = request->wait_s > 0 ? request->wait_s : 0;
    YK_TRY(receive_reply(store, request, wait_s + store->patience_s));
    return reply_status(request);
}

size_t yki_store_prefix_size(const yk_store *store)
{
    return store->prefix_size;
}

/* ---- connecting ------------------------------------------------------------------------------ */

static yk_status deny(yk_store *store, const char *why)
{
    lose_connection(store, "denied");
    return yki_error(YK_ERROR_DENIED, "the store at %s belongs to another job: %s", store->where,
                     why);
}

/* Receives the server's nonce. */
static yk_status receive_hello(yk_store *store, unsigned char nonce[YKI_STORE_NONCE],
                               double *patience_s)
{
    unsigned char bytes[YKI_STORE_HELLO];
    if (receive_all(store, bytes, sizeof bytes, patience_s) != YK_OK)
        return yki_error_context(YK_ERROR_NETWORK, "is it a yoke store?");
    if (yki_store_unpack_hello(nonce, bytes))
        return YK_OK;
    lose_connection(store, "foreign");
    int version = yki_store_hello_version(bytes);
    if (version < 0)
        return yki_error(YK_ERROR_FORMAT, "the server at %s is not a yoke store", store->where);
    return yki_error(
        YK_ERROR_FORMAT,
        "the store at %s is of another version of yoke, with protocol %d; yoke %s here "
        "has protocol %d: all processes of a job need the same version",
        store->where, version, yk_build(), YKI_STORE_VERSION);
}

/* Receives and checks the server's proof. */
static yk_status receive_proof(yk_store *store, const unsigned char expected[YKI_STORE_PROOF],
                               double *patience_s)
{
    unsigned char bytes[YKI_STORE_HEADER], proof[YKI_STORE_PROOF];
    yki_store_header reply;
    YK_TRY(receive_all(store, bytes, sizeof bytes, patience_s));
    yki_store_unpack_header(&reply, bytes);
    if (reply.code == YK_ERROR_DENIED)
        return deny(store, "YOKE_SECRET differs");
    if (reply.code != YK_OK || reply.value_size != sizeof proof)
        return lose_connection(store, "malformed handshake");
    YK_TRY(receive_all(store, proof, sizeof proof, patience_s));
    if (CRYPTO_memcmp(proof, expected, sizeof proof) != 0)
        return deny(store, "it does not know YOKE_SECRET");
    return YK_OK;
}

/* The handshake of wire.h. */
static yk_status shake_hands(yk_store *store, const char *secret)
{
    unsigned char nonce[YKI_STORE_NONCE], bytes[YKI_STORE_ANSWER], expected[YKI_STORE_PROOF];
    double patience_s = HANDSHAKE_S;
    yki_store_answer answer;
    yki_store_nonces nonces = {nonce, answer.nonce};
    YK_TRY(receive_hello(store, nonce, &patience_s));
    if (getrandom(answer.nonce, sizeof answer.nonce, 0) != (ssize_t)sizeof answer.nonce)
        return yki_error(YK_ERROR_IO, "getrandom: %s", strerror(errno));
    if (!yki_store_prove(answer.proof, secret, YKI_STORE_CLIENT, nonces) ||
        !yki_store_prove(expected, secret, YKI_STORE_SERVER, nonces))
        return yki_error(YK_ERROR_INTERNAL, "libcrypto: no HMAC-SHA256");
    yki_store_pack_answer(bytes, &answer);
    YK_TRY(send_all(store, &(struct iovec){bytes, sizeof bytes}, 1));
    return receive_proof(store, expected, &patience_s);
}

static yk_status connect_and_shake_hands(yk_store *store, const char *host, int port,
                                         const char *secret, bool *again)
{
    double heartbeat_s;
    YK_TRY(yki_heartbeat_timeout(&heartbeat_s));
    YK_TRY(yki_connect(&store->fd, host, port, again));
    yki_watch_connection(store->fd, heartbeat_s);
    yki_local_address(store->address, store->fd);
    yk_status status = shake_hands(store, secret);
    *again = status == YK_ERROR_NETWORK; /* the server is just shutting down */
    return status;
}

yk_status yki_store_attempt(yk_store **out, const char *host, int port, const char *secret,
                            bool *again)
{
    *out = NULL;
    *again = false;
    yk_store *store = yki_calloc(1, sizeof *store);
    if (!store)
        return yki_error_memory(sizeof *store, "a store connection");
    store->fd = -1;
    store->patience_s = PATIENCE_S;
    yki_endpoint_text(store->where, host, port);
    yk_status status = connect_and_shake_hands(store, host, port, secret, again);
    if (status == YK_OK)
        *out = store;
    else
        yk_store_destroy(store);
    return status;
}

yk_status yk_store_connect(yk_store **out, const char *host, int port, const char *secret,
                           double timeout_s)
{
    YKI_NOT_NULL(out);
    *out = NULL;
    YKI_NOT_NULL(host);
    double deadline = yki_now() + timeout_s;
    long pause_ns = 2000000;
    bool again;
    for (;;) {
        yk_status status = yki_store_attempt(out, host, port, secret ? secret : "", &again);
        if (status == YK_OK || !again)
            return status;
        if (!(yki_now() < deadline)) /* a NaN is no time to wait */
            return yki_error_context(YK_ERROR_TIMEOUT, "no store within %g s", timeout_s);
        nanosleep(&(struct timespec){.tv_nsec = pause_ns}, NULL);
        if (pause_ns < 50000000)
            pause_ns *= 2;
    }
}

/* Tells the server that this client leaves: its will then does not count. */
static void leave(yk_store *store)
{
    unsigned char header[YKI_STORE_HEADER];
    yki_store_pack_header(header, &(yki_store_header){.code = YKI_STORE_LEAVE});
    send(store->fd, header, sizeof header, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void yk_store_destroy(yk_store *store)
{
    if (!store)
        return;
    if (store->fd >= 0 && !store->lost)
        leave(store);
    if (store->fd >= 0)
        close(store->fd);
    free(store->prefix);
    free(store);
}

void yk_store_interrupt(yk_store *store)
{
    if (store)
        shutdown(store->fd, SHUT_RDWR);
}

bool yki_store_was_closed(const yk_store *store)
{
    return store->closed;
}

bool yki_store_was_silent(const yk_store *store)
{
    return store->silent;
}

const char *yk_store_local_address(const yk_store *store)
{
    return store ? store->address : "";
}

yk_status yk_store_set_patience(yk_store *store, double seconds)
{
    YKI_NOT_NULL(store);
    if (!(seconds >= 0))
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "store: a patience of %g s, expected 0 or more",
                         seconds);
    store->patience_s = seconds;
    return YK_OK;
}

yk_status yk_store_set_prefix(yk_store *store, const char *prefix)
{
    YKI_NOT_NULL(store);
    YKI_NOT_NULL(prefix);
    size_t size = strlen(prefix);
    if (size > YKI_STORE_MAX_KEY / 2)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "store: the prefix has %zu bytes, expected at most %d", size,
                         YKI_STORE_MAX_KEY / 2);
    char *copy = yki_strdup(prefix);
    if (!copy)
        return yki_error_memory(size + 1, "a prefix of the store's keys");
    free(store->prefix);
    store->prefix = copy;
    store->prefix_size = size;
    return YK_OK;
}

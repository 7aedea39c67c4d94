/*
 * The store's client: each call sends a request and blocks until the reply arrives. The server
 * holds a request for a missing key until its timeout, so there is always a reply. If none arrives
 * within GRACE_S after that timeout, the connection is reported as lost and not used again.
 */
#define _GNU_SOURCE
#include <yoke/store.h>

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "comm/address.h"
#include "comm/store_wire.h"

#define GRACE_S     5.0
#define HANDSHAKE_S 3.0

struct yk_store {
    int fd; /* -1 once the connection is lost */
    char where[80];
};

static yk_status lose_connection(yk_store *store, const char *why)
{
    if (store->fd >= 0)
        close(store->fd);
    store->fd = -1;
    return yki_error(YK_ERROR_NETWORK, "the connection to the store at %s is lost: %s",
                     store->where, why);
}

static yk_status receive_all(yk_store *store, void *bytes, size_t size, double deadline)
{
    unsigned char *at = bytes;
    while (size > 0) {
        struct pollfd ready = {.fd = store->fd, .events = POLLIN};
        int got = poll(&ready, 1, yki_milliseconds_until(deadline));
        if ((got < 0 && errno == EINTR) || (got == 0 && yki_now() < deadline))
            continue;
        if (got == 0)
            return lose_connection(store, "no answer");
        ssize_t more = got < 0 ? -1 : recv(store->fd, at, size, 0);
        if (more < 0 && errno == EINTR)
            continue;
        if (more <= 0)
            return lose_connection(store, more ? strerror(errno) : "closed by the server");
        at += more;
        size -= (size_t)more;
    }
    return YK_OK;
}

/* Reads a value that does not fit the caller's buffer, so that the next reply can be read. */
static yk_status skip_value(yk_store *store, size_t size, double deadline)
{
    char bytes[4096];
    for (size_t more; size > 0; size -= more) {
        more = size < sizeof bytes ? size : sizeof bytes;
        YK_TRY(receive_all(store, bytes, more, deadline));
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
        if (sent < 0)
            return lose_connection(store, strerror(errno));
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

/* One request, and where its reply goes. */
typedef struct store_request {
    yki_store_operation operation;
    const char *key;
    const void *put; /* the value to send, of put_size bytes */
    size_t put_size;
    int64_t number;
    double wait_s; /* how long the server may wait for the key */
    void *value;   /* receives the value of the reply, at most size bytes */
    size_t size;
    yki_store_header reply; /* filled by run_request() */
} store_request;

static yk_status check_request(const yk_store *store, const store_request *request)
{
    const char *missing = !store                                   ? "store"
                          : !request->key                          ? "key"
                          : !request->put && request->put_size > 0 ? "value"
                                                                   : NULL;
    if (missing)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "store: the %s is NULL", missing);
    size_t key_size = strlen(request->key);
    if (key_size == 0 || key_size > YKI_STORE_MAX_KEY)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "store: the key has %zu bytes, expected 1 to %d", key_size,
                         YKI_STORE_MAX_KEY);
    if (request->put_size > YKI_STORE_MAX_VALUE)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "store: the value has %zu bytes, expected at most %d", request->put_size,
                         YKI_STORE_MAX_VALUE);
    return YK_OK;
}

static yk_status send_request(yk_store *store, const store_request *request)
{
    unsigned char header[YKI_STORE_HEADER];
    size_t key_size = strlen(request->key);
    yki_store_pack_header(header, &(yki_store_header){.code = request->operation,
                                                      .key_size = (uint32_t)key_size,
                                                      .value_size = (uint32_t)request->put_size,
                                                      .number = request->number});
    struct iovec parts[] = {{header, sizeof header},
                            {(void *)request->key, key_size},
                            {(void *)request->put, request->put_size}};
    return send_all(store, parts, request->put_size ? 3 : 2);
}

static yk_status receive_reply(yk_store *store, store_request *request, double deadline)
{
    unsigned char header[YKI_STORE_HEADER];
    YK_TRY(receive_all(store, header, sizeof header, deadline));
    yki_store_unpack_header(&request->reply, header);
    size_t size = request->reply.value_size;
    if (size > YKI_STORE_MAX_VALUE)
        return lose_connection(store, "malformed reply");
    if (size <= request->size)
        return receive_all(store, request->value, size, deadline);
    YK_TRY(skip_value(store, size, deadline));
    return yki_error(YK_ERROR_INVALID_ARGUMENT,
                     "store: the value of \"%s\" has %zu bytes, but the buffer only %zu",
                     request->key, size, request->size);
}

/* The status that the server replied with. */
static yk_status reply_status(const store_request *request)
{
    yk_status status = (yk_status)request->reply.code;
    if (status == YK_OK)
        return YK_OK;
    if (status == YK_ERROR_TIMEOUT)
        return yki_error(status, "store: no key \"%s\" within %g s", request->key, request->wait_s);
    return yki_error(status, "store: \"%s\": %s", request->key, yk_status_string(status));
}

static yk_status run_request(yk_store *store, store_request *request)
{
    YK_TRY(check_request(store, request));
    if (store->fd < 0)
        return lose_connection(store, "it failed before");
    double deadline = yki_now() + (request->wait_s > 0 ? request->wait_s : 0) + GRACE_S;
    YK_TRY(send_request(store, request));
    YK_TRY(receive_reply(store, request, deadline));
    return reply_status(request);
}

/* A wait as the server takes it; very long ones, and infinity, are capped. */
static int64_t milliseconds(double seconds)
{
    if (!(seconds > 0))
        return 0;
    return seconds < 1e12 ? (int64_t)(seconds * 1e3) : INT64_C(1000000000000000);
}

/* The handshake of store_wire.h. */
static yk_status shake_hands(yk_store *store, const char *secret)
{
    unsigned char bytes[YKI_STORE_HANDSHAKE], proof[YKI_STORE_PROOF], header[YKI_STORE_HEADER];
    double deadline = yki_now() + HANDSHAKE_S;
    yk_status status = receive_all(store, bytes, sizeof bytes, deadline);
    if (status != YK_OK)
        return yki_error_context(YK_ERROR_NETWORK, "is it a yoke store?");
    const unsigned char *nonce = yki_store_unpack_handshake(bytes);
    if (!nonce) {
        lose_connection(store, "foreign");
        return yki_error(YK_ERROR_FORMAT, "the server at %s is not a yoke store of version %d",
                         store->where, YKI_STORE_VERSION);
    }
    if (!yki_store_prove(proof, secret, nonce))
        return yki_error(YK_ERROR_INTERNAL, "libcrypto: no HMAC-SHA256");
    yki_store_pack_handshake(bytes, proof);
    YK_TRY(send_all(store, &(struct iovec){bytes, sizeof bytes}, 1));
    YK_TRY(receive_all(store, header, sizeof header, deadline));
    yki_store_header reply;
    yki_store_unpack_header(&reply, header);
    if (reply.code == YK_ERROR_DENIED) {
        lose_connection(store, "denied");
        return yki_error(YK_ERROR_DENIED,
                         "the store at %s belongs to another job: YOKE_SECRET differs",
                         store->where);
    }
    return reply.code == YK_OK ? YK_OK : lose_connection(store, "malformed handshake");
}

/* Sets again if another attempt may succeed: no server listens yet, or it is just shutting down. */
static yk_status attempt(yk_store *store, const char *host, int port, const char *secret,
                         bool *again)
{
    YK_TRY(yki_connect(&store->fd, host, port, again));
    yk_status status = shake_hands(store, secret);
    *again = status == YK_ERROR_NETWORK;
    return status;
}

yk_status yk_store_connect(yk_store **out, const char *host, int port, const char *secret,
                           double timeout_s)
{
    YKI_NOT_NULL(out);
    *out = NULL;
    YKI_NOT_NULL(host);
    yk_store *store = yki_calloc(1, sizeof *store);
    if (!store)
        return yki_error_memory(sizeof *store, "a store connection");
    store->fd = -1;
    snprintf(store->where, sizeof store->where, "%.60s:%d", host, port);
    double deadline = yki_now() + timeout_s;
    long pause_ns = 2000000;
    bool again;
    yk_status status;
    while ((status = attempt(store, host, port, secret ? secret : "", &again)) != YK_OK) {
        if (!again || yki_now() >= deadline) {
            if (again)
                status = yki_error_context(YK_ERROR_TIMEOUT, "no store within %g s", timeout_s);
            yk_store_destroy(store);
            return status;
        }
        nanosleep(&(struct timespec){.tv_nsec = pause_ns}, NULL);
        if (pause_ns < 50000000)
            pause_ns *= 2;
    }
    *out = store;
    return YK_OK;
}

void yk_store_destroy(yk_store *store)
{
    if (!store)
        return;
    if (store->fd >= 0)
        close(store->fd);
    free(store);
}

yk_status yk_store_set(yk_store *store, const char *key, const void *value, size_t size)
{
    return run_request(
        store,
        &(store_request){.operation = YKI_STORE_SET, .key = key, .put = value, .put_size = size});
}

yk_status yk_store_get(yk_store *store, const char *key, void *value, size_t size, size_t *used,
                       double timeout_s)
{
    YKI_NOT_NULL(value);
    YKI_NOT_NULL(used);
    *used = 0;
    store_request request = {.operation = YKI_STORE_GET,
                             .key = key,
                             .number = milliseconds(timeout_s),
                             .wait_s = timeout_s,
                             .value = value,
                             .size = size};
    YK_TRY(run_request(store, &request));
    *used = request.reply.value_size;
    return YK_OK;
}

yk_status yk_store_add(yk_store *store, const char *key, int64_t delta, int64_t *result)
{
    YKI_NOT_NULL(result);
    store_request request = {.operation = YKI_STORE_ADD, .key = key, .number = delta};
    YK_TRY(run_request(store, &request));
    *result = request.reply.number;
    return YK_OK;
}

yk_status yk_store_check(yk_store *store, const char *key, bool *found)
{
    YKI_NOT_NULL(found);
    store_request request = {.operation = YKI_STORE_CHECK, .key = key};
    YK_TRY(run_request(store, &request));
    *found = request.reply.number != 0;
    return YK_OK;
}

yk_status yk_store_wait(yk_store *store, const char *key, double timeout_s)
{
    return run_request(store, &(store_request){.operation = YKI_STORE_WAIT,
                                               .key = key,
                                               .number = milliseconds(timeout_s),
                                               .wait_s = timeout_s});
}

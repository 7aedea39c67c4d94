/*
 * The store's client: one request, one reply, blocking. The server keeps a waiting request until
 * its time is over, so that a reply always comes; a server that does not answer within a grace on
 * top of that is reported as lost, and the connection is not used again.
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

/* A value that nobody has room for; the connection stays in step. */
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

/* Sends a request and reads the reply; value takes at most `size` bytes of it. */
static yk_status request(yk_store *store, yki_store_operation operation, const char *key,
                         const void *put, size_t put_size, int64_t number, double wait_s,
                         yki_store_header *reply, void *value, size_t size)
{
    if (!store || !key || (!put && put_size > 0))
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "store: the %s is NULL",
                         !store ? "store"
                         : !key ? "key"
                                : "value");
    size_t key_size = strlen(key);
    if (key_size == 0 || key_size > YKI_STORE_MAX_KEY || put_size > YKI_STORE_MAX_VALUE)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "store: key of %zu bytes (1 to %d), value of %zu (at most %d)", key_size,
                         YKI_STORE_MAX_KEY, put_size, YKI_STORE_MAX_VALUE);
    if (store->fd < 0)
        return lose_connection(store, "it failed before");

    unsigned char header[YKI_STORE_HEADER];
    yki_store_pack_header(
        header, &(yki_store_header){operation, (uint32_t)key_size, (uint32_t)put_size, number});
    struct iovec parts[] = {
        {header, sizeof header}, {(void *)key, key_size}, {(void *)put, put_size}};
    double deadline = yki_now() + (wait_s > 0 ? wait_s : 0) + GRACE_S;
    YK_TRY(send_all(store, parts, put_size ? 3 : 2));
    YK_TRY(receive_all(store, header, sizeof header, deadline));
    yki_store_unpack_header(reply, header);
    if (reply->value_size > YKI_STORE_MAX_VALUE)
        return lose_connection(store, "malformed reply");
    if (reply->value_size > size) {
        YK_TRY(skip_value(store, reply->value_size, deadline));
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "store: the value of \"%s\" has %u bytes, room for %zu", key,
                         reply->value_size, size);
    }
    return receive_all(store, value, reply->value_size, deadline);
}

/* For the server, of a wait of any length. */
static int64_t milliseconds(double seconds)
{
    if (!(seconds > 0))
        return 0;
    return seconds < 1e12 ? (int64_t)(seconds * 1e3) : INT64_C(1000000000000000);
}

static yk_status status_of(const yki_store_header *reply, const char *key, double wait_s)
{
    switch ((yk_status)reply->code) {
    case YK_OK:
        return YK_OK;
    case YK_ERROR_TIMEOUT:
        return yki_error(YK_ERROR_TIMEOUT, "store: no key \"%s\" within %g s", key, wait_s);
    default:
        return yki_error((yk_status)reply->code, "store: \"%s\": %s", key,
                         yk_status_string((yk_status)reply->code));
    }
}

/* The greeting: see store_wire.h. */
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
        return yki_error(YK_ERROR_FORMAT, "what listens on %s is no yoke store of version %d",
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
    return reply.code == YK_OK ? YK_OK : lose_connection(store, "malformed greeting");
}

/* Whether another attempt may go better: nobody listens yet, or the server is just going. */
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
    yki_store_header reply;
    YK_TRY(request(store, YKI_STORE_SET, key, value, size, 0, 0, &reply, NULL, 0));
    return status_of(&reply, key, 0);
}

yk_status yk_store_get(yk_store *store, const char *key, void *value, size_t size, size_t *used,
                       double timeout_s)
{
    yki_store_header reply;
    YKI_NOT_NULL(value);
    YKI_NOT_NULL(used);
    *used = 0;
    YK_TRY(request(store, YKI_STORE_GET, key, NULL, 0, milliseconds(timeout_s), timeout_s, &reply,
                   value, size));
    *used = reply.value_size;
    return status_of(&reply, key, timeout_s);
}

yk_status yk_store_add(yk_store *store, const char *key, int64_t delta, int64_t *result)
{
    yki_store_header reply;
    YKI_NOT_NULL(result);
    YK_TRY(request(store, YKI_STORE_ADD, key, NULL, 0, delta, 0, &reply, NULL, 0));
    *result = reply.number;
    return status_of(&reply, key, 0);
}

yk_status yk_store_check(yk_store *store, const char *key, bool *found)
{
    yki_store_header reply;
    YKI_NOT_NULL(found);
    YK_TRY(request(store, YKI_STORE_CHECK, key, NULL, 0, 0, 0, &reply, NULL, 0));
    *found = reply.number != 0;
    return status_of(&reply, key, 0);
}

yk_status yk_store_wait(yk_store *store, const char *key, double timeout_s)
{
    yki_store_header reply;
    YK_TRY(request(store, YKI_STORE_WAIT, key, NULL, 0, milliseconds(timeout_s), timeout_s, &reply,
                   NULL, 0));
    return status_of(&reply, key, timeout_s);
}

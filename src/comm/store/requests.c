/*
 * What the store's clients ask for.
 *
 * A get or wait for a missing key is parked in its client. Whenever a key is set or the earliest
 * deadline passes, all parked clients are checked again. A job has few ranks and few keys, so plain
 * loops are fast enough.
 */
#include "comm/store/requests.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

typedef struct request {
    const char *key, *value;
    size_t value_size;
    int64_t number;
} request;

static void answer(yki_store_server *server, yki_store_peer *peer, yk_status status, int64_t number)
{
    yki_store_peer_reply(server, peer, status, number, NULL, 0);
}

/* ---- waiting --------------------------------------------------------------------------------- */

void yki_store_request_resume(yki_store_server *server, yki_store_peer *peer)
{
    const yki_store_entry *entry = yki_store_table_find(&server->table, peer->input);
    bool wants_value = entry && peer->header.code == YKI_STORE_GET;
    if (wants_value)
        yki_store_peer_reply(server, peer, YK_OK, 0, entry->value, entry->value_size);
    else if (entry)
        answer(server, peer, YK_OK, 0);
    else if (yki_now() >= peer->deadline)
        answer(server, peer, YK_ERROR_TIMEOUT, 0);
    else
        peer->parked = true;
}

static void resume_all(yki_store_server *server)
{
    for (yki_store_peer *peer = server->peers; peer; peer = peer->next)
        if (peer->parked && !peer->doomed)
            yki_store_request_resume(server, peer);
}

static void serve_waiting(yki_store_server *server, yki_store_peer *peer, const request *asked)
{
    peer->deadline = yki_now() + 1e-3 * (double)(asked->number > 0 ? asked->number : 0);
    yki_store_request_resume(server, peer);
}

/* ---- reading and writing keys ---------------------------------------------------------------- */

static void serve_set(yki_store_server *server, yki_store_peer *peer, const request *asked)
{
    answer(server, peer,
           yki_store_table_set(&server->table, asked->key, asked->value, asked->value_size), 0);
    resume_all(server);
}

/* Numbers are stored as decimal text, so that get reads what add wrote. */
static void serve_add(yki_store_server *server, yki_store_peer *peer, const request *asked)
{
    char text[32];
    const yki_store_entry *entry = yki_store_table_find(&server->table, asked->key);
    int64_t sum = 0;
    if (entry) {
        snprintf(text, sizeof text, "%.*s", (int)entry->value_size, entry->value);
        sum = strtoll(text, NULL, 10);
    }
    sum = (int64_t)((uint64_t)sum + (uint64_t)asked->number);
    int size = snprintf(text, sizeof text, "%lld", (long long)sum);
    answer(server, peer, yki_store_table_set(&server->table, asked->key, text, (size_t)size), sum);
    resume_all(server);
}

/* The value is what is expected, of `number` bytes, and then what to set instead. */
static void serve_compare_set(yki_store_server *server, yki_store_peer *peer, const request *asked)
{
    const yki_store_entry *entry = yki_store_table_find(&server->table, asked->key);
    bool absent = asked->number == YKI_STORE_ABSENT;
    size_t expected = absent ? 0 : (size_t)asked->number;
    if (!absent && (asked->number < 0 || expected > asked->value_size)) {
        peer->doomed = true;
        return;
    }
    bool equal = entry ? !absent && entry->value_size == expected &&
                             memcmp(entry->value, asked->value, expected) == 0
                       : absent;
    yk_status status = YK_OK;
    if (equal)
        status = yki_store_table_set(&server->table, asked->key, asked->value + expected,
                                     asked->value_size - expected);
    answer(server, peer, status, equal);
    resume_all(server);
}

/* Replies with all keys that begin with the given one, each followed by a zero, in their order. */
static void serve_list(yki_store_server *server, yki_store_peer *peer, const request *asked)
{
    size_t size;
    char *keys;
    if (asked->number < 0 || (size_t)asked->number > strlen(asked->key)) {
        peer->doomed = true;
        return;
    }
    yk_status status =
        yki_store_table_list(&server->table, asked->key, (size_t)asked->number, &keys, &size);
    if (status == YK_OK && size > YKI_STORE_MAX_VALUE)
        status = YK_ERROR_OUT_OF_MEMORY;
    yki_store_peer_reply(server, peer, status, 0, keys, status == YK_OK ? size : 0);
    free(keys);
}

/* ---- wills ----------------------------------------------------------------------------------- */

static void serve_will(yki_store_server *server, yki_store_peer *peer, const request *asked)
{
    size_t size = strlen(asked->key) + 1 + asked->value_size;
    char *will = malloc(size);
    if (will) {
        memcpy(will, asked->key, size); /* key, zero and value lie side by side */
        free(peer->will);
        peer->will = will;
        peer->will_size = size;
    }
    answer(server, peer, will ? YK_OK : YK_ERROR_OUT_OF_MEMORY, 0);
}

void yki_store_execute_will(yki_store_server *server, yki_store_peer *peer)
{
    if (!peer->will)
        return;
    size_t key = strlen(peer->will) + 1;
    yki_store_table_set(&server->table, peer->will, peer->will + key, peer->will_size - key);
    free(peer->will);
    peer->will = NULL;
    resume_all(server);
}

/* The client says that it leaves: there is nothing to answer, and its will does not count. */
static void serve_leave(yki_store_peer *peer)
{
    free(peer->will);
    peer->will = NULL;
    peer->doomed = true;
}

/* ---- all ------------------------------------------------------------------------------------- */

void yki_store_request_serve(yki_store_server *server, yki_store_peer *peer)
{
    request asked = {.key = peer->input,
                     .value = peer->input + peer->header.key_size + 1,
                     .value_size = peer->header.value_size,
                     .number = peer->header.number};
    switch ((yki_store_operation)peer->header.code) {
    case YKI_STORE_SET:
        serve_set(server, peer, &asked);
        break;
    case YKI_STORE_ADD:
        serve_add(server, peer, &asked);
        break;
    case YKI_STORE_GET:
    case YKI_STORE_WAIT:
        serve_waiting(server, peer, &asked);
        break;
    case YKI_STORE_CHECK:
        answer(server, peer, YK_OK, yki_store_table_find(&server->table, asked.key) != NULL);
        break;
    case YKI_STORE_COMPARE_SET:
        serve_compare_set(server, peer, &asked);
        break;
    case YKI_STORE_DELETE:
        answer(server, peer, YK_OK, yki_store_table_delete(&server->table, asked.key));
        break;
    case YKI_STORE_LIST:
        serve_list(server, peer, &asked);
        break;
    case YKI_STORE_WILL:
        serve_will(server, peer, &asked);
        break;
    case YKI_STORE_LEAVE:
        serve_leave(peer);
        break;
    default:
        peer->doomed = true;
    }
}

/*
 * The key-value store by which the processes of a job find each other, over TCP. One process serves
 * it (the launcher, or rank 0 when there is none); the ranks are its clients. Who cannot prove to
 * know the job's secret is refused. Keys hold up to 1 KiB, values up to 1 MiB.
 *
 * What a launcher does: serve a store on a free port, a new one for every attempt of a job; give
 * the ranks MASTER_ADDR, MASTER_PORT, YOKE_SECRET (the same secret) and YOKE_USE_LAUNCHER_STORE=1;
 * and when a child dies, set the key "dead/RANK" to how it ended, so that the survivors can say it:
 *     "pid 4242 killed by signal 9 (SIGKILL)"  or  "pid 4242 exited with code 3"
 */
#ifndef YOKE_STORE_H
#define YOKE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <yoke/status.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* ---- server --------------------------------------------------------------------------------- */

typedef struct yk_store_server yk_store_server;

/*
 * Serves a new, empty store on a thread of its own until it is destroyed. host is the address to
 * listen on, and where no interface here carries it (containers, NAT) all of them are listened on;
 * *port 0 picks a free one, and *port holds the one in use afterwards. secret may be NULL or "" for
 * none; it is copied. YK_ERROR_NETWORK when the address is in use.
 */
yk_status yk_store_serve(yk_store_server **server, const char *host, int *port, const char *secret);
/* Stops the thread and closes all connections. Accepts NULL. */
void yk_store_server_destroy(yk_store_server *server);

/* ---- client --------------------------------------------------------------------------------- */

/* A connection; used by one thread at a time. All calls block. */
typedef struct yk_store yk_store;

/*
 * Connects, trying again until timeout_s while nobody listens (YK_ERROR_TIMEOUT then).
 * YK_ERROR_DENIED when the secret is wrong, YK_ERROR_FORMAT when what listens there is no yoke
 * store.
 */
yk_status yk_store_connect(yk_store **store, const char *host, int port, const char *secret,
                           double timeout_s);
void yk_store_destroy(yk_store *store);

yk_status yk_store_set(yk_store *store, const char *key, const void *value, size_t size);
/*
 * Waits up to timeout_s (0: not at all) until the key is there and copies its value, of at most
 * `size` bytes, to value; *used is its length. YK_ERROR_TIMEOUT when it did not come in time.
 */
yk_status yk_store_get(yk_store *store, const char *key, void *value, size_t size, size_t *used,
                       double timeout_s);
/* Adds to a number (0 when the key is new) in one indivisible step; *result is the sum. */
yk_status yk_store_add(yk_store *store, const char *key, int64_t delta, int64_t *result);
/* Whether the key is there. */
yk_status yk_store_check(yk_store *store, const char *key, bool *found);
/* Waits until the key is there; YK_ERROR_TIMEOUT when it did not come in time. */
yk_status yk_store_wait(yk_store *store, const char *key, double timeout_s);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif

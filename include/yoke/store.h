/**
 * @file
 * The key-value store, over TCP, by which the processes of a job find each other. One process
 * serves it (the launcher, or rank 0 where there is none); the ranks are its clients. Both sides
 * must prove that they know the job's secret, without sending it. Keys are at most 1 KiB long,
 * values at most 1 MiB.
 *
 * A launcher serves a store on a free port, a new one for each attempt of a job. It gives the ranks
 * MASTER_ADDR, MASTER_PORT, YOKE_SECRET (the same secret) and YOKE_USE_LAUNCHER_STORE=1. With
 * YOKE_STORE_PORT, the store is at that port, and MASTER_PORT is for programs that serve a store of
 * their own, as PyTorch does.
 *
 * When a child dies, the launcher sets the key "dead/RANK" to how the child ended, so that the
 * survivors can report it:
 *     "pid 4242 killed by signal 9 (SIGKILL)"  or  "pid 4242 exited with code 3"
 * When a group fails, the rank that notices it first sets the key "failure" to "RANK STATUS TEXT":
 * the rank at fault (-1: no single one), a yk_status as a number, and what happened. A launcher
 * finds the cause of a failed job there:
 *     "1 9 rank 1 is dead: pid 4242 killed by signal 9 (SIGKILL)"
 * When the connection of a rank ends because its process has died or its host is gone, the store
 * sets the key "gone/RANK", the rank's last will. A launcher whose store serves several jobs or
 * attempts gives the ranks YOKE_STORE_PREFIX, which then begins all of these keys.
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

/** A store that this process serves. */
typedef struct yk_store_server yk_store_server;

/** As the port to serve on: any free one. */
#define YK_PORT_ANY 0

/**
 * Serves a new, empty store on its own thread until it is destroyed. host is the address to listen
 * on, or "*" for all interfaces. These are also listened on where no interface here has that
 * address (containers, NAT), or the host's name means a loopback address or several addresses.
 * *port may be YK_PORT_ANY and holds the port in use afterwards. secret is copied; NULL or "" means
 * that clients need none. YK_ERROR_NETWORK when the port is in use, naming the process. On failure
 * *server is NULL.
 */
yk_status yk_store_serve(yk_store_server **server, const char *host, int *port, const char *secret);
/** Stops the thread and closes all connections. Accepts NULL. */
void yk_store_server_destroy(yk_store_server *server);

/** Bytes that yk_store_secret needs. */
enum { YK_STORE_SECRET_SIZE = 33 };

/**
 * Draws a secret for yk_store_serve and writes it as hexadecimal text. YK_ERROR_INVALID_ARGUMENT
 * when size is less than YK_STORE_SECRET_SIZE.
 */
yk_status yk_store_secret(char *secret, size_t size);

/* ---- client --------------------------------------------------------------------------------- */

/**
 * A connection to a store, used by one thread at a time. All calls block until the server replies.
 * YK_ERROR_NETWORK when the connection is lost, after which all further calls fail;
 * YK_ERROR_INVALID_ARGUMENT for a key or value that is too long; YK_ERROR_OUT_OF_MEMORY when the
 * server is full.
 */
typedef struct yk_store yk_store;

/**
 * Connects, and keeps trying for timeout_s seconds while the host's name is not known or nobody
 * listens there (YK_ERROR_TIMEOUT then).
 * YK_ERROR_DENIED when the secret is wrong, YK_ERROR_FORMAT when what listens there is not a yoke
 * store. On failure *store is NULL.
 */
yk_status yk_store_connect(yk_store **store, const char *host, int port, const char *secret,
                           double timeout_s);
/**
 * Ends the call that another thread waits in, if there is one, with YK_ERROR_NETWORK; the
 * connection is then lost. Not while the connection is being destroyed. Accepts NULL.
 */
void yk_store_interrupt(yk_store *store);
/** Closes the connection; its will then does not count. Accepts NULL. */
void yk_store_destroy(yk_store *store);

/**
 * The numeric address of this end of the connection: the one by which the store's host, and so
 * usually the other hosts of the job, reach this one. It is valid as long as the store.
 */
const char *yk_store_local_address(const yk_store *store);

/**
 * Sets how many seconds late a reply may be, 30 by default, until the connection counts as lost:
 * the process that serves the store may be stopped. INFINITY waits for as long as its host is
 * there. Fails for a negative number.
 */
yk_status yk_store_set_patience(yk_store *store, double seconds);

/**
 * Puts a prefix before every key that this connection names from now on, so that several jobs, or
 * the attempts of one, can share a store. yk_store_list returns keys without it. At most 512 bytes;
 * "" for none. The keys below are those after the prefix.
 */
yk_status yk_store_set_prefix(yk_store *store, const char *prefix);

/** Sets a key to `size` bytes. */
yk_status yk_store_set(yk_store *store, const char *key, const void *value, size_t size);
/**
 * Waits up to timeout_s seconds until the key exists (with 0 it does not wait) and copies its value
 * of at most `size` bytes to value; *used is its length. YK_ERROR_TIMEOUT when the key did not
 * appear in time, YK_ERROR_INVALID_ARGUMENT when its value is longer than `size`.
 */
yk_status yk_store_get(yk_store *store, const char *key, void *value, size_t size, size_t *used,
                       double timeout_s);
/** Adds to a number, which is 0 while the key is new, in one atomic step; *result is the sum. */
yk_status yk_store_add(yk_store *store, const char *key, int64_t delta, int64_t *result);
/** Whether the key exists. */
yk_status yk_store_check(yk_store *store, const char *key, bool *found);
/** Waits until the key exists; YK_ERROR_TIMEOUT when it did not appear in time. */
yk_status yk_store_wait(yk_store *store, const char *key, double timeout_s);
/**
 * In one atomic step: if the key has the expected value, sets it to the desired one. expected is
 * NULL if the key is expected not to exist. *changed tells whether the key was set.
 */
yk_status yk_store_compare_set(yk_store *store, const char *key, const void *expected,
                               size_t expected_size, const void *desired, size_t desired_size,
                               bool *changed);
/** Deletes a key. *found (may be NULL) tells whether it existed. */
yk_status yk_store_delete(yk_store *store, const char *key, bool *found);
/**
 * Writes all keys that begin with prefix to `keys`, sorted, each followed by a zero byte; *used is
 * their length with the zeros. YK_ERROR_INVALID_ARGUMENT when they take more than `size` bytes.
 */
yk_status yk_store_list(yk_store *store, const char *prefix, char *keys, size_t size, size_t *used);
/**
 * This client's last will: the server sets the key by itself when the connection ends without
 * yk_store_destroy, because the process has died or its host is gone. A second will replaces the
 * first. The value has at most 4 KiB.
 *
 * A host that no longer answers, or that the network has cut off, counts as gone after
 * YOKE_HEARTBEAT_TIMEOUT seconds (5 by default), on both sides of the connection. A process that is
 * stopped does not: its host still answers.
 */
yk_status yk_store_set_will(yk_store *store, const char *key, const void *value, size_t size);

/* ---- names of hosts -------------------------------------------------------------------------- */

/** What the name or address of a host means on this one. */
typedef struct yk_host_name {
    bool known;    /**< It has an address. Unknown names of pods may become known later. */
    bool own;      /**< One of its addresses belongs to this host. */
    bool loopback; /**< All of its addresses are of the loopback interface, so that it means this
                        host here, and another host elsewhere. */
} yk_host_name;

/**
 * Looks up the name or address of a host. A name service that cannot be reached may be silent for
 * minutes: after timeout_s seconds the name counts as unknown. The next call takes the answer that
 * has come meanwhile.
 */
yk_status yk_host_look_up(yk_host_name *name, const char *host, double timeout_s);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif

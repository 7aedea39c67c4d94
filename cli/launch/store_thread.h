/*
 * A thread that connects to a store, and reads and writes there in order. The launcher's loop must
 * never wait for a store: the process that serves it may be stopped, or its host gone.
 */
#ifndef YOKE_CLI_LAUNCH_STORE_THREAD_H
#define YOKE_CLI_LAUNCH_STORE_THREAD_H

#include <stdbool.h>

#include <yoke/store.h>

typedef struct cli_store_thread cli_store_thread;

/* Where the store is. */
typedef struct cli_store_thread_options {
    const char *host;
    int port;
    const char *secret;
    double connect_s; /* how long the first connection may take */
    /* Called on the thread when the store cannot be reached any more; what is asked later is
     * dropped. May be NULL. */
    void (*lost)(void *context, const char *why);
    void *context;
} cli_store_thread_options;

/* Sets `key` to `text`, or posts it there. */
typedef yk_status (*cli_store_write)(yk_store *store, const char *key, const char *text);

/* NULL if the thread cannot be started. */
cli_store_thread *cli_store_thread_start(const cli_store_thread_options *options);
/* A descriptor that becomes readable when the first connection has been made, or not. */
int cli_store_thread_fd(const cli_store_thread *thread);
/* Takes note of that. */
void cli_store_thread_heed(cli_store_thread *thread);
/* Whether the thread is still making its first connection; and if it is not, whether there is one,
 * or why there is none. */
bool cli_store_thread_is_opening(cli_store_thread *thread);
bool cli_store_thread_is_open(cli_store_thread *thread, char *why, size_t size);
/* Writes some time later. Accepts NULL, which does nothing. */
void cli_store_thread_post(cli_store_thread *thread, cli_store_write write, const char *key,
                           const char *text);
/*
 * Reads a key after what has been sent, as a text in value[size]; false if it does not exist, or if
 * the store has not answered within wait_s seconds. Accepts NULL.
 */
bool cli_store_thread_ask(cli_store_thread *thread, const char *key, char *value, size_t size,
                          double wait_s);
/* Ends the thread after what it has been asked, or soon if the store does not answer: one that is
 * connecting ends by itself some time later. Accepts NULL. */
void cli_store_thread_stop(cli_store_thread *thread);

#endif

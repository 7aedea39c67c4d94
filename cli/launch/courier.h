/*
 * A thread with a connection to a store, on which it does errands in their order. The launcher's
 * loop must never wait for a store: the process that serves it may be stopped, or its host gone.
 */
#ifndef YOKE_CLI_LAUNCH_COURIER_H
#define YOKE_CLI_LAUNCH_COURIER_H

#include <yoke/store.h>

typedef struct cli_courier cli_courier;

/* Where the store is. The texts stay valid until the courier is dismissed. */
typedef struct cli_courier_options {
    const char *host;
    int port;
    const char *secret;
    /* Called on the thread when the store cannot be reached any more; later errands are dropped.
     * May be NULL. */
    void (*lost)(void *context, const char *why);
    void *context;
} cli_courier_options;

/* Sets `key` to `text`, or posts it there. */
typedef yk_status (*cli_errand)(yk_store *store, const char *key, const char *text);

/* Takes the connection over, on failure, too. NULL if the thread cannot be started. */
cli_courier *cli_courier_hire(yk_store *store, const cli_courier_options *options);
/* Does the errand some time later. Accepts NULL, which does nothing. */
void cli_courier_send(cli_courier *courier, cli_errand errand, const char *key, const char *text);
/*
 * Reads a key after what has been sent, as a text in value[size]; false if it does not exist, or if
 * the store has not answered within wait_s seconds. Accepts NULL.
 */
bool cli_courier_ask(cli_courier *courier, const char *key, char *value, size_t size,
                     double wait_s);
/* Ends the thread after its errands, or soon if the store does not answer. Accepts NULL. */
void cli_courier_dismiss(cli_courier *courier);

#endif

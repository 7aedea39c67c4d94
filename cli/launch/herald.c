/* See herald.h. */
#define _GNU_SOURCE
#include "launch/herald.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <yoke/store.h>

#include "common/clock.h"

static const double answer_s = 0.5; /* how long a host may take to answer */
static const double pause_s = 1;    /* between two rounds */

struct cli_herald {
    const cli_launch *launch;
    cli_hosts_known known;
    char text[CLI_ADDRESS_SIZE + 16];
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool stopping;
};

/* ---- known hosts ---------------------------------------------------------------------------- */

void cli_hosts_known_add(cli_hosts_known *known, const char *host)
{
    for (int i = 0; i < known->count; i++)
        if (strcmp(known->list[i], host) == 0)
            return;
    void *grown = realloc(known->list, (size_t)(known->count + 1) * sizeof *known->list);
    if (!grown)
        return;
    known->list = grown;
    snprintf(known->list[known->count++], sizeof *known->list, "%s", host);
}

void cli_hosts_known_free(cli_hosts_known *known)
{
    free(known->list);
    *known = (cli_hosts_known){0};
}

/* ---- the thread ------------------------------------------------------------------------------ */

static void tell(const cli_herald *herald, const char *host)
{
    yk_store *store;
    const cli_launch *launch = herald->launch;
    if (yk_store_connect(&store, host, launch->master_port, launch->secret, answer_s) != YK_OK)
        return;
    yk_store_set(store, CLI_MOVED_KEY, herald->text, strlen(herald->text));
    yk_store_destroy(store);
}

/* False once the herald is to stop. */
static bool sleep_for(cli_herald *herald, double seconds)
{
    const struct timespec until = cli_clock_after(seconds);
    pthread_mutex_lock(&herald->lock);
    while (!herald->stopping && pthread_cond_clockwait(&herald->changed, &herald->lock,
                                                       CLOCK_MONOTONIC, &until) != ETIMEDOUT)
        ;
    bool stopping = herald->stopping;
    pthread_mutex_unlock(&herald->lock);
    return !stopping;
}

static void *run(void *context)
{
    cli_herald *herald = context;
    while (sleep_for(herald, pause_s))
        for (int i = 0; i < herald->known.count && sleep_for(herald, 0); i++)
            tell(herald, herald->known.list[i]);
    return NULL;
}

/* ---- life ------------------------------------------------------------------------------------ */

static void free_herald(cli_herald *herald)
{
    pthread_cond_destroy(&herald->changed);
    pthread_mutex_destroy(&herald->lock);
    cli_hosts_known_free(&herald->known);
    free(herald);
}

cli_herald *cli_herald_start(const cli_launch *launch, const cli_hosts_known *known,
                             const char *address, int port)
{
    cli_herald *herald = calloc(1, sizeof *herald);
    if (!herald)
        return NULL;
    herald->launch = launch;
    for (int i = 0; i < known->count; i++)
        cli_hosts_known_add(&herald->known, known->list[i]);
    snprintf(herald->text, sizeof herald->text, "%d %s", port, address);
    pthread_mutex_init(&herald->lock, NULL);
    pthread_cond_init(&herald->changed, NULL);
    if (pthread_create(&herald->thread, NULL, run, herald) == 0)
        return herald;
    free_herald(herald);
    return NULL;
}

void cli_herald_stop(cli_herald *herald)
{
    if (!herald)
        return;
    pthread_mutex_lock(&herald->lock);
    herald->stopping = true;
    pthread_cond_broadcast(&herald->changed);
    pthread_mutex_unlock(&herald->lock);
    pthread_join(herald->thread, NULL);
    free_herald(herald);
}

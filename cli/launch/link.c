/* See link.h. There are two connections: the thread waits on one, and a store thread takes reports
 * through the other. */
#define _GNU_SOURCE
#include "launch/link.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/errors.h"
#include "launch/herald.h"
#include "launch/net.h"
#include "launch/store_thread.h"

static const double attempt_s = 0.5; /* of connecting; until then a close may have to wait */
static const double order_wait_s = 0.5, notice_s = 5;
static const double look_s = 0.2;  /* between two looks for a coordinator */
static const double connect_s = 2; /* for reports: the store is there, or lost */
static const double answer_s = 1;  /* how long the thread may take to see that the link closes */
static const double taken_s = 4;   /* how long another launcher of this host may take to answer */

typedef struct order {
    struct order *next;
    char *text;
} order;

struct cli_link {
    cli_link_options options;
    pthread_t thread;
    pthread_mutex_t lock; /* of the queue, and of `ended` */
    pthread_cond_t changed;
    bool ended; /* the thread */
    int ready;  /* an eventfd */
    order *first, **last;
    yk_store *orders; /* valid once is_connected is set */
    cli_store_thread *reports;
    yk_store *standby; /* of this host, in which a herald may say where the rendezvous is */
    cli_bus_reader reader;
    atomic_int id; /* once it is not negative, there are reports */
    atomic_bool closing, is_connected;
    char text[CLI_MESSAGE_SIZE];
};

/* ---- the queue ------------------------------------------------------------------------------ */

static void enqueue(cli_link *link, const char *text)
{
    order *added = calloc(1, sizeof *added);
    if (added && !(added->text = strdup(text))) {
        free(added);
        added = NULL;
    }
    if (!added)
        return;
    pthread_mutex_lock(&link->lock);
    *link->last = added;
    link->last = &added->next;
    pthread_mutex_unlock(&link->lock);
    eventfd_write(link->ready, 1);
}

char *cli_link_next(cli_link *link)
{
    eventfd_t count;
    pthread_mutex_lock(&link->lock);
    order *taken = link->first;
    if (taken) {
        link->first = taken->next;
        if (!link->first)
            link->last = &link->first;
    } else {
        eventfd_read(link->ready, &count);
    }
    pthread_mutex_unlock(&link->lock);
    char *text = taken ? taken->text : NULL;
    free(taken);
    return text;
}

int cli_link_fd(const cli_link *link)
{
    return link->ready;
}

int cli_link_id(cli_link *link)
{
    return link ? atomic_load(&link->id) : -1;
}

/* ---- joining -------------------------------------------------------------------------------- */

static void enqueue_lost(cli_link *link, const char *why)
{
    char text[768];
    snprintf(text, sizeof text, "lost %.700s", why);
    enqueue(link, text);
}

/* What to do if the rendezvous has moved and no herald knows this host. */
static const char *advise(const cli_link *link)
{
    return link->options.finds ? " (if this host is new to a job whose rendezvous another host has "
                                 "taken over, give "
                                 "the address that its launchers have printed as --rdzv-endpoint)"
                               : "";
}

/* why may be empty. */
static void notice_waiting(cli_link *link, double *notice_at, const char *why)
{
    char text[900], at[CLI_NET_ENDPOINT];
    const cli_link_options *o = &link->options;
    double now = cli_clock_s();
    if (now < *notice_at)
        return;
    *notice_at = now + notice_s;
    snprintf(text, sizeof text, "say waiting for the rendezvous at %s%s%.255s%s",
             cli_net_endpoint(at, o->host, o->port), *why ? ": " : "", why, advise(link));
    enqueue(link, text);
}

/* Whether a store says that the rendezvous has moved; then that is the link's last order. It is
 * deleted because it may be out of date; a herald that is there says it again. */
static bool read_moved(cli_link *link, yk_store *store)
{
    char place[CLI_ADDRESS_SIZE + 16], text[sizeof place + 8];
    size_t used;
    if (!store || yk_store_get(store, CLI_MOVED_KEY, place, sizeof place - 1, &used, 0) != YK_OK)
        return false;
    yk_store_delete(store, CLI_MOVED_KEY, NULL);
    snprintf(text, sizeof text, "moved %.*s", (int)used, place);
    enqueue(link, text);
    return true;
}

static bool was_called(cli_link *link)
{
    const cli_link_options *o = &link->options;
    if (o->finds && o->standby_port && !link->standby)
        yk_store_connect(&link->standby, "127.0.0.1", o->standby_port, o->secret, attempt_s);
    return read_moved(link, link->standby);
}

/* The host of the rendezvous learns its own name late, too. */
static bool is_elected(cli_link *link)
{
    bool elected = link->options.may_serve && cli_net_is_this_host(link->options.host);
    if (elected)
        enqueue(link, "serve");
    return elected;
}

/* A store without a coordinator is kept ready by a host that may have been told of another one, or
 * that is to serve the rendezvous and does not know it yet. */
static yk_status await_coordinator(cli_link *link, double until, double *notice_at, bool *moved)
{
    yk_status status = YK_OK;
    *moved = false;
    while (link->options.finds && !atomic_load(&link->closing) && !*moved) {
        status = yk_store_wait(link->orders, CLI_COORDINATOR_KEY, look_s);
        if (status != YK_ERROR_TIMEOUT || cli_clock_s() > until)
            return status;
        *moved = read_moved(link, link->orders) || was_called(link) || is_elected(link);
        notice_waiting(link, notice_at, "");
    }
    return status;
}

/* Why the last attempt has failed, without how long it has tried: there have been others. */
static void copy_reason(char *why, size_t size)
{
    static const char attempt[] = "no store within ";
    const char *reason = cli_reason(), *end = strchr(reason, ':');
    bool cut = end && strncmp(reason, attempt, sizeof attempt - 1) == 0;
    snprintf(why, size, "%s", cut ? end + 2 : reason);
}

static void lose_reports(void *link, const char *why)
{
    enqueue_lost(link, why);
}

static yk_status open_reports(cli_link *link)
{
    const cli_link_options *o = &link->options;
    const cli_store_thread_options options = {.host = o->host,
                                              .port = o->port,
                                              .secret = o->secret,
                                              .connect_s = connect_s,
                                              .lost = lose_reports,
                                              .context = link};
    link->reports = cli_store_thread_start(&options);
    return link->reports ? YK_OK : yk_set_error(YK_ERROR_OUT_OF_MEMORY, "cannot start a thread");
}

static void set_late(const cli_link_options *o, const char *why)
{
    if (o->taken)
        yk_set_error(YK_ERROR_TIMEOUT, "no store within %g s: %s", taken_s, why);
    else
        yk_set_error(YK_ERROR_TIMEOUT,
                     "nobody has served it within %g s (--rdzv-conf join_timeout): %s", o->join_s,
                     why);
}

static void enqueue_taken(cli_link *link)
{
    char text[700];
    snprintf(text, sizeof text,
             "say cannot serve the rendezvous: %.500s, or another port in --rdzv-endpoint",
             link->options.taken);
    enqueue(link, text);
}

/* False if there is nothing to join; then the last order says why, unless the link is closed. */
static bool connect_to_store(cli_link *link)
{
    const cli_link_options *o = &link->options;
    double start = cli_clock_s(), notice_at = start + notice_s;
    double patience_s = o->taken ? taken_s : o->join_s;
    bool moved = false;
    yk_status status;
    while ((status = yk_store_connect(&link->orders, o->host, o->port, o->secret, attempt_s)) ==
           YK_ERROR_TIMEOUT) {
        char why[400];
        bool late = cli_clock_s() - start > patience_s;
        copy_reason(why, sizeof why); /* a look for calls sets another */
        if (atomic_load(&link->closing) || was_called(link) || is_elected(link))
            return false;
        if (late) {
            set_late(o, why);
            break;
        }
        notice_waiting(link, &notice_at, why);
    }
    if (status == YK_OK) {
        atomic_store(&link->is_connected, true);
        status = await_coordinator(link, start + o->join_s, &notice_at, &moved);
    }
    if (moved || atomic_load(&link->closing))
        return false;
    if (status == YK_OK)
        status = open_reports(link);
    if (status != YK_OK) {
        char why[640];
        if (o->taken && !atomic_load(&link->is_connected))
            enqueue_taken(link);
        snprintf(why, sizeof why, "%.500s%s", cli_reason(),
                 status == YK_ERROR_TIMEOUT ? advise(link) : "");
        enqueue_lost(link, why);
    }
    return status == YK_OK;
}

/* FNV-1a of the program's words, and the words as one line. */
static uint64_t describe_program(char *const *program, char *line, size_t size)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    size_t at = 0;
    for (; *program; program++) {
        for (const char *word = *program;; word++) {
            hash = (hash ^ (unsigned char)*word) * UINT64_C(1099511628211);
            if (at + 1 < size)
                line[at++] = (unsigned char)*word < ' ' ? ' ' : *word;
            if (!*word)
                break;
        }
    }
    while (at && line[at - 1] == ' ')
        at--;
    line[at] = '\0';
    return hash;
}

/* See coordinator.c for what it reads. */
static yk_status join(cli_link *link)
{
    const cli_launch *launch = link->options.launch;
    char host[256], program[200], key[64], text[2048];
    int64_t id;
    yk_status status = yk_store_add(link->orders, "agents", 1, &id);
    if (status != YK_OK)
        return status;
    cli_net_own_name(host, sizeof host);
    snprintf(key, sizeof key, "gone/%d", (int)id);
    if ((status = yk_store_set_will(link->orders, key, "1", 1)) != YK_OK ||
        (status = cli_bus_open(&link->reader, link->orders, CLI_BUS_ORDERS)) != YK_OK)
        return status;
    uint64_t hash = describe_program(launch->program, program, sizeof program);
    snprintf(text, sizeof text, "join %d %d %d %d %d %d %d %llx\n%s\n%s\n%s\n%s\n%s\n", (int)id,
             link->options.node_rank, launch->ranks, (int)getpid(), launch->nodes_min,
             launch->nodes_max, link->options.standby_port, (unsigned long long)hash, host,
             yk_store_local_address(link->orders), launch->run_id, program, yk_build());
    atomic_store(&link->id, (int)id);
    return cli_bus_post(link->orders, CLI_BUS_REPORTS, text);
}

static void follow_orders(cli_link *link)
{
    if (!connect_to_store(link))
        return;
    yk_status status = join(link);
    yk_store_set_patience(link->orders, INFINITY); /* the coordinator may be stopped */
    bool ended = false;                            /* "end" is the last order, or "moved" */
    while ((status == YK_OK || status == YK_ERROR_TIMEOUT) && !ended &&
           !atomic_load(&link->closing)) {
        status = cli_bus_next(&link->reader, link->orders, link->text, order_wait_s);
        if (status == YK_OK)
            enqueue(link, link->text);
        ended = status == YK_OK &&
                (strncmp(link->text, "end ", 4) == 0 || strncmp(link->text, "moved ", 6) == 0);
    }
    if (status != YK_OK && status != YK_ERROR_TIMEOUT)
        enqueue_lost(link, yk_last_error());
}

static void *run(void *context)
{
    cli_link *link = context;
    follow_orders(link);
    pthread_mutex_lock(&link->lock);
    link->ended = true;
    pthread_cond_broadcast(&link->changed);
    pthread_mutex_unlock(&link->lock);
    return NULL;
}

/* ---- the agent's side ----------------------------------------------------------------------- */

cli_link *cli_link_open(const cli_link_options *options)
{
    cli_link *link = calloc(1, sizeof *link);
    if (!link)
        return NULL;
    link->options = *options;
    link->last = &link->first;
    atomic_init(&link->id, -1);
    atomic_init(&link->closing, false);
    atomic_init(&link->is_connected, false);
    pthread_mutex_init(&link->lock, NULL);
    pthread_cond_init(&link->changed, NULL);
    link->ready = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (link->ready < 0 || pthread_create(&link->thread, NULL, run, link)) {
        if (link->ready >= 0)
            close(link->ready);
        free(link);
        return NULL;
    }
    return link;
}

void cli_link_report(cli_link *link, const char *text)
{
    if (cli_link_id(link) >= 0)
        cli_store_thread_post(link->reports, cli_bus_post, CLI_BUS_REPORTS, text);
}

/* The store may not answer the thread's last request. */
static void end_thread(cli_link *link)
{
    const struct timespec patience = cli_clock_after(answer_s);
    atomic_store(&link->closing, true);
    pthread_mutex_lock(&link->lock);
    while (!link->ended && pthread_cond_clockwait(&link->changed, &link->lock, CLOCK_MONOTONIC,
                                                  &patience) != ETIMEDOUT)
        ;
    bool ended = link->ended;
    pthread_mutex_unlock(&link->lock);
    if (!ended && atomic_load(&link->is_connected))
        yk_store_interrupt(link->orders);
    pthread_join(link->thread, NULL);
}

void cli_link_close(cli_link *link)
{
    if (!link)
        return;
    end_thread(link);
    cli_store_thread_stop(link->reports);
    yk_store_destroy(link->orders);
    yk_store_destroy(link->standby);
    for (char *text; (text = cli_link_next(link));)
        free(text);
    close(link->ready);
    pthread_cond_destroy(&link->changed);
    pthread_mutex_destroy(&link->lock);
    free(link);
}

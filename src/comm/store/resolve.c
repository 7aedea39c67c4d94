/*
 * getaddrinfo() has no timeout and cannot be interrupted, so a thread of its own looks up each
 * name. A caller waits for the thread as long as it wants to, and may ask again later. There is one
 * lookup per name at a time: threads do not pile up, and a slow answer is not lost between two
 * impatient calls.
 */
#define _GNU_SOURCE
#include "comm/store/resolve.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/thread.h"

/* An answer that nobody has waited for is taken by a call within this time. */
static const double fresh_s = 5;

/* All under the lock, but for the host, which does not change. */
typedef struct lookup {
    struct lookup *next;
    int waiting; /* calls */
    bool ended;
    double ended_s; /* when */
    int error;      /* of getaddrinfo() */
    yki_addresses found;
    char host[];
} lookup;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ended = PTHREAD_COND_INITIALIZER;
static lookup *lookups;
static pid_t process; /* whose threads they have: a fork has none of them */

const char *yki_bare_host(const char *host, char bare[YKI_HOST_TEXT])
{
    size_t length = strlen(host);
    if (length < 3 || length >= YKI_HOST_TEXT || host[0] != '[' || host[length - 1] != ']')
        return host;
    snprintf(bare, YKI_HOST_TEXT, "%.*s", (int)length - 2, host + 1);
    return bare;
}

socklen_t yki_address_size(const struct sockaddr_storage *address)
{
    return address->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                          : sizeof(struct sockaddr_in);
}

bool yki_address_is_loopback(const struct sockaddr_storage *address)
{
    if (address->ss_family == AF_INET6)
        return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)address)->sin6_addr);
    return address->ss_family == AF_INET &&
           ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr) >> 24 == 127;
}

/* Returns getaddrinfo()'s error. */
static int ask(yki_addresses *found, const char *host, int flags)
{
    struct addrinfo *all = NULL;
    struct addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = flags | AI_NUMERICSERV};
    int error = getaddrinfo(host, "0", &hints, &all);
    found->count = 0;
    for (const struct addrinfo *at = all; at && found->count < YKI_ADDRESSES_MAX; at = at->ai_next)
        if (at->ai_addrlen <= sizeof *found->list)
            memcpy(&found->list[found->count++], at->ai_addr, at->ai_addrlen);
    if (all)
        freeaddrinfo(all);
    return error ? error : found->count ? 0 : EAI_NODATA;
}

static void *run(void *context)
{
    lookup *own = context;
    yki_addresses found;
    int error = ask(&found, own->host, 0);
    pthread_mutex_lock(&lock);
    own->found = found;
    own->error = error;
    own->ended_s = yki_now();
    own->ended = true;
    pthread_cond_broadcast(&ended);
    pthread_mutex_unlock(&lock);
    return NULL;
}

/* ---- with the lock --------------------------------------------------------------------------- */

/* NULL if there is no memory, or no thread. */
static lookup *begin(const char *host)
{
    size_t size = strlen(host) + 1;
    lookup *begun = yki_calloc(1, sizeof *begun + size);
    pthread_t thread;
    if (!begun)
        return NULL;
    memcpy(begun->host, host, size);
    if (yki_thread_create(&thread, "yk-resolve", NULL, run, begun)) {
        free(begun);
        return NULL;
    }
    pthread_detach(thread);
    begun->next = lookups;
    return lookups = begun;
}

static void take_out(lookup *one)
{
    lookup **at = &lookups;
    while (*at != one)
        at = &(*at)->next;
    *at = one->next;
    free(one);
}

static lookup *find(const char *host)
{
    if (process != getpid())
        lookups = NULL;
    process = getpid();
    lookup *one = lookups;
    while (one && strcmp(one->host, host) != 0)
        one = one->next;
    if (one && one->ended && one->waiting == 0 && yki_now() - one->ended_s > fresh_s) {
        take_out(one);
        one = NULL;
    }
    return one ? one : begin(host);
}

static struct timespec after(double seconds)
{
    double moment = yki_now() + seconds;
    struct timespec at = {.tv_sec = (time_t)moment};
    at.tv_nsec = (long)(1e9 * (moment - (double)at.tv_sec));
    return at;
}

static int await(yki_addresses *found, const char *host, double patience_s)
{
    lookup *one = find(host);
    if (!one)
        return EAI_MEMORY;
    const struct timespec until = after(patience_s);
    one->waiting++;
    while (!one->ended &&
           pthread_cond_clockwait(&ended, &lock, CLOCK_MONOTONIC, &until) != ETIMEDOUT)
        ;
    one->waiting--;
    if (!one->ended)
        return EAI_INPROGRESS;
    int error = one->error;
    *found = one->found;
    if (one->waiting == 0)
        take_out(one);
    return error;
}

/* ---- one call -------------------------------------------------------------------------------- */

static void set_port(yki_addresses *found, int port)
{
    for (int i = 0; i < found->count; i++) {
        struct sockaddr_storage *at = &found->list[i];
        if (at->ss_family == AF_INET6)
            ((struct sockaddr_in6 *)at)->sin6_port = htons((uint16_t)port);
        else if (at->ss_family == AF_INET)
            ((struct sockaddr_in *)at)->sin_port = htons((uint16_t)port);
    }
}

yk_status yki_resolve(yki_addresses *found, const char *host, int port, double patience_s,
                      bool *again)
{
    char bare[YKI_HOST_TEXT];
    host = yki_bare_host(host, bare);
    if (port < 0 || port > 65535)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "port %d: expected 0 to 65535", port);
    int error = ask(found, host, AI_NUMERICHOST);
    if (error) {
        pthread_mutex_lock(&lock);
        error = await(found, host, patience_s);
        pthread_mutex_unlock(&lock);
    }
    if (again)
        *again = error == EAI_NONAME || error == EAI_AGAIN || error == EAI_NODATA ||
                 error == EAI_INPROGRESS;
    if (error)
        return yki_error(YK_ERROR_NOT_FOUND, "cannot resolve the host name \"%s\": %s", host,
                         error == EAI_INPROGRESS ? "the name service does not answer"
                                                 : gai_strerror(error));
    set_port(found, port);
    return YK_OK;
}

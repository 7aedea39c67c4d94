/*
 * A host name of this machine may resolve to an address that other hosts cannot use: one that none
 * of its interfaces has (containers, NAT), or a loopback address (Debian's /etc/hosts). It may
 * resolve to several addresses, of which each host reaches another one. Or it is not known yet, as
 * that of a pod that has just started. The server then listens on all interfaces, which is one
 * reason why a job has a secret.
 */
#define _GNU_SOURCE
#include "comm/store/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "base/environment.h"
#include "comm/store/port_owner.h"

/* The system sends keepalive packets once a second at most. With 3 s, two of them must get lost. */
#define DEFAULT_HEARTBEAT_S 5.0
#define MIN_HEARTBEAT_S     3.0

enum { BACKLOG = 1024, CONNECT_S = 2 };

static int bound_port(int fd)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } address = {.v6 = {.sin6_family = AF_UNSPEC}};
    socklen_t size = sizeof address;
    if (getsockname(fd, &address.any, &size))
        return 0;
    return ntohs(address.any.sa_family == AF_INET6 ? address.v6.sin6_port : address.v4.sin_port);
}

/* A listening socket, or -errno. */
static int listen_at(const struct sockaddr_storage *address)
{
    int fd = socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), one = 1;
    if (fd < 0)
        return -errno;
    if (address->ss_family == AF_INET6) /* the system's default may leave IPv4 out */
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &(int){0}, sizeof(int));
    /* Does not wait for connections in TIME_WAIT; a port that is in use is still refused. */
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, (const struct sockaddr *)address, yki_address_size(address)) ||
        listen(fd, BACKLOG)) {
        int error = -errno;
        close(fd);
        return error;
    }
    return fd;
}

/*
 * A port may be busy for a moment although no process listens on it: another process may be testing
 * whether it is free, or may start to listen at the same time, and the kernel then refuses both.
 * The pauses are random, so that two processes do not collide again.
 */
static int listen_patiently(const struct sockaddr_storage *address, int port)
{
    enum { ATTEMPTS = 30, LONGEST_NS = 10000000 };
    int got = listen_at(address);
    for (int i = 1; i < ATTEMPTS && got == -EADDRINUSE && !yki_port_is_served(port); i++) {
        uint32_t drawn;
        if (getrandom(&drawn, sizeof drawn, 0) != (ssize_t)sizeof drawn)
            drawn = (uint32_t)getpid() * (uint32_t)i;
        nanosleep(&(struct timespec){.tv_nsec = drawn % LONGEST_NS}, NULL);
        got = listen_at(address);
    }
    return got;
}

/* Listens on all interfaces, of both families if the system has IPv6. */
static int listen_everywhere(int port)
{
    union {
        struct sockaddr_storage any;
        struct sockaddr_in6 v6;
        struct sockaddr_in v4;
    } address = {.v6 = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)}};
    int got = listen_patiently(&address.any, port);
    if (got != -EAFNOSUPPORT && got != -EADDRNOTAVAIL)
        return got;
    address.v4 = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    return listen_patiently(&address.any, port);
}

/* Whether text is an address or localhost, which mean the same on every host that uses them. */
static bool is_literal(const char *host)
{
    unsigned char address[sizeof(struct in6_addr)];
    return strcmp(host, "localhost") == 0 || host[0] == '[' || strchr(host, '%') ||
           inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1;
}

const char *yki_endpoint_text(char text[YKI_ENDPOINT_TEXT], const char *host, int port)
{
    bool bare = host[0] != '[' && strchr(host, ':');
    snprintf(text, YKI_ENDPOINT_TEXT, bare ? "[%s]:%d" : "%s:%d", host, port);
    return text;
}

yk_status yki_listen(int *fd, const char *host, int *port)
{
    char at[YKI_ENDPOINT_TEXT];
    int got = -EADDRNOTAVAIL;
    bool later = strcmp(host, "*") == 0;
    if (!later) {
        yki_addresses found;
        yk_status status = yki_resolve(&found, host, *port, YKI_RESOLVE_S, &later);
        if (status != YK_OK && !later)
            return status;
        const struct sockaddr_storage *first = &found.list[0];
        if (status == YK_OK &&
            (is_literal(host) || (found.count == 1 && !yki_address_is_loopback(first))))
            got = listen_patiently(first, *port);
    }
    if (got == -EADDRNOTAVAIL)
        got = listen_everywhere(*port);
    if (got == -EADDRINUSE) {
        char owner[YKI_PORT_OWNER];
        yki_port_owner(owner, *port);
        return yki_error(YK_ERROR_NETWORK, "port %d of %s is in use by %s: set another MASTER_PORT",
                         *port, host, owner);
    }
    if (got < 0)
        return yki_error(YK_ERROR_NETWORK, "cannot listen on %s: %s",
                         yki_endpoint_text(at, host, *port), strerror(-got));
    *fd = got;
    *port = bound_port(got);
    return YK_OK;
}

/* A connected socket, or -errno; -ETIMEDOUT after CONNECT_S. */
static int connect_to(const struct sockaddr_storage *address)
{
    int fd = socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
    if (fd < 0)
        return -errno;
    /* SO_SNDTIMEO also limits connect(). */
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &(struct timeval){.tv_sec = CONNECT_S},
               sizeof(struct timeval));
    if (connect(fd, (const struct sockaddr *)address, yki_address_size(address))) {
        int error = errno == EINPROGRESS ? ETIMEDOUT : errno;
        close(fd);
        return -error;
    }
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &(struct timeval){0}, sizeof(struct timeval));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

/* Whether what kept a connection from being made may be over soon. */
static bool may_pass(int got)
{
    return got == -ECONNREFUSED || got == -ETIMEDOUT || got == -ECONNRESET || got == -EINTR ||
           got == -EHOSTUNREACH || got == -ENETUNREACH;
}

/* Of several addresses, some may never work: ::1 of localhost, on a host without IPv6. */
yk_status yki_connect(int *fd, const char *host, int port, bool *again)
{
    *again = false;
    yki_addresses found;
    YK_TRY(yki_resolve(&found, host, port, YKI_RESOLVE_S, again));
    int got = -EADDRNOTAVAIL;
    for (int i = 0; i < found.count && got < 0; i++) {
        int result = connect_to(&found.list[i]);
        if (result >= 0 || !may_pass(got))
            got = result;
    }
    if (got < 0) {
        char text[YKI_ENDPOINT_TEXT];
        *again = may_pass(got);
        return yki_error(YK_ERROR_NETWORK, "cannot connect to %s: %s",
                         yki_endpoint_text(text, host, port), strerror(-got));
    }
    *fd = got;
    return YK_OK;
}

/* ---- connections ----------------------------------------------------------------------------- */

yk_status yki_heartbeat_timeout(double *seconds)
{
    bool found;
    *seconds = DEFAULT_HEARTBEAT_S;
    return yki_env_double("YOKE_HEARTBEAT_TIMEOUT", MIN_HEARTBEAT_S, 3600, seconds, &found);
}

/*
 * TCP doubles the pause after each packet that was lost. A network that is back after 4 s of a
 * timeout of 5 s would then come too late for the next attempt. Linux before 6.15 does not know the
 * second option, and keeps the pauses short for the first six attempts only.
 */
static void retry_often(int fd)
{
    enum { RTO_MAX_MS = 44 }; /* TCP_RTO_MAX_MS, which headers may lack */
    int on = 1, pause_ms = 1000;
    setsockopt(fd, IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, RTO_MAX_MS, &pause_ms, sizeof pause_ms);
}

void yki_watch_connection(int fd, double heartbeat_s)
{
    int on = 1, interval_s = 1, idle_s = (int)(heartbeat_s / 2);
    int probes = (int)heartbeat_s - idle_s, timeout_ms = (int)(heartbeat_s * 1e3);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof interval_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof timeout_ms);
    retry_often(fd);
}

typedef int end_of_connection(int fd, struct sockaddr *address, socklen_t *size);

static void describe_end(char text[YKI_ADDRESS_TEXT], int fd, end_of_connection *end)
{
    struct sockaddr_storage address;
    socklen_t size = sizeof address;
    if (end(fd, (struct sockaddr *)&address, &size) ||
        getnameinfo((struct sockaddr *)&address, size, text, YKI_ADDRESS_TEXT, NULL, 0,
                    NI_NUMERICHOST))
        snprintf(text, YKI_ADDRESS_TEXT, "?");
    if (strncmp(text, "::ffff:", 7) == 0) /* an IPv4 client of a socket for both families */
        memmove(text, text + 7, strlen(text + 7) + 1);
}

void yki_local_address(char text[YKI_ADDRESS_TEXT], int fd)
{
    describe_end(text, fd, getsockname);
}

void yki_remote_address(char text[YKI_ADDRESS_TEXT], int fd)
{
    describe_end(text, fd, getpeername);
}

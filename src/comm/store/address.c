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

const char *yki_bare_host(const char *host, char bare[YKI_HOST_TEXT])
{
    size_t length = strlen(host);
    if (length < 3 || length >= YKI_HOST_TEXT || host[0] != '[' || host[length - 1] != ']')
        return host;
    snprintf(bare, YKI_HOST_TEXT, "%.*s", (int)length - 2, host + 1);
    return bare;
}

/* *again (may be NULL) tells that the name may become known later: those of pods do. */
static yk_status resolve(struct addrinfo **found, const char *host, int port, int flags,
                         bool *again)
{
    char service[16], bare[YKI_HOST_TEXT];
    host = yki_bare_host(host, bare);
    if (port < 0 || port > 65535) /* getaddrinfo would take its low 16 bits */
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "port %d: expected 0 to 65535", port);
    snprintf(service, sizeof service, "%d", port);
    struct addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = flags | AI_NUMERICSERV};
    int error = getaddrinfo(host, service, &hints, found);
    if (again)
        *again = error == EAI_NONAME || error == EAI_AGAIN || error == EAI_NODATA;
    if (error)
        return yki_error(YK_ERROR_NOT_FOUND, "cannot resolve the host name \"%s\": %s", host,
                         gai_strerror(error));
    return YK_OK;
}

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
static int listen_at(const struct sockaddr *address, socklen_t size)
{
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), one = 1;
    if (fd < 0)
        return -errno;
    if (address->sa_family == AF_INET6) /* the system's default may leave IPv4 out */
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &(int){0}, sizeof(int));
    /* Does not wait for connections in TIME_WAIT; a port that is in use is still refused. */
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, address, size) || listen(fd, BACKLOG)) {
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
static int listen_patiently(const struct sockaddr *address, socklen_t size, int port)
{
    enum { ATTEMPTS = 30, LONGEST_NS = 10000000 };
    int got = listen_at(address, size);
    for (int i = 1; i < ATTEMPTS && got == -EADDRINUSE && !yki_port_is_served(port); i++) {
        uint32_t drawn;
        if (getrandom(&drawn, sizeof drawn, 0) != (ssize_t)sizeof drawn)
            drawn = (uint32_t)getpid() * (uint32_t)i;
        nanosleep(&(struct timespec){.tv_nsec = drawn % LONGEST_NS}, NULL);
        got = listen_at(address, size);
    }
    return got;
}

/* Listens on all interfaces, of both families if the system has IPv6. */
static int listen_everywhere(int port)
{
    struct sockaddr_in6 any6 = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
    struct sockaddr_in any4 = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int got = listen_patiently((struct sockaddr *)&any6, sizeof any6, port);
    if (got == -EAFNOSUPPORT || got == -EADDRNOTAVAIL)
        got = listen_patiently((struct sockaddr *)&any4, sizeof any4, port);
    return got;
}

static bool is_loopback(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr) >> 24 == 127;
    return address->sa_family == AF_INET6 &&
           IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)address)->sin6_addr);
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
        struct addrinfo *found = NULL;
        yk_status status = resolve(&found, host, *port, AI_PASSIVE, &later);
        if (status != YK_OK && !later)
            return status;
        if (found && (is_literal(host) || (!found->ai_next && !is_loopback(found->ai_addr))))
            got = listen_patiently(found->ai_addr, found->ai_addrlen, *port);
        if (found)
            freeaddrinfo(found);
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
static int connect_to(const struct addrinfo *at)
{
    int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
    if (fd < 0)
        return -errno;
    /* SO_SNDTIMEO also limits connect(). */
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &(struct timeval){.tv_sec = CONNECT_S},
               sizeof(struct timeval));
    if (connect(fd, at->ai_addr, at->ai_addrlen)) {
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
    struct addrinfo *found;
    YK_TRY(resolve(&found, host, port, 0, again));
    int got = -EADDRNOTAVAIL;
    for (const struct addrinfo *at = found; at && got < 0; at = at->ai_next) {
        int result = connect_to(at);
        if (result >= 0 || !may_pass(got))
            got = result;
    }
    freeaddrinfo(found);
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

void yki_watch_connection(int fd, double heartbeat_s)
{
    int on = 1, interval_s = 1, idle_s = (int)(heartbeat_s / 2);
    int probes = (int)heartbeat_s - idle_s, timeout_ms = (int)(heartbeat_s * 1e3);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof interval_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof timeout_ms);
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

/* See net.h. */
#define _GNU_SOURCE
#include "launch/net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/terminal.h"

yk_host_name cli_net_look_up(const char *host)
{
    yk_host_name name;
    yk_host_look_up(&name, host, 2);
    return name;
}

bool cli_net_is_this_host(const char *host)
{
    return cli_net_look_up(host).own;
}

void cli_net_own_name(char *name, size_t size)
{
    memset(name, 0, size);
    if (gethostname(name, size - 1) || !*name)
        snprintf(name, size, "?");
    cli_make_printable(name);
}

bool cli_net_own_address(char *address, size_t size)
{
    struct ifaddrs *interfaces;
    bool found = false;
    if (getifaddrs(&interfaces))
        return false;
    for (struct ifaddrs *at = interfaces; at && !found; at = at->ifa_next)
        found = at->ifa_addr && at->ifa_addr->sa_family == AF_INET &&
                !(at->ifa_flags & IFF_LOOPBACK) &&
                getnameinfo(at->ifa_addr, sizeof(struct sockaddr_in), address, (socklen_t)size,
                            NULL, 0, NI_NUMERICHOST) == 0;
    freeifaddrs(interfaces);
    return found;
}

/* One attempt of 2 s at most; returns errno's value, 0 when it is connected. */
static int try_connect(const struct addrinfo *address)
{
    int error = ETIMEDOUT;
    socklen_t size = sizeof error;
    int fd = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return errno;
    struct pollfd ready = {.fd = fd, .events = POLLOUT};
    if (connect(fd, address->ai_addr, address->ai_addrlen) == 0)
        error = 0;
    else if (errno != EINPROGRESS)
        error = errno;
    else if (poll(&ready, 1, 2000) == 1)
        getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
    close(fd);
    return error;
}

/* Whether the host is known, and all its addresses answer a connection with this value of errno. */
static bool all_answer(const char *host, int port, int error)
{
    char service[16];
    snprintf(service, sizeof service, "%d", port);
    struct addrinfo *found = NULL, hints = {.ai_socktype = SOCK_STREAM};
    if (getaddrinfo(host, service, &hints, &found))
        return false;
    bool all = true;
    for (struct addrinfo *at = found; at && all; at = at->ai_next)
        all = try_connect(at) == error;
    freeaddrinfo(found);
    return all;
}

bool cli_net_accepts(const char *host, int port)
{
    return all_answer(host, port, 0);
}

/* ---- a question ----------------------------------------------------------------------------- */

struct cli_net_question {
    atomic_int holders; /* whoever asks, and the thread */
    atomic_bool refused;
    int port;
    char host[];
};

static void release(cli_net_question *question)
{
    if (atomic_fetch_sub(&question->holders, 1) == 1)
        free(question);
}

static void *ask(void *context)
{
    cli_net_question *question = context;
    atomic_store(&question->refused, all_answer(question->host, question->port, ECONNREFUSED));
    release(question);
    return NULL;
}

cli_net_question *cli_net_ask(const char *host, int port)
{
    pthread_t thread;
    size_t size = strlen(host) + 1;
    cli_net_question *question = malloc(sizeof *question + size);
    if (!question)
        return NULL;
    atomic_init(&question->holders, 2);
    atomic_init(&question->refused, false);
    question->port = port;
    memcpy(question->host, host, size);
    if (pthread_create(&thread, NULL, ask, question)) {
        free(question);
        return NULL;
    }
    pthread_detach(thread);
    return question;
}

bool cli_net_refused(cli_net_question *question)
{
    return question && atomic_load(&question->refused);
}

void cli_net_forget(cli_net_question *question)
{
    if (question)
        release(question);
}

static bool read_port(const char *text, int *port)
{
    char *end;
    long number = strtol(text, &end, 10);
    if (end == text || *end || number < 0 || number > 65535)
        return false;
    *port = (int)number;
    return true;
}

bool cli_net_split(const char *text, char *host, size_t size, int *port)
{
    const char *colon = strrchr(text, ':'), *end = text + strlen(text);
    if (*text == '[') {
        end = strchr(++text, ']');
        if (!end || (end[1] && (end[1] != ':' || !read_port(end + 2, port))))
            return false;
    } else if (colon && strchr(text, ':') == colon) { /* several: an IPv6 address */
        end = colon;
        if (!read_port(colon + 1, port))
            return false;
    }
    size_t length = (size_t)(end - text);
    if (length == 0 || length >= size)
        return false;
    memcpy(host, text, length);
    host[length] = '\0';
    return true;
}

/* ---- ports ---------------------------------------------------------------------------------- */

static bool is_free(int port)
{
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool bound = fd >= 0 && bind(fd, (struct sockaddr *)&any, sizeof any) == 0;
    if (fd >= 0)
        close(fd);
    return bound;
}

/* Takes a name of abstract Unix sockets, which belong to the same network namespace as ports. The
 * socket stays open until the process ends. */
static bool claim(int port)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int length = snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "yoke-port-%d", port);
    size_t size = offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool bound = fd >= 0 && bind(fd, (struct sockaddr *)&name, (socklen_t)size) == 0;
    if (fd >= 0 && !bound)
        close(fd);
    return bound;
}

int cli_net_claim_port(int lowest, int ports)
{
    uint32_t drawn;
    if (getrandom(&drawn, sizeof drawn, 0) != (ssize_t)sizeof drawn)
        drawn = (uint32_t)getpid();
    for (int i = 0; i < ports; i++) {
        int port = lowest + (int)((drawn % (uint32_t)ports + (uint32_t)i) % (uint32_t)ports);
        if (is_free(port) && claim(port))
            return port;
    }
    return 0;
}

const char *cli_net_endpoint(char text[CLI_NET_ENDPOINT], const char *host, int port)
{
    bool bare = host[0] != '[' && strchr(host, ':');
    snprintf(text, CLI_NET_ENDPOINT, bare ? "[%.300s]:%d" : "%.300s:%d", host, port);
    return text;
}

/* See meeting.h. */
#define _GNU_SOURCE
#include "comm/tcp/meeting.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "base/memory.h"

/* Strangers who have not told a greeting yet; where there are more, the first ones are sent away.
 */
enum { MOST_STRANGERS = 64 };

/* What a rank says when it calls. */
typedef struct greeting {
    char token[16];
    int32_t rank;
} greeting;

/* Whoever has called this rank, or whom it calls. */
typedef struct call {
    int socket;
    size_t told; /* bytes of the greeting */
    greeting greeting;
    int rank;                         /* that is called, */
    char name[INET6_ADDRSTRLEN + 16]; /* and where it listens, for messages */
} call;

struct tcp_meeting {
    int rank, ranks;
    tcp_connection *connections;
    int listener;
    char token[16]; /* of those who call this rank */
    call *callers;  /* [MOST_STRANGERS + ranks], who have not told all of their greeting yet */
    call *called;   /* [ranks] */
    int caller_count, called_count;
    struct pollfd *entries; /* the listener, the callers, the called */
};

/* ---- addresses ------------------------------------------------------------------------------- */

static in_port_t *port_of(struct sockaddr_storage *address)
{
    return address->ss_family == AF_INET6 ? &((struct sockaddr_in6 *)address)->sin6_port
                                          : &((struct sockaddr_in *)address)->sin_port;
}

/* Opens a socket for an address in digits, and a port in the order of the network. */
static yk_status open_socket(int *opened, const char *text, in_port_t port,
                             struct sockaddr_storage *address, socklen_t *length)
{
    const struct addrinfo hints = {.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found;
    int code = getaddrinfo(text, NULL, &hints, &found);
    if (code)
        return yki_error(YK_ERROR_NETWORK, "tcp: %s is not an address: %s", text,
                         gai_strerror(code));
    *length = found->ai_addrlen;
    memcpy(address, found->ai_addr, found->ai_addrlen);
    *port_of(address) = port;
    freeaddrinfo(found);
    *opened = socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    return *opened < 0 ? yki_tcp_failed("cannot create a socket", errno) : YK_OK;
}

/* ---- opening --------------------------------------------------------------------------------- */

static yk_status listen_at(tcp_meeting *meeting, const char *text, tcp_card *card)
{
    struct sockaddr_storage address;
    socklen_t length;
    YK_TRY(open_socket(&meeting->listener, text, 0, &address, &length));
    if (bind(meeting->listener, (struct sockaddr *)&address, length) ||
        listen(meeting->listener, MOST_STRANGERS + meeting->ranks) ||
        getsockname(meeting->listener, (struct sockaddr *)&address, &length))
        return yki_tcp_failed("cannot listen", errno);
    if (getrandom(meeting->token, sizeof meeting->token, 0) != (ssize_t)sizeof meeting->token)
        return yki_tcp_failed("getrandom", errno);
    memset(card, 0, sizeof *card);
    card->port = *port_of(&address);
    memcpy(card->token, meeting->token, sizeof card->token);
    return YK_OK;
}

yk_status yki_tcp_meeting_open(tcp_meeting **meeting, int rank, int ranks, const char *address,
                               tcp_connection *connections, tcp_card *card)
{
    size_t callers = MOST_STRANGERS + (size_t)ranks;
    tcp_meeting *m = *meeting = yki_calloc(1, sizeof *m);
    if (!m)
        return yki_error_memory(sizeof *m, "connecting ranks");
    *m = (tcp_meeting){.rank = rank,
                       .ranks = ranks,
                       .connections = connections,
                       .listener = -1,
                       .callers = yki_calloc(callers, sizeof *m->callers),
                       .called = yki_calloc((size_t)ranks, sizeof *m->called),
                       .entries = yki_calloc(1 + callers + (size_t)ranks, sizeof *m->entries)};
    yk_status status = YK_OK;
    if (!m->callers || !m->called || !m->entries)
        status = yki_error_memory(callers * sizeof *m->callers, "connecting ranks");
    if (status == YK_OK)
        status = listen_at(m, address, card);
    if (status == YK_OK)
        return YK_OK;
    yki_tcp_meeting_close(m);
    *meeting = NULL;
    return status;
}

static yk_status cannot_connect(const call *called, int error)
{
    char what[128];
    snprintf(what, sizeof what, "cannot connect to %s", called->name);
    return yki_tcp_failed(what, error);
}

yk_status yki_tcp_meeting_call(tcp_meeting *meeting, int other, const char *address,
                               const tcp_card *card)
{
    struct sockaddr_storage at;
    socklen_t length;
    call *called = &meeting->called[meeting->called_count];
    *called = (call){.rank = other, .greeting = {.rank = meeting->rank}};
    memcpy(called->greeting.token, card->token, sizeof card->token);
    snprintf(called->name, sizeof called->name, "%s, port %d", address, ntohs(card->port));
    YK_TRY(open_socket(&called->socket, address, card->port, &at, &length));
    meeting->called_count++;
    if (connect(called->socket, (struct sockaddr *)&at, length) && errno != EINPROGRESS &&
        errno != EINTR)
        return cannot_connect(called, errno);
    return YK_OK;
}

void yki_tcp_meeting_close(tcp_meeting *meeting)
{
    if (!meeting)
        return;
    for (int i = 0; i < meeting->caller_count; i++)
        close(meeting->callers[i].socket);
    for (int i = 0; i < meeting->called_count; i++)
        close(meeting->called[i].socket);
    if (meeting->listener >= 0)
        close(meeting->listener);
    free(meeting->callers);
    free(meeting->called);
    free(meeting->entries);
    free(meeting);
}

/* ---- connecting ------------------------------------------------------------------------------ */

static bool has(const tcp_meeting *meeting, int other)
{
    return meeting->connections[other].socket >= 0;
}

/* *over is set when all has been told. */
static yk_status greet(const tcp_meeting *meeting, call *called, bool *over)
{
    int error = 0;
    socklen_t length = sizeof error;
    if (getsockopt(called->socket, SOL_SOCKET, SO_ERROR, &error, &length) || error)
        return cannot_connect(called, error ? error : errno);
    ssize_t done = send(called->socket, (char *)&called->greeting + called->told,
                        sizeof called->greeting - called->told, MSG_NOSIGNAL);
    if (done < 0 && errno != EAGAIN && errno != EINTR)
        return cannot_connect(called, errno);
    called->told += done < 0 ? 0 : (size_t)done;
    *over = called->told == sizeof called->greeting;
    if (*over)
        yki_tcp_connection_open(&meeting->connections[called->rank], called->socket);
    return YK_OK;
}

/* Whether the greeting is that of a rank which is awaited: the first who knows the token and has
 * the number of a rank after this one. */
static bool is_awaited(const tcp_meeting *meeting, const greeting *told)
{
    return memcmp(told->token, meeting->token, sizeof told->token) == 0 &&
           told->rank > meeting->rank && told->rank < meeting->ranks && !has(meeting, told->rank);
}

/* Whether the caller is done with: it is a rank, which gets its connection, or is sent away. */
static bool listen_to(const tcp_meeting *meeting, call *caller)
{
    ssize_t got = recv(caller->socket, (char *)&caller->greeting + caller->told,
                       sizeof caller->greeting - caller->told, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    caller->told += got < 0 ? 0 : (size_t)got;
    if (got > 0 && caller->told < sizeof caller->greeting)
        return false;
    if (got > 0 && is_awaited(meeting, &caller->greeting))
        yki_tcp_connection_open(&meeting->connections[caller->greeting.rank], caller->socket);
    else
        close(caller->socket);
    return true;
}

static void remove_call(call *calls, int *count, int place)
{
    (*count)--;
    memmove(&calls[place], &calls[place + 1], (size_t)(*count - place) * sizeof *calls);
}

/* Whether accept has failed because of a lack of something, and not because of who called. */
static bool is_exhausted(int error)
{
    return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

/* A caller may have gone before it is answered. */
static yk_status take_call(tcp_meeting *meeting)
{
    int socket = accept4(meeting->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (socket < 0)
        return is_exhausted(errno) ? yki_tcp_failed("cannot accept a connection", errno) : YK_OK;
    if (meeting->caller_count == MOST_STRANGERS + meeting->ranks) {
        close(meeting->callers[0].socket);
        remove_call(meeting->callers, &meeting->caller_count, 0);
    }
    meeting->callers[meeting->caller_count++] = (call){.socket = socket};
    return YK_OK;
}

/* Waits until something happens. *ready stays false where nothing has. */
static yk_status wait_for_any(tcp_meeting *meeting, int wait_ms, bool *ready)
{
    struct pollfd *next = meeting->entries;
    *next++ = (struct pollfd){meeting->listener, POLLIN, 0};
    for (int i = 0; i < meeting->caller_count; i++)
        *next++ = (struct pollfd){meeting->callers[i].socket, POLLIN, 0};
    for (int i = 0; i < meeting->called_count; i++)
        *next++ = (struct pollfd){meeting->called[i].socket, POLLOUT, 0};
    int happened = poll(meeting->entries, (nfds_t)(next - meeting->entries), wait_ms);
    if (happened < 0 && errno != EINTR)
        return yki_tcp_failed("poll", errno);
    *ready = happened > 0;
    return YK_OK;
}

/* All callers are heard at the same time, so that strangers hold up nobody. */
static yk_status answer(tcp_meeting *meeting)
{
    const struct pollfd *callers = &meeting->entries[1];
    const struct pollfd *called = callers + meeting->caller_count;
    for (int i = meeting->called_count - 1; i >= 0; i--) {
        bool over = false;
        if (called[i].revents)
            YK_TRY(greet(meeting, &meeting->called[i], &over));
        if (over)
            remove_call(meeting->called, &meeting->called_count, i);
    }
    for (int i = meeting->caller_count - 1; i >= 0; i--)
        if (callers[i].revents && listen_to(meeting, &meeting->callers[i]))
            remove_call(meeting->callers, &meeting->caller_count, i);
    return meeting->entries[0].revents ? take_call(meeting) : YK_OK;
}

yk_status yki_tcp_meeting_continue(tcp_meeting *meeting, int wait_ms, bool *done)
{
    bool ready = false;
    *done = false;
    YK_TRY(wait_for_any(meeting, wait_ms, &ready));
    if (ready)
        YK_TRY(answer(meeting));
    for (int other = 0; other < meeting->ranks; other++)
        if (other != meeting->rank && !has(meeting, other))
            return YK_OK;
    *done = true;
    return YK_OK;
}

/* See connection.h. */
#include "comm/tcp/connection.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

yk_status yki_tcp_failed(const char *what, int error)
{
    return yki_error(YK_ERROR_NETWORK, "tcp: %s: %s", what, strerror(error));
}

void yki_tcp_connection_open(tcp_connection *connection, int socket)
{
    const int on = 1;
    *connection = (tcp_connection){.socket = socket, .low_water = 1};
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

void yki_tcp_connection_close(tcp_connection *connection)
{
    if (connection->socket >= 0)
        close(connection->socket);
    connection->socket = -1;
}

/* Were it only shut down, a rank that comes later could still read what has arrived, and take a
 * call for done that the others have given up. */
void yki_tcp_connection_reset(const tcp_connection *connection)
{
    const struct sockaddr nowhere = {.sa_family = AF_UNSPEC};
    if (connection->socket >= 0 && connect(connection->socket, &nowhere, sizeof nowhere))
        shutdown(connection->socket, SHUT_RDWR);
}

yk_status yki_tcp_receive_two(const tcp_connection *from, struct iovec buffers[2], size_t *moved)
{
    struct msghdr message = {.msg_iov = buffers, .msg_iovlen = 2};
    ssize_t got = recvmsg(from->socket, &message, 0);
    if (got == 0)
        return yki_error(YK_ERROR_NETWORK, "tcp: the other rank has closed the connection");
    if (got < 0 && errno != EAGAIN && errno != EINTR)
        return yki_tcp_failed("cannot receive", errno);
    *moved += got < 0 ? 0 : (size_t)got;
    return YK_OK;
}

yk_status yki_tcp_send_two(const tcp_connection *to, struct iovec buffers[2], size_t *moved)
{
    struct msghdr message = {.msg_iov = buffers, .msg_iovlen = 2};
    ssize_t sent = sendmsg(to->socket, &message, MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN && errno != EINTR)
        return yki_tcp_failed("cannot send", errno);
    *moved += sent < 0 ? 0 : (size_t)sent;
    return YK_OK;
}

yk_status yki_tcp_receive(const tcp_connection *from, void *data, size_t bytes, size_t *moved)
{
    return yki_tcp_receive_two(from, (struct iovec[2]){{data, bytes}}, moved);
}

yk_status yki_tcp_send(const tcp_connection *to, const void *data, size_t bytes, size_t *moved)
{
    return yki_tcp_send_two(to, (struct iovec[2]){{(void *)(uintptr_t)data, bytes}}, moved);
}

void yki_tcp_connection_await(tcp_connection *connection, size_t bytes)
{
    enum { LITTLE = 4096 }; /* arrives at once, and is not worth a call */
    int wanted = bytes <= LITTLE ? 1 : (int)bytes;
    if (wanted != connection->low_water &&
        setsockopt(connection->socket, SOL_SOCKET, SO_RCVLOWAT, &wanted, sizeof wanted) == 0)
        connection->low_water = wanted;
}

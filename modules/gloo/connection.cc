// See connection.h.
#include "connection.h"

#include <netinet/in.h>
#include <netinet/tcp.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace yoke
{

void fail(const std::string &what, int error)
{
    throw std::runtime_error(what + ": " + std::strerror(error));
}

void fail(const std::string &what)
{
    fail(what, errno);
}

void Connection::send_at_once()
{
    int on = 1;
    setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

size_t Connection::receive(char *first, size_t first_bytes, char *second, size_t second_bytes)
{
    iovec parts[] = {{first, first_bytes}, {second, second_bytes}};
    msghdr message = {};
    message.msg_iov = parts;
    message.msg_iovlen = 2;
    ssize_t got = recvmsg(socket_, &message, 0);
    if (got == 0)
        throw std::runtime_error("the other rank has closed the connection");
    if (got < 0 && errno != EAGAIN && errno != EINTR)
        fail("cannot receive");
    return got < 0 ? 0 : static_cast<size_t>(got);
}

size_t Connection::send(const char *first, size_t first_bytes, const char *second,
                        size_t second_bytes)
{
    iovec parts[] = {{const_cast<char *>(first), first_bytes},
                     {const_cast<char *>(second), second_bytes}};
    msghdr message = {};
    message.msg_iov = parts;
    message.msg_iovlen = 2;
    ssize_t done = sendmsg(socket_, &message, MSG_NOSIGNAL);
    if (done < 0 && errno != EAGAIN && errno != EINTR)
        fail("cannot send");
    return done < 0 ? 0 : static_cast<size_t>(done);
}

size_t Connection::receive(char *data, size_t bytes)
{
    return receive(data, bytes, nullptr, 0);
}

size_t Connection::send(const char *data, size_t bytes)
{
    return send(data, bytes, nullptr, 0);
}

void Connection::await(size_t bytes)
{
    constexpr size_t little = 4096; // arrives at once, and is not worth a call
    int awaited = bytes <= little ? 1 : static_cast<int>(bytes);
    if (awaited != awaited_ &&
        setsockopt(socket_, SOL_SOCKET, SO_RCVLOWAT, &awaited, sizeof awaited) == 0)
        awaited_ = awaited;
}

// This is how a connection is reset. Were it only shut down, a rank that comes later could still
// read what has arrived, and take a call for done that the others have given up.
void Connection::interrupt()
{
    sockaddr nowhere = {};
    nowhere.sa_family = AF_UNSPEC;
    if (socket_ >= 0 && connect(socket_, &nowhere, sizeof nowhere))
        shutdown(socket_, SHUT_RDWR);
}

} // namespace yoke

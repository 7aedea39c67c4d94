// See link.h.
#include "link.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <stdexcept>
#include <string>

namespace yoke
{

namespace
{

// Bytes that are received, and then added while they are in the second-level cache.
constexpr size_t piece_bytes = 256 * 1024;
// Callers that have not told the token yet; where there are more, the first ones are sent away.
constexpr size_t most_callers = 64;

[[noreturn]] void fail(const std::string &what, int error = errno)
{
    throw std::runtime_error(what + ": " + std::strerror(error));
}

sockaddr *generic(sockaddr_storage &address)
{
    return reinterpret_cast<sockaddr *>(&address);
}

uint16_t &port_of(sockaddr_storage &address)
{
    return address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6 &>(address).sin6_port
                                         : reinterpret_cast<sockaddr_in &>(address).sin_port;
}

socklen_t length_of(const sockaddr_storage &address)
{
    return address.ss_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
}

Descriptor open_socket(const sockaddr_storage &address)
{
    Descriptor opened(socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (opened < 0)
        fail("cannot create a socket");
    return opened;
}

std::string name_of(sockaddr_storage &address)
{
    char text[INET6_ADDRSTRLEN] = "?";
    const void *number = &reinterpret_cast<sockaddr_in &>(address).sin_addr;
    if (address.ss_family == AF_INET6)
        number = &reinterpret_cast<sockaddr_in6 &>(address).sin6_addr;
    inet_ntop(address.ss_family, number, text, sizeof text);
    return text + std::string(", port ") + std::to_string(ntohs(port_of(address)));
}

// Whether poll says that something has happened; false where a signal has interrupted it.
bool poll_all(std::vector<pollfd> &entries, int wait_ms)
{
    int ready = poll(entries.data(), entries.size(), wait_ms);
    if (ready < 0 && errno != EINTR)
        fail("poll");
    return ready > 0;
}

// Whether accept has failed because of a lack of something, and not because of who called.
bool is_exhausted(int error)
{
    return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

} // namespace

// ---- opening ------------------------------------------------------------------------------------

Link::Card Link::listen(sockaddr_storage address)
{
    socklen_t length = sizeof address;
    port_of(address) = 0;
    listener_ = open_socket(address);
    if (bind(listener_, generic(address), length_of(address)) ||
        ::listen(listener_, most_callers) || getsockname(listener_, generic(address), &length))
        fail("cannot listen");
    if (getrandom(token_.data(), token_.size(), 0) != static_cast<ssize_t>(token_.size()))
        fail("getrandom");
    return {port_of(address), token_};
}

void Link::connect(sockaddr_storage address, const Card &card)
{
    port_of(address) = card.port;
    other_ = name_of(address);
    token_ = card.token;
    socket_ = open_socket(address);
    if (::connect(socket_, generic(address), length_of(address)) && errno != EINPROGRESS &&
        errno != EINTR)
        fail("cannot connect to " + other_);
}

bool Link::open(int wait_ms)
{
    if (!(listener_ >= 0 ? has_answered(wait_ms) : has_connected(wait_ms)))
        return false;
    int on = 1;
    setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    piece_ = std::make_unique<char[]>(piece_bytes);
    return true;
}

bool Link::has_connected(int wait_ms)
{
    std::vector<pollfd> entries = {{socket_, POLLOUT, 0}};
    if (!poll_all(entries, wait_ms))
        return false;
    int error = 0;
    socklen_t length = sizeof error;
    if (getsockopt(socket_, SOL_SOCKET, SO_ERROR, &error, &length))
        fail("getsockopt");
    if (error)
        fail("cannot connect to " + other_, error);
    told_ += send(token_.data() + told_, token_.size() - told_, 0);
    return told_ == token_.size();
}

// The first caller who tells the token is the other rank. All callers are heard at the same time,
// so that strangers hold up nobody.
bool Link::has_answered(int wait_ms)
{
    std::vector<pollfd> entries = {{listener_, POLLIN, 0}};
    for (const Caller &caller : callers_)
        entries.push_back({caller.socket, POLLIN, 0});
    if (!poll_all(entries, wait_ms))
        return false;
    for (size_t i = callers_.size(); i-- > 0;) {
        Caller &caller = callers_[i];
        if (!entries[i + 1].revents || listen_to(caller))
            continue;
        if (caller.told == token_.size() && caller.token == token_)
            socket_ = std::move(caller.socket);
        callers_.erase(callers_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    if (socket_ < 0 && entries[0].revents)
        take_call();
    if (socket_ < 0)
        return false;
    callers_.clear();
    listener_ = Descriptor();
    return true;
}

// A caller may have gone before it is answered.
void Link::take_call()
{
    Caller caller;
    caller.socket = Descriptor(accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (caller.socket < 0 && is_exhausted(errno))
        fail("cannot accept a connection");
    if (caller.socket < 0)
        return;
    if (callers_.size() == most_callers)
        callers_.erase(callers_.begin());
    callers_.push_back(std::move(caller));
}

// Whether the caller has more to tell.
bool Link::listen_to(Caller &caller) const
{
    ssize_t got =
        recv(caller.socket, caller.token.data() + caller.told, token_.size() - caller.told, 0);
    if (got < 0)
        return errno == EAGAIN || errno == EINTR;
    caller.told += static_cast<size_t>(got);
    return got > 0 && caller.told < token_.size();
}

void Link::interrupt()
{
    if (socket_ >= 0)
        shutdown(socket_, SHUT_RDWR);
}

// ---- bytes --------------------------------------------------------------------------------------

// Both return how many bytes have moved, which may be none.
size_t Link::receive(char *data, size_t bytes)
{
    ssize_t got = bytes > 0 ? recv(socket_, data, bytes, 0) : 0;
    if (got == 0 && bytes > 0)
        throw std::runtime_error("the other rank has closed the connection");
    if (got < 0 && errno != EAGAIN && errno != EINTR)
        fail("cannot receive");
    return got < 0 ? 0 : static_cast<size_t>(got);
}

size_t Link::send(const char *data, size_t bytes, int flags)
{
    ssize_t done = bytes > 0 ? ::send(socket_, data, bytes, MSG_NOSIGNAL | flags) : 0;
    if (done < 0 && errno != EAGAIN && errno != EINTR)
        fail("cannot send");
    return done < 0 ? 0 : static_cast<size_t>(done);
}

// Sleeps until a good part of what is coming can be received or, if this rank sends, something can
// be sent. The other rank must send all that is coming without having received any more.
void Link::wait(size_t incoming, bool sends)
{
    int awaited = static_cast<int>(std::min(piece_bytes, std::max<size_t>(incoming, 1)));
    if (awaited != awaited_ &&
        setsockopt(socket_, SOL_SOCKET, SO_RCVLOWAT, &awaited, sizeof awaited) == 0)
        awaited_ = awaited;
    pollfd entry = {socket_, static_cast<short>((incoming ? POLLIN : 0) | (sends ? POLLOUT : 0)),
                    0};
    if (poll(&entry, 1, -1) < 0 && errno != EINTR)
        fail("poll");
}

// ---- messages -----------------------------------------------------------------------------------

// A message follows its length.
void Link::exchange(const char *mine, size_t bytes, char *theirs, size_t room)
{
    constexpr size_t head = sizeof(uint64_t);
    uint64_t length = bytes, coming = 0;
    auto *out = reinterpret_cast<const char *>(&length);
    auto *in = reinterpret_cast<char *>(&coming);
    for (size_t sent = 0, received = 0;;) {
        size_t moved = sent < head ? send(out + sent, head - sent, bytes > 0 ? MSG_MORE : 0)
                                   : send(mine + (sent - head), head + bytes - sent, 0);
        sent += moved;
        size_t got = received < head
                         ? receive(in + received, head - received)
                         : receive(theirs + (received - head), head + coming - received);
        received += got;
        if (received >= head && coming > room)
            throw std::runtime_error("a message of the other rank is too long");
        bool sends = sent < head + bytes;
        size_t incoming = (received < head ? head : head + coming) - received;
        if (!sends && received >= head && incoming == 0)
            return;
        if (moved == 0 && got == 0)
            wait(incoming, sends);
    }
}

// ---- reducing -----------------------------------------------------------------------------------

// Each rank reduces one half: it receives the other rank's data of its half, and sends its own data
// of the other half; then they exchange what they have reduced. Both halves are one stream in each
// direction, so that the second exchange begins as soon as the first piece has been reduced. What
// the other rank has reduced only comes after this rank has sent its own data of it.
struct Link::Progress {
    int rank;
    size_t width;
    engine_reduce_function op;
    char *mine, *theirs; // the halves that this rank and the other one reduce
    size_t mine_bytes, theirs_bytes;
    size_t received, reduced, sent; // bytes: received of both, reduced of mine, sent of both

    size_t total() const
    {
        return mine_bytes + theirs_bytes;
    }
    // What the other rank sends without having received any more from this one: first its data,
    // then what it reduces of the data that it has been sent.
    size_t incoming() const
    {
        return (received < mine_bytes ? mine_bytes : total()) - received;
    }
    bool can_send() const
    {
        return sent < theirs_bytes + reduced;
    }
    void reduce(const char *piece, size_t bytes)
    {
        char *to = mine + reduced;
        op(to, rank == 0 ? to : piece, rank == 0 ? piece : to, bytes / width);
        reduced += bytes;
    }
};

size_t Link::receive_part(Progress &p)
{
    bool adds = p.received < p.mine_bytes;
    size_t kept = adds ? p.received - p.reduced : 0; // in piece_
    size_t room = adds ? std::min(piece_bytes, p.mine_bytes - p.reduced) - kept : p.incoming();
    char *to = adds ? piece_.get() + kept : p.theirs + (p.received - p.mine_bytes);
    size_t got = receive(to, room);
    p.received += got;
    if (adds && got == room)
        p.reduce(piece_.get(), kept + room);
    return got;
}

size_t Link::send_part(Progress &p)
{
    bool raw = p.sent < p.theirs_bytes;
    const char *from = raw ? p.theirs + p.sent : p.mine + (p.sent - p.theirs_bytes);
    size_t done = send(from, p.theirs_bytes + (raw ? 0 : p.reduced) - p.sent, 0);
    p.sent += done;
    return done;
}

void Link::all_reduce(int rank, char *data, size_t count, size_t width, engine_reduce_function op)
{
    size_t first = count / 2 * width, second = count * width - first;
    Progress p = {};
    p.rank = rank;
    p.width = width;
    p.op = op;
    p.mine = rank == 0 ? data : data + first;
    p.theirs = rank == 0 ? data + first : data;
    p.mine_bytes = rank == 0 ? first : second;
    p.theirs_bytes = rank == 0 ? second : first;
    while (p.received < p.total() || p.sent < p.total()) {
        size_t got = receive_part(p), done = send_part(p);
        if (got == 0 && done == 0)
            wait(p.incoming(), p.can_send());
    }
}

} // namespace yoke

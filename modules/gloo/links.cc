// See links.h.
#include "links.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>

namespace yoke
{

namespace
{

// Strangers who have not told a greeting yet; where there are more, the first ones are sent away.
constexpr int most_strangers = 64;
// Bytes for which a wait lasts, at most: they are received, and used while they are in a cache.
constexpr size_t most_awaited = 256 * 1024;

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

template <typename Element> void erase_at(std::vector<Element> &elements, size_t place)
{
    elements.erase(elements.begin() + static_cast<std::ptrdiff_t>(place));
}

} // namespace

// ---- opening ------------------------------------------------------------------------------------

Links::Links(int rank, int size) : rank_(rank), size_(size), connections_(size)
{
}

Links::Card Links::listen(sockaddr_storage address)
{
    socklen_t length = sizeof address;
    port_of(address) = 0;
    listener_ = open_socket(address);
    if (bind(listener_, generic(address), length_of(address)) ||
        ::listen(listener_, most_strangers + size_) ||
        getsockname(listener_, generic(address), &length))
        fail("cannot listen");
    if (getrandom(token_.data(), token_.size(), 0) != static_cast<ssize_t>(token_.size()))
        fail("getrandom");
    return {port_of(address), token_};
}

void Links::connect(int other, sockaddr_storage address, const Card &card)
{
    port_of(address) = card.port;
    Called called = {other, open_socket(address), name_of(address), 0, {card.token, rank_}};
    if (::connect(called.socket, generic(address), length_of(address)) && errno != EINPROGRESS &&
        errno != EINTR)
        fail("cannot connect to " + called.name);
    called_.push_back(std::move(called));
}

bool Links::has(int other) const
{
    return connections_[other].descriptor() >= 0;
}

void Links::keep(int other, Descriptor socket)
{
    connections_[other] = Connection(std::move(socket));
    connections_[other].send_at_once();
}

// All callers are heard at the same time, so that strangers hold up nobody.
bool Links::open(int wait_ms)
{
    std::vector<pollfd> entries = {{listener_, POLLIN, 0}};
    for (const Caller &caller : callers_)
        entries.push_back({caller.socket, POLLIN, 0});
    for (const Called &called : called_)
        entries.push_back({called.socket, POLLOUT, 0});
    if (poll_all(entries, wait_ms)) {
        size_t first = 1 + callers_.size();
        for (size_t i = called_.size(); i-- > 0;)
            if (entries[first + i].revents && greet(called_[i]))
                erase_at(called_, i);
        for (size_t i = callers_.size(); i-- > 0;)
            if (entries[1 + i].revents && !listen_to(callers_[i]))
                erase_at(callers_, i);
        if (entries[0].revents)
            take_call();
    }
    for (int other = 0; other < size_; other++)
        if (other != rank_ && !has(other))
            return false;
    callers_.clear();
    listener_ = Descriptor();
    return true;
}

// Whether all has been told.
bool Links::greet(Called &called)
{
    int error = 0;
    socklen_t length = sizeof error;
    if (getsockopt(called.socket, SOL_SOCKET, SO_ERROR, &error, &length))
        fail("getsockopt");
    if (error)
        fail("cannot connect to " + called.name, error);
    ssize_t done = send(called.socket, reinterpret_cast<char *>(&called.greeting) + called.told,
                        sizeof called.greeting - called.told, MSG_NOSIGNAL);
    if (done < 0 && errno != EAGAIN && errno != EINTR)
        fail("cannot connect to " + called.name);
    called.told += done < 0 ? 0 : static_cast<size_t>(done);
    if (called.told < sizeof called.greeting)
        return false;
    keep(called.rank, std::move(called.socket));
    return true;
}

// A caller may have gone before it is answered.
void Links::take_call()
{
    Caller caller;
    caller.socket = Descriptor(accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (caller.socket < 0 && is_exhausted(errno))
        fail("cannot accept a connection");
    if (caller.socket < 0)
        return;
    if (callers_.size() == static_cast<size_t>(most_strangers + size_))
        callers_.erase(callers_.begin());
    callers_.push_back(std::move(caller));
}

// Whether the caller has more to tell. The first who knows the token and has the number of a rank
// after this one is that rank.
bool Links::listen_to(Caller &caller)
{
    Greeting &greeting = caller.greeting;
    ssize_t got = recv(caller.socket, reinterpret_cast<char *>(&greeting) + caller.told,
                       sizeof greeting - caller.told, 0);
    if (got < 0)
        return errno == EAGAIN || errno == EINTR;
    caller.told += static_cast<size_t>(got);
    if (got > 0 && caller.told < sizeof greeting)
        return true;
    if (got > 0 && greeting.token == token_ && greeting.rank > rank_ && greeting.rank < size_ &&
        !has(greeting.rank))
        keep(greeting.rank, std::move(caller.socket));
    return false;
}

void Links::interrupt()
{
    for (Connection &connection : connections_)
        connection.interrupt();
}

// ---- transfers ----------------------------------------------------------------------------------

// Sleeps until a good part of what is coming from a rank can be received, or something can be sent.
void Links::wait(const Transfer &transfer, int wait_ms)
{
    entries_.clear();
    waited_.clear();
    for (int other = 0; other < size_; other++) {
        if (other == rank_)
            continue;
        size_t incoming = transfer.incoming(other), outgoing = transfer.outgoing(other);
        int events = (incoming ? POLLIN : 0) | (outgoing ? POLLOUT : 0);
        if (incoming)
            connections_[other].await(std::min(incoming, most_awaited));
        if (!events)
            continue;
        entries_.push_back({connections_[other].descriptor(), static_cast<short>(events), 0});
        waited_.push_back(other);
    }
    poll_all(entries_, wait_ms);
}

void Links::begin(Transfer &transfer)
{
    for (int other = 0; other < size_; other++)
        if (other != rank_ && transfer.outgoing(other) > 0)
            transfer.send(other, connections_[other]);
}

void Links::move(Transfer &transfer, int wait_ms)
{
    wait(transfer, wait_ms);
    for (size_t i = 0; i < entries_.size(); i++) {
        int other = waited_[i], happened = entries_[i].revents;
        bool ended = happened & (POLLERR | POLLHUP);
        if ((ended || happened & POLLIN) && transfer.incoming(other) > 0)
            transfer.receive(other, connections_[other]);
        if ((ended || happened & POLLOUT) && transfer.outgoing(other) > 0)
            transfer.send(other, connections_[other]);
    }
}

void Links::run(Transfer &transfer)
{
    begin(transfer);
    while (!transfer.is_over())
        move(transfer, -1);
}

void Links::exchange(char *messages, size_t stride, size_t least, size_t bytes)
{
    Exchange transfer(rank_, size_, messages, stride, least, bytes);
    run(transfer);
}

void Links::begin_exchange(char *messages, size_t stride, size_t least, size_t bytes)
{
    exchange_ = std::make_unique<Exchange>(rank_, size_, messages, stride, least, bytes);
    begin(*exchange_);
}

bool Links::test_exchange(int wait_ms)
{
    if (!exchange_->is_over())
        move(*exchange_, wait_ms);
    return exchange_->is_over();
}

void Links::all_gather(char *all, size_t bytes)
{
    AllGather transfer(rank_, size_, all, bytes);
    run(transfer);
}

void Links::reduce(int root, char *data, size_t count, size_t width, yki_engine_operator op)
{
    Reduction transfer(rank_, size_, root, data, count, width, op, pieces_);
    run(transfer);
}

} // namespace yoke

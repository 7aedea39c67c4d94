// See mesh.h.
#include "mesh.h"

#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>

#include <gloo/transport/context.h>
#include <gloo/transport/tcp/address.h>
#include <gloo/transport/tcp/device.h>

namespace yoke
{

using TcpAddress = gloo::transport::tcp::Address;

namespace
{

// Where a rank awaits its connections: one address, and a port for each other rank. (Newer versions
// of gloo have one port, and tell connections apart by a number.)
struct Door {
    uint16_t port;
    int32_t number;
};

uint16_t &port_of(sockaddr_storage &address)
{
    return address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6 &>(address).sin6_port
                                         : reinterpret_cast<sockaddr_in &>(address).sin_port;
}

bool same_address(const sockaddr_storage &a, const sockaddr_storage &b)
{
    if (a.ss_family != b.ss_family)
        return false;
    if (a.ss_family == AF_INET6) {
        auto &left = reinterpret_cast<const sockaddr_in6 &>(a);
        auto &right = reinterpret_cast<const sockaddr_in6 &>(b);
        return left.sin6_port == right.sin6_port &&
               std::memcmp(&left.sin6_addr, &right.sin6_addr, sizeof left.sin6_addr) == 0;
    }
    auto &left = reinterpret_cast<const sockaddr_in &>(a);
    auto &right = reinterpret_cast<const sockaddr_in &>(b);
    return left.sin_port == right.sin_port && left.sin_addr.s_addr == right.sin_addr.s_addr;
}

} // namespace

Mesh::Mesh(int rank_, int size_, const char *address)
    : gloo::Context(rank_, size_), reached(size_), links(rank_, size_), peers_(size_),
      numbers_(size_), links_cards_(size_)
{
    gloo::transport::tcp::attr where;
    where.hostname = address;
    setTimeout(forever);
    device_ = gloo::transport::tcp::CreateDevice(where);
    transportContext_ = device_->createContext(rank, size);
    transportContext_->setTimeout(forever);
    for (int other = 0; other < size; other++)
        if (other != rank)
            transportContext_->createPair(other);
    if (size > 1)
        links_cards_[rank] = links.listen(own(rank == 0 ? 1 : 0));
}

sockaddr_storage Mesh::own(int other) const
{
    return TcpAddress(transportContext_->getPair(other)->address().bytes()).getSockaddr();
}

std::vector<char> Mesh::card() const
{
    int any = rank == 0 ? 1 : 0;
    sockaddr_storage address = own(any);
    size_t doors = size * sizeof(Door);
    const Links::Card &mine = links_cards_[rank];
    std::vector<char> card(sizeof address + doors + sizeof mine);
    std::memcpy(card.data(), &address, sizeof address);
    std::memcpy(card.data() + sizeof address + doors, &mine, sizeof mine);
    for (int other = 0; other < size; other++) {
        if (other == rank)
            continue;
        TcpAddress at(transportContext_->getPair(other)->address().bytes());
        sockaddr_storage storage = at.getSockaddr();
        Door door = {port_of(storage), static_cast<int32_t>(at.getSeq())};
        std::memcpy(card.data() + sizeof address + other * sizeof door, &door, sizeof door);
    }
    return card;
}

void Mesh::read_card(int other, const std::vector<char> &card)
{
    Door door;
    std::memcpy(&peers_[other], card.data(), sizeof peers_[other]);
    std::memcpy(&door, card.data() + sizeof peers_[other] + rank * sizeof door, sizeof door);
    std::memcpy(&links_cards_[other], card.data() + sizeof peers_[other] + size * sizeof door,
                sizeof links_cards_[other]);
    port_of(peers_[other]) = door.port;
    numbers_[other] = door.number;
}

void Mesh::connect()
{
    for (int other = 0; other < size; other++) {
        if (other != rank)
            transportContext_->getPair(other)->connect(
                TcpAddress(peers_[other], numbers_[other]).bytes());
        reached[other] = true;
    }
    find_sockets();
}

void Mesh::begin_links()
{
    for (int other = 0; other < rank; other++)
        links.connect(other, peers_[other], links_cards_[other]);
}

bool Mesh::is_ours(int descriptor) const
{
    sockaddr_storage local = {}, remote = {};
    socklen_t length = sizeof local;
    if (getsockname(descriptor, reinterpret_cast<sockaddr *>(&local), &length))
        return false;
    length = sizeof remote;
    if (getpeername(descriptor, reinterpret_cast<sockaddr *>(&remote), &length))
        return false;
    for (int other = 0; other < size; other++)
        if (other != rank &&
            (same_address(local, own(other)) || same_address(remote, peers_[other])))
            return true;
    return false;
}

// gloo does not show its sockets: they are those with an address of this mesh. Nor does it close
// them in programs that this one starts.
void Mesh::find_sockets()
{
    std::unique_ptr<DIR, int (*)(DIR *)> folder(opendir("/proc/self/fd"), closedir);
    if (!folder)
        throw std::runtime_error("cannot read /proc/self/fd");
    while (dirent *entry = readdir(folder.get())) {
        int descriptor = std::atoi(entry->d_name);
        if (entry->d_name[0] == '.' || !is_ours(descriptor))
            continue;
        fcntl(descriptor, F_SETFD, FD_CLOEXEC);
        Descriptor duplicate(fcntl(descriptor, F_DUPFD_CLOEXEC, 3));
        if (duplicate < 0)
            throw std::runtime_error(std::string("cannot duplicate a socket: ") +
                                     std::strerror(errno));
        sockets_.push_back(std::move(duplicate));
    }
}

void Mesh::interrupt()
{
    for (const Descriptor &socket : sockets_)
        shutdown(socket, SHUT_RDWR);
    links.interrupt();
}

} // namespace yoke

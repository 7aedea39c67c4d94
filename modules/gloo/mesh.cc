// See mesh.h.
#include "mesh.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>

#include <gloo/transport/context.h>
#include <gloo/transport/tcp/address.h>
#include <gloo/transport/tcp/device.h>

namespace yoke
{

namespace
{

std::string text_of(const sockaddr_storage &address)
{
    return gloo::transport::tcp::Address(address).str();
}

// Without the number by which newer versions of gloo tell connections of the same port apart.
std::string text_of(const Mesh::Address &address)
{
    return text_of(gloo::transport::tcp::Address(address).getSockaddr());
}

// The address of one end of a socket. Other files than sockets have none.
std::string end_of(int descriptor, decltype(getsockname) *get)
{
    sockaddr_storage address = {};
    socklen_t length = sizeof address;
    if (get(descriptor, reinterpret_cast<sockaddr *>(&address), &length))
        return "";
    return text_of(address);
}

// Of all files that this process has open.
std::vector<int> descriptors()
{
    std::vector<int> all;
    std::unique_ptr<DIR, int (*)(DIR *)> folder(opendir("/proc/self/fd"), closedir);
    if (!folder)
        throw std::runtime_error("cannot read /proc/self/fd");
    while (dirent *entry = readdir(folder.get()))
        if (entry->d_name[0] != '.')
            all.push_back(std::atoi(entry->d_name));
    return all;
}

} // namespace

Mesh::Mesh(int rank_, int size_, const char *host)
    : gloo::Context(rank_, size_), reached(size_), own(size_)
{
    gloo::transport::tcp::attr where;
    where.hostname = host;
    setTimeout(forever);
    device_ = gloo::transport::tcp::CreateDevice(where);
    transportContext_ = device_->createContext(rank, size);
    transportContext_->setTimeout(forever);
    for (int other = 0; other < size; other++) {
        if (other == rank)
            continue;
        others.push_back(other);
        own[other] = transportContext_->createPair(other)->address().bytes();
    }
}

Mesh::~Mesh()
{
    for (int socket : sockets_)
        close(socket);
}

void Mesh::connect(const std::vector<Address> &theirs)
{
    for (int other : others) {
        transportContext_->getPair(other)->connect(theirs[other]);
        reached[other] = true;
    }
    keep_sockets(theirs);
}

// gloo does not show its sockets: they are those with an address at which ranks await each other.
// Nor does it close them in programs that this one starts.
void Mesh::keep_sockets(const std::vector<Address> &theirs)
{
    std::set<std::string> ours;
    for (int other : others) {
        ours.insert(text_of(own[other]));
        ours.insert(text_of(theirs[other]));
    }
    for (int descriptor : descriptors()) {
        if (!ours.count(end_of(descriptor, getsockname)) &&
            !ours.count(end_of(descriptor, getpeername)))
            continue;
        fcntl(descriptor, F_SETFD, FD_CLOEXEC);
        int duplicate = fcntl(descriptor, F_DUPFD_CLOEXEC, 3);
        if (duplicate < 0)
            throw std::runtime_error(std::string("cannot duplicate a socket: ") +
                                     std::strerror(errno));
        sockets_.push_back(duplicate);
    }
}

// Each connection is reset. Were it only shut down, a rank that comes later could still send, read
// what has arrived, and take a call for done that the others have given up. This rank's own gloo
// notices only that it is shut down.
void Mesh::interrupt()
{
    sockaddr nowhere = {};
    nowhere.sa_family = AF_UNSPEC;
    for (int socket : sockets_) {
        (void)::connect(socket, &nowhere, sizeof nowhere);
        shutdown(socket, SHUT_RDWR);
    }
}

} // namespace yoke

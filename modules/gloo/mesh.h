// The connections of a rank with every other one, as a context of gloo. Two ranks also have a link.
#ifndef YOKE_GLOO_MESH_H
#define YOKE_GLOO_MESH_H

#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <vector>

#include <gloo/context.h>

#include "descriptor.h"
#include "link.h"

namespace yoke
{

// gloo itself waits nearly forever: the group decides how long to wait.
constexpr auto forever = std::chrono::hours(24 * 365);

class Mesh : public gloo::Context
{
  public:
    Mesh(int rank, int size, const char *address);

    // The addresses of this rank, for the others.
    std::vector<char> card() const;
    // Reads another rank's card.
    void read_card(int other, const std::vector<char> &card);
    // Connects with all ranks by gloo. Sets reached[] on the way, unless a link is still to come.
    void connect();
    // Begins to make the link; open_link is then called until it is true, and waits at most
    // wait_ms.
    void begin_link();
    bool open_link(int wait_ms);
    // Ends whatever waits for a connection, here and at the other end.
    void interrupt();

    std::vector<std::atomic<bool>> reached;
    std::unique_ptr<Link> link; // where there are two ranks

  private:
    sockaddr_storage own(int other) const;
    void find_sockets();
    bool is_ours(int descriptor) const;

    std::vector<sockaddr_storage> peers_; // where each rank awaits this one
    std::vector<int32_t> numbers_;
    Link::Card link_card_ = {};       // of rank 0
    std::vector<Descriptor> sockets_; // duplicates, so that no other file gets their numbers
};

} // namespace yoke

#endif

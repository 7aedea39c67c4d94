// The connections of a rank with every other one: a context of gloo, and links.
#ifndef YOKE_GLOO_MESH_H
#define YOKE_GLOO_MESH_H

#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <vector>

#include <gloo/context.h>

#include "descriptor.h"
#include "links.h"

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
    // Connects with all ranks by gloo. Sets reached[] on the way.
    void connect();
    // Begins to make the links.
    void begin_links();
    // Ends whatever waits for a connection, here and at the other end.
    void interrupt();

    std::vector<std::atomic<bool>> reached; // by gloo
    Links links;

  private:
    sockaddr_storage own(int other) const;
    void find_sockets();
    bool is_ours(int descriptor) const;

    std::vector<sockaddr_storage> peers_; // where each rank awaits this one
    std::vector<int32_t> numbers_;
    std::vector<Links::Card> links_cards_; // of all ranks
    std::vector<Descriptor> sockets_;      // duplicates, so that no other file gets their numbers
};

} // namespace yoke

#endif

// The connections of a rank with every other one, as a context of gloo.
#ifndef YOKE_GLOO_MESH_H
#define YOKE_GLOO_MESH_H

#include <atomic>
#include <chrono>
#include <vector>

#include <gloo/context.h>

namespace yoke
{

// gloo itself waits nearly forever: the group decides how long to wait.
constexpr auto forever = std::chrono::hours(24 * 365);

class Mesh : public gloo::Context
{
  public:
    using Address = std::vector<char>; // as gloo writes it

    Mesh(int rank, int size, const char *host);
    Mesh(const Mesh &) = delete;
    Mesh &operator=(const Mesh &) = delete;
    ~Mesh() override;

    // Connects with all ranks, at the addresses where they await this one. Sets reached[] on the
    // way.
    void connect(const std::vector<Address> &theirs);
    // Ends whatever waits for a connection, here and at the other end.
    void interrupt();

    std::vector<int> others; // the other ranks
    std::vector<std::atomic<bool>> reached;
    std::vector<Address> own; // where this rank awaits each of them

  private:
    void keep_sockets(const std::vector<Address> &theirs);

    std::vector<int> sockets_; // duplicates, so that no other file gets their numbers
};

} // namespace yoke

#endif

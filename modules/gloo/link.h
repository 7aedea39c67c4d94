/*
 * A connection of two ranks, by which they exchange messages and reduce without gloo.
 *
 * gloo reads on a thread of its own, which wakes for every packet, hands over each segment, and
 * spins while another thread writes. Where a rank computes on the same core, all of this is taken
 * from it. Here one thread sends and receives, and sleeps until much of the data has arrived.
 */
#ifndef YOKE_GLOO_LINK_H
#define YOKE_GLOO_LINK_H

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "../common/reduce.h"

namespace yoke
{

class Link
{
  public:
    // What the rank that listens tells the other one: the token keeps out whoever else connects.
    struct Card {
        uint16_t port; // in the order of the network
        std::array<char, 16> token;
    };

    Link() = default;
    Link(const Link &) = delete;
    Link &operator=(const Link &) = delete;
    ~Link();

    // Listens at the address, at a port of its own.
    Card listen(sockaddr_storage address);
    // Ends when the other rank has connected.
    void accept();
    void connect(sockaddr_storage address, const Card &card);
    // Ends whatever waits for the other rank, here and there.
    void interrupt();

    // Sends the other rank a message, and receives its message, of at most `room` bytes.
    void exchange(const char *mine, size_t bytes, char *theirs, size_t room);
    // Rank 0 or 1: data = data of rank 0 (op) data of rank 1, count elements of `width` bytes.
    void all_reduce(int rank, char *data, size_t count, size_t width, engine_reduce_function op);

  private:
    struct Progress;

    bool is_expected(int descriptor) const;
    void configure();
    size_t receive(char *data, size_t bytes);
    size_t send(const char *data, size_t bytes, int flags);
    void wait(size_t incoming, bool sends);
    size_t receive_part(Progress &progress);
    size_t send_part(Progress &progress);

    int listener_ = -1, socket_ = -1;
    int awaited_ = 1; // bytes that must have arrived before a wait ends
    std::array<char, 16> token_ = {};
    std::unique_ptr<char[]> piece_; // of the other rank's data, before it is added
};

} // namespace yoke

#endif

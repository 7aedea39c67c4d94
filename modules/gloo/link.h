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
#include <string>
#include <vector>

#include "../common/reduce.h"
#include "descriptor.h"

namespace yoke
{

class Link
{
  public:
    using Token = std::array<char, 16>;
    // What the rank that listens tells the other one: the token keeps out whoever else connects.
    struct Card {
        uint16_t port; // in the order of the network
        Token token;
    };

    // One rank listens on its own address, on a port that is free; the other connects to it.
    Card listen(sockaddr_storage address);
    void connect(sockaddr_storage address, const Card &card);
    // Then both call this until the connection is made. Waits for it at most wait_ms.
    bool open(int wait_ms);
    // Ends whatever waits for the other rank, here and there.
    void interrupt();

    // Sends the other rank a message, and receives its message, of at most `room` bytes.
    void exchange(const char *mine, size_t bytes, char *theirs, size_t room);
    // Rank 0 or 1: data = data of rank 0 (op) data of rank 1, count elements of `width` bytes.
    void all_reduce(int rank, char *data, size_t count, size_t width, engine_reduce_function op);

  private:
    struct Progress;
    // An incoming connection, from the other rank or from a stranger.
    struct Caller {
        Descriptor socket;
        size_t told = 0; // bytes of the token
        Token token = {};
    };

    bool has_answered(int wait_ms);
    void take_call();
    bool listen_to(Caller &caller) const;
    bool has_connected(int wait_ms);
    size_t receive(char *data, size_t bytes);
    size_t send(const char *data, size_t bytes, int flags);
    void wait(size_t incoming, bool sends);
    size_t receive_part(Progress &progress);
    size_t send_part(Progress &progress);

    Descriptor listener_, socket_;
    int awaited_ = 1; // bytes that must have arrived before a wait ends
    Token token_ = {};
    size_t told_ = 0;               // bytes of the token that the other rank has been sent
    std::vector<Caller> callers_;   // who have not told the token yet
    std::string other_;             // where the other rank listens, for messages
    std::unique_ptr<char[]> piece_; // of the other rank's data, before it is added
};

} // namespace yoke

#endif

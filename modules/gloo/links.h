/*
 * The connections of a rank with all others by which ranks exchange messages, gather and reduce
 * without gloo.
 *
 * gloo reads on a thread of its own, which wakes for every packet, hands over each segment, and
 * spins while another thread writes. Where a rank computes on the same core, all of this is taken
 * from it. Here one thread sends and receives, and sleeps until much of the data has arrived.
 */
#ifndef YOKE_GLOO_LINKS_H
#define YOKE_GLOO_LINKS_H

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "comm/engine/operators.h"
#include "connection.h"
#include "transfer.h"

namespace yoke
{

class Links
{
  public:
    using Token = std::array<char, 16>;
    // What a rank tells the ranks after it, which call it: the token keeps out whoever else calls.
    struct Card {
        uint16_t port; // in the order of the network
        Token token;
    };

    Links(int rank, int size);
    // Listens on its own address, on a port that is free.
    Card listen(sockaddr_storage address);
    // Calls a rank before this one.
    void connect(int other, sockaddr_storage address, const Card &card);
    // Then every rank calls this until all connections are made. Waits at most wait_ms.
    bool open(int wait_ms);
    // Whether there is a connection with another rank.
    bool has(int other) const;
    // Ends whatever waits for another rank, here and there.
    void interrupt();

    // See transfer.h.
    void exchange(char *messages, size_t stride, size_t least, size_t bytes);
    // The same in two steps, of which the second waits at most wait_ms and says whether it is over.
    void begin_exchange(char *messages, size_t stride, size_t least, size_t bytes);
    bool test_exchange(int wait_ms);
    void all_gather(char *all, size_t bytes);
    void reduce(int root, char *data, size_t count, size_t width, yki_engine_operator op);

  private:
    // What a rank says when it calls.
    struct Greeting {
        Token token;
        int32_t rank;
    };
    // Whoever has called this rank: another rank or a stranger.
    struct Caller {
        Descriptor socket;
        size_t told = 0; // bytes of the greeting
        Greeting greeting = {};
    };
    // A rank that this one calls.
    struct Called {
        int rank;
        Descriptor socket;
        std::string name; // where it listens, for messages
        size_t told;      // bytes of the greeting
        Greeting greeting;
    };

    void take_call();
    bool listen_to(Caller &caller);
    bool greet(Called &called);
    void keep(int other, Descriptor socket);
    void begin(Transfer &transfer);
    void move(Transfer &transfer, int wait_ms);
    void run(Transfer &transfer);
    void wait(const Transfer &transfer, int wait_ms);

    int rank_, size_;
    Descriptor listener_;
    Token token_ = {};            // of those who call this rank
    std::vector<Caller> callers_; // who have not told all of their greeting yet
    std::vector<Called> called_;
    std::vector<Connection> connections_; // by rank
    std::vector<pollfd> entries_;         // of a wait, and ...
    std::vector<int> waited_;             // ... their ranks
    std::vector<char> pieces_;            // of reductions
    std::unique_ptr<Exchange> exchange_;  // that is under way
};

} // namespace yoke

#endif

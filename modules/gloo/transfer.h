/*
 * What a rank and all others send each other at once, on connections whose bytes are nothing but
 * that. A transfer knows what may move now; links.cc waits until something can.
 */
#ifndef YOKE_GLOO_TRANSFER_H
#define YOKE_GLOO_TRANSFER_H

#include <cstddef>
#include <cstdint>
#include <vector>

#include "comm/engine/operators.h"
#include "connection.h"

namespace yoke
{

class Transfer
{
  public:
    Transfer(int rank, int size) : rank_(rank), size_(size)
    {
    }
    virtual ~Transfer() = default;
    // Bytes that can be received from another rank, and sent to it, as things are. The other rank
    // sends all that can be received without waiting for anything more of this one.
    virtual size_t incoming(int other) const = 0;
    virtual size_t outgoing(int other) const = 0;
    // Move some of them.
    virtual void receive(int other, Connection &from) = 0;
    virtual void send(int other, Connection &to) = 0;
    virtual bool is_over() const = 0;

  protected:
    int rank_, size_;
};

// Each rank sends a message to all others. They lie in the order of the ranks, `stride` bytes
// apart, which is the most that one may have. Each has at least `least` bytes, this rank's `bytes`.
class Exchange : public Transfer
{
  public:
    Exchange(int rank, int size, char *messages, size_t stride, size_t least, size_t bytes);
    size_t incoming(int other) const override;
    size_t outgoing(int other) const override;
    void receive(int other, Connection &from) override;
    void send(int other, Connection &to) override;
    bool is_over() const override;

  private:
    // A message follows its length.
    struct Peer {
        uint64_t length = 0;
        size_t received = 0, sent = 0; // with the lengths
    };
    char *messages_;
    size_t stride_, least_;
    uint64_t length_;
    std::vector<Peer> peers_;
};

// all = (size, bytes), of which each rank has its part.
class AllGather : public Transfer
{
  public:
    AllGather(int rank, int size, char *all, size_t bytes);
    size_t incoming(int other) const override;
    size_t outgoing(int other) const override;
    void receive(int other, Connection &from) override;
    void send(int other, Connection &to) override;
    bool is_over() const override;

  private:
    char *all_;
    size_t bytes_;
    std::vector<size_t> received_, sent_;
};

// data = data of rank 0 (op) data of rank 1 (op) ..., count elements of `width` bytes: on all
// ranks, or on `root` alone where that is one.
class Reduction : public Transfer
{
  public:
    Reduction(int rank, int size, int root, char *data, size_t count, size_t width,
              yki_engine_operator op, std::vector<char> &pieces);
    size_t incoming(int other) const override;
    size_t outgoing(int other) const override;
    void receive(int other, Connection &from) override;
    void send(int other, Connection &to) override;
    bool is_over() const override;

  private:
    // Bytes: received are those that are to be reduced and then those that have been, and sent too.
    struct Peer {
        size_t received = 0, sent = 0;
    };
    size_t part(int rank) const;
    size_t result(int rank, int part) const;
    size_t piece() const;
    bool has_piece() const;
    void reduce_piece();

    int root_;
    char *data_;
    size_t width_;
    yki_engine_operator op_;
    std::vector<size_t> starts_; // of the ranks' parts, and the end
    size_t room_;                // of a piece
    std::vector<char> &pieces_;  // (size, room), of what the others send of this rank's part
    size_t reduced_ = 0;         // bytes of this rank's part
    std::vector<Peer> peers_;
};

} // namespace yoke

#endif

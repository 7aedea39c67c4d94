// See transfer.h.
#include "transfer.h"

#include <algorithm>
#include <stdexcept>

namespace yoke
{

// ---- messages -----------------------------------------------------------------------------------

namespace
{
constexpr size_t head = sizeof(uint64_t);
}

Exchange::Exchange(int rank, int size, char *messages, size_t stride, size_t least, size_t bytes)
    : Transfer(rank, size), messages_(messages), stride_(stride), least_(least), length_(bytes),
      peers_(size)
{
}

size_t Exchange::incoming(int other) const
{
    const Peer &peer = peers_[other];
    return head + (peer.received < head ? least_ : peer.length) - peer.received;
}

size_t Exchange::outgoing(int other) const
{
    return head + length_ - peers_[other].sent;
}

void Exchange::receive(int other, Connection &from)
{
    Peer &peer = peers_[other];
    char *message = messages_ + other * stride_, *length = reinterpret_cast<char *>(&peer.length);
    if (peer.received < head) {
        peer.received +=
            from.receive(length + peer.received, head - peer.received, message, least_);
        if (peer.received >= head && (peer.length < least_ || peer.length > stride_))
            throw std::runtime_error("a message of another rank has a wrong length");
    } else {
        peer.received += from.receive(message + (peer.received - head), incoming(other));
    }
}

void Exchange::send(int other, Connection &to)
{
    Peer &peer = peers_[other];
    const char *message = messages_ + rank_ * stride_;
    const char *length = reinterpret_cast<const char *>(&length_);
    if (peer.sent < head)
        peer.sent += to.send(length + peer.sent, head - peer.sent, message, length_);
    else
        peer.sent += to.send(message + (peer.sent - head), outgoing(other));
}

bool Exchange::is_over() const
{
    for (int other = 0; other < size_; other++)
        if (other != rank_ && (incoming(other) > 0 || outgoing(other) > 0))
            return false;
    return true;
}

// ---- gathering ----------------------------------------------------------------------------------

AllGather::AllGather(int rank, int size, char *all, size_t bytes)
    : Transfer(rank, size), all_(all), bytes_(bytes), received_(size), sent_(size)
{
}

size_t AllGather::incoming(int other) const
{
    return bytes_ - received_[other];
}

size_t AllGather::outgoing(int other) const
{
    return bytes_ - sent_[other];
}

void AllGather::receive(int other, Connection &from)
{
    received_[other] += from.receive(all_ + other * bytes_ + received_[other], incoming(other));
}

void AllGather::send(int other, Connection &to)
{
    sent_[other] += to.send(all_ + rank_ * bytes_ + sent_[other], outgoing(other));
}

bool AllGather::is_over() const
{
    for (int other = 0; other < size_; other++)
        if (other != rank_ && (received_[other] < bytes_ || sent_[other] < bytes_))
            return false;
    return true;
}

// ---- reducing -----------------------------------------------------------------------------------

// Each rank reduces one part: it receives the others' data of its part, and sends each of them its
// own data of theirs. Then it sends what it has reduced to those who get the result. Both are one
// stream in each direction, so that the second begins as soon as the first piece has been reduced.
// What another rank has reduced only comes after this rank has sent it its own data of that.

namespace
{
// Pieces of all ranks, which are added while they are in the second-level cache.
constexpr size_t pieces_bytes = 256 * 1024, least_piece = 16 * 1024;
} // namespace

Reduction::Reduction(int rank, int size, int root, char *data, size_t count, size_t width,
                     yki_engine_operator op, std::vector<char> &pieces)
    : Transfer(rank, size), root_(root), data_(data), width_(width), op_(op),
      room_(std::max(pieces_bytes / std::max(size - 1, 1) / width * width, least_piece)),
      pieces_(pieces), peers_(size)
{
    for (int r = 0; r <= size; r++)
        starts_.push_back(count * r / size * width);
    pieces_.resize(room_ * size);
}

size_t Reduction::part(int rank) const
{
    return starts_[rank + 1] - starts_[rank];
}

// Bytes that a rank gets of the result of a part.
size_t Reduction::result(int rank, int of) const
{
    return root_ < 0 || rank == root_ ? part(of) : 0;
}

// Bytes of the piece of this rank's part that is reduced next.
size_t Reduction::piece() const
{
    return std::min(room_, part(rank_) - reduced_);
}

size_t Reduction::incoming(int other) const
{
    size_t received = peers_[other].received, mine = part(rank_);
    return (received < mine ? reduced_ + piece() : mine + result(rank_, other)) - received;
}

size_t Reduction::outgoing(int other) const
{
    size_t sent = peers_[other].sent, theirs = part(other);
    bool gets = result(other, rank_) > 0;
    return theirs + (gets && sent >= theirs ? reduced_ : 0) - sent;
}

void Reduction::receive(int other, Connection &from)
{
    size_t &received = peers_[other].received, mine = part(rank_);
    if (received >= mine) {
        received += from.receive(data_ + starts_[other] + (received - mine), incoming(other));
        return;
    }
    char *to = pieces_.data() + other * room_ + (received - reduced_);
    received += from.receive(to, incoming(other));
    if (has_piece())
        reduce_piece();
}

bool Reduction::has_piece() const
{
    for (int other = 0; other < size_; other++)
        if (other != rank_ && peers_[other].received < reduced_ + piece())
            return false;
    return true;
}

// In the order of the ranks. Until this rank's own data is added, the sum is in rank 0's piece.
void Reduction::reduce_piece()
{
    size_t bytes = piece();
    char *mine = data_ + starts_[rank_] + reduced_, *sum = rank_ == 0 ? mine : pieces_.data();
    for (int r = 1; r < size_; r++) {
        char *next = r == rank_ ? mine : pieces_.data() + r * room_;
        char *to = r < rank_ ? sum : mine;
        op_(to, sum, next, bytes / width_);
        sum = to;
    }
    reduced_ += bytes;
}

void Reduction::send(int other, Connection &to)
{
    size_t &sent = peers_[other].sent, theirs = part(other);
    const char *from =
        sent < theirs ? data_ + starts_[other] + sent : data_ + starts_[rank_] + (sent - theirs);
    sent += to.send(from, outgoing(other));
}

bool Reduction::is_over() const
{
    for (int other = 0; other < size_; other++) {
        if (other == rank_)
            continue;
        const Peer &peer = peers_[other];
        if (peer.received < part(rank_) + result(rank_, other) ||
            peer.sent < part(other) + result(other, rank_))
            return false;
    }
    return true;
}

} // namespace yoke

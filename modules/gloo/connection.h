// A connection with another rank, of which no call blocks.
#ifndef YOKE_GLOO_CONNECTION_H
#define YOKE_GLOO_CONNECTION_H

#include <sys/socket.h>
#include <sys/uio.h>

#include <cstddef>
#include <string>
#include <utility>

#include "descriptor.h"

namespace yoke
{

// Throws an error with the text of errno.
[[noreturn]] void fail(const std::string &what);
[[noreturn]] void fail(const std::string &what, int error);

class Connection
{
  public:
    explicit Connection(Descriptor socket = Descriptor()) : socket_(std::move(socket))
    {
    }
    int descriptor() const
    {
        return socket_;
    }
    // Small messages leave at once.
    void send_at_once();
    // Both return how many bytes have moved, which may be none. The other rank's end is an error.
    size_t receive(char *data, size_t bytes);
    size_t send(const char *data, size_t bytes);
    // The same, of two buffers one after the other.
    size_t receive(char *first, size_t first_bytes, char *second, size_t second_bytes);
    size_t send(const char *first, size_t first_bytes, const char *second, size_t second_bytes);
    // Whoever polls for input is woken by so many bytes, or by any where these are few.
    void await(size_t bytes);
    // Ends whatever waits for the other rank, here and there.
    void interrupt();

  private:
    Descriptor socket_;
    int awaited_ = 1;
};

} // namespace yoke

#endif

// A file descriptor that is closed with its owner.
#ifndef YOKE_GLOO_DESCRIPTOR_H
#define YOKE_GLOO_DESCRIPTOR_H

#include <unistd.h>

#include <utility>

namespace yoke
{

class Descriptor
{
  public:
    explicit Descriptor(int number = -1) : number_(number)
    {
    }
    Descriptor(Descriptor &&other) noexcept : number_(std::exchange(other.number_, -1))
    {
    }
    Descriptor &operator=(Descriptor &&other) noexcept
    {
        std::swap(number_, other.number_);
        return *this;
    }
    ~Descriptor()
    {
        if (number_ >= 0)
            close(number_);
    }
    operator int() const
    {
        return number_;
    }

  private:
    int number_; // -1: none
};

} // namespace yoke

#endif

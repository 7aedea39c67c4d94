/* Places beyond the edge of a line that is mirrored there; also for the kernels of GPUs. */
#ifndef YKI_REFLECTED_H
#define YKI_REFLECTED_H

#include "base/host_device.h"

/* The place in a line of `size` pixels that is seen at a place at most size - 1 beyond its ends. */
YKI_HOST_DEVICE int yki_reflected(int at, int size)
{
    at = at < 0 ? -at : at;
    return at < size ? at : 2 * (size - 1) - at;
}

#endif

/* Where in time the steps of a recurrent layer are. */
#ifndef YKI_DEVICE_TIME_STEPS_H
#define YKI_DEVICE_TIME_STEPS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/host_device.h"

/* How many of `steps` a sequence of this length has: lengths are whole numbers, and what is none of
 * these is cut off or, if it is NaN, 0. */
YKI_HOST_DEVICE int64_t yki_steps_of_length(double length, int64_t steps)
{
    if (!(length > 0))
        return 0;
    return length < (double)steps ? (int64_t)(length + 0.5) : steps;
}

/* Where in time step i of a sequence of `count` steps is. */
YKI_HOST_DEVICE int64_t yki_time_of_step(int64_t i, int64_t count, bool reverse)
{
    return reverse ? count - 1 - i : i;
}

#endif

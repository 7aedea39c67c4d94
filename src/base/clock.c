/* See clock.h. */
#define _GNU_SOURCE
#include "base/clock.h"

#include <time.h>

double yki_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

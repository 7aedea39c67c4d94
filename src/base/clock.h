/* Monotonic wall clock, in seconds. */
#ifndef YKI_CLOCK_H
#define YKI_CLOCK_H

#include <time.h>

static inline double yki_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

#endif

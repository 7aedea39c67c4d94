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

int yki_milliseconds_until(double deadline)
{
    double left = deadline - yki_now();
    if (left <= 0)
        return 0;
    return left < 3600 ? (int)(left * 1e3) + 1 : 3600 * 1000;
}

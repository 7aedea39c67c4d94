/* See clock.h. */
#define _GNU_SOURCE
#include "common/clock.h"

#include <time.h>

double cli_clock_s(void)
{
    struct timespec clock;
    clock_gettime(CLOCK_MONOTONIC, &clock);
    return (double)clock.tv_sec + 1e-9 * (double)clock.tv_nsec;
}

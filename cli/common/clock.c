/* See clock.h. */
#define _GNU_SOURCE
#include "common/clock.h"

double cli_clock_s(void)
{
    struct timespec clock;
    clock_gettime(CLOCK_MONOTONIC, &clock);
    return (double)clock.tv_sec + 1e-9 * (double)clock.tv_nsec;
}

struct timespec cli_clock_after(double seconds)
{
    struct timespec moment;
    clock_gettime(CLOCK_MONOTONIC, &moment);
    long nanoseconds = moment.tv_nsec + (long)(1e9 * (seconds - (double)(time_t)seconds));
    moment.tv_sec += (time_t)seconds + nanoseconds / 1000000000;
    moment.tv_nsec = nanoseconds % 1000000000;
    return moment;
}

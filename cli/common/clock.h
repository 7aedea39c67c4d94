/* The clock for measuring durations. */
#ifndef YOKE_CLI_CLOCK_H
#define YOKE_CLI_CLOCK_H

#include <time.h>

/* Seconds since an arbitrary moment; never goes backwards. */
double cli_clock_s(void);
/* A moment so many seconds from now, for functions that wait on CLOCK_MONOTONIC. */
struct timespec cli_clock_after(double seconds);

#endif

/* The clock for measuring durations. */
#ifndef YOKE_CLI_CLOCK_H
#define YOKE_CLI_CLOCK_H

/* Seconds since an arbitrary moment; never goes backwards. */
double cli_clock_s(void);

#endif

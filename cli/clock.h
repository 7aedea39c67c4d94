/* Time as durations are measured in. */
#ifndef YOKE_CLI_CLOCK_H
#define YOKE_CLI_CLOCK_H

/* Seconds since some moment: never set back. */
double cli_clock_s(void);

#endif

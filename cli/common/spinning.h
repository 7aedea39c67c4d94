/*
 * How long threads of OpenMP spin while they wait for each other. libgomp's default, some
 * milliseconds, takes cores away from those that still work wherever other programs run, too; a
 * tenth of a millisecond bridges the time from one kernel to the next (docs/performance.md).
 */
#ifndef YOKE_CLI_SPINNING_H
#define YOKE_CLI_SPINNING_H

#include <stdbool.h>

#define CLI_SPIN_VARIABLE "GOMP_SPINCOUNT"
#define CLI_SPIN_COUNT    "10000"

/* Whether the environment says how threads wait, so that it is to be left as it is. */
bool cli_spinning_is_set(void);

/*
 * Sets the variable for this process. libgomp has read its environment before main(), so the
 * program is started again, in its place, with the same arguments. Returns where the environment
 * says already how threads wait, or where it cannot start again.
 */
void cli_limit_spinning(char **arguments);

#endif

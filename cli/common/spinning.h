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

/* Whether the user has already chosen in the environment how threads wait. */
bool cli_spinning_is_set(void);

/*
 * Sets the variable for this process, unless the user has chosen. libgomp reads its environment
 * before main(), so this replaces the process by the same program with the same arguments. It
 * returns if there is nothing to set, or if that fails.
 */
void cli_limit_spinning(char **arguments);

#endif

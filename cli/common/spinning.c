/* See spinning.h. */
#define _GNU_SOURCE
#include "common/spinning.h"

#include <stdlib.h>
#include <unistd.h>

bool cli_spinning_is_set(void)
{
    return getenv(CLI_SPIN_VARIABLE) || getenv("OMP_WAIT_POLICY");
}

void cli_limit_spinning(char **arguments)
{
    if (!cli_spinning_is_set() && setenv(CLI_SPIN_VARIABLE, CLI_SPIN_COUNT, 1) == 0)
        execv("/proc/self/exe", arguments);
}

#include "common/parent.h"

#include <sys/prctl.h>
#include <unistd.h>

void cli_end_with_parent(pid_t parent, int signal)
{
    prctl(PR_SET_PDEATHSIG, signal);
    if (getppid() != parent) /* it has ended before prctl took effect */
        _exit(1);
}

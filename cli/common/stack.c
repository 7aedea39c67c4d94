/* See stack.h. */
#define _GNU_SOURCE
#include "common/stack.h"

#include <stdbool.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

/* Below `least` the launcher crashes; with `enough`, nothing was ever found to. */
static const rlim_t usual = 8 << 20, enough = 1 << 20, least = 128 << 10;

/* The hard limit may be raised by root only. */
static bool raise_limit(struct rlimit *limit)
{
    struct rlimit both = {usual, limit->rlim_max > usual ? limit->rlim_max : usual};
    struct rlimit soft = {limit->rlim_max, limit->rlim_max};
    if (setrlimit(RLIMIT_STACK, &both) == 0)
        *limit = both;
    else if (soft.rlim_cur > limit->rlim_cur && setrlimit(RLIMIT_STACK, &soft) == 0)
        *limit = soft;
    else
        return false;
    return true;
}

void cli_ensure_stack(char **arguments)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_STACK, &limit) || limit.rlim_cur >= enough)
        return;
    if (raise_limit(&limit))
        execv("/proc/self/exe", arguments);
    if (limit.rlim_cur >= least)
        return;
    fprintf(stderr, "yoke: the stack is limited to %lld KiB (ulimit -s), and yoke needs %lld\n",
            (long long)limit.rlim_cur >> 10, (long long)least >> 10);
    _exit(1);
}

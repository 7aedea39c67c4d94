/* A control group with little memory, in which the kernel kills who needs more. */
#ifndef YK_TEST_SMALL_GROUP_H
#define YK_TEST_SMALL_GROUP_H

#include "harness.h"

#include <string.h>
#include <unistd.h>

/* A command of a shell that needs more memory than the group has. */
#define TAKES_300_MB "exec dd if=/dev/zero of=/dev/null bs=300M count=1"

/*
 * Makes the group, of either version, and writes its path; skips the case where that is not
 * possible. A process enters it by writing its pid to cgroup.procs there, and the case removes it.
 */
static inline void make_small_group(char *path, size_t size)
{
    char output[1024];
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
    skip_because("%s", "a launcher under a sanitizer needs more memory than the group has");
#endif
    int code = yk_test_command(
        output, sizeof output,
        "set -e; root=/sys/fs/cgroup; own=$(sed -n 's/^0:://p' /proc/self/cgroup); "
        "limit=memory.max; grep -q :memory: /proc/self/cgroup && { root=/sys/fs/cgroup/memory; "
        "limit=memory.limit_in_bytes; own=$(sed -n 's/.*:memory://p' /proc/self/cgroup); }; "
        "group=$root$own/yoke-test-%d; mkdir $group; echo 60M >$group/$limit; echo $group",
        (int)getpid());
    output[strcspn(output, "\n")] = '\0';
    snprintf(path, size, "%s", output);
    if (code)
        skip_because("no control group with little memory: %s", path);
}

#endif

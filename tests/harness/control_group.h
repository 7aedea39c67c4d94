/* A control group of files that a case writes, in place of those that this process is in. */
#ifndef YK_TEST_CONTROL_GROUP_H
#define YK_TEST_CONTROL_GROUP_H

#include "disk.h"
#include "harness.h"

#include <errno.h>
#include <string.h>
#include <sys/mount.h>

/* Covers /sys/fs/cgroup for this process alone; skips the case where that is not permitted. */
static inline void yk_test_cover_control_groups(void)
{
    const char *disk = yk_test_disk(1 << 20);
    if (mount(disk, "/sys/fs/cgroup", NULL, MS_BIND, NULL))
        skip_because("/sys/fs/cgroup cannot be covered here: %s", strerror(errno));
}

static inline void yk_test_limit(const char *name, const char *text)
{
    char path[80];
    snprintf(path, sizeof path, "/sys/fs/cgroup/%s", name);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

#endif

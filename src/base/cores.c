/*
 * Cores by sched_getaffinity, limited by cgroup v2's cpu.max, rounded up. A container with a quota
 * of 2.0 on a 64-core host has 2 cores, whatever nproc says. Quotas of cgroup v1 are not looked at.
 */
#define _GNU_SOURCE
#include "base/cores.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int affinity_cores(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        return CPU_COUNT(&set);
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (int)online : 1;
}

/* Cores of a quota file's "QUOTA PERIOD", or 0 when it says nothing. */
static double quota_cores(const char *path)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    double quota = 0, period = 0;
    int fields = fscanf(file, "%lf %lf", &quota, &period);
    fclose(file);
    return fields == 2 && quota > 0 && period > 0 ? quota / period : 0;
}

/*
 * cgroup v2: this process's group and all its ancestors; the tightest quota counts. Where v2 is not
 * what manages the system there is nothing to read, and reading which group we are in would wait
 * for the kernel's one lock of all groups.
 */
static double cgroup_cores(void)
{
    char line[512], path[1024], group[512] = "";
    if (access("/sys/fs/cgroup/cgroup.controllers", R_OK))
        return 0;
    FILE *file = fopen("/proc/self/cgroup", "re");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, "0::", 3) == 0)
            snprintf(group, sizeof group, "%.*s", (int)strcspn(line + 3, "\n"), line + 3);
    if (file)
        fclose(file);
    double least = 0;
    for (;;) {
        snprintf(path, sizeof path, "/sys/fs/cgroup%s/cpu.max", group);
        double cores = quota_cores(path);
        if (cores > 0 && (least == 0 || cores < least))
            least = cores;
        char *slash = strrchr(group, '/');
        if (!slash)
            break;
        *slash = '\0';
    }
    return least;
}

int yki_cores_available(void)
{
    int cores = affinity_cores();
    double quota = cgroup_cores();
    if (quota > 0 && quota < cores)
        cores = (int)(quota + 0.999);
    return cores > 0 ? cores : 1;
}

int yk_threads_default(int local_world_size)
{
    int threads = yki_cores_available() / (local_world_size > 0 ? local_world_size : 1);
    return threads > 0 ? threads : 1;
}

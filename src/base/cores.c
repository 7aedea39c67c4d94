/*
 * Cores by sched_getaffinity, limited by cgroup v2's cpu.max, rounded up. A container with a quota
 * of 2.0 on a 64-core host has 2 cores, whatever nproc says. Quotas of cgroup v1 are not looked at.
 */
#define _GNU_SOURCE
#include "base/cores.h"

#include <sched.h>
#include <stdio.h>
#include <unistd.h>

#include "base/cgroup.h"

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

/* Lowers *least, in cores, to the quota of a control group; 0 is none. */
static void take_quota(const char *folder, void *least)
{
    char path[1100];
    snprintf(path, sizeof path, "%s/cpu.max", folder);
    double cores = quota_cores(path), *lowest = least;
    if (cores > 0 && (*lowest == 0 || cores < *lowest))
        *lowest = cores;
}

static double cgroup_cores(void)
{
    double least = 0;
    yki_cgroup_each(take_quota, &least);
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

/*
 * The kernel counts its kills for each control group, in memory.events (version 2) or
 * memory.oom_control (version 1), including the groups below. Where processes are in no such group,
 * /proc/vmstat counts those of the whole machine.
 */
#define _GNU_SOURCE
#include "launch/oom.h"

#include <stdio.h>
#include <string.h>

/* The number after "oom_kill " at the beginning of a line; -1 if the file has none. */
static long read_counter(const char *path)
{
    char line[256];
    long number = -1;
    FILE *file = fopen(path, "re");
    while (file && number < 0 && fgets(line, sizeof line, file))
        if (sscanf(line, "oom_kill %ld", &number) != 1)
            number = -1;
    if (file)
        fclose(file);
    return number;
}

/* Writes the path of the counter's file for one line of /proc/self/cgroup, or "". */
static void counter_path(const char *line, char *path, size_t size)
{
    int at = 0;
    path[0] = '\0';
    const char *group = strchr(line, '/');
    if (sscanf(line, "0::%n", &at) == 0 && at > 0)
        snprintf(path, size, "/sys/fs/cgroup%s/memory.events", group);
    else if (strstr(line, ":memory:"))
        snprintf(path, size, "/sys/fs/cgroup/memory%s/memory.oom_control", group);
}

long cli_oom_kills(void)
{
    char line[2048], path[2200];
    long kills = -1;
    FILE *groups = fopen("/proc/self/cgroup", "re");
    while (groups && kills < 0 && fgets(line, sizeof line, groups)) {
        line[strcspn(line, "\n")] = '\0';
        counter_path(line, path, sizeof path);
        if (path[0] && strchr(line, '/'))
            kills = read_counter(path);
    }
    if (groups)
        fclose(groups);
    if (kills < 0)
        kills = read_counter("/proc/vmstat");
    return kills < 0 ? 0 : kills;
}

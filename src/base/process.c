#include "base/process.h"

#include <stdio.h>
#include <string.h>

/* The name in /proc/PID/stat may hold anything, even ')'. */
char yki_process_state(pid_t pid)
{
    char path[64], stat[256], state;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    size_t length = fread(stat, 1, sizeof stat - 1, file);
    fclose(file);
    stat[length] = '\0';
    const char *name_end = strrchr(stat, ')');
    return name_end && sscanf(name_end, ") %c", &state) == 1 ? state : 0;
}

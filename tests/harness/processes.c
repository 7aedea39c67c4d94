#define _GNU_SOURCE
#include "harness.h"

#include "processes.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Entries that are separated by NULs, followed by a NUL; empty if the process is gone. */
static size_t read_environment(const char *pid, char *block, size_t size)
{
    char path[300];
    snprintf(path, sizeof path, "/proc/%s/environ", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t length = 0;
    for (ssize_t got; fd >= 0 && (got = read(fd, block + length, size - 1 - length)) > 0;)
        length += (size_t)got;
    if (fd >= 0)
        close(fd);
    block[length] = '\0';
    return length;
}

static char block[256 * 1024];

bool yk_test_environment_contains(const char *pid, const char *text)
{
    size_t length = read_environment(pid, block, sizeof block);
    return length && memmem(block, length, text, strlen(text));
}

bool yk_test_environment_has(const char *pid, const char *entry)
{
    size_t length = read_environment(pid, block, sizeof block);
    for (size_t at = 0; at < length; at += strlen(block + at) + 1)
        if (strcmp(block + at, entry) == 0)
            return true;
    return false;
}

/* Whether there is a parent; its pid. */
static bool read_parent(const char *pid, char parent[16])
{
    char path[300];
    snprintf(path, sizeof path, "/proc/%s/stat", pid);
    FILE *file = fopen(path, "re");
    bool read = file && fscanf(file, "%*d (%*[^)]) %*c %15s", parent) == 1;
    if (file)
        fclose(file);
    return read;
}

/* The next process in the folder, or NULL after the last. */
static const char *next_process(DIR *processes)
{
    struct dirent *entry;
    while ((entry = readdir(processes)))
        if (isdigit((unsigned char)entry->d_name[0]))
            return entry->d_name;
    return NULL;
}

int yk_test_count_processes(bool (*is_such)(const char *pid, const void *context),
                            const void *context)
{
    DIR *processes = opendir("/proc");
    assert_non_null(processes);
    int count = 0;
    for (const char *pid; (pid = next_process(processes));)
        count += is_such(pid, context);
    closedir(processes);
    return count;
}

pid_t yk_test_first_process(bool (*is_such)(const char *pid, const void *context),
                            const void *context)
{
    DIR *processes = opendir("/proc");
    assert_non_null(processes);
    pid_t found = 0;
    for (const char *pid; !found && (pid = next_process(processes));) {
        char parent[16];
        if (is_such(pid, context) && !(read_parent(pid, parent) && is_such(parent, context)))
            found = atoi(pid);
    }
    closedir(processes);
    return found;
}

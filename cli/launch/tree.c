/*
 * Ending a tree of processes for certain. Only direct children are killed: they stay ours until we
 * wait for them, so their pids cannot have been given to other processes meanwhile. The children of
 * a killed child become ours, since we are a subreaper, and are killed in the next round; parents
 * die before their children, so a tree that keeps forking cannot outrun us. When we have no child
 * left, there is no descendant left either, whatever it did with setsid or double forks.
 *
 * Each round reads all of /proc, and the kernel cannot finish a dying process while its entries
 * there are being read. The pauses grow, so that many jobs that end at once do not hold each other
 * up.
 */
#define _GNU_SOURCE
#include "launch/launch.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "common/clock.h"

enum { LONGEST_PAUSE_NS = 32000000 };

/* The parent of a process, or -1. The name in /proc/PID/stat may hold anything, even ')'. */
static pid_t parent_of(const char *pid)
{
    char path[300], stat[512];
    snprintf(path, sizeof path, "/proc/%s/stat", pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return -1;
    size_t length = fread(stat, 1, sizeof stat - 1, file);
    fclose(file);
    stat[length] = '\0';
    const char *name_end = strrchr(stat, ')');
    int parent;
    return name_end && sscanf(name_end, ") %*c %d", &parent) == 1 ? parent : -1;
}

static void kill_children(void)
{
    DIR *processes = opendir("/proc");
    if (!processes)
        return;
    pid_t self = getpid();
    for (struct dirent *entry; (entry = readdir(processes));)
        if (isdigit((unsigned char)entry->d_name[0]) && parent_of(entry->d_name) == self)
            kill(atoi(entry->d_name), SIGKILL);
    closedir(processes);
}

bool cli_tree_kill(double seconds)
{
    double deadline = cli_clock_s() + seconds;
    for (long pause_ns = 1000000;; pause_ns += pause_ns < LONGEST_PAUSE_NS ? pause_ns : 0) {
        pid_t pid;
        do
            pid = waitpid(-1, NULL, WNOHANG);
        while (pid > 0);
        if (pid < 0 && errno == ECHILD)
            return true;
        if (cli_clock_s() > deadline)
            return false;
        kill_children();
        nanosleep(&(struct timespec){.tv_nsec = pause_ns}, NULL);
    }
}

int cli_exit_code(int status)
{
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

bool cli_failure_is_final(int attempt, int code)
{
    return attempt == 0 && code == CLI_EXIT_USAGE;
}

const char *cli_describe_status(int status, char *text, int size)
{
    if (!WIFSIGNALED(status)) {
        snprintf(text, (size_t)size, "exited with code %d", WEXITSTATUS(status));
        return text;
    }
    const char *name = sigabbrev_np(WTERMSIG(status));
    snprintf(text, (size_t)size, "killed by signal %d (%s%s)", WTERMSIG(status), name ? "SIG" : "",
             name ? name : "unknown");
    return text;
}

/* See deadline.h. Everything in the handler is async-signal-safe. */
#define _GNU_SOURCE
#include "deadline.h"

#include <dirent.h>
#include <execinfo.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { EARLY_S = 10 }; /* so long before ctest would kill the test */

static void say(const char *text)
{
    if (write(STDERR_FILENO, text, strlen(text)) < 0)
        return;
}

/* Copies /proc/self/task/TID/NAME to stderr. */
static void show_file(const char *task, const char *name)
{
    char path[128] = "/proc/self/task/", text[2048];
    strncat(path, task, 20);
    strncat(path, "/", 2);
    strncat(path, name, 20);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    if (got <= 0)
        return;
    text[got] = '\0';
    say(" ");
    say(name);
    say(": ");
    say(text);
    if (text[got - 1] != '\n')
        say("\n");
}

static void show_threads(int number)
{
    (void)number;
    char entries[4096];
    void *frames[64];
    say("the test is about to exceed its deadline; its threads:\n");
    int tasks = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (long size;
         tasks >= 0 && (size = syscall(SYS_getdents64, tasks, entries, sizeof entries)) > 0;)
        for (long at = 0; at < size;) {
            const struct dirent64 *entry = (const struct dirent64 *)(entries + at);
            at += entry->d_reclen;
            if (entry->d_name[0] == '.')
                continue;
            say(entry->d_name);
            show_file(entry->d_name, "comm");
            show_file(entry->d_name, "wchan");
            show_file(entry->d_name, "syscall");
            show_file(entry->d_name, "stack");
        }
    if (tasks >= 0)
        close(tasks);
    say("this thread:\n");
    backtrace_symbols_fd(frames, backtrace(frames, 64), STDERR_FILENO);
}

void yk_test_watch_deadline(void)
{
    const char *text = getenv("YK_TEST_DEADLINE");
    int seconds = text ? atoi(text) : 0;
    void *frame;
    if (seconds <= 0)
        return;
    backtrace(&frame, 1); /* which loads a library, and may not do so in the handler */
    struct sigaction action = {.sa_handler = show_threads, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(SIGALRM, &action, NULL);
    alarm((unsigned)(seconds > EARLY_S ? seconds - EARLY_S : 1));
}

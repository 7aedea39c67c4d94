/*
 * The processes of this machine, as a test looks for those that it has caused. A pid is the name of
 * its folder in /proc. A zombie has no environment.
 */
#ifndef YK_TEST_PROCESSES_H
#define YK_TEST_PROCESSES_H

#include <stdbool.h>
#include <sys/types.h>

/* Whether a process's environment has this text anywhere, or exactly this entry ("RANK=3"). */
bool yk_test_environment_contains(const char *pid, const char *text);
bool yk_test_environment_has(const char *pid, const char *entry);

/* How many processes are such. */
int yk_test_count_processes(bool (*is_such)(const char *pid, const void *context),
                            const void *context);

/* The first process that is such and whose parent is not, or 0. What a process has started may have
 * inherited its environment, and may have a lower pid. */
pid_t yk_test_first_process(bool (*is_such)(const char *pid, const void *context),
                            const void *context);

#endif

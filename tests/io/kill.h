/*
 * Deaths of a process that saves, at moments that depend on what it has done and not on how long
 * the machine takes. Its steps are what changes the disk: writes, syncs and renames. And signals
 * that interrupt syncs, as they do on network file systems.
 */
#ifndef YK_TEST_KILL_H
#define YK_TEST_KILL_H

#include <stdint.h>
#include <sys/types.h>

/* Once a file has got this name, the process dies. */
extern const char *yk_test_last_name;

/* So many syncs are interrupted from now on. */
extern int yk_test_interruptions;

/* Counts the steps of this process and of those that it forks from now on. None of them syncs: a
 * process that is killed loses nothing that it has written. */
void yk_test_count_steps(void);
int64_t yk_test_steps(void);

/* kill -9, once the child has taken so many more steps. It has not stopped by then, and so it dies
 * in the middle of whatever comes next. */
void yk_test_kill_after(pid_t child, int64_t steps);

#endif

/* Starts a process that ends with the launcher. See process.c. */
#ifndef YOKE_CLI_LAUNCH_PROCESS_H
#define YOKE_CLI_LAUNCH_PROCESS_H

#include <sched.h>
#include <sys/types.h>

typedef struct cli_process {
    char *const *program;   /* argv, ended by NULL; program[0] is looked up in PATH */
    char **environment;     /* ended by NULL */
    const cpu_set_t *cores; /* NULL: all */
} cli_process;

/*
 * Starts it; returns its pid, the read ends of its stdout and stderr, and the write end of its
 * stdin; in may be NULL, then its stdin is /dev/null. Returns -1 with errno set if the program
 * cannot be started.
 */
pid_t cli_process_start(const cli_process *process, int *in, int *out, int *err);

#endif

/* What the kernel tells of a process of this machine. */
#ifndef YKI_PROCESS_H
#define YKI_PROCESS_H

#include <sys/types.h>

/* The state of its main thread, a letter of ps(1): R, S, D, T, t, Z, X, ...; 0 where there is no
 * such process. */
char yki_process_state(pid_t pid);

#endif

/*
 * What fork() leaves behind: a child has one thread, and OpenMP's pool believes in the others, so
 * that the child's first parallel region would wait for ever.
 */
#ifndef YKI_FORK_H
#define YKI_FORK_H

#include <yoke/status.h>

/*
 * To be called before kernels run on several threads. YK_ERROR_UNSUPPORTED where this process was
 * forked by one that has run some already.
 */
yk_status yki_check_not_forked(void);

#endif

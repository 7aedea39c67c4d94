/*
 * Detecting a fork: the child has only one thread, but OpenMP's pool still counts on the others, so
 * the child's first parallel region would never return.
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

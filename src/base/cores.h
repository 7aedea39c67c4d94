/* Which cores this process may use: the affinity mask, cut by the cgroup's CPU quota. */
#ifndef YKI_CORES_H
#define YKI_CORES_H

#include <yoke/system.h> /* yk_threads_default is public */

#pragma GCC visibility push(default) /* shared with modules, see device/module.h */

/* Cores that affinity and cgroup quota leave, at least 1. */
int yki_cores_available(void);

#pragma GCC visibility pop

#endif

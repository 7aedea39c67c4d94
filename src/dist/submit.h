/* The way from a public call's arguments (collectives.c) to its running (group.c). */
#ifndef YKI_SUBMIT_H
#define YKI_SUBMIT_H

#include "dist/backend.h"

/*
 * Numbers the call and runs it now or, when work is not NULL, on the group's thread. Within a task
 * it runs now in any case: the queue waits for the task. checked is what its arguments have come
 * to: where that is not YK_OK, its line is this thread's last error.
 */
yk_status yki_group_submit(yk_group *group, yki_call *call, yk_status checked, yk_work **work);

#endif

/* How the ranks of a job find each other in its store. */
#ifndef YKI_MEETING_H
#define YKI_MEETING_H

#include "comm/job/init_method.h"

/* How often a rank that waits says so; docs/promises.md promises a first line within 5 s. */
#define YKI_NOTICE_FIRST_S 3.0
#define YKI_NOTICE_AGAIN_S 5.0

/*
 * Publishes what the other ranks need to know about this one, and waits until all have done so. A
 * rank that comes twice, a differing world size, and a rank that ends meanwhile are errors.
 */
yk_status yki_meeting_hold(yki_job *job, yki_init_method *m);

#endif

/* The group's one failure: claimed by its first finder, read by everybody else. */
#ifndef YKI_FAILURE_H
#define YKI_FAILURE_H

#include "comm/backend.h"

/* True for the first caller alone, who must go on to write it. */
bool yki_failure_claim(yki_failure *failure);
void yki_failure_write(yki_failure *failure, yk_status status, const char *text);
/* Waits for a claimed one to be written (its writer may die); YK_OK when there is none. */
yk_status yki_failure_read(const yki_failure *failure, char *text, size_t size);

/*
 * How a dead rank ended, as far as can be found out in half a second: by the launcher's note in the
 * store, by the kernel (Linux 6.15) once its parent has reaped it, or only that it is gone.
 */
void yki_death_words(const yki_job *job, int rank, char *text, size_t size);

#endif

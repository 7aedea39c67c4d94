/* The group's one failure: claimed by the rank that notices it first, read by all others. */
#ifndef YKI_FAILURE_H
#define YKI_FAILURE_H

#include <stdatomic.h>

#include "comm/call.h"
#include "comm/rendezvous.h"

/*
 * The one failure of a group, in memory that all ranks share. The rank that finds it first writes
 * it, so that every survivor reports the same cause and not another survivor's exit.
 */
typedef enum yki_failure_state {
    YKI_FAILURE_NONE,
    YKI_FAILURE_CLAIMED, /* a rank is writing it */
    YKI_FAILURE_READY
} yki_failure_state;

typedef struct yki_failure {
    atomic_int state; /* a yki_failure_state */
    int status;
    char text[384];
} yki_failure;

yki_failure *yki_shm_failure(yk_backend *backend);
bool yki_shm_left(yk_backend *backend, int rank);

/* True for the first caller only, which must then write it. */
bool yki_failure_claim(yki_failure *failure);
void yki_failure_write(yki_failure *failure, yk_status status, const char *text);
/* Waits until a claimed failure is written (its writer may die); YK_OK if there is none. */
yk_status yki_failure_read(const yki_failure *failure, char *text, size_t size);

/*
 * Tells the launcher, through the store, which rank is at fault (-1: no single one) and why. Only
 * the first report of a job counts. Call it before yki_failure_write: a rank that has read the
 * failure may end at once, and its end must not be reported first.
 */
void yki_failure_report(const yki_job *job, int rank, yk_status status, const char *text);

/*
 * Describes how a dead rank ended, as far as this can be found out in half a second: from the
 * launcher's note in the store, from the kernel (Linux 6.15) once its parent has reaped it, or only
 * that it is gone.
 */
void yki_death_words(const yki_job *job, int rank, char *text, size_t size);

#endif

/*
 * The one failure of a group. Its record is in the job's store, so that every survivor reports the
 * same cause and not another survivor's exit. All functions here ask the store and may block.
 */
#ifndef YKI_FAILURE_H
#define YKI_FAILURE_H

#include "comm/job/rendezvous.h"

typedef struct yki_failure {
    yk_status status; /* YK_OK: none */
    int culprit;      /* the job's number of the rank at fault; -1: no single one */
    char text[384];
} yki_failure;

/* Reads the record of the group whose job this is; status is YK_OK if there is none yet. The result
 * tells whether the store could be asked. */
yk_status yki_failure_read(const yki_job *job, yki_failure *failure);

/* Tells the launcher alone, unless it has been told of another failure of the job. */
void yki_failure_report(const yki_job *job, const yki_failure *failure);

/*
 * Records the failure, for the group and for the launcher, or replaces it by the one that another
 * rank has recorded before.
 */
void yki_failure_record(const yki_job *job, yki_failure *failure);

/*
 * Describes how a dead rank ended, as far as this can be found out in half a second: from the
 * launcher's note in the store, from the kernel (Linux 6.15) once its parent has reaped it, or only
 * that it is gone. batches: whether it may have had fewer batches than others.
 */
void yki_death_words(const yki_job *job, int rank, bool batches, char *text, size_t size);
/* What is known of it without asking anybody: "pid 17 is gone", and what else it may be on another
 * host. */
void yki_gone_words(const yki_peer *peer, char *text, size_t size);

#endif

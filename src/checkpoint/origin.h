/* The job that a checkpoint was saved by: ranks that are started again continue from checkpoints of
 * their own job alone, in whichever folder they are. */
#ifndef YKI_ORIGIN_H
#define YKI_ORIGIN_H

#include <stdbool.h>
#include <stddef.h>

enum { YKI_ORIGIN_NAME = 128 };

/* Names as yki_origin_keep writes them. Empty: none. */
typedef struct yki_origin {
    char slurm_job[YKI_ORIGIN_NAME]; /* stays the same where Slurm requeues the job */
    char run_id[YKI_ORIGIN_NAME];    /* of an elastic launcher; torchrun's default is "none" */
    char agent[YKI_ORIGIN_NAME];     /* what it draws: the folder of torchrun's logs, YOKE_JOB_ID */
} yki_origin;

/* A name as a launcher gives it, or "sha256:" and its hash where it is longer than that, or is not
 * UTF-8, which JSON must be. */
void yki_origin_keep(char kept[YKI_ORIGIN_NAME], const char *name, size_t length);
/* That of this process. */
yki_origin yki_origin_here(void);
/* Whether this process was started again by the job that the origin is of. */
bool yki_origin_is_restarted(const yki_origin *origin);

#endif

/* What a job knows of the Slurm job that it runs in, and what it may ask for. */
#ifndef YKI_SLURM_H
#define YKI_SLURM_H

#include "base/error.h"

/*
 * When Slurm will end the job (SLURM_JOB_END_TIME), as a time of yki_now(). HUGE_VAL where that is
 * not known or past: then the variable is left over from another job, or the limit was extended.
 */
yk_status yki_slurm_end_time(double *end_s);

#endif

/* What Slurm tells the tasks of a step. */
#ifndef YKI_SLURM_H
#define YKI_SLURM_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/* Whether srun has started this process: not a batch script, nor the shell of salloc. */
bool yki_slurm_in_step(void);
/* How many tasks of the step run on this node; -1 if Slurm does not tell. */
int yki_slurm_local_tasks(void);
/* The first node of the step, where task 0 usually runs; localhost if there is no other. */
yk_status yki_slurm_first_host(char *host, size_t size);
/* The list of the step's nodes, and how many they are, if task 0 may run on any of them: in an
 * arbitrary distribution, and where components of a heterogeneous job are one step, as Slurm sorts
 * the list by name. Otherwise NULL. */
const char *yki_slurm_other_hosts(int *count);
/* The address of srun's or the batch script's host; "" if Slurm does not tell. */
const char *yki_slurm_launch_address(void);
/* A text that names this step and no other step of the cluster. */
void yki_slurm_identity(char *text, size_t size);

#endif

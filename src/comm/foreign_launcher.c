/*
 * Processes that another launcher has started together. Without a rank and a world size each of
 * them would train alone, and nobody would notice.
 *
 * Slurm sets its variables in a batch script too, which is a single process: SLURM_PROCID is 0 and
 * SLURM_NTASKS is what srun would start. Only srun makes a step, so SLURM_STEP_NUM_TASKS, the tasks
 * of this step, decides. The steps of batch scripts, of salloc's shell and of helpers have special
 * numbers (slurm.h: SLURM_PENDING_STEP down to SLURM_INTERACTIVE_STEP).
 */
#include <yoke/group.h>

#include <stdlib.h>
#include <string.h>

#include "base/environment.h"
#include "base/error.h"

#define FIRST_SPECIAL_STEP 0xfffffff0L

typedef struct foreign_launcher {
    const char *command, *size, *rank; /* its usual command and its variables */
} foreign_launcher;

static const foreign_launcher foreign_launchers[] = {
    {"srun", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID"},
    {"mpirun", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
    {"mpirun", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK"},
    {"mpiexec", "PMI_SIZE", "PMI_RANK"},
};

static long number_in(const char *name)
{
    long number;
    const char *text = getenv(name);
    return text && yki_parse_int(text, 0, 1L << 32, &number) ? number : -1;
}

static bool started_by(const foreign_launcher *launcher)
{
    bool slurm = strcmp(launcher->command, "srun") == 0;
    long step = slurm ? number_in("SLURM_STEP_ID") : 0;
    return number_in(launcher->size) > 1 && number_in(launcher->rank) >= 0 && step >= 0 &&
           step < FIRST_SPECIAL_STEP;
}

yk_status yk_group_check_launcher(void)
{
    const char *alone = getenv("YOKE_SEPARATE"), *world = getenv("WORLD_SIZE");
    if ((world && *world) || (alone && strcmp(alone, "1") == 0))
        return YK_OK;
    for (size_t i = 0; i < sizeof foreign_launchers / sizeof *foreign_launchers; i++) {
        const foreign_launcher *launcher = &foreign_launchers[i];
        if (started_by(launcher))
            return yki_error(YK_ERROR_INVALID_ARGUMENT,
                             "%s has started %ld processes (%s=%s, %s=%s), which would each run "
                             "alone: start one process and let `yoke run -n %ld PROGRAM` or `yoke "
                             "train --nproc %ld` start the ranks, or set RANK, WORLD_SIZE, "
                             "MASTER_ADDR and MASTER_PORT, or YOKE_SEPARATE=1 if they are to run "
                             "alone",
                             launcher->command, number_in(launcher->size), launcher->rank,
                             getenv(launcher->rank), launcher->size, getenv(launcher->size),
                             number_in(launcher->size), number_in(launcher->size));
    }
    return YK_OK;
}

/* See local_rank.h. */
#include "base/local_rank.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/environment.h"

static atomic_int joined_as = -1;

void yki_set_local_rank(int local_rank)
{
    atomic_store(&joined_as, local_rank);
}

int yki_local_rank(void)
{
    static const char *const names[] = {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK",
                                        "MV2_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID",
                                        "SLURM_LOCALID"};
    int joined = atomic_load(&joined_as);
    if (joined >= 0)
        return joined;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        long found;
        const char *text = getenv(names[i]);
        if (text && yki_parse_int(text, 0, INT_MAX, &found))
            return (int)found;
    }
    return 0;
}

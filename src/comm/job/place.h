/*
 * A process's place in its job, as whoever started it tells by environment variables: a launcher,
 * mpirun, srun or Kubernetes.
 */
#ifndef YKI_PLACE_H
#define YKI_PLACE_H

#include <stdbool.h>

#include "base/error.h"

enum { YKI_MAX_WORLD = 1 << 16 };

typedef struct yki_place {
    const char *source;                /* who tells rank and size, in words; NULL if nobody does */
    const char *rank_name, *size_name; /* the variables that tell them */
    int rank, world;
    int local_rank, local_world; /* among the ranks of this host; -1 if unknown */
    bool slurm;      /* it is the task of the same rank in a Slurm step of the same size */
    bool mpi;        /* an MPI launcher has given it this rank */
    bool kubernetes; /* it is the pod of this number in an indexed Job */
} yki_place;

/*
 * Takes rank and size from the first source that has both. The given ones, unless they are
 * negative, replace RANK and WORLD_SIZE. YK_ERROR_INVALID_ARGUMENT when two sources contradict each
 * other. rank 0 of 1 where there is no source.
 */
yk_status yki_place_read(yki_place *place, int given_rank, int given_world);

#endif

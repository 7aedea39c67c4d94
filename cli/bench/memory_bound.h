/* What this machine's memory allows an all-reduce. */
#ifndef YOKE_CLI_MEMORY_BOUND_H
#define YOKE_CLI_MEMORY_BOUND_H

#include <stdbool.h>
#include <stddef.h>

#include <yoke/group.h>

/* Buffers from which bounds are measured. */
typedef struct cli_memory_bound {
    bool is_private;
    int rank, world;
    float *data;
    float **staging; /* (world): memory of each rank that all ranks map; NULL unless private */
} cli_memory_bound;

/* Whether there is one: there are several ranks, on one machine, and they can map each other's
 * memory if the buffers are private. All ranks call this at the same time. */
bool cli_memory_bound_exists(yk_group *world, bool is_private);

/* All ranks call this at the same time. Returns false after an error
 * line. cli_memory_bound_fini() is needed after a failure too. */
bool cli_memory_bound_init(cli_memory_bound *bound, yk_group *world, size_t most_bytes,
                           bool is_private);
void cli_memory_bound_fini(cli_memory_bound *bound);

/*
 * Moves as many bytes as one rank must for an all-reduce of `bytes` in shared memory, without
 * waiting for others. Of buffers that all ranks can reach, each rank reduces its share: together it
 * reads and writes as many bytes as its buffer has. Of private buffers, each rank copies what the
 * others need to memory that they can read, and fetches what it needs from the caches of others.
 */
void cli_memory_bound_pass(const cli_memory_bound *bound, size_t bytes);

/* The median of the seconds in which all ranks at once move what an all-reduce of `bytes` in
 * buffers that all can reach must move; 0 if there is no bound. All ranks call this at the same
 * time. Returns false after an error line. */
bool cli_memory_bound_measure(double *seconds, yk_group *world, size_t bytes);

#endif

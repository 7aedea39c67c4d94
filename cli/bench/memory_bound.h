/* What this machine's memory allows an all-reduce. */
#ifndef YOKE_CLI_MEMORY_BOUND_H
#define YOKE_CLI_MEMORY_BOUND_H

#include <stdbool.h>
#include <stddef.h>

/* Buffers from which bounds are measured. */
typedef struct cli_memory_bound {
    float *data, *staging;
} cli_memory_bound;

/* Returns false after an error line. cli_memory_bound_fini() is needed after a failure too. */
bool cli_memory_bound_init(cli_memory_bound *bound, size_t most_bytes);
void cli_memory_bound_fini(cli_memory_bound *bound);

/*
 * Moves as many bytes as one rank must for an all-reduce of `bytes` in shared memory, without
 * waiting for others. Of buffers that all ranks can reach, each rank reduces its share: together it
 * reads and writes as many bytes as its buffer has. Private buffers are also copied to memory that
 * the other ranks can read, in pieces that stay in the cache.
 */
void cli_memory_bound_pass(const cli_memory_bound *bound, size_t bytes, bool is_private);

#endif

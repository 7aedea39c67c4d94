/* Launching the kernels of a program that are compiled for the simulator (cudasim.h). */
#ifndef YK_SIMULATOR_H
#define YK_SIMULATOR_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct yk_sim_kernel yk_sim_kernel;

/* NULL if there is none of this name. */
const yk_sim_kernel *yk_sim_find(const char *name);
/* The size of its struct of arguments. */
size_t yk_sim_argument_bytes(const yk_sim_kernel *kernel);

/*
 * Runs blocks of YKI_CUDA_THREADS threads on a copy of the arguments, which take `bytes`. Returns
 * NULL, or what was wrong: what is in memory is then undefined.
 */
const char *yk_sim_launch(const yk_sim_kernel *kernel, const unsigned grid[3], const void *args,
                          size_t bytes, uint64_t seed);

/* From now on a launch runs at most so many blocks: the first, the last, and some others. 0: all.
 */
void yk_sim_run_some(size_t most);

#ifdef __cplusplus
}
#endif

#endif

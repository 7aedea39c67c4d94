/* A device in host memory that runs the kernels of the cuda device in the simulator. */
#ifndef YK_SIM_DEVICE_H
#define YK_SIM_DEVICE_H

#include "cuda.h"

extern const yki_device_type sim_device_type;

/* How many kernels have been launched by now, and the seed of the next launches. */
uint64_t sim_device_launches(void);
void sim_device_seed(uint64_t seed);
/* Whether attention may keep its scores in registers on devices that are created from now on; it
 * may at first. */
void sim_device_flash(bool may);
/* What kernels have reported; it is reset. */
yki_cuda_mistakes sim_device_mistakes(void);

/* From now on the device measures plans, and each run takes what this returns; NULL: it does not.
 */
void sim_device_measure(yki_device *device, double (*seconds)(void));

/* Launches a kernel by its name with 256 threads in each block; fails the test if it cannot. */
void sim_launch(const char *kernel, yki_cuda_grid grid, const void *args, size_t bytes);

#endif

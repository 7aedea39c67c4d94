/* Which instruction set's loops a device runs. */
#include "device/cpu/loops/loops.h"

const yki_cpu_loops *yki_cpu_loops_of(const yki_device *device)
{
#if defined(__x86_64__)
    if (device->block == 16)
        return &yki_cpu_loops_avx512;
    if (device->block == 8)
        return &yki_cpu_loops_avx2;
#else
    (void)device;
#endif
    return &yki_cpu_loops_generic;
}

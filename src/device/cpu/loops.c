/* Which instruction set's loops a device runs. */
#include "device/cpu/loops.h"

#include "base/cpu_features.h"

const yki_cpu_loops *yki_cpu_loops_of(const yki_device *device)
{
#if defined(__x86_64__)
    if (device->block == 16)
        return &yki_cpu_loops_avx512;
    if (device->block == 8 && yki_cpu_has_avx2_f16c() && __builtin_cpu_supports("fma"))
        return &yki_cpu_loops_avx2;
#else
    (void)device;
#endif
    return &yki_cpu_loops_generic;
}

/* What the processor can do, asked once of the processor itself. */
#include "base/cpu_features.h"

#include <yoke/system.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

bool yk_cpu_has_bf16(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512bw");
#else
    return false;
#endif
}

bool yki_cpu_has_avx2_f16c(void)
{
#if defined(__x86_64__)
    unsigned a, b, c, d;
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
#else
    return false;
#endif
}

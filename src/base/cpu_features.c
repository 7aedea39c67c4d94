/* What the processor can do, asked once of the processor itself. */
#include <yoke/system.h>

bool yk_cpu_has_bf16(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512bw");
#else
    return false;
#endif
}

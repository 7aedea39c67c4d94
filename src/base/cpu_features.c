/* See cpu_features.h. */
#define _GNU_SOURCE
#include "base/cpu_features.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

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

static bool find_avx2_f16c(void)
{
#if defined(__x86_64__)
    unsigned a, b, c, d;
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
#else
    return false;
#endif
}

/* The instruction that tells leaves a virtual machine each time: the answer is kept. */
bool yki_cpu_has_avx2_f16c(void)
{
    enum { UNKNOWN, ABSENT, PRESENT };
    static atomic_int known;
    int answer = atomic_load_explicit(&known, memory_order_relaxed);
    if (answer == UNKNOWN) {
        answer = find_avx2_f16c() ? PRESENT : ABSENT;
        atomic_store_explicit(&known, answer, memory_order_relaxed);
    }
    return answer == PRESENT;
}

bool yki_cpu_use_amx(void)
{
#if defined(__x86_64__) && defined(SYS_arch_prctl)
    enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18, AMX_BF16 = 1 << 22, AMX_TILE = 1 << 24 };
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & AMX_BF16) && (d & AMX_TILE) &&
           syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
#else
    return false;
#endif
}

void yki_cpu_name(char *name, size_t size)
{
    char brand[49] = "";
    unsigned id = 0;
#if defined(__x86_64__)
    unsigned words[12], b, c, d;
    bool known = true;
    for (unsigned i = 0; known && i < 3; i++)
        known = __get_cpuid(0x80000002 + i, &words[4 * i], &words[4 * i + 1], &words[4 * i + 2],
                            &words[4 * i + 3]);
    if (known)
        memcpy(brand, words, sizeof words);
    if (!__get_cpuid(1, &id, &b, &c, &d))
        id = 0;
#endif
    if (*brand)
        snprintf(name, size, "%s %x", brand, id);
    else if (size)
        *name = '\0';
}

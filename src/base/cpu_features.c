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
#elif defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
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

/* ---- names ----------------------------------------------------------------------------------- */

#if defined(__x86_64__)

/* The brand string, and what the processor's family, model and stepping are encoded in. */
static unsigned read_name(char *name, size_t size)
{
    char brand[49] = "";
    unsigned words[12], id = 0, b, c, d;
    bool known = true;
    for (unsigned i = 0; known && i < 3; i++)
        known = __get_cpuid(0x80000002 + i, &words[4 * i], &words[4 * i + 1], &words[4 * i + 2],
                            &words[4 * i + 3]);
    if (known)
        memcpy(brand, words, sizeof words);
    size_t first = strspn(brand, " "), end = strlen(brand);
    while (end > first && brand[end - 1] == ' ')
        end--;
    snprintf(name, size, "%.*s", (int)(end - first), brand + first);
    return __get_cpuid(1, &id, &b, &c, &d) ? id : 0;
}

#elif defined(__aarch64__)

static const char *name_of_arm(unsigned part)
{
    static const struct {
        unsigned part;
        const char *name;
    } known[] = {{0xd03, "Cortex-A53"},  {0xd08, "Cortex-A72"},  {0xd0b, "Cortex-A76"},
                 {0xd0c, "Neoverse-N1"}, {0xd40, "Neoverse-V1"}, {0xd49, "Neoverse-N2"},
                 {0xd4f, "Neoverse-V2"}, {0xd84, "Neoverse-V3"}, {0xd8e, "Neoverse-N3"}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].part == part)
            return known[i].name;
    return NULL;
}

/* From the register that tells the processor's maker, part and revision, which Linux lets programs
 * read. Makers other than Arm are left as their numbers. */
static unsigned read_name(char *name, size_t size)
{
    enum { ARM = 0x41 };
    uint64_t id = 0;
    *name = '\0';
    if (!(getauxval(AT_HWCAP) & HWCAP_CPUID))
        return 0;
    __asm__("mrs %0, MIDR_EL1" : "=r"(id));
    unsigned maker = id >> 24 & 0xff, part = id >> 4 & 0xfff;
    const char *known = maker == ARM ? name_of_arm(part) : NULL;
    if (known)
        snprintf(name, size, "Arm %s", known);
    else
        snprintf(name, size, "implementer 0x%02x, part 0x%03x", maker, part);
    return (unsigned)id;
}

#else

static unsigned read_name(char *name, size_t size)
{
    if (size)
        *name = '\0';
    return 0;
}

#endif

void yk_cpu_name(char *name, size_t size)
{
    char text[64];
    read_name(text, sizeof text);
    if (name)
        snprintf(name, size, "%s", *text ? text : "unknown");
}

void yki_cpu_key(char *key, size_t size)
{
    char text[64];
    unsigned id = read_name(text, sizeof text);
    if (*text)
        snprintf(key, size, "%s %x", text, id);
    else if (size)
        *key = '\0';
}

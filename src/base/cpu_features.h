/* What the processor is called, and can do that __builtin_cpu_supports does not tell. */
#ifndef YKI_CPU_FEATURES_H
#define YKI_CPU_FEATURES_H

#include <stdbool.h>
#include <stddef.h>

/*
 * AVX2, and F16C's conversions between float16 and f32 (every AVX2 processor known has both). Asks
 * the processor once.
 */
bool yki_cpu_has_avx2_f16c(void);

/*
 * Whether this process may use AMX's tiles of bf16: the processor and the system have them, and the
 * system permits it, which it then does for all threads.
 */
bool yki_cpu_use_amx(void);

/* yk_cpu_name() with model and revision as a number; "" where the processor does not say. */
void yki_cpu_key(char *key, size_t size);

#endif

/* What the processor can do that no compiler's __builtin_cpu_supports can say. */
#ifndef YKI_CPU_FEATURES_H
#define YKI_CPU_FEATURES_H

#include <stdbool.h>

/*
 * AVX2, and F16C's conversions between float16 and f32 (every AVX2 processor known has both). Asks
 * the processor once.
 */
bool yki_cpu_has_avx2_f16c(void);

#endif

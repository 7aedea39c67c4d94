/* Runs of bf16 to f32 and back (round to nearest even, NaN stays NaN), over all threads. */
#ifndef YKI_CPU_BF16_H
#define YKI_CPU_BF16_H

#include <stddef.h>
#include <stdint.h>

void yki_bf16_widen(float *to, const uint16_t *from, size_t count, int threads);
void yki_bf16_narrow(uint16_t *to, const float *from, size_t count, int threads);

#endif

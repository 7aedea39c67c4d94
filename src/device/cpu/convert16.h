/* tensor/convert16.h on all threads: arrays of bf16 or f16 (`dtype`) to f32 and back. */
#ifndef YKI_CPU_CONVERT16_H
#define YKI_CPU_CONVERT16_H

#include <yoke/tensor.h>

void yki_cpu_widen(float *to, const uint16_t *from, yk_dtype dtype, size_t count, int threads);
void yki_cpu_narrow(uint16_t *to, const float *from, yk_dtype dtype, size_t count, int threads);

#endif

/*
 * Runs of 16-bit numbers (YK_BF16, YK_F16) to f32 and back, on the calling thread, with the widest
 * vectors that the processor has. The bits are those of bf16.h and f16.h. Runs do not overlap.
 */
#ifndef YKI_CONVERT16_H
#define YKI_CONVERT16_H

#include <yoke/tensor.h>

void yki_widen16(float *to, const uint16_t *from, yk_dtype dtype, size_t count);
void yki_narrow16(uint16_t *to, const float *from, yk_dtype dtype, size_t count);

#endif

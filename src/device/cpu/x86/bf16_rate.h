/* How fast the processor multiplies bf16. */
#ifndef YKI_BF16_RATE_H
#define YKI_BF16_RATE_H

#include <stdint.h>

/* Measures the rate of products in bf16 dot products relative to f32 multiply-adds: about 2 on
 * AMD's Zen 4, 0.5 on Intel's Sapphire Rapids. Takes a tenth of a millisecond. Only for processors
 * with bf16 dot products. */
double yki_bf16_rate(void);

/* So many rounds of dot products on registers alone; returns the multiplications and additions. */
double yki_bf16_multiply_alone(int64_t rounds);

#endif

/* See bf16_rate.h. Compiled for a processor with AVX-512 and bf16. */
#include "device/cpu/bf16_rate.h"

#if defined(__x86_64__)
#include <float.h>
#include <immintrin.h>

#include "base/clock.h"

/* The least time counts. The first repeats are slow, because the processor needs some time until it
 * runs vectors of 512 bits at full speed. */
enum { REPEATS = 8, ROUNDS = 1000, SUMS = 8, LANES = 16 };

/* Independent sums hide the latency of an instruction. */
#define EIGHT_SUMS(add, rounds)                                                                    \
    __m512 s0 = _mm512_setzero_ps(), s1 = s0, s2 = s0, s3 = s0, s4 = s0, s5 = s0, s6 = s0,         \
           s7 = s0;                                                                                \
    for (int64_t round = 0; round < (rounds); round++) {                                           \
        s0 = add(s0);                                                                              \
        s1 = add(s1);                                                                              \
        s2 = add(s2);                                                                              \
        s3 = add(s3);                                                                              \
        s4 = add(s4);                                                                              \
        s5 = add(s5);                                                                              \
        s6 = add(s6);                                                                              \
        s7 = add(s7);                                                                              \
        __asm__ volatile("" : "+v"(s0), "+v"(s1), "+v"(s2), "+v"(s3)); /* the sums are needed */   \
        __asm__ volatile("" : "+v"(s4), "+v"(s5), "+v"(s6), "+v"(s7));                             \
    }

static double time_f32(void)
{
    const __m512 one = _mm512_set1_ps(1);
    double begin = yki_now();
#define ADD(sum) _mm512_fmadd_ps(one, one, sum)
    EIGHT_SUMS(ADD, ROUNDS)
#undef ADD
    return yki_now() - begin;
}

static double time_bf16(void)
{
    const __m512bh one = _mm512_cvtne2ps_pbh(_mm512_set1_ps(1), _mm512_set1_ps(1));
    double begin = yki_now();
#define ADD(sum) _mm512_dpbf16_ps(sum, one, one)
    EIGHT_SUMS(ADD, ROUNDS)
#undef ADD
    return yki_now() - begin;
}

double yki_bf16_multiply_alone(int64_t rounds)
{
    const __m512bh one = _mm512_cvtne2ps_pbh(_mm512_set1_ps(1), _mm512_set1_ps(1));
#define ADD(sum) _mm512_dpbf16_ps(sum, one, one)
    EIGHT_SUMS(ADD, rounds)
#undef ADD
    return 4.0 * (double)rounds * SUMS * LANES; /* two products and two additions a lane */
}

double yki_bf16_rate(void)
{
    double f32 = DBL_MAX, bf16 = DBL_MAX;
    for (int i = 0; i < REPEATS; i++) {
        double one = time_f32(), other = time_bf16();
        f32 = one < f32 ? one : f32;
        bf16 = other < bf16 ? other : bf16;
    }
    return 2 * f32 / bf16; /* a dot product has two products */
}
#endif

/* See bf16_rate.h. Compiled for a processor with AVX-512 and bf16. */
#include "device/cpu/x86/bf16_rate.h"

#include <float.h>
#include <immintrin.h>

#include "base/clock.h"

/* The least time counts. The first repeats are slow, because the processor needs some time until it
 * runs vectors of 512 bits at full speed. */
enum { REPEATS = 8, ROUNDS = 1000, SUMS = 16, LANES = 16 };

/* Independent sums hide the latency of an instruction: up to 6 cycles, in each of which a Zen 5
 * begins two of them. They are variables, which every compiler keeps in registers. */
#define FOR_SIXTEEN(x)                                                                             \
    x(0) x(1) x(2) x(3) x(4) x(5) x(6) x(7) x(8) x(9) x(10) x(11) x(12) x(13) x(14) x(15)
#define SUM(i)    __m512 s##i = _mm512_setzero_ps();
#define ADD_TO(i) s##i = ADD(s##i);
#define NEED(i)   __asm__ volatile("" : "+v"(s##i));
#define SIXTEEN_SUMS(rounds)                                                                       \
    FOR_SIXTEEN(SUM)                                                                               \
    for (int64_t round = 0; round < (rounds); round++) {                                           \
        FOR_SIXTEEN(ADD_TO)                                                                        \
        FOR_SIXTEEN(NEED)                                                                          \
    }

static double time_f32(void)
{
    const __m512 one = _mm512_set1_ps(1);
    double begin = yki_now();
#define ADD(sum) _mm512_fmadd_ps(one, one, sum)
    SIXTEEN_SUMS(ROUNDS)
#undef ADD
    return yki_now() - begin;
}

static double time_bf16(void)
{
    const __m512bh one = _mm512_cvtne2ps_pbh(_mm512_set1_ps(1), _mm512_set1_ps(1));
    double begin = yki_now();
#define ADD(sum) _mm512_dpbf16_ps(sum, one, one)
    SIXTEEN_SUMS(ROUNDS)
#undef ADD
    return yki_now() - begin;
}

double yki_bf16_multiply_alone(int64_t rounds)
{
    const __m512bh one = _mm512_cvtne2ps_pbh(_mm512_set1_ps(1), _mm512_set1_ps(1));
#define ADD(sum) _mm512_dpbf16_ps(sum, one, one)
    SIXTEEN_SUMS(rounds)
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

/* Integer shifts, which compilers vectorise: a bf16 is the upper half of an f32. */
#include "device/cpu/bf16.h"

#include <string.h>

#include "device/cpu/cpu.h"

enum { CHUNK = 1 << 14 }; /* elements a thread takes at a time */

YKI_VECTOR_CLONES
static void widen_run(float *restrict to, const uint16_t *restrict from, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t bits = (uint32_t)from[i] << 16;
        memcpy(&to[i], &bits, sizeof bits);
    }
}

YKI_VECTOR_CLONES
static void narrow_run(uint16_t *restrict to, const float *restrict from, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &from[i], sizeof bits);
        uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
        uint32_t quiet_nan = (bits >> 16) | 0x40u;
        to[i] = (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? quiet_nan : rounded);
    }
}

static size_t run_length(size_t at, size_t count)
{
    return count - at < CHUNK ? count - at : CHUNK;
}

void yki_bf16_widen(float *to, const uint16_t *from, size_t count, int threads)
{
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (size_t at = 0; at < count; at += CHUNK)
        widen_run(to + at, from + at, run_length(at, count));
}

void yki_bf16_narrow(uint16_t *to, const float *from, size_t count, int threads)
{
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (size_t at = 0; at < count; at += CHUNK)
        narrow_run(to + at, from + at, run_length(at, count));
}

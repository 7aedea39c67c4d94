/* Loops over tensor/bf16.h, compiled for each instruction set. */
#include "device/cpu/bf16.h"

#include "device/cpu/cpu.h"
#include "tensor/bf16.h"

enum { CHUNK = 1 << 14 }; /* elements a thread takes at a time */

YKI_VECTOR_CLONES
static void widen_run(float *restrict to, const uint16_t *restrict from, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] = yki_bf16_to_float(from[i]);
}

YKI_VECTOR_CLONES
static void narrow_run(uint16_t *restrict to, const float *restrict from, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] = yki_bf16_from_float(from[i]);
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

/* See convert16.h. */
#include "device/cpu/convert16.h"

#include "tensor/convert16.h"

enum { CHUNK = 1 << 14 }; /* elements a thread takes at a time */

static size_t run_length(size_t at, size_t count)
{
    return count - at < CHUNK ? count - at : CHUNK;
}

void yki_cpu_widen(float *to, const uint16_t *from, yk_dtype dtype, size_t count, int threads)
{
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (size_t at = 0; at < count; at += CHUNK)
        yki_widen16(to + at, from + at, dtype, run_length(at, count));
}

void yki_cpu_narrow(uint16_t *to, const float *from, yk_dtype dtype, size_t count, int threads)
{
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (size_t at = 0; at < count; at += CHUNK)
        yki_narrow16(to + at, from + at, dtype, run_length(at, count));
}

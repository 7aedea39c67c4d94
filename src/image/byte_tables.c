/*
 * See byte_tables.h. The quotient a / b is computed by a multiplication with the rounded 1 / b and
 * one step of correction (Markstein, "Computation of elementary functions on the IBM RISC
 * System/6000", 1990), which divides exactly but for rare pairs.
 */
#include "image/byte_tables.h"

/* ---- looking up ------------------------------------------------------------------------------ */

static void look_up(const float table[256], const uint8_t *bytes, size_t count, float *out)
{
    for (size_t i = 0; i < count; i++)
        out[i] = table[bytes[i]];
}

void yki_bytes_to_f64(const yki_byte_tables *tables, int channel, const uint8_t *bytes,
                      size_t count, double *out)
{
    for (size_t i = 0; i < count; i++)
        out[i] = tables->f64[channel][bytes[i]];
}

/* ---- computing ------------------------------------------------------------------------------- */

#if defined(__x86_64__)
#include <immintrin.h>

#define TARGET __attribute__((target("avx2,fma")))

static bool has_vectors(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

/* a / b, where reciprocal is 1 / b. */
TARGET static inline __m256 quotient(__m256 a, __m256 b, __m256 reciprocal)
{
    __m256 near = _mm256_mul_ps(a, reciprocal);
    return _mm256_fmadd_ps(_mm256_fnmadd_ps(near, b, a), reciprocal, near);
}

/* Returns how many bytes were converted: multiples of 8. */
TARGET static size_t compute(float mean, float std, const uint8_t *bytes, size_t count, float *out)
{
    const __m256 largest = _mm256_set1_ps(255), part = _mm256_set1_ps(1.0f / 255);
    const __m256 centre = _mm256_set1_ps(mean), spread = _mm256_set1_ps(std);
    const __m256 scale = _mm256_set1_ps(1.0f / std);
    size_t i = 0;
    for (; i + 8 <= count; i += 8) {
        __m128i eight = _mm_loadl_epi64((const __m128i *)(const void *)(bytes + i));
        __m256 value = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(eight));
        value = _mm256_sub_ps(quotient(value, largest, part), centre);
        _mm256_storeu_ps(out + i, quotient(value, spread, scale));
    }
    return i;
}
#else
static bool has_vectors(void)
{
    return false;
}

static size_t compute(float mean, float std, const uint8_t *bytes, size_t count, float *out)
{
    (void)mean, (void)std, (void)bytes, (void)count, (void)out;
    return 0;
}
#endif

void yki_bytes_to_f32(const yki_byte_tables *tables, int channel, const uint8_t *bytes,
                      size_t count, float *out)
{
    size_t done = 0;
    if (tables->computed[channel])
        done = compute(tables->mean[channel], tables->std[channel], bytes, count, out);
    look_up(tables->f32[channel], bytes + done, count - done, out + done);
}

/* ---- the tables ------------------------------------------------------------------------------ */

static bool is_computed(const float table[256], float mean, float std)
{
    uint8_t bytes[256];
    float computed[256];
    for (int byte = 0; byte < 256; byte++)
        bytes[byte] = (uint8_t)byte;
    if (!has_vectors() || compute(mean, std, bytes, 256, computed) < 256)
        return false;
    for (int byte = 0; byte < 256; byte++)
        if (computed[byte] != table[byte])
            return false;
    return true;
}

void yki_byte_tables_fill(yki_byte_tables *tables, const yk_transform_normalize *numbers)
{
    for (int c = 0; c < 3; c++) {
        float mean = numbers ? (float)numbers->mean[c] : 0;
        float std = numbers ? (float)numbers->std[c] : 1;
        for (int byte = 0; byte < 256; byte++) {
            tables->f32[c][byte] = ((float)byte / 255.0f - mean) / std;
            tables->f64[c][byte] = ((double)byte / 255.0 - (double)mean) / (double)std;
        }
        tables->mean[c] = mean;
        tables->std[c] = std;
        tables->computed[c] = is_computed(tables->f32[c], mean, std);
    }
}

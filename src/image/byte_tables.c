/*
 * See byte_tables.h. The quotient a / b is computed as the product of a and 1 / b, which is kept as
 * the sum of two floats: that rounds as a division does but for rare pairs.
 */
#include "image/byte_tables.h"

/* ---- looking up ------------------------------------------------------------------------------ */

/* From number `first` on. */
static void look_up(const float table[256], const uint8_t *bytes, size_t first, size_t count,
                    bool mirrored, float *out)
{
    for (size_t i = first; i < count; i++)
        out[i] = table[bytes[mirrored ? count - 1 - i : i]];
}

static int table_of(int channel)
{
    return channel < 3 ? channel : 0;
}

void yki_bytes_to_f64(const yki_byte_tables *tables, int channel, const uint8_t *bytes,
                      size_t count, bool mirrored, double *out)
{
    channel = table_of(channel);
    for (size_t i = 0; i < count; i++)
        out[i] = tables->f64[channel][bytes[mirrored ? count - 1 - i : i]];
}

/* ---- computing ------------------------------------------------------------------------------- */

#if defined(__x86_64__)
#include <immintrin.h>

/* 1 / divisor, as a sum. */
typedef struct reciprocal {
    float high, low;
} reciprocal;

static reciprocal reciprocal_of(float divisor)
{
    double exact = 1 / (double)divisor;
    float high = (float)exact;
    return (reciprocal){high, (float)(exact - (double)high)};
}

#define AVX2   __attribute__((target("avx2,fma")))
#define AVX512 __attribute__((target("avx512f")))

static yki_byte_vectors widest(void)
{
    if (__builtin_cpu_supports("avx512f"))
        return YKI_BYTE_VECTORS_AVX512;
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? YKI_BYTE_VECTORS_AVX2
                                                                           : YKI_BYTE_VECTORS_NONE;
}

/*
 * Fetches the part of a batch that is written next. A batch is far larger than the caches; without
 * this, the stores of one picture of 224x224 took twice as long.
 */
static inline void fetch_ahead(const float *out)
{
    enum { AHEAD = 8192 / sizeof *out };
    _mm_prefetch((const char *)(out + AHEAD), _MM_HINT_T1);
}

/* Each returns how many bytes were converted: multiples of the vectors' length. */
AVX2 static size_t compute_avx2(float mean, float std, const uint8_t *bytes, size_t count,
                                bool mirrored, float *out)
{
    const reciprocal part = reciprocal_of(255), scale = reciprocal_of(std);
    const __m256 part_high = _mm256_set1_ps(part.high), part_low = _mm256_set1_ps(part.low);
    const __m256 scale_high = _mm256_set1_ps(scale.high), scale_low = _mm256_set1_ps(scale.low);
    const __m256 centre = _mm256_set1_ps(mean);
    const __m128i order =
        mirrored ? _mm_set_epi64x(0, 0x0001020304050607) : _mm_set_epi64x(0, 0x0706050403020100);
    size_t i = 0;
    for (; i + 8 <= count; i += 8) {
        const uint8_t *from = mirrored ? bytes + (count - i - 8) : bytes + i;
        __m128i eight = _mm_loadl_epi64((const __m128i *)(const void *)from);
        __m256 x = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_shuffle_epi8(eight, order)));
        x = _mm256_sub_ps(_mm256_fmadd_ps(x, part_high, _mm256_mul_ps(x, part_low)), centre);
        x = _mm256_fmadd_ps(x, scale_high, _mm256_mul_ps(x, scale_low));
        _mm256_storeu_ps(out + i, x);
        fetch_ahead(out + i);
    }
    return i;
}

AVX512 static size_t compute_avx512(float mean, float std, const uint8_t *bytes, size_t count,
                                    bool mirrored, float *out)
{
    const reciprocal part = reciprocal_of(255), scale = reciprocal_of(std);
    const __m512 part_high = _mm512_set1_ps(part.high), part_low = _mm512_set1_ps(part.low);
    const __m512 scale_high = _mm512_set1_ps(scale.high), scale_low = _mm512_set1_ps(scale.low);
    const __m512 centre = _mm512_set1_ps(mean);
    const __m128i order = mirrored ? _mm_set_epi64x(0x0001020304050607, 0x08090a0b0c0d0e0f)
                                   : _mm_set_epi64x(0x0f0e0d0c0b0a0908, 0x0706050403020100);
    size_t i = 0;
    for (; i + 16 <= count; i += 16) {
        const uint8_t *from = mirrored ? bytes + (count - i - 16) : bytes + i;
        __m128i sixteen = _mm_loadu_si128((const __m128i *)(const void *)from);
        __m512 x = _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_shuffle_epi8(sixteen, order)));
        x = _mm512_sub_ps(_mm512_fmadd_ps(x, part_high, _mm512_mul_ps(x, part_low)), centre);
        x = _mm512_fmadd_ps(x, scale_high, _mm512_mul_ps(x, scale_low));
        _mm512_storeu_ps(out + i, x);
        fetch_ahead(out + i);
    }
    return i;
}

static size_t compute(yki_byte_vectors vectors, float mean, float std, const uint8_t *bytes,
                      size_t count, bool mirrored, float *out)
{
    switch (vectors) {
    case YKI_BYTE_VECTORS_AVX512:
        return compute_avx512(mean, std, bytes, count, mirrored, out);
    case YKI_BYTE_VECTORS_AVX2:
        return compute_avx2(mean, std, bytes, count, mirrored, out);
    default:
        return 0;
    }
}
#else
static yki_byte_vectors widest(void)
{
    return YKI_BYTE_VECTORS_NONE;
}

static size_t compute(yki_byte_vectors vectors, float mean, float std, const uint8_t *bytes,
                      size_t count, bool mirrored, float *out)
{
    (void)vectors, (void)mean, (void)std, (void)bytes, (void)count, (void)mirrored, (void)out;
    return 0;
}
#endif

void yki_bytes_to_f32(const yki_byte_tables *tables, int channel, const uint8_t *bytes,
                      size_t count, bool mirrored, float *out)
{
    channel = table_of(channel);
    size_t done = compute(tables->vectors[channel], tables->mean[channel], tables->std[channel],
                          bytes, count, mirrored, out);
    look_up(tables->f32[channel], bytes, done, count, mirrored, out);
}

/* ---- the tables ------------------------------------------------------------------------------ */

/* Whether vectors give all numbers of the table. */
static bool are_exact(yki_byte_vectors vectors, const float table[256], float mean, float std)
{
    uint8_t bytes[256];
    float computed[256];
    for (int byte = 0; byte < 256; byte++)
        bytes[byte] = (uint8_t)byte;
    if (compute(vectors, mean, std, bytes, 256, false, computed) < 256)
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
        bool exact = are_exact(widest(), tables->f32[c], mean, std);
        tables->vectors[c] = exact ? widest() : YKI_BYTE_VECTORS_NONE;
    }
}

/* Sums in double: included by loops_table.h alone. */
#include "device/cpu/scalar.h"

/* Doubles in two vectors: GCC keeps one of twice the width in memory. */
typedef double wide_lanes __attribute__((vector_size(4 * YKI_WIDTH)));
typedef wide_lanes wide_lanes_at __attribute__((aligned(8), may_alias));
typedef struct wide_sum {
    wide_lanes v[2];
} wide_sum;

/* By instructions that GCC does not find by itself. */
YKI_FORCE_INLINE wide_sum widen(yki_lanes x)
{
#if defined(__AVX512F__) && YKI_WIDTH == 16
    const __m256 low = _mm512_castps512_ps256((__m512)x),
                 high = _mm512_extractf32x8_ps((__m512)x, 1);
    return (wide_sum){{(wide_lanes)_mm512_cvtps_pd(low), (wide_lanes)_mm512_cvtps_pd(high)}};
#elif defined(__AVX__) && YKI_WIDTH == 8
    const __m128 low = _mm256_castps256_ps128((__m256)x),
                 high = _mm256_extractf128_ps((__m256)x, 1);
    return (wide_sum){{(wide_lanes)_mm256_cvtps_pd(low), (wide_lanes)_mm256_cvtps_pd(high)}};
#else
    wide_sum wide;
    for (int lane = 0; lane < YKI_WIDTH; lane++)
        wide.v[lane / (YKI_WIDTH / 2)][lane % (YKI_WIDTH / 2)] = x[lane];
    return wide;
#endif
}

/* The sums as they are rounded. */
YKI_FORCE_INLINE yki_lanes narrow(const wide_sum *wide)
{
#if defined(__AVX512F__) && YKI_WIDTH == 16
    const __m512 low = _mm512_castps256_ps512(_mm512_cvtpd_ps((__m512d)wide->v[0]));
    return (yki_lanes)_mm512_insertf32x8(low, _mm512_cvtpd_ps((__m512d)wide->v[1]), 1);
#elif defined(__AVX__) && YKI_WIDTH == 8
    const __m256 low = _mm256_castps128_ps256(_mm256_cvtpd_ps((__m256d)wide->v[0]));
    return (yki_lanes)_mm256_insertf128_ps(low, _mm256_cvtpd_ps((__m256d)wide->v[1]), 1);
#else
    yki_lanes x;
    for (int lane = 0; lane < YKI_WIDTH; lane++)
        x[lane] = (float)wide->v[lane / (YKI_WIDTH / 2)][lane % (YKI_WIDTH / 2)];
    return x;
#endif
}

YKI_FORCE_INLINE void add_lanes(wide_sum *sum, yki_lanes x)
{
    const wide_sum wide = widen(x);
    for (int j = 0; j < 2; j++)
        sum->v[j] += wide.v[j];
}

/*
 * So many numbers in a row are added in f32 before their sum is widened, where a sum of numbers of
 * like size wants no more digits than they have: 16 for each lane, whose sum has an error of a few
 * units in the last place. Widening and adding takes four times as long as adding.
 */
enum { NEAR = 16 * YKI_WIDTH };

YKI_FORCE_INLINE int64_t near_end(int64_t begin, int64_t count)
{
    return count - begin < NEAR ? count : begin + NEAR;
}

/* The same, to sums in memory. */
YKI_FORCE_INLINE void add_lanes_at(double *totals, yki_lanes x)
{
    const wide_sum wide = widen(x);
    for (int j = 0; j < 2; j++)
        *(wide_lanes_at *)(totals + j * YKI_WIDTH / 2) += wide.v[j];
}

/* By halves: adding one lane after another would take longer than all else for short rows. */
YKI_FORCE_INLINE double sum_of_lanes(const wide_sum *sum)
{
    const wide_lanes both = sum->v[0] + sum->v[1];
#if defined(__AVX__) && YKI_WIDTH >= 8 /* in the same order as below */
#if YKI_WIDTH == 16
    const __m256d four = _mm256_add_pd(_mm512_castpd512_pd256((__m512d)both),
                                       _mm512_extractf64x4_pd((__m512d)both, 1));
#else
    const __m256d four = (__m256d)both;
#endif
    const __m128d half = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
    return _mm_cvtsd_f64(_mm_add_sd(half, _mm_unpackhi_pd(half, half)));
#else
    double part[YKI_WIDTH / 2];
    *(wide_lanes_at *)part = both;
    for (int half = YKI_WIDTH / 4; half > 0; half /= 2)
        for (int lane = 0; lane < half; lane++)
            part[lane] += part[lane + half];
    return part[0];
#endif
}

YKI_FORCE_INLINE void sum_as(const void *x, int64_t count, double *total, yk_dtype dtype)
{
    wide_sum totals[2] = {{{{0}}}};
    int64_t whole = count - count % YKI_PACK;
    for (int64_t i = 0; i < whole; i += YKI_PACK) {
        const yki_pack p = yki_load(x, i, dtype);
        for (int j = 0; j < 2; j++)
            add_lanes(&totals[j], p.v[j]);
    }
    *total = sum_of_lanes(&totals[0]) + sum_of_lanes(&totals[1]);
    for (int64_t i = whole; i < count; i++)
        *total += yki_get(x, i, dtype);
}

static double sum(yk_dtype dtype, const void *x, int64_t count)
{
    double total;
    FOR_EACH_DTYPE(sum_as, dtype, x, count, &total);
    return total;
}

YKI_FORCE_INLINE void sum_rows_as(const void *x, int64_t rows, int64_t stride, int64_t count,
                                  double *totals, yk_dtype dtype)
{
    int64_t whole = count - count % YKI_WIDTH;
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t i = 0; i < whole; i += YKI_WIDTH)
            add_lanes_at(totals + i, yki_load_lanes(x, r * stride + i, dtype));
        for (int64_t i = whole; i < count; i++)
            totals[i] += yki_get(x, r * stride + i, dtype);
    }
}

static void sum_rows(yk_dtype dtype, const void *x, int64_t rows, int64_t stride, int64_t count,
                     double *totals)
{
    FOR_EACH_DTYPE(sum_rows_as, dtype, x, rows, stride, count, totals);
}

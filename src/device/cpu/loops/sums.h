/* Sums in double: included by table.h alone. */
#include "device/cpu/loops/scalar.h"

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

YKI_FORCE_INLINE void add_wide(wide_sum *sum, wide_sum x)
{
    for (int j = 0; j < 2; j++)
        sum->v[j] += x.v[j];
}

YKI_FORCE_INLINE void add_lanes(wide_sum *sum, yki_lanes x)
{
    add_wide(sum, widen(x));
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

/* Of two factors, or x alone where the other is absent. */
YKI_FORCE_INLINE yki_lanes load_term(const void *x, const void *factor, int64_t i, yk_dtype dtype)
{
    const yki_lanes term = yki_load_lanes(x, i, dtype);
    return factor ? term * yki_load_lanes(factor, i, dtype) : term;
}

YKI_FORCE_INLINE double get_term(const void *x, const void *factor, int64_t i, yk_dtype dtype)
{
    return yki_get(x, i, dtype) * (factor ? yki_get(factor, i, dtype) : 1);
}

YKI_FORCE_INLINE void sum_as(const void *x, const void *factor, int64_t count, double *total,
                             yk_dtype dtype)
{
    wide_sum totals = {{{0}}};
    const int64_t whole = count - count % (2 * YKI_PACK);
    for (int64_t i = 0; i < whole;) {
        yki_lanes near[4] = {{0}};
        for (const int64_t end = i + 4 * NEAR < whole ? i + 4 * NEAR : whole; i < end;
             i += 2 * YKI_PACK) {
#pragma GCC unroll 4
            for (int j = 0; j < 4; j++)
                near[j] += load_term(x, factor, i + j * YKI_WIDTH, dtype);
        }
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++)
            add_lanes(&totals, near[j]);
    }
    *total = sum_of_lanes(&totals);
    for (int64_t i = whole; i < count; i++)
        *total += get_term(x, factor, i, dtype);
}

static double sum(yk_dtype dtype, const void *x, const void *factor, int64_t count)
{
    double total;
    if (factor)
        FOR_EACH_DTYPE(sum_as, dtype, x, factor, count, &total);
    else
        FOR_EACH_DTYPE(sum_as, dtype, x, NULL, count, &total);
    return total;
}

/* Some rows of up to 8 vectors of columns, whose sums stay in registers. */
YKI_FORCE_INLINE void sum_near_rows(const void *x, const void *factor, int64_t first, int64_t rows,
                                    int64_t stride, int vectors, double *totals, yk_dtype dtype)
{
    yki_lanes near[8];
#pragma GCC unroll 8
    for (int v = 0; v < vectors; v++)
        near[v] = load_term(x, factor, first + v * YKI_WIDTH, dtype);
    for (int64_t r = 1; r < rows; r++) {
#pragma GCC unroll 8
        for (int v = 0; v < vectors; v++)
            near[v] += load_term(x, factor, first + r * stride + v * YKI_WIDTH, dtype);
    }
#pragma GCC unroll 8
    for (int v = 0; v < vectors; v++)
        add_lanes_at(totals + v * YKI_WIDTH, near[v]);
}

YKI_FORCE_INLINE void sum_rows_as(const void *x, const void *factor, int64_t rows, int64_t stride,
                                  int64_t count, double *totals, yk_dtype dtype)
{
    enum { ROWS = NEAR / YKI_WIDTH };
    for (int64_t begin = 0, end; begin < rows; begin = end) {
        end = rows - begin < ROWS ? rows : begin + ROWS;
        const int64_t at = begin * stride, near = end - begin;
        int64_t i = 0;
        for (; i + 8 * YKI_WIDTH <= count; i += 8 * YKI_WIDTH)
            sum_near_rows(x, factor, at + i, near, stride, 8, totals + i, dtype);
        for (; i + 4 * YKI_WIDTH <= count; i += 4 * YKI_WIDTH)
            sum_near_rows(x, factor, at + i, near, stride, 4, totals + i, dtype);
        for (; i + YKI_WIDTH <= count; i += YKI_WIDTH)
            sum_near_rows(x, factor, at + i, near, stride, 1, totals + i, dtype);
        for (int64_t r = begin; r < end; r++)
            for (int64_t j = i; j < count; j++)
                totals[j] += get_term(x, factor, r * stride + j, dtype);
    }
}

static void sum_rows(yk_dtype dtype, const void *x, const void *factor, int64_t rows,
                     int64_t stride, int64_t count, double *totals)
{
    if (factor)
        FOR_EACH_DTYPE(sum_rows_as, dtype, x, factor, rows, stride, count, totals);
    else
        FOR_EACH_DTYPE(sum_rows_as, dtype, x, NULL, rows, stride, count, totals);
}

/* Every second number of two vectors, from the first or from the second one on. */
#if YKI_WIDTH == 16
#define EVEN_ONES(a, b)                                                                            \
    __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30)
#define ODD_ONES(a, b)                                                                             \
    __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31)
#elif YKI_WIDTH == 8
#define EVEN_ONES(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14)
#define ODD_ONES(a, b)  __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15)
#else
#define EVEN_ONES(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6)
#define ODD_ONES(a, b)  __builtin_shufflevector(a, b, 1, 3, 5, 7)
#endif

/* The sums of the lanes of as many vectors as these have lanes: neighbours are added, and half as
 * many vectors remain. */
YKI_FORCE_INLINE yki_lanes sums_of_vectors(yki_lanes vectors[YKI_WIDTH])
{
#pragma GCC unroll 4
    for (int left = YKI_WIDTH / 2; left > 0; left /= 2) {
#pragma GCC unroll 8
        for (int i = 0; i < left; i++) {
            const yki_lanes a = vectors[2 * i], b = vectors[2 * i + 1];
            vectors[i] = EVEN_ONES(a, b) + ODD_ONES(a, b);
        }
    }
    return vectors[0];
}

YKI_FORCE_INLINE yki_lanes sum_near_pixel(const void *x, const void *factor, int64_t first,
                                          int64_t rows, int64_t stride, yk_dtype dtype)
{
    yki_lanes near = load_term(x, factor, first, dtype);
    for (int64_t r = 1; r < rows; r++)
        near += load_term(x, factor, first + r * stride, dtype);
    return near;
}

YKI_FORCE_INLINE void sum_pixels_as(const void *x, const void *factor, int64_t rows, int64_t stride,
                                    int64_t pixels, double *totals, yk_dtype dtype)
{
    enum { ROWS = NEAR / YKI_WIDTH / 2 }; /* the lanes of a pixel are added as well */
    for (int64_t begin = 0, end; begin < rows; begin = end) {
        end = rows - begin < ROWS ? rows : begin + ROWS;
        const int64_t at = begin * stride;
        int64_t p = 0;
        for (; p + YKI_WIDTH <= pixels; p += YKI_WIDTH) {
            yki_lanes near[YKI_WIDTH];
#pragma GCC unroll 16
            for (int i = 0; i < YKI_WIDTH; i++)
                near[i] =
                    sum_near_pixel(x, factor, at + (p + i) * YKI_WIDTH, end - begin, stride, dtype);
            add_lanes_at(totals + p, sums_of_vectors(near));
        }
        for (; p < pixels; p++) {
            const wide_sum lanes =
                widen(sum_near_pixel(x, factor, at + p * YKI_WIDTH, end - begin, stride, dtype));
            totals[p] += sum_of_lanes(&lanes);
        }
    }
}

static void sum_pixels(yk_dtype dtype, const void *x, const void *factor, int64_t rows,
                       int64_t stride, int64_t pixels, double *totals)
{
    if (factor)
        FOR_EACH_DTYPE(sum_pixels_as, dtype, x, factor, rows, stride, pixels, totals);
    else
        FOR_EACH_DTYPE(sum_pixels_as, dtype, x, NULL, rows, stride, pixels, totals);
}

/* A result is behind what it is made of, or in its first place. */
static void join_sums(double *sums, int64_t beside, int64_t count)
{
    for (int64_t i = 0; i < count && beside == YKI_WIDTH; i++) {
        const wide_lanes_at *lanes = (const wide_lanes_at *)(sums + i * YKI_WIDTH);
        const wide_sum both = {{lanes[0], lanes[1]}};
        sums[i] = sum_of_lanes(&both);
    }
    for (int64_t i = 0; i < count && beside != YKI_WIDTH; i++) {
        double sum = sums[i * beside];
        for (int64_t j = 1; j < beside; j++)
            sum += sums[i * beside + j];
        sums[i] = sum;
    }
}

/* What attention computes with on a head: products of small matrices in f32, and the softmax of
 * their rows. Included by table.h alone. */
#include <math.h>

#include "device/cpu/apart.h"
#include "device/cpu/loops/scalar.h"

/* Rows of c that are summed in registers, in two vectors each. */
enum { PRODUCT_ROWS = YKI_WIDTH == 16 ? 12 : 6 };

/* `rows` and `vectors`, those of a row of c, are constants in every call. */
YKI_FORCE_INLINE void multiply_tile(const yki_small_product *p, int64_t row, int64_t column,
                                    int rows, int vectors)
{
    yki_lanes sum[PRODUCT_ROWS][2] = {{{0}}};
    const float *a = p->a + row * p->a_row, *b = p->b + column;
    float *c = p->c + row * p->c_pitch + column;
    for (int64_t k = 0; k < p->inner; k++) {
        yki_lanes of_b[2];
        for (int j = 0; j < vectors; j++)
            of_b[j] = yki_load_lanes(b, k * p->b_pitch + j * YKI_WIDTH, YK_F32);
#pragma GCC unroll 12
        for (int r = 0; r < rows; r++) {
            const float factor = a[r * p->a_row + k * p->a_inner];
            for (int j = 0; j < vectors; j++)
                sum[r][j] += factor * of_b[j];
        }
    }
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++)
        for (int j = 0; j < vectors; j++) {
            float *to = c + r * p->c_pitch + j * YKI_WIDTH;
            yki_lanes before = p->add ? yki_load_lanes(to, 0, YK_F32) : yki_splat(0);
            yki_store_lanes(to, 0, before + sum[r][j], YK_F32);
        }
}

YKI_FORCE_INLINE void multiply_columns(const yki_small_product *p, int64_t column, int vectors)
{
    int64_t row = 0;
    for (; row + PRODUCT_ROWS <= p->rows; row += PRODUCT_ROWS)
        multiply_tile(p, row, column, PRODUCT_ROWS, vectors);
    for (; row + 4 <= p->rows; row += 4)
        multiply_tile(p, row, column, 4, vectors);
    for (; row < p->rows; row++)
        multiply_tile(p, row, column, 1, vectors);
}

static void multiply(const yki_small_product *p)
{
    int64_t column = 0;
    for (; column + YKI_PACK <= p->columns; column += YKI_PACK)
        multiply_columns(p, column, 2);
    if (column < p->columns)
        multiply_columns(p, column, 1);
}

/* ---- the rows of a head ---------------------------------------------------------------------- */

YKI_FORCE_INLINE void take_rows_as(const yki_head_rows *h, yk_dtype dtype)
{
    float *to = h->own;
    for (int64_t row = 0; row < h->rows; row++, to += h->own_pitch) {
        const int64_t from = row * h->pitch;
        int64_t i = 0;
        for (; i + YKI_WIDTH <= h->width; i += YKI_WIDTH)
            yki_store_lanes(to, i, yki_load_lanes(h->memory, from + i, dtype) * h->factor, YK_F32);
        for (; i < h->width; i++)
            to[i] = yki_get(h->memory, from + i, dtype) * h->factor;
        for (; i < h->own_pitch; i++)
            to[i] = 0;
    }
}

static void take_rows(const yki_head_rows *h)
{
    FOR_EACH_DTYPE(take_rows_as, h->dtype, h);
}

YKI_FORCE_INLINE void give_rows_as(const yki_head_rows *h, yk_dtype dtype)
{
    const float *from = h->own;
    for (int64_t row = 0; row < h->rows; row++, from += h->own_pitch) {
        const int64_t to = row * h->pitch;
        int64_t i = 0;
        for (; i + YKI_WIDTH <= h->width; i += YKI_WIDTH)
            yki_store_lanes(h->memory, to + i, yki_load_lanes(from, i, YK_F32) * h->factor, dtype);
        for (; i < h->width; i++)
            yki_put(h->memory, to + i, from[i] * h->factor, dtype);
    }
}

static void give_rows(const yki_head_rows *h)
{
    FOR_EACH_DTYPE(give_rows_as, h->dtype, h);
}

static void turn_rows(const float *rows, int64_t count, int64_t columns, int64_t pitch,
                      float *turned, int64_t turned_pitch)
{
    for (int64_t column = 0; column < columns; column += 4) {
        const int64_t used = columns - column < 4 ? columns - column : 4;
        float *to = turned + column * turned_pitch;
        int64_t row = 0;
        for (; row + YKI_WIDTH <= count; row += YKI_WIDTH) {
            yki_apart four[4];
            yki_apart_load(rows + row * pitch + column, pitch, four);
            for (int64_t n = 0; n < used; n++)
                *(yki_lanes_at *)(to + n * turned_pitch + row) = (yki_lanes)four[n];
        }
        for (; row < turned_pitch; row++)
            for (int64_t n = 0; n < used; n++)
                to[n * turned_pitch + row] = row < count ? rows[row * pitch + column + n] : 0;
    }
}

/* ---- softmax --------------------------------------------------------------------------------- */

/* By halves: adding one lane after another would take longer than all else for short rows. The
 * intrinsics add in the same order as the loops. */
YKI_FORCE_INLINE float sum_of_floats(yki_lanes x)
{
#if YKI_WIDTH == 16
    return _mm512_reduce_add_ps((__m512)x);
#elif defined(__AVX__) && YKI_WIDTH == 8
    __m128 part =
        _mm_add_ps(_mm256_castps256_ps128((__m256)x), _mm256_extractf128_ps((__m256)x, 1));
    part = _mm_add_ps(part, _mm_movehl_ps(part, part));
    return _mm_cvtss_f32(_mm_add_ss(part, _mm_movehdup_ps(part)));
#else
    float part[YKI_WIDTH];
    *(yki_lanes_at *)part = x;
    for (int half = YKI_WIDTH / 2; half > 0; half /= 2)
        for (int lane = 0; lane < half; lane++)
            part[lane] += part[lane + half];
    return part[0];
#endif
}

YKI_FORCE_INLINE float largest_lane(yki_lanes x)
{
#if YKI_WIDTH == 16
    return _mm512_reduce_max_ps((__m512)x);
#elif defined(__AVX__) && YKI_WIDTH == 8
    __m128 part =
        _mm_max_ps(_mm256_castps256_ps128((__m256)x), _mm256_extractf128_ps((__m256)x, 1));
    part = _mm_max_ps(part, _mm_movehl_ps(part, part));
    return _mm_cvtss_f32(_mm_max_ss(part, _mm_movehdup_ps(part)));
#else
    float part[YKI_WIDTH];
    *(yki_lanes_at *)part = x;
    for (int half = YKI_WIDTH / 2; half > 0; half /= 2)
        for (int lane = 0; lane < half; lane++)
            part[lane] = part[lane] > part[lane + half] ? part[lane] : part[lane + half];
    return part[0];
#endif
}

static int64_t whole_vectors(int64_t count)
{
    return (count + YKI_WIDTH - 1) / YKI_WIDTH * YKI_WIDTH;
}

static void fill_from(float *x, int64_t first, int64_t end, float value)
{
    for (int64_t i = first; i < end; i++)
        x[i] = value;
}

static float masked_softmax(float *x, int64_t count, int64_t columns)
{
    const int64_t used = whole_vectors(count);
    fill_from(x, count, used, -INFINITY);
    yki_lanes most = yki_splat(-INFINITY), sum = {0};
    for (int64_t i = 0; i < used; i += YKI_WIDTH) {
        yki_lanes value = yki_load_lanes(x, i, YK_F32);
        most = yki_larger(value, most);
    }
    const float largest = largest_lane(most);
    for (int64_t i = 0; i < used; i += YKI_WIDTH) {
        yki_lanes value = yki_exp_or_zero(yki_load_lanes(x, i, YK_F32) - largest);
        yki_store_lanes(x, i, value, YK_F32);
        sum += value;
    }
    const float total = sum_of_floats(sum), factor = 1 / total;
    for (int64_t i = 0; i < used; i += YKI_WIDTH)
        yki_store_lanes(x, i, yki_load_lanes(x, i, YK_F32) * factor, YK_F32);
    fill_from(x, count, columns, 0);
    return largest + logf(total);
}

/* log_sum is rounded, in a row of large scores by more than what a share of almost 1 lacks: the
 * shares are divided by their sum. */
static void masked_softmax_slopes(float *x, float *slopes, int64_t count, int64_t columns,
                                  float log_sum)
{
    const int64_t used = whole_vectors(count);
    yki_lanes total = {0}, sum = {0};
    fill_from(x, count, used, -INFINITY);
    for (int64_t i = 0; i < used; i += YKI_WIDTH) {
        const yki_lanes share = yki_exp_or_zero(yki_load_lanes(x, i, YK_F32) - log_sum);
        yki_store_lanes(x, i, share, YK_F32);
        total += share;
        sum += share * yki_load_lanes(slopes, i, YK_F32);
    }
    const float all = sum_of_floats(total), factor = all > 0.5f ? 1 / all : 0; /* all hidden: 0 */
    const float mean = sum_of_floats(sum) * factor;
    for (int64_t i = 0; i < used; i += YKI_WIDTH) {
        const yki_lanes p = yki_load_lanes(x, i, YK_F32) * factor;
        yki_store_lanes(x, i, p, YK_F32);
        yki_store_lanes(slopes, i, p * (yki_load_lanes(slopes, i, YK_F32) - mean), YK_F32);
    }
    fill_from(x, count, columns, 0);
    fill_from(slopes, count, columns, 0);
}

/*
 * Rows of images of another size: included by table.h alone. A row of the result is first a
 * sum of rows, in f32, and then each of its pixels is a sum of that row's pixels.
 */
#include "device/cpu/loops/scalar.h"

enum { MIXED_AHEAD = 4096 /* elements between what is read and what is prefetched */ };

/* The weighted sum of one vector of each of these rows, `pitch` elements apart. */
YKI_FORCE_INLINE yki_lanes mix_vector(const void *x, int64_t element, int64_t pitch,
                                      const float *weights, int64_t count, yk_dtype dtype)
{
    yki_lanes total = weights[0] * yki_load_lanes(x, element, dtype);
    for (int64_t r = 1; r < count; r++)
        total += weights[r] * yki_load_lanes(x, element + r * pitch, dtype);
    return total;
}

/* Whole vectors, and the elements that are left. */
YKI_FORCE_INLINE void mix_rows_as(const yki_mix *mix, const void *x, int64_t elements, float *own,
                                  int64_t count, yk_dtype dtype)
{
    const int64_t begin = mix->first * elements;
    int64_t i = 0;
    for (; i + YKI_WIDTH <= elements; i += YKI_WIDTH)
        *(yki_lanes_at *)(own + i) = mix_vector(x, begin + i, elements, mix->weights, count, dtype);
    for (; i < elements; i++) {
        own[i] = mix->weights[0] * yki_get(x, begin + i, dtype);
        for (int64_t r = 1; r < count; r++)
            own[i] += mix->weights[r] * yki_get(x, begin + r * elements + i, dtype);
    }
}

/* Adds a row to `own`, or begins with it. */
YKI_FORCE_INLINE void mix_row_as(const void *x, int64_t begin, int64_t elements, float weight,
                                 float *own, bool is_first, yk_dtype dtype)
{
    int64_t i = 0;
    for (; i + YKI_WIDTH <= elements; i += YKI_WIDTH) {
        yki_prefetch_line(x, begin + i + MIXED_AHEAD, dtype);
        yki_lanes total = weight * yki_load_lanes(x, begin + i, dtype);
        if (!is_first)
            total += *(const yki_lanes_at *)(own + i);
        *(yki_lanes_at *)(own + i) = total;
    }
    for (; i < elements; i++)
        own[i] = weight * yki_get(x, begin + i, dtype) + (is_first ? 0 : own[i]);
}

/*
 * own: row `row` of the result, but of the input's columns, of so many elements. Processors do not
 * follow several rows at a time, so those of a large input are read one after the other.
 */
YKI_FORCE_INLINE void mix_rows(const yki_mixing *m, int64_t row, const void *x, int64_t elements,
                               float *own, yk_dtype dtype)
{
    const yki_mix *mix = &m->of_rows[row];
    if (mix->count == 0)
        memset(own, 0, (size_t)elements * sizeof *own);
    else if (m->apart)
        for (int64_t r = 0; r < mix->count; r++)
            mix_row_as(x, (mix->first + r) * elements, elements, mix->weights[r], own, r == 0,
                       dtype);
    else if (mix->count == 1)
        mix_rows_as(mix, x, elements, own, 1, dtype);
    else if (mix->count == 2)
        mix_rows_as(mix, x, elements, own, 2, dtype);
    else
        mix_rows_as(mix, x, elements, own, mix->count, dtype);
}

/* A pixel of the result. Two taps are those of most pixels that are enlarged, and four those of the
 * gradient of twice the size. */
YKI_FORCE_INLINE yki_lanes mix_columns(const yki_mix *mix, const float *own, int64_t count)
{
    yki_lanes total = {0};
    for (int64_t s = 0; s < count; s++)
        total += mix->weights[s] * yki_load_pixel(own, mix->first + s, YK_F32);
    return total;
}

YKI_FORCE_INLINE void mix_pixels_as(const yki_mixing *m, int64_t row, const void *x, void *y,
                                    float *own, yk_dtype dtype)
{
    const bool stream = m->stream && yki_can_stream(y, 0, dtype);
    mix_rows(m, row, x, m->pitch * YKI_WIDTH, own, dtype);
    for (int64_t q = 0; q < m->columns; q++) {
        const yki_mix *mix = &m->of_columns[q];
        yki_put_pixel(y, row * m->columns + q,
                      mix->count == 2   ? mix_columns(mix, own, 2)
                      : mix->count == 4 ? mix_columns(mix, own, 4)
                                        : mix_columns(mix, own, mix->count),
                      stream, dtype);
    }
}

/* In 16 bits, whatever their format, and without mixing. */
static void copy_halves(const yki_mixing *m, int64_t row, const void *x, void *y)
{
    const yki_halves_at *from =
        (const yki_halves_at *)((const uint16_t *)x + m->of_rows[row].first * m->pitch * YKI_WIDTH);
    yki_halves_at *to = (yki_halves_at *)((uint16_t *)y + row * m->columns * YKI_WIDTH);
    for (int64_t q = 0; q < m->columns; q++)
        to[q] = from[m->of_columns[q].first];
}

static void copy_floats(const yki_mixing *m, int64_t row, const void *x, void *y)
{
    const float *from = (const float *)x + m->of_rows[row].first * m->pitch * YKI_WIDTH;
    const bool stream = m->stream && yki_can_stream(y, 0, YK_F32);
    for (int64_t q = 0; q < m->columns; q++)
        yki_put_pixel(y, row * m->columns + q, yki_load_pixel(from, m->of_columns[q].first, YK_F32),
                      stream, YK_F32);
}

static void mix_pixels(const yki_mixing *m, int64_t row, const void *x, void *y, float *own)
{
    if (m->copies && m->dtype == YK_F32)
        copy_floats(m, row, x, y);
    else if (m->copies)
        copy_halves(m, row, x, y);
    else
        FOR_EACH_DTYPE(mix_pixels_as, m->dtype, m, row, x, y, own);
}

/* Results q and following, as many as a vector has. */
YKI_FORCE_INLINE yki_lanes mix_numbers_at(const yki_mixing *m, const float *own, int64_t q)
{
    yki_lanes total = {0};
    for (int64_t t = q; t < m->taps * m->line; t += m->line)
        total += *(const yki_lanes_at *)(m->shares + t) * yki_gather(own, m->places + t);
    return total;
}

/* Of plain memory, whose pixels are single numbers. */
YKI_FORCE_INLINE void mix_numbers_as(const yki_mixing *m, int64_t row, const void *x, void *y,
                                     float *own, yk_dtype dtype)
{
    const int64_t begin = row * m->columns;
    int64_t q = 0;
    mix_rows(m, row, x, m->pitch, own, dtype);
    own[m->pitch] = 0; /* which results read that have fewer taps than others */
    for (; q + YKI_WIDTH <= m->columns; q += YKI_WIDTH)
        yki_store_lanes(y, begin + q, mix_numbers_at(m, own, q), dtype);
    if (q == m->columns)
        return;
    const yki_lanes total = mix_numbers_at(m, own, q);
    for (int lane = 0; q + lane < m->columns; lane++)
        yki_put(y, begin + q + lane, total[lane], dtype);
}

static void mix_numbers(const yki_mixing *m, int64_t row, const void *x, void *y, float *own)
{
    FOR_EACH_DTYPE(mix_numbers_as, m->dtype, m, row, x, y, own);
}

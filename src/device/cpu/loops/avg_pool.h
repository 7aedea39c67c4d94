/*
 * Averages over windows of one channel block that is as wide as a vector: included by table.h
 * alone. A window is a rectangle of pixels; those of 2x2 and 3x3 have their sizes as constants.
 * Sums of up to PIECE_PIXELS pixels are f32, and those of more pixels are double, made of such
 * sums. Their order depends on the window's size alone.
 */
enum { PIECE_PIXELS = 256 };

/* In one order, for small windows. */
YKI_FORCE_INLINE yki_lanes sum_window(const void *x, int64_t pixel, int64_t pitch, int64_t rows,
                                      int64_t columns, yk_dtype dtype)
{
    yki_lanes total = {0};
#pragma GCC unroll 3
    for (int64_t r = 0; r < rows; r++)
#pragma GCC unroll 3
        for (int64_t s = 0; s < columns; s++)
            total += yki_load_pixel(x, pixel + r * pitch + s, dtype);
    return total;
}

/* In four parts, so that additions need not wait for each other. */
YKI_FORCE_INLINE yki_lanes sum_large_window(const void *x, int64_t pixel, int64_t pitch,
                                            int64_t rows, int64_t columns, yk_dtype dtype)
{
    yki_lanes part[4] = {{0}};
    for (int64_t r = 0; r < rows; r++) {
        const int64_t row = pixel + r * pitch;
        int64_t s = 0;
        for (; s + 4 <= columns; s += 4)
            for (int i = 0; i < 4; i++)
                part[i] += yki_load_pixel(x, row + s + i, dtype);
        for (; s < columns; s++)
            part[0] += yki_load_pixel(x, row + s, dtype);
    }
    return (part[0] + part[1]) + (part[2] + part[3]);
}

/* In pieces, so that errors do not grow with the window. */
YKI_FORCE_INLINE yki_lanes sum_huge_window(const void *x, int64_t pixel, int64_t pitch,
                                           int64_t rows, int64_t columns, yk_dtype dtype)
{
    const int64_t high = columns < PIECE_PIXELS ? PIECE_PIXELS / columns : 1;
    wide_sum total = {{{0}}};
    for (int64_t r = 0; r < rows; r += high)
        for (int64_t s = 0; s < columns; s += PIECE_PIXELS)
            add_lanes(
                &total,
                sum_large_window(x, pixel + r * pitch + s, pitch, rows - r < high ? rows - r : high,
                                 columns - s < PIECE_PIXELS ? columns - s : PIECE_PIXELS, dtype));
    return narrow(&total);
}

YKI_FORCE_INLINE yki_lanes sum_any_window(const void *x, int64_t pixel, int64_t pitch, int64_t rows,
                                          int64_t columns, yk_dtype dtype)
{
    if (rows == 1 && columns == 1)
        return sum_window(x, pixel, pitch, 1, 1, dtype);
    if (rows == 2 && columns == 2)
        return sum_window(x, pixel, pitch, 2, 2, dtype);
    if (rows == 3 && columns == 3)
        return sum_window(x, pixel, pitch, 3, 3, dtype);
    if (rows * columns <= PIECE_PIXELS)
        return sum_large_window(x, pixel, pitch, rows, columns, dtype);
    return sum_huge_window(x, pixel, pitch, rows, columns, dtype);
}

YKI_FORCE_INLINE void average_as(const yki_windows *w, const void *x, void *y, bool ahead,
                                 yk_dtype dtype)
{
    const bool stream = w->stream && yki_can_stream(y, 0, dtype);
    for (int64_t p = 0; p < w->rows; p++) {
        const yki_window_range h = w->of_rows[p];
        for (int64_t q = 0; q < w->columns; q++) {
            const yki_window_range v = w->of_columns[q];
            const int64_t at = p * w->columns + q;
            if (ahead) /* the pixels that no window after this one has, but so many rows further */
                yki_prefetch_pixels(
                    x, (h.begin + w->ahead) * w->pitch + v.begin, w->pitch,
                    (p + 1 < w->rows ? w->of_rows[p + 1].begin : h.end) - h.begin,
                    (q + 1 < w->columns ? w->of_columns[q + 1].begin : v.end) - v.begin, dtype);
            const yki_lanes total = sum_any_window(x, h.begin * w->pitch + v.begin, w->pitch,
                                                   h.end - h.begin, v.end - v.begin, dtype);
            yki_put_pixel(y, at, total * w->weights[w->one_weight ? 0 : at], stream, dtype);
        }
    }
}

static void average(const yki_windows *w, const void *x, void *y)
{
    if (w->ahead)
        FOR_EACH_DTYPE(average_as, w->dtype, w, x, y, true);
    else
        FOR_EACH_DTYPE(average_as, w->dtype, w, x, y, false);
}

YKI_FORCE_INLINE void sum_weighted_as(const yki_windows *w, const void *x, void *y, yk_dtype dtype)
{
    const bool stream = w->stream && yki_can_stream(y, 0, dtype);
    for (int64_t p = 0; p < w->rows; p++)
        for (int64_t q = 0; q < w->columns; q++) {
            yki_lanes total = {0};
            for (int64_t r = w->of_rows[p].begin; r < w->of_rows[p].end; r++)
                for (int64_t s = w->of_columns[q].begin; s < w->of_columns[q].end; s++) {
                    const int64_t from = r * w->pitch + s;
                    total += w->weights[from] * yki_load_pixel(x, from, dtype);
                }
            yki_put_pixel(y, p * w->columns + q, total, stream, dtype);
        }
}

static void sum_weighted(const yki_windows *w, const void *x, void *y)
{
    FOR_EACH_DTYPE(sum_weighted_as, w->dtype, w, x, y);
}

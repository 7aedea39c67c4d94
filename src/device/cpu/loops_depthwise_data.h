/*
 * The gradient of x of 3x3 depthwise convolutions of stride 2, one channel block of an image at a
 * time: included by loops_table.h alone.
 *
 * A pixel of x is read by four results at most. Which taps read it depends on whether its row and
 * its column, counted with the padding, are even (taps 0 and 2) or odd (tap 1), so an even and an
 * odd pixel next to each other are computed together.
 */

/* The results whose taps read a row of x: from `upper` by the tap row `tap`, and from `lower`, the
 * result row above it, by the tap row 2. Either may be missing: it is a row of zeros, then. */
typedef struct data_rows {
    const void *upper, *lower;
    int tap;
    bool both;
} data_rows;

YKI_FORCE_INLINE data_rows data_rows_of(const yki_depthwise *d, const void *dy, const void *zeros,
                                        int64_t row)
{
    const int64_t at = row + d->padding, result = at / 2;
    const size_t bytes = (size_t)(d->dy_columns * YKI_WIDTH) * yki_size_of(d->dtype);
    data_rows rows = {.upper = zeros, .lower = zeros, .tap = at % 2, .both = at % 2 == 0};
    if (result < d->dy_rows)
        rows.upper = (const char *)dy + (size_t)result * bytes;
    if (rows.both && result > 0 && result <= d->dy_rows)
        rows.lower = (const char *)dy + (size_t)(result - 1) * bytes;
    return rows;
}

/* Two pixels of x in a row, from column 2 q - padding on. */
typedef struct data_pair {
    yki_lanes even, odd;
} data_pair;

/* w: the taps of the rows `tap` and 2; a and b: result q of the upper and of the lower row;
 * left_a and left_b: the results before them. `both`, a constant: there is a lower row. */
YKI_FORCE_INLINE data_pair data_pixels(const yki_lanes w[2][3], yki_lanes a, yki_lanes left_a,
                                       yki_lanes b, yki_lanes left_b, bool both)
{
    data_pair pair = {w[0][0] * a + w[0][2] * left_a, w[0][1] * a};
    if (both) {
        pair.even += w[1][0] * b + w[1][2] * left_b;
        pair.odd += w[1][1] * b;
    }
    return pair;
}

YKI_FORCE_INLINE void data_store(void *dx, int64_t pixel, yki_lanes value, bool stream,
                                 yk_dtype dtype)
{
    if (stream && dtype == YK_F32)
        yki_stream_lanes((float *)dx + pixel * YKI_WIDTH, value);
    else
        yki_store_lanes(dx, pixel * YKI_WIDTH, value, dtype);
}

YKI_FORCE_INLINE void data_row(const yki_depthwise *d, const data_rows *rows, const float *weights,
                               void *dx, bool both, yk_dtype dtype)
{
    const int64_t last = (d->columns - 1 + d->padding) / 2; /* that has a pixel of x */
    yki_lanes w[2][3], left_a = {0}, left_b = {0};
    for (int s = 0; s < 3; s++) {
        w[0][s] = *(const yki_lanes_at *)(weights + (rows->tap * 3 + s) * YKI_WIDTH);
        w[1][s] = *(const yki_lanes_at *)(weights + (2 * 3 + s) * YKI_WIDTH);
    }
    for (int64_t q = 0; q <= last; q++) {
        yki_lanes a = {0}, b = {0};
        if (q < d->dy_columns) {
            a = yki_load_pixel(rows->upper, q, dtype);
            if (both)
                b = yki_load_pixel(rows->lower, q, dtype);
        }
        data_pair pair = data_pixels(w, a, left_a, b, left_b, both);
        int64_t column = 2 * q - d->padding;
        if (column >= 0)
            data_store(dx, column, pair.even, d->stream, dtype);
        if (column + 1 >= 0 && column + 1 < d->columns)
            data_store(dx, column + 1, pair.odd, d->stream, dtype);
        left_a = a;
        left_b = b;
    }
}

YKI_FORCE_INLINE void data_image(const yki_depthwise *d, const void *dy, const float *weights,
                                 const void *zeros, void *dx, yk_dtype dtype)
{
    const size_t bytes = (size_t)(d->columns * YKI_WIDTH) * yki_size_of(dtype);
    for (int64_t row = 0; row < d->rows; row++) {
        data_rows rows = data_rows_of(d, dy, zeros, row);
        if (rows.both)
            data_row(d, &rows, weights, (char *)dx + (size_t)row * bytes, true, dtype);
        else
            data_row(d, &rows, weights, (char *)dx + (size_t)row * bytes, false, dtype);
    }
}

static void depthwise_data(const yki_depthwise *d, const void *dy, const float *weights,
                           const void *zeros, void *dx)
{
    FOR_EACH_DTYPE(data_image, d->dtype, d, dy, weights, zeros, dx);
    if (d->stream)
        yki_stream_end();
}

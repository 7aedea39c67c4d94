/*
 * 3x3 depthwise convolutions of stride 2 and the gradient of their x, one channel block of an image
 * at a time: included by table.h alone.
 */

/* ---- forward --------------------------------------------------------------------------------- */

/* The three rows of x that a row of results reads; those outside the image are zeros. */
typedef struct strided_rows {
    const void *of[3],
        *next; /* next: the first of two rows that the following results read first */
} strided_rows;

YKI_FORCE_INLINE strided_rows strided_rows_of(const yki_depthwise *d, const void *x,
                                              const void *zeros, int64_t row)
{
    const size_t bytes = (size_t)(d->columns * YKI_WIDTH) * yki_size_of(d->dtype);
    strided_rows rows;
    int64_t top = 2 * row - d->padding;
    for (int r = 0; r < 3; r++) {
        bool inside = top + r >= 0 && top + r < d->rows;
        rows.of[r] = inside ? (const char *)x + (size_t)(top + r) * bytes : zeros;
    }
    rows.next = (const char *)x + (size_t)(top + 3 < d->rows ? top + 3 : 0) * bytes;
    return rows;
}

YKI_FORCE_INLINE yki_lanes strided_sum(const strided_rows *rows, const yki_lanes w[9], int64_t left,
                                       yk_dtype dtype)
{
    yki_lanes sum = {0};
    for (int r = 0; r < 3; r++)
        for (int s = 0; s < 3; s++)
            sum += w[3 * r + s] * yki_load_pixel(rows->of[r], left + s, dtype);
    return sum;
}

/* The same where columns may lie outside. */
YKI_FORCE_INLINE yki_lanes strided_edge(const yki_depthwise *d, const strided_rows *rows,
                                        const yki_lanes w[9], int64_t left, yk_dtype dtype)
{
    yki_lanes sum = {0};
    for (int r = 0; r < 3; r++)
        for (int s = 0; s < 3; s++)
            if (left + s >= 0 && left + s < d->columns)
                sum += w[3 * r + s] * yki_load_pixel(rows->of[r], left + s, dtype);
    return sum;
}

/* Fetches what the result below reads first: two pixels of two rows. */
YKI_FORCE_INLINE void strided_fetch(const yki_depthwise *d, const strided_rows *rows,
                                    int64_t column, yk_dtype dtype)
{
    const size_t pixel = YKI_WIDTH * yki_size_of(dtype);
    for (int r = 0; r < 2; r++)
        for (int s = 0; s < 2; s++)
            __builtin_prefetch((const char *)rows->next +
                               (size_t)(r * d->columns + 2 * column + s) * pixel);
}

YKI_FORCE_INLINE void forward_image(const yki_depthwise *d, const void *x, const float *weights,
                                    const void *zeros, void *y, yk_dtype dtype)
{
    yki_lanes w[9];
    for (int t = 0; t < 9; t++)
        w[t] = *(const yki_lanes_at *)(weights + t * YKI_WIDTH);
    for (int64_t row = 0; row < d->dy_rows; row++) {
        strided_rows rows = strided_rows_of(d, x, zeros, row);
        for (int64_t column = 0; column < d->dy_columns; column++) {
            int64_t left = 2 * column - d->padding;
            bool inner = left >= 0 && left + 3 <= d->columns;
            strided_fetch(d, &rows, column, dtype);
            yki_lanes sum =
                inner ? strided_sum(&rows, w, left, dtype) : strided_edge(d, &rows, w, left, dtype);
            yki_put_pixel(y, row * d->dy_columns + column, sum, d->stream, dtype);
        }
    }
}

static void depthwise_forward(const yki_depthwise *d, const void *x, const float *weights,
                              const void *zeros, void *y)
{
    FOR_EACH_DTYPE(forward_image, d->dtype, d, x, weights, zeros, y);
    if (d->stream)
        yki_stream_end();
}

/* ---- the gradient of x ----------------------------------------------------------------------- */

/*
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
            yki_put_pixel(dx, column, pair.even, d->stream, dtype);
        if (column + 1 >= 0 && column + 1 < d->columns)
            yki_put_pixel(dx, column + 1, pair.odd, d->stream, dtype);
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

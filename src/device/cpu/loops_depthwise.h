/*
 * The weight gradient of a depthwise convolution, one channel block at a time: included by
 * loops_table.h alone.
 *
 * Sums are taken over images of at least SUM_PIXELS results before they are added to the total, so
 * that rounding errors stay small.
 */

enum { SUM_PIXELS = 512, NINE = 9 };

/* One pixel of a channel block as wide as a vector. */
YKI_FORCE_INLINE yki_lanes load_pixel(const void *memory, int64_t pixel, yk_dtype dtype)
{
    return yki_load_lanes(memory, pixel * YKI_WIDTH, dtype);
}

/* The taps in [begin, end) read pixels of x; `corner` is the pixel that the first tap reads. */
YKI_FORCE_INLINE void taps_inside(int64_t corner, int64_t taps, int64_t pixels, int64_t *begin,
                                  int64_t *end)
{
    *begin = corner < 0 ? -corner : 0;
    *end = corner + taps > pixels ? pixels - corner : taps;
}

/* Adds the products of dy's pixel (row, column) to the sums of its taps. */
YKI_FORCE_INLINE void add_pixel(const yki_depthwise *d, const void *x, const void *dy, int64_t row,
                                int64_t column, yki_lanes *sums, yk_dtype dtype)
{
    int64_t top = row * d->stride - d->padding, left = column * d->stride - d->padding;
    int64_t r, last_r, first_c, last_c;
    taps_inside(top, d->kernel_rows, d->rows, &r, &last_r);
    taps_inside(left, d->kernel_columns, d->columns, &first_c, &last_c);
    yki_lanes gradient = load_pixel(dy, row * d->dy_columns + column, dtype);
    for (; r < last_r; r++)
        for (int64_t c = first_c; c < last_c; c++)
            sums[r * d->kernel_columns + c] +=
                gradient * load_pixel(x, (top + r) * d->columns + left + c, dtype);
}

/* Columns [begin, end) of a row of dy whose 3x3 taps all lie inside x. */
YKI_FORCE_INLINE void add_inner_row(const yki_depthwise *d, const void *x, const void *dy,
                                    int64_t row, int64_t begin, int64_t end, yki_lanes *sums,
                                    yk_dtype dtype)
{
    int64_t corner = (row * d->stride - d->padding) * d->columns - d->padding;
    yki_lanes s[NINE];
    for (int t = 0; t < NINE; t++)
        s[t] = sums[t];
    for (int64_t column = begin; column < end; column++) {
        yki_lanes gradient = load_pixel(dy, row * d->dy_columns + column, dtype);
        int64_t first = corner + column * d->stride;
        for (int t = 0; t < NINE; t++)
            s[t] += gradient * load_pixel(x, first + t / 3 * d->columns + t % 3, dtype);
    }
    for (int t = 0; t < NINE; t++)
        sums[t] = s[t];
}

YKI_FORCE_INLINE void add_image(const yki_depthwise *d, const void *x, const void *dy,
                                yki_lanes *sums, yk_dtype dtype)
{
    bool nine = d->kernel_rows == 3 && d->kernel_columns == 3;
    for (int64_t row = 0; row < d->dy_rows; row++) {
        int64_t top = row * d->stride - d->padding;
        bool inner = nine && top >= 0 && top + 3 <= d->rows;
        int64_t begin = inner ? d->inner_begin : d->dy_columns;
        int64_t end = inner ? d->inner_end : d->dy_columns;
        for (int64_t column = 0; column < begin; column++)
            add_pixel(d, x, dy, row, column, sums, dtype);
        if (begin < end)
            add_inner_row(d, x, dy, row, begin, end, sums, dtype);
        for (int64_t column = end; column < d->dy_columns; column++)
            add_pixel(d, x, dy, row, column, sums, dtype);
    }
}

YKI_FORCE_INLINE void depthwise_as(const yki_depthwise *d, const void *x, const void *dy,
                                   int64_t images, float *total, yk_dtype dtype)
{
    int64_t taps = d->kernel_rows * d->kernel_columns, pixels = d->dy_rows * d->dy_columns;
    size_t size = yki_size_of(dtype);
    yki_lanes sums[YKI_DEPTHWISE_TAPS] = {{0}};
    int64_t held = 0;
    for (int64_t image = 0; image < images; image++) {
        add_image(d, (const char *)x + (size_t)(image * d->image) * size,
                  (const char *)dy + (size_t)(image * d->dy_image) * size, sums, dtype);
        held += pixels;
        if (held < SUM_PIXELS && image + 1 < images)
            continue;
        held = 0;
        for (int64_t t = 0; t < taps; t++) {
            *(yki_lanes_at *)(total + t * YKI_WIDTH) += sums[t];
            sums[t] = (yki_lanes){0};
        }
    }
}

static void depthwise_gradient(const yki_depthwise *shape, const void *x, const void *dy,
                               int64_t images, float *sums)
{
    FOR_EACH_DTYPE(depthwise_as, shape->dtype, shape, x, dy, images, sums);
}

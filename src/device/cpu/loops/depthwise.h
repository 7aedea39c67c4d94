/*
 * The weight gradient of depthwise convolutions, one channel block at a time: included by
 * table.h alone.
 *
 * Larger and dilated filters: the rows of x are widened to f32 into a ring, with zeros to the left
 * and right, so that no loop has a case for the edges; rows outside the image are left out. The
 * sums of a row of taps stay in registers while a row of dy is multiplied.
 */

enum {
    NINE = 9,
    DEPTH_TAPS = 7, /* of a row, whose sums are in registers */
    DEPTH_AHEAD = 2 /* rows that are fetched before they are read */
};

YKI_FORCE_INLINE int64_t depth_row_floats(const yki_depthwise *d)
{
    return d->span * YKI_WIDTH;
}

/* The ring's memory of a row of x: its first column, which may be followed and preceded by
 * zeros. */
YKI_FORCE_INLINE float *depth_row(const yki_depthwise *d, float *ring, int64_t row)
{
    return ring + row % d->depth * depth_row_floats(d) + d->padding * YKI_WIDTH;
}

static void depth_clear(const yki_depthwise *d, float *ring)
{
    for (int64_t i = 0; i < d->depth * d->span; i++)
        *(yki_lanes_at *)(ring + i * YKI_WIDTH) = (yki_lanes){0};
}

YKI_FORCE_INLINE void depth_widen(const void *from, int64_t columns, float *to, yk_dtype dtype)
{
    const size_t pixel = YKI_WIDTH * yki_size_of(dtype);
    const char *ahead = (const char *)from + (size_t)(DEPTH_AHEAD * columns) * pixel;
    for (int64_t i = 0; i < columns; i++) {
        __builtin_prefetch(ahead + (size_t)i * pixel);
        *(yki_lanes_at *)(to + i * YKI_WIDTH) = yki_load_pixel(from, i, dtype);
    }
}

/* Widens a row of `columns` pixels. */
static void depth_read(yk_dtype dtype, const void *image, int64_t row, int64_t columns, float *to)
{
    size_t bytes = (size_t)(row * columns) * YKI_WIDTH * yki_size_of(dtype);
    FOR_EACH_DTYPE(depth_widen, dtype, (const char *)image + bytes, columns, to);
}

/* Reads x up to a row. */
static void depth_advance(const yki_depthwise *d, const void *x, int64_t last, int64_t *next,
                          float *ring)
{
    for (; *next <= last && *next < d->rows; ++*next)
        depth_read(d->dtype, x, *next, d->columns, depth_row(d, ring, *next));
}

/* Adds the products of a row of dy with one of x to the sums of some taps in a row; their number is
 * a constant. Few taps have two sums each, or each sum would wait for its last addition. */
YKI_FORCE_INLINE void depth_sums_as(const float *x, const float *dy, int64_t columns,
                                    int64_t stride, int64_t dilation, yki_lanes *partial, int taps)
{
    const int both = taps <= 4 ? 2 : 1;
    yki_lanes s[2 * DEPTH_TAPS] = {{0}};
    int64_t c = 0;
#pragma GCC unroll 7
    for (int t = 0; t < taps; t++)
        s[t] = partial[t];
    for (; c + both <= columns; c += both)
#pragma GCC unroll 2
        for (int b = 0; b < both; b++) {
            yki_lanes gradient = *(const yki_lanes_at *)(dy + (c + b) * YKI_WIDTH);
            const float *pixel = x + (c + b) * stride * YKI_WIDTH;
#pragma GCC unroll 7
            for (int t = 0; t < taps; t++)
                s[b * taps + t] +=
                    gradient * *(const yki_lanes_at *)(pixel + t * dilation * YKI_WIDTH);
        }
    for (; c < columns; c++) {
        yki_lanes gradient = *(const yki_lanes_at *)(dy + c * YKI_WIDTH);
#pragma GCC unroll 7
        for (int t = 0; t < taps; t++)
            s[t] += gradient * *(const yki_lanes_at *)(x + (c * stride + t * dilation) * YKI_WIDTH);
    }
#pragma GCC unroll 7
    for (int t = 0; t < taps; t++)
        partial[t] = both == 2 ? s[t] + s[taps + t] : s[t];
}

#define DEPTH_SUMS_CASE(taps)                                                                      \
    case taps:                                                                                     \
        depth_sums_as(x, dy, columns, stride, dilation, partial, taps);                            \
        break

static void depth_sums(const float *x, const float *dy, int64_t columns, int64_t stride,
                       int64_t dilation, yki_lanes *partial, int64_t taps)
{
    switch (taps) {
        DEPTH_SUMS_CASE(1);
        DEPTH_SUMS_CASE(2);
        DEPTH_SUMS_CASE(3);
        DEPTH_SUMS_CASE(4);
        DEPTH_SUMS_CASE(5);
        DEPTH_SUMS_CASE(6);
        DEPTH_SUMS_CASE(7);
    default:
        break;
    }
}

/* Adds the products of a row of dy with one of x to the sums of a row of taps. */
YKI_FORCE_INLINE void depth_add_sums(const yki_depthwise *d, const float *x, const float *dy,
                                     yki_lanes *partial)
{
    for (int64_t s = 0; s < d->kernel_columns; s += DEPTH_TAPS) {
        int64_t left = d->kernel_columns - s, taps = left < DEPTH_TAPS ? left : DEPTH_TAPS;
        depth_sums(x + (s * d->dilation - d->padding) * YKI_WIDTH, dy, d->dy_columns, d->stride,
                   d->dilation, partial + s, taps);
    }
}

/* own: the ring, and a row of dy. */
static void depth_add_image(const yki_depthwise *d, const void *x, const void *dy,
                            yki_lanes *partial, float *own)
{
    float *gradients = own + d->depth * depth_row_floats(d);
    int64_t next = 0;
    for (int64_t row = 0; row < d->dy_rows; row++) {
        int64_t top = row * d->stride - d->padding;
        depth_advance(d, x, top + (d->kernel_rows - 1) * d->dilation, &next, own);
        depth_read(d->dtype, dy, row, d->dy_columns, gradients);
        for (int64_t r = 0; r < d->kernel_rows; r++) {
            int64_t at = top + r * d->dilation;
            if (at >= 0 && at < d->rows)
                depth_add_sums(d, depth_row(d, own, at), gradients,
                               partial + r * d->kernel_columns);
        }
    }
}

/* ---- 3x3 filters: pixels are read where they lie --------------------------------------------- */

/* Adds the products of dy's pixel (row, column) to the sums of its taps. */
YKI_FORCE_INLINE void add_pixel(const yki_depthwise *d, const void *x, const void *dy, int64_t row,
                                int64_t column, yki_lanes *partial, yk_dtype dtype)
{
    int64_t top = row * d->stride - d->padding, left = column * d->stride - d->padding;
    int64_t r, last_r, first_c, last_c;
    yki_taps_inside(top, d->kernel_rows, d->rows, &r, &last_r);
    yki_taps_inside(left, d->kernel_columns, d->columns, &first_c, &last_c);
    yki_lanes gradient = yki_load_pixel(dy, row * d->dy_columns + column, dtype);
    for (; r < last_r; r++)
        for (int64_t c = first_c; c < last_c; c++)
            partial[r * d->kernel_columns + c] +=
                gradient * yki_load_pixel(x, (top + r) * d->columns + left + c, dtype);
}

/* Columns [begin, end) of a row of dy whose 3x3 taps all lie inside x. */
YKI_FORCE_INLINE void add_inner_row(const yki_depthwise *d, const void *x, const void *dy,
                                    int64_t row, int64_t begin, int64_t end, yki_lanes *partial,
                                    yk_dtype dtype)
{
    int64_t corner = (row * d->stride - d->padding) * d->columns - d->padding;
    yki_lanes s[NINE];
    for (int t = 0; t < NINE; t++)
        s[t] = partial[t];
    for (int64_t column = begin; column < end; column++) {
        yki_lanes gradient = yki_load_pixel(dy, row * d->dy_columns + column, dtype);
        int64_t first = corner + column * d->stride;
        for (int t = 0; t < NINE; t++)
            s[t] += gradient * yki_load_pixel(x, first + t / 3 * d->columns + t % 3, dtype);
    }
    for (int t = 0; t < NINE; t++)
        partial[t] = s[t];
}

YKI_FORCE_INLINE void three_add_image(const yki_depthwise *d, const void *x, const void *dy,
                                      yki_lanes *partial, yk_dtype dtype)
{
    for (int64_t row = 0; row < d->dy_rows; row++) {
        int64_t top = row * d->stride - d->padding;
        bool inner = top >= 0 && top + 3 <= d->rows;
        int64_t begin = inner ? d->inner_begin : d->dy_columns;
        int64_t end = inner ? d->inner_end : d->dy_columns;
        for (int64_t column = 0; column < begin; column++)
            add_pixel(d, x, dy, row, column, partial, dtype);
        if (begin < end)
            add_inner_row(d, x, dy, row, begin, end, partial, dtype);
        for (int64_t column = end; column < d->dy_columns; column++)
            add_pixel(d, x, dy, row, column, partial, dtype);
    }
}

/* ---- all filters ----------------------------------------------------------------------------- */

/* Adds an image of dy: the gradient of a bias. */
YKI_FORCE_INLINE void add_pixels(const void *dy, int64_t pixels, yki_lanes *sum, yk_dtype dtype)
{
    enum { BESIDE = 4 }; /* sums, or each would wait for its last addition */
    yki_lanes s[BESIDE] = {{0}};
    int64_t i = 0;
    for (; i + BESIDE <= pixels; i += BESIDE)
        for (int j = 0; j < BESIDE; j++)
            s[j] += yki_load_pixel(dy, i + j, dtype);
    for (; i < pixels; i++)
        s[0] += yki_load_pixel(dy, i, dtype);
    *sum += (s[0] + s[1]) + (s[2] + s[3]);
}

static void depthwise_gradient(const yki_depthwise *d, const void *x, const void *dy,
                               int64_t images, float *total, float *own)
{
    int64_t taps = d->kernel_rows * d->kernel_columns, pixels = d->dy_rows * d->dy_columns;
    size_t size = yk_dtype_size(d->dtype);
    yki_lanes partial[YKI_DEPTHWISE_TAPS + 1] = {{0}};
    int64_t held = 0;
    if (!d->three)
        depth_clear(d, own);
    for (int64_t image = 0; image < images; image++) {
        const char *of_x = (const char *)x + (size_t)(image * d->image) * size;
        const char *of_dy = (const char *)dy + (size_t)(image * d->dy_image) * size;
        if (d->three)
            FOR_EACH_DTYPE(three_add_image, d->dtype, d, of_x, of_dy, partial);
        else
            depth_add_image(d, of_x, of_dy, partial, own);
        if (d->bias)
            FOR_EACH_DTYPE(add_pixels, d->dtype, of_dy, pixels, &partial[taps]);
        held += pixels;
        if (held < SUM_PIXELS && image + 1 < images)
            continue;
        held = 0;
        for (int64_t t = 0; t < taps + d->bias; t++) {
            *(yki_lanes_at *)(total + t * YKI_WIDTH) += partial[t];
            partial[t] = (yki_lanes){0};
        }
    }
}

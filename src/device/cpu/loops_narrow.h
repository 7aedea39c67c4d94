/*
 * 3x3 convolutions whose groups are narrower than a vector, one channel block at a time: included
 * by loops_table.h alone, for vectors of AVX2 and AVX-512.
 *
 * Each lane of a result takes only the inputs of its own group. So every pixel is permuted into
 * `width` vectors, in which each lane holds channel k of its group, and these are multiplied by
 * vectors of weights: 9 * width multiply-adds for a vector of results, none of them by a zero. The
 * permuted pixels of three rows are kept in a ring that fits the first-level cache: a strip of at
 * most NARROW_STRIP columns, whose sums fit the registers, is taken from the top down.
 */

enum {
    NARROW_STRIP = YKI_WIDTH == 16 ? YKI_NARROW_STRIP : YKI_NARROW_STRIP / 2,
    SIDE = 3,
    NARROW_SPAN = NARROW_STRIP + SIDE - 1,  /* columns of x that a strip depends on */
    NARROW_DEPTH = YKI_WIDTH == 16 ? 4 : 2, /* sums of so many channels fit the registers as well */
    NARROW_DELAY = 3, /* columns between the taps of a row: no sum waits for its last addition */
    NARROW_AHEAD = 2  /* rows that are fetched before they are read: a strip's rows are short */
};

/* The rows of one strip of x, with the columns that the strip's results depend on. */
typedef struct narrow_ring {
    int64_t left, span; /* columns of x, which may lie outside */
    int64_t next;       /* the row of x that is read next */
    float *memory;      /* SIDE times (width, NARROW_SPAN, lanes), a pixel apart */
} narrow_ring;

/* ---- pixels ---------------------------------------------------------------------------------- */

/* Lane l of the result is lane from[l] of x. */
YKI_FORCE_INLINE yki_lanes narrow_pick(yki_lanes x, yki_bits from)
{
#if YKI_WIDTH == 16
    return (yki_lanes)_mm512_permutexvar_ps((__m512i)from, (__m512)x);
#else
    return (yki_lanes)_mm256_permutevar8x32_ps((__m256)x, (__m256i)from);
#endif
}

YKI_FORCE_INLINE float *narrow_row_at(const yki_narrow *n, const narrow_ring *ring, int64_t row)
{
    int64_t slot = (row + n->padding) % SIDE; /* rows begin at -padding */
    return ring->memory + slot * (n->width * NARROW_SPAN + 1) * YKI_WIDTH;
}

YKI_FORCE_INLINE void narrow_read_as(const yki_narrow *n, const void *x, const narrow_ring *ring,
                                     int width, yk_dtype dtype)
{
    const int64_t left = ring->left, columns = n->columns, span = ring->span;
    const size_t pixel_bytes = YKI_WIDTH * yki_size_of(dtype);
    const char *row = (const char *)x + (size_t)(ring->next * columns) * pixel_bytes;
    const char *ahead = row + (size_t)(NARROW_AHEAD * columns) * pixel_bytes;
    float *to = narrow_row_at(n, ring, ring->next);
    yki_bits group;
    for (int lane = 0; lane < YKI_WIDTH; lane++)
        group[lane] = (uint32_t)(lane / width * width);
    for (int64_t i = 0; i < span; i++, to += YKI_WIDTH) {
        yki_lanes pixel = {0};
        if (left + i >= 0 && left + i < columns) {
            pixel = load_pixel(row, left + i, dtype);
            __builtin_prefetch(ahead + (size_t)(left + i) * pixel_bytes);
        }
        for (int k = 0; k < width; k++)
            *(yki_lanes_at *)(to + k * NARROW_SPAN * YKI_WIDTH) =
                narrow_pick(pixel, group + (uint32_t)k);
    }
}

YKI_FORCE_INLINE void narrow_read_width(const yki_narrow *n, const void *x, const narrow_ring *ring,
                                        yk_dtype dtype)
{
    if (n->width == 1)
        narrow_read_as(n, x, ring, 1, dtype);
    else if (n->width == 2)
        narrow_read_as(n, x, ring, 2, dtype);
    else if (n->width == 4)
        narrow_read_as(n, x, ring, 4, dtype);
    else
        narrow_read_as(n, x, ring, 8, dtype);
}

/* Reads x up to the three rows from `top` on; `rows` are these, or NULL outside x. */
static void narrow_advance(const yki_narrow *n, const void *x, narrow_ring *ring, int64_t top,
                           const float *rows[SIDE])
{
    for (; ring->next < top + SIDE; ring->next++)
        if (ring->next >= 0 && ring->next < n->rows)
            FOR_EACH_DTYPE(narrow_read_width, n->dtype, n, x, ring);
    for (int r = 0; r < SIDE; r++)
        rows[r] =
            top + r >= 0 && top + r < n->rows ? narrow_row_at(n, ring, top + r) : (float *)NULL;
}

static narrow_ring narrow_ring_of(const yki_narrow *n, yki_window_range columns, int64_t first_row,
                                  float *memory)
{
    return (narrow_ring){.left = columns.begin - n->padding,
                         .span = columns.end - columns.begin - 1 + SIDE,
                         .next = first_row - n->padding,
                         .memory = memory};
}

/* Strips of nearly equal width. */
YKI_FORCE_INLINE int64_t narrow_strips(const yki_narrow *n)
{
    return (n->y_columns + NARROW_STRIP - 1) / NARROW_STRIP;
}

YKI_FORCE_INLINE yki_window_range narrow_strip(const yki_narrow *n, int64_t strip)
{
    int64_t strips = narrow_strips(n);
    return (yki_window_range){n->y_columns * strip / strips, n->y_columns * (strip + 1) / strips};
}

/* ---- results --------------------------------------------------------------------------------- */

/* A strip of results from f32. */
YKI_FORCE_INLINE void narrow_write(const float *from, int64_t columns, void *y, int64_t element,
                                   yk_dtype dtype)
{
    for (int64_t c = 0; c < columns; c++)
        yki_store_lanes(y, element + c * YKI_WIDTH, *(const yki_lanes_at *)(from + c * YKI_WIDTH),
                        dtype);
}

/* The results of a strip in one row; the number of columns is a constant. */
YKI_FORCE_INLINE void narrow_results(const yki_narrow *n, const float *const *rows,
                                     const float *weights, float *to, int columns)
{
    yki_lanes results[NARROW_STRIP];
    for (int c = 0; c < columns; c++)
        results[c] = *(const yki_lanes_at *)weights; /* the bias */
    for (int r = 0; r < SIDE; r++) {
        if (!rows[r])
            continue;
        const float *pixels = rows[r];
        const float *of_row = weights + (1 + r * n->width * SIDE) * YKI_WIDTH;
        for (int64_t k = 0; k < n->width; k++) {
            yki_lanes w[SIDE];
            for (int s = 0; s < SIDE; s++)
                w[s] = *(const yki_lanes_at *)(of_row + s * YKI_WIDTH);
            yki_lanes pixel[NARROW_STRIP + SIDE - 1];
#pragma GCC unroll 32
            for (int i = 0; i < columns + NARROW_DELAY * (SIDE - 1); i++) {
                if (i < columns + SIDE - 1) {
                    pixel[i] = *(const yki_lanes_at *)(pixels + i * YKI_WIDTH);
                    __asm__("" : "+v"(pixel[i])); /* or the compiler loads it for every use */
                }
#pragma GCC unroll 3
                for (int s = 0; s < SIDE; s++) {
                    int c = i - NARROW_DELAY * s;
                    if (c >= 0 && c < columns)
                        results[c] += pixel[c + s] * w[s];
                }
            }
            pixels += NARROW_SPAN * YKI_WIDTH;
            of_row += SIDE * YKI_WIDTH;
        }
    }
#pragma GCC unroll 16
    for (int c = 0; c < columns; c++)
        if (n->stream)
            yki_stream_lanes(to + c * YKI_WIDTH, results[c]);
        else
            *(yki_lanes_at *)(to + c * YKI_WIDTH) = results[c];
}

#define NARROW_CASE(columns)                                                                       \
    case columns:                                                                                  \
        narrow_results(n, rows, weights, to, columns);                                             \
        break

static void narrow_row(const yki_narrow *n, const float *const *rows, const float *weights,
                       float *to, int64_t columns)
{
    switch (columns) {
        NARROW_CASE(1);
        NARROW_CASE(2);
        NARROW_CASE(3);
        NARROW_CASE(4);
        NARROW_CASE(5);
        NARROW_CASE(6);
        NARROW_CASE(7);
#if YKI_WIDTH == 16
        NARROW_CASE(8);
        NARROW_CASE(9);
        NARROW_CASE(10);
        NARROW_CASE(11);
        NARROW_CASE(12);
        NARROW_CASE(13);
        NARROW_CASE(14);
#endif
    default:
        break;
    }
}

/* `own` holds a strip of results that are not f32 before the ring. */
static void narrow_convolve(const yki_narrow *n, const void *x, const float *weights, void *y,
                            yki_window_range rows, float *own)
{
    for (int64_t strip = 0; strip < narrow_strips(n); strip++) {
        yki_window_range range = narrow_strip(n, strip);
        int64_t columns = range.end - range.begin;
        narrow_ring ring = narrow_ring_of(n, range, rows.begin, own + NARROW_STRIP * YKI_WIDTH);
        for (int64_t row = rows.begin; row < rows.end; row++) {
            const float *read[SIDE];
            int64_t element = (row * n->y_columns + range.begin) * YKI_WIDTH;
            float *to = n->dtype == YK_F32 ? (float *)y + element : own;
            narrow_advance(n, x, &ring, row - n->padding, read);
            narrow_row(n, read, weights, to, columns);
            if (n->dtype != YK_F32)
                FOR_EACH_DTYPE(narrow_write, n->dtype, own, columns, y, element);
        }
    }
    if (n->stream)
        yki_stream_end();
}

/* ---- the gradient of the weights ------------------------------------------------------------- */

/* Adds the products of a strip of dy with three rows of x to the sums of the taps. The strip stays
 * in registers, and each pixel is read once for the three taps of its row. The number of columns
 * and `depth`, the channels of each group whose sums are in registers at a time, are constants. */
YKI_FORCE_INLINE void narrow_add_strip(const yki_narrow *n, const float *const *rows,
                                       const float *dy, float *to, int columns, int depth)
{
    yki_lanes gradient[NARROW_STRIP];
#pragma GCC unroll 16
    for (int c = 0; c < columns; c++) {
        gradient[c] = *(const yki_lanes_at *)(dy + c * YKI_WIDTH);
        __asm__("" : "+v"(gradient[c]));
    }
    for (int64_t i = 0; i < SIDE * n->width; i += depth) {
        const float *pixels = rows[i / n->width];
        float *taps = to + i * SIDE * YKI_WIDTH;
        yki_lanes s[NARROW_DEPTH * SIDE];
        if (!pixels)
            continue;
        pixels += i % n->width * NARROW_SPAN * YKI_WIDTH;
#pragma GCC unroll 12
        for (int t = 0; t < depth * SIDE; t++)
            s[t] = *(const yki_lanes_at *)(taps + t * YKI_WIDTH);
#pragma GCC unroll 16
        for (int at = 0; at < columns + SIDE - 1; at++)
#pragma GCC unroll 4
            for (int k = 0; k < depth; k++) {
                const float *from = pixels + (k * NARROW_SPAN + at) * YKI_WIDTH;
                yki_lanes pixel = *(const yki_lanes_at *)from;
                __asm__("" : "+v"(pixel)); /* or the compiler loads it for every use */
#pragma GCC unroll 3
                for (int t = 0; t < SIDE; t++)
                    if (at >= t && at - t < columns)
                        s[k * SIDE + t] += gradient[at - t] * pixel;
            }
#pragma GCC unroll 12
        for (int t = 0; t < depth * SIDE; t++)
            *(yki_lanes_at *)(taps + t * YKI_WIDTH) = s[t];
    }
}

#define NARROW_ADD_CASE(columns)                                                                   \
    case columns:                                                                                  \
        narrow_add_strip(n, rows, dy, to, columns, depth);                                         \
        break

YKI_FORCE_INLINE void narrow_add_row(const yki_narrow *n, const float *const *rows, const float *dy,
                                     int64_t columns, float *to, int depth)
{
    switch (columns) {
        NARROW_ADD_CASE(1);
        NARROW_ADD_CASE(2);
        NARROW_ADD_CASE(3);
        NARROW_ADD_CASE(4);
        NARROW_ADD_CASE(5);
        NARROW_ADD_CASE(6);
        NARROW_ADD_CASE(7);
#if YKI_WIDTH == 16
        NARROW_ADD_CASE(8);
        NARROW_ADD_CASE(9);
        NARROW_ADD_CASE(10);
        NARROW_ADD_CASE(11);
        NARROW_ADD_CASE(12);
        NARROW_ADD_CASE(13);
        NARROW_ADD_CASE(14);
#endif
    default:
        break;
    }
}

YKI_FORCE_INLINE void narrow_copy(const yki_narrow *n, const void *dy, int64_t pixel,
                                  int64_t columns, float *to, yk_dtype dtype)
{
    const size_t pixel_bytes = YKI_WIDTH * yki_size_of(dtype);
    const char *ahead =
        (const char *)dy + (size_t)(pixel + NARROW_AHEAD * n->y_columns) * pixel_bytes;
    for (int64_t c = 0; c < columns; c++) {
        *(yki_lanes_at *)(to + c * YKI_WIDTH) = load_pixel(dy, pixel + c, dtype);
        __builtin_prefetch(ahead + (size_t)c * pixel_bytes);
    }
}

/* Adds the products of one image; `own` holds a strip of dy before the ring. */
static void narrow_add_image(const yki_narrow *n, const void *x, const void *dy, float *to,
                             float *own)
{
    for (int64_t strip = 0; strip < narrow_strips(n); strip++) {
        yki_window_range range = narrow_strip(n, strip);
        int64_t columns = range.end - range.begin;
        narrow_ring ring = narrow_ring_of(n, range, 0, own + NARROW_STRIP * YKI_WIDTH);
        for (int64_t row = 0; row < n->y_rows; row++) {
            const float *rows[SIDE];
            narrow_advance(n, x, &ring, row - n->padding, rows);
            FOR_EACH_DTYPE(narrow_copy, n->dtype, n, dy, row * n->y_columns + range.begin, columns,
                           own);
            if (n->width >= NARROW_DEPTH)
                narrow_add_row(n, rows, own, columns, to, NARROW_DEPTH);
            else
                narrow_add_row(n, rows, own, columns, to, 2);
        }
    }
}

static void narrow_gradient(const yki_narrow *n, const void *x, const void *dy, int64_t images,
                            float *total, float *own)
{
    const int64_t count = SIDE * n->width * SIDE * YKI_WIDTH;
    size_t size = yki_size_of(n->dtype);
    float part[SIDE * YKI_NARROW_WIDTH * SIDE * YKI_WIDTH] = {0};
    int64_t held = 0;
    for (int64_t image = 0; image < images; image++) {
        narrow_add_image(n, (const char *)x + (size_t)(image * n->image) * size,
                         (const char *)dy + (size_t)(image * n->y_image) * size, part, own);
        held += n->y_rows * n->y_columns;
        if (held < SUM_PIXELS && image + 1 < images)
            continue;
        held = 0;
        for (int64_t i = 0; i < count; i++) {
            total[i] += part[i];
            part[i] = 0;
        }
    }
}

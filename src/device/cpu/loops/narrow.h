/*
 * 3x3 convolutions whose groups are narrower than a vector, one channel block at a time: forward,
 * and with stride 1 the gradient of x. How pixels are multiplied is up to the file that includes
 * it: narrow_f32.h (in f32, with AVX2 or AVX-512) or narrow_bf16.c (dot products of bf16).
 *
 * Each lane of a result takes only the inputs of its own group. So every pixel is permuted into
 * several vectors, in which each lane holds other channels of its group, and these are multiplied
 * by vectors of weights, none of which has zeros for other groups. The pixels of three rows are
 * kept in a ring that fits the first-level cache, permuted or to be permuted when they are
 * multiplied: a band of columns is taken from the top down, and its rows in strips of at most
 * NARROW_STRIP columns, whose sums fit the registers.
 */

/* A band of columns, and the rows of x that its results depend on. */
typedef struct narrow_ring {
    int64_t begin;          /* the first column of its results */
    int64_t columns, strip; /* results of a row, and of a strip at most */
    int64_t left, span;     /* columns of x, which may lie outside */
    int64_t planes;         /* vectors of a pixel */
    int64_t plane;          /* columns for which a row has memory */
    int64_t next;           /* the row of x that is read next */
    float *memory;          /* SIDE times (planes, plane, lanes), a pixel apart */
    yki_bits first;         /* for each lane, the first one of its group */
} narrow_ring;

/* Columns of a band at most: a ring of more than half of the cache has to share too many of its
 * lines. */
YKI_FORCE_INLINE int64_t narrow_band(int64_t planes)
{
    return NARROW_STRIP * (planes < 4 ? 4 / planes : 1);
}

/* Columns of x that so many results of a row read. */
YKI_FORCE_INLINE int64_t narrow_span(int64_t results, int64_t stride)
{
    return stride * (results - 1) + SIDE;
}

/* Columns for which a row of the ring has memory. */
YKI_FORCE_INLINE int64_t narrow_plane(int64_t planes, int64_t stride)
{
    return narrow_span(narrow_band(planes), stride);
}

/* ---- what the file that includes this defines ------------------------------------------------ */

/* The vectors into which a pixel is permuted, and how many the ring of narrow_convolve() holds: all
 * of them, or one, which is the pixel itself. */
YKI_FORCE_INLINE int64_t narrow_vectors(const yki_narrow *n);
YKI_FORCE_INLINE int64_t narrow_planes(const yki_narrow *n);
/* A vector of the ring, of which lane l becomes lane from[l] if that is still to be done. */
YKI_FORCE_INLINE yki_lanes narrow_load(const float *at, yki_bits from, bool permutes);
/* sum + pixel * weight, lane by lane. */
YKI_FORCE_INLINE yki_lanes narrow_add(yki_lanes sum, yki_lanes pixel, yki_lanes weight);
/* Reads columns [left, left + span) of a row of x into so many planes; zeros outside. */
YKI_FORCE_INLINE void narrow_read(const yki_narrow *n, const void *x, int64_t row, int64_t left,
                                  int64_t span, float *to, int64_t planes);
/* Calls narrow_row_as() with constants. */
YKI_FORCE_INLINE void narrow_row(const yki_narrow *n, const narrow_ring *ring,
                                 const float *const *rows, const float *weights, void *y,
                                 int64_t element);

/* ---- pixels ---------------------------------------------------------------------------------- */

/* Which of the columns [left, left + span) are in the image, counted from the first. */
YKI_FORCE_INLINE yki_window_range narrow_inside(const yki_narrow *n, int64_t left, int64_t span)
{
    int64_t end = n->columns - left;
    yki_window_range inside = {left < 0 ? -left : 0, end < span ? end : span};
    if (inside.begin >= inside.end)
        inside.begin = inside.end = 0;
    return inside;
}

YKI_FORCE_INLINE void narrow_clear_outside(float *row, yki_window_range inside, int64_t span)
{
    yki_lanes zero = {0};
    YKI_KEEP_IN_REGISTER(zero); /* or the compiler calls memset for a column or two */
    for (int64_t i = 0; i < inside.begin; i++)
        *(yki_lanes_at *)(row + i * YKI_WIDTH) = zero;
    for (int64_t i = inside.end; i < span; i++)
        *(yki_lanes_at *)(row + i * YKI_WIDTH) = zero;
}

YKI_FORCE_INLINE float *narrow_row_at(const yki_narrow *n, const narrow_ring *ring, int64_t row)
{
    int64_t slot = (row + n->padding) % SIDE; /* rows begin at -padding */
    return ring->memory + slot * (ring->planes * ring->plane + 1) * YKI_WIDTH;
}

/* Reads x up to the three rows that a row of y depends on; `rows` are these, or NULL outside x. */
static void narrow_advance(const yki_narrow *n, const void *x, narrow_ring *ring, int64_t y_row,
                           const float *rows[SIDE])
{
    int64_t top = n->stride * y_row - n->padding;
    for (; ring->next < top + SIDE; ring->next++)
        if (ring->next >= 0 && ring->next < n->rows)
            narrow_read(n, x, ring->next, ring->left, ring->span,
                        narrow_row_at(n, ring, ring->next), ring->planes);
    for (int r = 0; r < SIDE; r++)
        rows[r] =
            top + r >= 0 && top + r < n->rows ? narrow_row_at(n, ring, top + r) : (float *)NULL;
}

/* Into how many parts columns are cut, each of at most `most`. */
YKI_FORCE_INLINE int64_t narrow_parts(int64_t columns, int64_t most)
{
    return (columns + most - 1) / most;
}

/* For each lane, the first one of its group. */
YKI_FORCE_INLINE yki_bits narrow_first_lanes(const yki_narrow *n)
{
    yki_bits first = {0};
    for (int lane = 0; lane < YKI_WIDTH; lane++)
        first[lane] = (uint32_t)(lane / n->width * n->width);
    return first;
}

/* One of the bands, which are of nearly equal width. */
YKI_FORCE_INLINE narrow_ring narrow_ring_of(const yki_narrow *n, int64_t band, int64_t first_row,
                                            int64_t planes, float *memory)
{
    int64_t bands = narrow_parts(n->y_columns, narrow_band(planes));
    int64_t begin = n->y_columns * band / bands, end = n->y_columns * (band + 1) / bands;
    int64_t columns = end - begin;
    return (narrow_ring){.begin = begin,
                         .columns = columns,
                         .strip = narrow_parts(columns, narrow_parts(columns, NARROW_STRIP)),
                         .left = n->stride * begin - n->padding,
                         .span = narrow_span(columns, n->stride),
                         .planes = planes,
                         .plane = narrow_plane(planes, n->stride),
                         .next = n->stride * first_row - n->padding,
                         .memory = memory,
                         .first = narrow_first_lanes(n)};
}

/* The first result of a row of the band: its element of y. */
YKI_FORCE_INLINE int64_t narrow_first(const yki_narrow *n, const narrow_ring *ring, int64_t row)
{
    return (row * n->y_columns + ring->begin) * YKI_WIDTH;
}

/* ---- results --------------------------------------------------------------------------------- */

/* What is constant when a strip is computed: the taps of a row, the stride, whether pixels are
 * permuted here, and the dtype of the results. */
typedef struct narrow_way {
    int taps, stride;
    bool permutes;
    yk_dtype dtype;
} narrow_way;

/* Adds the products of one row's pixels with one vector of weights for each tap, which are `taps`,
 * with stride 1: a pixel is read once for the taps of its row. */
YKI_FORCE_INLINE void narrow_add_row_once(const float *pixels, yki_bits from, const yki_lanes *w,
                                          int columns, narrow_way way, yki_lanes *results)
{
    /* The pixel of column i of x, and those of the columns before. */
    yki_lanes at_i = {0}, before1 = at_i, before2 = at_i, before3 = at_i, before4;
#pragma GCC unroll 32
    for (int i = 0; i < columns + NARROW_DELAY * (way.taps - 1); i++) {
        before4 = before3, before3 = before2, before2 = before1, before1 = at_i;
        if (i < columns + way.taps - 1) {
            at_i = narrow_load(pixels + i * YKI_WIDTH, from, way.permutes);
            YKI_KEEP_IN_REGISTER(at_i); /* or the compiler loads it for every use */
        }
#pragma GCC unroll 3
        for (int s = 0; s < way.taps; s++) {
            int c = i - NARROW_DELAY * s;
            if (c >= 0 && c < columns)
                results[c] = narrow_add(results[c],
                                        s == 0   ? at_i
                                        : s == 1 ? before2
                                                 : before4,
                                        w[s]);
        }
    }
}

/* With stride 2 few pixels are read twice. Sums of neighbours take turns. */
YKI_FORCE_INLINE void narrow_add_row_apart(const float *pixels, yki_bits from, const yki_lanes *w,
                                           int columns, narrow_way way, yki_lanes *results)
{
#pragma GCC unroll 3
    for (int s = 0; s < way.taps; s++)
#pragma GCC unroll 16
        for (int c = 0; c < columns; c++) {
            const float *pixel = pixels + (way.stride * c + s) * YKI_WIDTH;
            results[c] = narrow_add(results[c], narrow_load(pixel, from, way.permutes), w[s]);
        }
}

/* The results of a strip in one row; the number of columns and the way are constants. */
YKI_FORCE_INLINE void narrow_results(const yki_narrow *n, const narrow_ring *ring,
                                     const float *const *rows, const float *weights, void *y,
                                     int64_t element, int columns, narrow_way way)
{
    const int64_t vectors = narrow_vectors(n);
    yki_lanes results[NARROW_STRIP];
#pragma GCC unroll 16 /* of every loop here, or the compiler keeps vectors in memory */
    for (int c = 0; c < columns; c++)
        results[c] = *(const yki_lanes_at *)weights; /* the bias */
    for (int r = 0; r < SIDE; r++) {
        if (!rows[r])
            continue;
        const float *pixels = rows[r];
        const float *of_row = weights + (1 + r * vectors * way.taps) * YKI_WIDTH;
        for (int64_t k = 0; k < vectors; k++) {
            yki_bits from = ring->first + (uint32_t)k;
            yki_lanes w[SIDE];
#pragma GCC unroll 3
            for (int s = 0; s < way.taps; s++)
                w[s] = *(const yki_lanes_at *)(of_row + s * YKI_WIDTH);
            if (way.stride == 1)
                narrow_add_row_once(pixels, from, w, columns, way, results);
            else
                narrow_add_row_apart(pixels, from, w, columns, way, results);
            pixels += way.permutes ? 0 : ring->plane * YKI_WIDTH;
            of_row += way.taps * YKI_WIDTH;
        }
    }
#pragma GCC unroll 16
    for (int c = 0; c < columns; c++)
        if (way.dtype == YK_F32 && n->stream)
            yki_stream_lanes((float *)y + element + c * YKI_WIDTH, results[c]);
        else
            yki_store_lanes(y, element + c * YKI_WIDTH, results[c], way.dtype);
}

#define NARROW_CASE(columns)                                                                       \
    case columns:                                                                                  \
        narrow_results(n, ring, rows, weights, y, element, columns, way);                          \
        break

YKI_FORCE_INLINE void narrow_strip(const yki_narrow *n, const narrow_ring *ring,
                                   const float *const *rows, const float *weights, void *y,
                                   int64_t element, int64_t columns, narrow_way way)
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

/* The columns of a strip that begins at column c of the band, and where it is in the rows. */
YKI_FORCE_INLINE int64_t narrow_strip_at(const yki_narrow *n, const narrow_ring *ring, int64_t c,
                                         const float *const *rows, const float *at[SIDE])
{
    for (int r = 0; r < SIDE; r++)
        at[r] = rows[r] ? rows[r] + n->stride * c * YKI_WIDTH : (float *)NULL;
    return c + ring->strip < ring->columns ? ring->strip : ring->columns - c;
}

/* One row of a band of results, from an element of y on. */
YKI_FORCE_INLINE void narrow_row_as(const yki_narrow *n, const narrow_ring *ring,
                                    const float *const *rows, const float *weights, void *y,
                                    int64_t element, narrow_way way)
{
    for (int64_t c = 0; c < ring->columns; c += ring->strip) {
        const float *at[SIDE];
        int64_t columns = narrow_strip_at(n, ring, c, rows, at);
        narrow_strip(n, ring, at, weights, y, element + c * YKI_WIDTH, columns, way);
    }
}

static void narrow_convolve(const yki_narrow *n, const void *x, const float *weights, void *y,
                            yki_window_range rows, float *own)
{
    int64_t bands = narrow_parts(n->y_columns, narrow_band(narrow_planes(n)));
    for (int64_t band = 0; band < bands; band++) {
        narrow_ring ring = narrow_ring_of(n, band, rows.begin, narrow_planes(n), own);
        for (int64_t row = rows.begin; row < rows.end; row++) {
            const float *read[SIDE];
            narrow_advance(n, x, &ring, row, read);
            narrow_row(n, &ring, read, weights, y, narrow_first(n, &ring, row));
        }
    }
    if (n->stream)
        yki_stream_end();
}

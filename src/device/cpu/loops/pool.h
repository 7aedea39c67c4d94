/*
 * Max pooling of one channel block that is as wide as a vector: included by table.h alone.
 *
 * Windows that lie inside the map are taken with their size as a constant, if it is 2x2, 3x3, or
 * 1x2 or 1x3, as in images of one row. The results are elements of the input, so that no dtype
 * rounds them; only sums of gradients are rounded.
 */

/* One pixel whose values the dtype represents exactly. */
YKI_FORCE_INLINE void store_exact(void *memory, int64_t pixel, yki_lanes x, bool stream,
                                  yk_dtype dtype)
{
    if (dtype != YK_BF16)
        yki_put_pixel(memory, pixel, x, stream, dtype);
    else
        *(yki_halves_at *)((uint16_t *)memory + pixel * YKI_WIDTH) =
            __builtin_convertvector((yki_bits)x >> 16, yki_halves);
}

/* Whether results at memory, where a block begins, go past the caches. */
YKI_FORCE_INLINE bool pool_streams(const yki_max_pool *p, const void *memory, yk_dtype dtype)
{
    return p->stream && yki_can_stream(memory, 0, dtype);
}

/* The places of maxima in their windows: of one pixel, a byte each. Compilers do not find the
 * instructions that widen bytes to 32 bits at once, and narrow well by way of 16 bits. */
YKI_FORCE_INLINE yki_bits load_places(const uint8_t *index, int64_t pixel)
{
    const uint8_t *places = index + pixel * YKI_WIDTH;
#if defined(__AVX512F__) && YKI_WIDTH == 16
    return (yki_bits)_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i_u *)places));
#elif defined(__AVX2__) && YKI_WIDTH == 8
    return (yki_bits)_mm256_cvtepu8_epi32(_mm_loadu_si64(places));
#else
    return __builtin_convertvector(*(const yki_bytes_at *)places, yki_bits);
#endif
}

YKI_FORCE_INLINE void store_places(uint8_t *index, int64_t pixel, yki_bits places)
{
    yki_halves halves = __builtin_convertvector(places, yki_halves);
    *(yki_bytes_at *)(index + pixel * YKI_WIDTH) = __builtin_convertvector(halves, yki_bytes);
}

/* Taps from .. to - 1 of a window along one dimension; the first tap of all is at pixel `corner`.
 */
typedef struct pool_taps {
    int64_t corner, from, to;
} pool_taps;

YKI_FORCE_INLINE pool_taps pool_taps_of(const yki_max_pool *p, int d, int64_t window,
                                        int64_t pixels)
{
    pool_taps taps = {.corner = window * p->stride[d] - p->padding[d]};
    yki_taps_inside(taps.corner, p->kernel[d], pixels, &taps.from, &taps.to);
    return taps;
}

/* Rows and columns of a window, and strides: constants, where that helps. */
typedef struct pool_steps {
    int64_t rows, columns, down, across;
} pool_steps;

YKI_FORCE_INLINE pool_steps pool_steps_of(const yki_max_pool *p)
{
    return (pool_steps){p->kernel[0], p->kernel[1], p->stride[0], p->stride[1]};
}

YKI_FORCE_INLINE bool is_window(const yki_max_pool *p, int64_t rows, int64_t columns)
{
    return p->kernel[0] == rows && p->kernel[1] == columns;
}

/* ---- forward: the first of equal maxima wins; NaN is larger than any ------------------------- */

YKI_FORCE_INLINE void max_window(const yki_max_pool *p, const void *x, void *y, uint8_t *index,
                                 int64_t at, pool_taps h, pool_taps w, pool_steps steps,
                                 bool stream, yk_dtype dtype)
{
    int64_t corner = h.corner * p->columns + w.corner, width = steps.columns;
    if (p->ahead) /* for the next row of windows */
        yki_prefetch_pixels(x, corner + steps.rows * p->columns, p->columns, steps.down,
                            steps.across, dtype);
    yki_lanes best = yki_load_pixel(x, corner + h.from * p->columns + w.from, dtype);
    yki_bits winner = (uint32_t)(h.from * width + w.from) + (yki_bits){0};
    for (int64_t r = h.from; r < h.to; r++)
        for (int64_t s = w.from; s < w.to; s++) {
            yki_lanes tap = yki_load_pixel(x, corner + r * p->columns + s, dtype);
            yki_bits larger = (yki_bits)(tap > best) | (yki_bits)(tap != tap);
            yki_bits offset = (uint32_t)(r * width + s) + (yki_bits){0};
            winner = (offset & larger) | (winner & ~larger);
            best = yki_select(larger, tap, best);
        }
    store_exact(y, at, best, stream, dtype);
    if (index)
        store_places(index, at, winner);
}

/* The windows [begin, end) of a row, all inside the map, with a constant kernel. */
YKI_FORCE_INLINE void max_inside(const yki_max_pool *p, const void *x, void *y, uint8_t *index,
                                 int64_t row, int64_t rows, int64_t columns, bool stream,
                                 yk_dtype dtype)
{
    const pool_steps steps = {rows, columns, p->stride[0], p->stride[1]};
    const int64_t padding = p->padding[1];
    pool_taps h = {row * steps.down - p->padding[0], 0, rows};
    for (int64_t q = p->inside_columns.begin; q < p->inside_columns.end; q++) {
        pool_taps w = {q * steps.across - padding, 0, columns};
        max_window(p, x, y, index, row * p->y_columns + q, h, w, steps, stream, dtype);
    }
}

YKI_FORCE_INLINE void max_outside(const yki_max_pool *p, const void *x, void *y, uint8_t *index,
                                  int64_t row, int64_t begin, int64_t end, bool stream,
                                  yk_dtype dtype)
{
    pool_taps h = pool_taps_of(p, 0, row, p->rows);
    for (int64_t q = begin; q < end; q++)
        max_window(p, x, y, index, row * p->y_columns + q, h, pool_taps_of(p, 1, q, p->columns),
                   pool_steps_of(p), stream, dtype);
}

YKI_FORCE_INLINE void max_pool_as(const yki_max_pool *p, const void *x, void *y, uint8_t *index,
                                  yk_dtype dtype)
{
    const bool stream = pool_streams(p, y, dtype);
    const bool small =
        is_window(p, 2, 2) || is_window(p, 3, 3) || is_window(p, 1, 2) || is_window(p, 1, 3);
    for (int64_t row = 0; row < p->y_rows; row++) {
        bool inside = row >= p->inside_rows.begin && row < p->inside_rows.end;
        if (!inside || !small) {
            max_outside(p, x, y, index, row, 0, p->y_columns, stream, dtype);
            continue;
        }
        max_outside(p, x, y, index, row, 0, p->inside_columns.begin, stream, dtype);
        if (is_window(p, 2, 2))
            max_inside(p, x, y, index, row, 2, 2, stream, dtype);
        else if (is_window(p, 3, 3))
            max_inside(p, x, y, index, row, 3, 3, stream, dtype);
        else if (is_window(p, 1, 2))
            max_inside(p, x, y, index, row, 1, 2, stream, dtype);
        else
            max_inside(p, x, y, index, row, 1, 3, stream, dtype);
        max_outside(p, x, y, index, row, p->inside_columns.end, p->y_columns, stream, dtype);
    }
}

static void max_pool(const yki_max_pool *p, const void *x, void *y, uint8_t *index)
{
    FOR_EACH_DTYPE(max_pool_as, p->dtype, p, x, y, index);
}

/* ---- backward -------------------------------------------------------------------------------- */

/* The gradient of a window where the tap with this offset is the maximum, else 0. */
YKI_FORCE_INLINE yki_lanes won(yki_lanes gradient, yki_bits winner, int64_t offset)
{
    yki_lanes zero = {0};
    return yki_select((yki_bits)(winner == (uint32_t)offset), gradient, zero);
}

/* The windows that have a pixel along one dimension. */
typedef struct pool_windows {
    int64_t first, end;
} pool_windows;

/* Those of the next pixel, `place` pixels after the first tap of window 0, from the last one's. */
YKI_FORCE_INLINE pool_windows next_windows(pool_windows w, int64_t place, int64_t windows,
                                           int64_t kernel, int64_t stride)
{
    while (w.first < windows && w.first * stride + kernel <= place)
        w.first++;
    while (w.end < windows && w.end * stride <= place)
        w.end++;
    return w;
}

/* Pixels [begin, end) of a row: each sums over its windows in their order. */
YKI_FORCE_INLINE void gather_row(const yki_max_pool *p, const void *dy, const uint8_t *index,
                                 void *dx, int64_t row, int64_t begin, int64_t end,
                                 pool_steps steps, yk_dtype dtype)
{
    const int64_t padding = p->padding[1], columns = p->columns, windows = p->y_columns;
    const bool stream = pool_streams(p, dx, dtype);
    int64_t down = row + p->padding[0];
    int64_t passed = begin + padding - steps.columns; /* a window that ends before */
    pool_windows w = {0, 0}, h = next_windows(w, down, p->y_rows, steps.rows, steps.down);
    if (passed >= 0)
        w.first = w.end = passed / steps.across + 1 < windows ? passed / steps.across + 1 : windows;
    for (int64_t column = begin; column < end; column++) {
        int64_t right = column + padding;
        yki_lanes sum = {0};
        w = next_windows(w, right, windows, steps.columns, steps.across);
        for (int64_t i = h.first; i < h.end; i++)
            for (int64_t j = w.first; j < w.end; j++) {
                int64_t at = i * windows + j;
                yki_bits winner = load_places(index, at);
                int64_t offset = (down - i * steps.down) * steps.columns + right - j * steps.across;
                sum += won(yki_load_pixel(dy, at, dtype), winner, offset);
            }
        yki_put_pixel(dx, row * columns + column, sum, stream, dtype);
    }
}

/* What a window of three columns gives to the pixels of a row, of which it has row `tap`. */
typedef struct pool_row {
    const void *dy;
    const uint8_t *index;
    int64_t first, tap; /* the windows of a row from `first` on */
} pool_row;

/*
 * Pixels of a row in windows of three columns with stride 2, two at a time: pixel 2 j after the
 * first tap of window 0 is in windows j - 1 and j, the next one in j alone. Rows of windows, 1 or 2
 * of them, are a constant. Each window is loaded once for each row of pixels, and nothing is
 * decided for a pixel.
 */
YKI_FORCE_INLINE void gather_pairs(const pool_row rows[2], int count, void *dx, int64_t pixel,
                                   int64_t begin, int64_t end, bool stream, yk_dtype dtype)
{
    yki_lanes before[2];
    yki_bits winner_before[2];
    for (int r = 0; r < count; r++) {
        before[r] = yki_load_pixel(rows[r].dy, rows[r].first + begin - 1, dtype);
        winner_before[r] = load_places(rows[r].index, rows[r].first + begin - 1);
    }
    for (int64_t j = begin; j < end; j++) {
        yki_lanes even = {0}, odd = {0};
        for (int r = 0; r < count; r++) {
            const yki_lanes gradient = yki_load_pixel(rows[r].dy, rows[r].first + j, dtype);
            const yki_bits winner = load_places(rows[r].index, rows[r].first + j);
            even += won(before[r], winner_before[r], rows[r].tap * 3 + 2);
            even += won(gradient, winner, rows[r].tap * 3);
            odd += won(gradient, winner, rows[r].tap * 3 + 1);
            before[r] = gradient;
            winner_before[r] = winner;
        }
        yki_put_pixel(dx, pixel + 2 * j, even, stream, dtype);
        yki_put_pixel(dx, pixel + 2 * j + 1, odd, stream, dtype);
    }
}

/* All pixels of a row, of windows of three columns with stride 2, of which each row has two at
 * most. */
YKI_FORCE_INLINE void gather_row_of_threes(const yki_max_pool *p, const void *dy,
                                           const uint8_t *index, void *dx, int64_t row,
                                           pool_steps steps, yk_dtype dtype)
{
    const int64_t padding = p->padding[1], down = row + p->padding[0];
    const int64_t right = p->columns + padding;
    const pool_windows h =
        next_windows((pool_windows){0, 0}, down, p->y_rows, steps.rows, steps.down);
    const int64_t begin = padding > 1 ? (padding + 1) / 2 : 1;
    const int64_t end = right / 2 < p->y_columns ? right / 2 : p->y_columns;
    if (h.end == h.first || begin >= end) {
        gather_row(p, dy, index, dx, row, 0, p->columns, steps, dtype);
        return;
    }
    pool_row rows[2];
    for (int64_t i = h.first; i < h.end; i++)
        rows[i - h.first] = (pool_row){dy, index, i * p->y_columns, down - i * steps.down};
    const int64_t pixel = row * p->columns - padding;
    const bool stream = pool_streams(p, dx, dtype);
    gather_row(p, dy, index, dx, row, 0, 2 * begin - padding, steps, dtype);
    if (h.end - h.first == 2)
        gather_pairs(rows, 2, dx, pixel, begin, end, stream, dtype);
    else
        gather_pairs(rows, 1, dx, pixel, begin, end, stream, dtype);
    gather_row(p, dy, index, dx, row, 2 * end - padding, p->columns, steps, dtype);
}

/* The pixels of the windows inside the map, whose stride is their size: each has one window. */
YKI_FORCE_INLINE void scatter_row(const yki_max_pool *p, const void *dy, const uint8_t *index,
                                  void *dx, int64_t row, int64_t rows, int64_t columns,
                                  yk_dtype dtype)
{
    int64_t top = (row * rows - p->padding[0]) * p->columns - p->padding[1];
    const bool stream = pool_streams(p, dx, dtype);
    for (int64_t q = p->inside_columns.begin; q < p->inside_columns.end; q++) {
        int64_t at = row * p->y_columns + q;
        yki_bits winner = load_places(index, at);
        yki_lanes gradient = yki_load_pixel(dy, at, dtype) + 0.0f; /* a sum: -0 becomes 0 */
        for (int64_t r = 0; r < rows; r++)
            for (int64_t s = 0; s < columns; s++)
                store_exact(dx, top + q * columns + r * p->columns + s,
                            won(gradient, winner, r * columns + s), stream, dtype);
    }
}

YKI_FORCE_INLINE void scatter_as(const yki_max_pool *p, const void *dy, const uint8_t *index,
                                 void *dx, int64_t rows, int64_t columns, yk_dtype dtype)
{
    const pool_steps steps = {rows, columns, rows, columns};
    int64_t top = p->inside_rows.begin * rows - p->padding[0];
    int64_t bottom = p->inside_rows.end * rows - p->padding[0];
    int64_t left = p->inside_columns.begin * columns - p->padding[1];
    int64_t right = p->inside_columns.end * columns - p->padding[1];
    for (int64_t row = 0; row < top; row++)
        gather_row(p, dy, index, dx, row, 0, p->columns, steps, dtype);
    for (int64_t q = p->inside_rows.begin; q < p->inside_rows.end; q++) {
        scatter_row(p, dy, index, dx, q, rows, columns, dtype);
        for (int64_t r = q * rows - p->padding[0]; r < (q + 1) * rows - p->padding[0]; r++) {
            gather_row(p, dy, index, dx, r, 0, left, steps, dtype);
            gather_row(p, dy, index, dx, r, right, p->columns, steps, dtype);
        }
    }
    for (int64_t row = bottom; row < p->rows; row++)
        gather_row(p, dy, index, dx, row, 0, p->columns, steps, dtype);
}

YKI_FORCE_INLINE void max_pool_backward_as(const yki_max_pool *p, const void *dy,
                                           const uint8_t *index, void *dx, yk_dtype dtype)
{
    const pool_steps steps = pool_steps_of(p);
    const bool apart = steps.down == steps.rows && steps.across == steps.columns &&
                       p->inside_rows.begin < p->inside_rows.end &&
                       p->inside_columns.begin < p->inside_columns.end;
    const bool threes = steps.columns == 3 && steps.across == 2 && steps.rows <= 2 * steps.down;
    if (apart && is_window(p, 2, 2))
        scatter_as(p, dy, index, dx, 2, 2, dtype);
    else if (apart && is_window(p, 3, 3))
        scatter_as(p, dy, index, dx, 3, 3, dtype);
    else if (apart && is_window(p, 1, 2))
        scatter_as(p, dy, index, dx, 1, 2, dtype);
    else if (threes && steps.rows == 3 && steps.down == 2)
        for (int64_t row = 0; row < p->rows; row++)
            gather_row_of_threes(p, dy, index, dx, row, (pool_steps){3, 3, 2, 2}, dtype);
    else if (threes)
        for (int64_t row = 0; row < p->rows; row++)
            gather_row_of_threes(p, dy, index, dx, row, steps, dtype);
    else
        for (int64_t row = 0; row < p->rows; row++)
            gather_row(p, dy, index, dx, row, 0, p->columns, steps, dtype);
}

static void max_pool_backward(const yki_max_pool *p, const void *dy, const uint8_t *index, void *dx)
{
    FOR_EACH_DTYPE(max_pool_backward_as, p->dtype, p, dy, index, dx);
}

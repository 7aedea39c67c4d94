/* Rows of numbers: softmax, log_softmax, layer_norm, rms_norm, cross_entropy of samples. Included
 * by table.h alone, after sums.h. */
#include <math.h>

#if defined(__AVX__) && YKI_WIDTH == 8
/* The mask of the first `count` lanes. */
YKI_FORCE_INLINE __m256i first_lanes(int64_t count)
{
    static const int32_t lanes[2 * YKI_WIDTH] = {-1, -1, -1, -1, -1, -1, -1, -1};
    return _mm256_loadu_si256((const __m256i *)(const void *)(lanes + YKI_WIDTH - count));
}
#endif

/* The first `count` numbers, fewer than a vector has, the others being `fill`. */
YKI_FORCE_INLINE yki_lanes load_first(const float *from, int64_t count, float fill)
{
#if defined(__AVX512F__) && YKI_WIDTH == 16
    return (yki_lanes)_mm512_mask_loadu_ps((__m512)yki_splat(fill), (__mmask16)((1 << count) - 1),
                                           from);
#elif defined(__AVX__) && YKI_WIDTH == 8
    const __m256i mask = first_lanes(count);
    return yki_select((yki_bits)mask, (yki_lanes)_mm256_maskload_ps(from, mask), yki_splat(fill));
#else
    float part[YKI_WIDTH];
    for (int lane = 0; lane < YKI_WIDTH; lane++)
        part[lane] = lane < count ? from[lane] : fill;
    return *(const yki_lanes_at *)part;
#endif
}

YKI_FORCE_INLINE void store_first(float *to, int64_t count, yki_lanes x)
{
#if defined(__AVX512F__) && YKI_WIDTH == 16
    _mm512_mask_storeu_ps(to, (__mmask16)((1 << count) - 1), (__m512)x);
#elif defined(__AVX__) && YKI_WIDTH == 8
    _mm256_maskstore_ps(to, first_lanes(count), (__m256)x);
#else
    for (int lane = 0; lane < count; lane++)
        to[lane] = x[lane];
#endif
}

YKI_FORCE_INLINE yki_lanes load_lanes_up_to(const float *from, int64_t count, float fill)
{
    if (count < YKI_WIDTH)
        return load_first(from, count, fill);
    return *(const yki_lanes_at *)from;
}

YKI_FORCE_INLINE void store_lanes_up_to(float *to, int64_t count, yki_lanes x)
{
    if (count < YKI_WIDTH)
        store_first(to, count, x);
    else
        *(yki_lanes_at *)to = x;
}

/* ---- softmax --------------------------------------------------------------------------------- */

YKI_FORCE_INLINE float largest_of(const float *x, int64_t count)
{
    yki_lanes largest = yki_splat(-INFINITY);
    for (int64_t i = 0; i < count; i += YKI_WIDTH) {
        yki_lanes v = load_lanes_up_to(x + i, count - i, -INFINITY);
        largest = yki_larger(v, largest); /* ignores NaN */
    }
    return largest_lane(largest);
}

/* What it returns; y is exp(x - largest), unless it is NULL. */
YKI_FORCE_INLINE yki_row_softmax sum_exps(const float *x, float *y, int64_t count)
{
    const float largest = largest_of(x, count);
    wide_sum totals = {{{0}}};
    for (int64_t begin = 0; begin < count; begin += NEAR) {
        yki_lanes near = {0};
        for (int64_t i = begin; i < near_end(begin, count); i += YKI_WIDTH) {
            yki_lanes v = load_lanes_up_to(x + i, count - i, -INFINITY);
            v = yki_exp_or_zero(v - largest);
            near += v;
            if (y)
                store_lanes_up_to(y + i, count - i, v);
        }
        add_lanes(&totals, near);
    }
    return (yki_row_softmax){largest, sum_of_lanes(&totals)};
}

static yki_row_softmax softmax(const float *x, float *y, int64_t count)
{
    const yki_row_softmax s = sum_exps(x, y, count);
    const float factor = (float)(1 / s.sum);
    for (int64_t i = 0; y && i < count; i += YKI_WIDTH)
        store_lanes_up_to(y + i, count - i, load_lanes_up_to(y + i, count - i, 0) * factor);
    return s;
}

static yki_row_softmax log_softmax(const float *x, float *y, int64_t count)
{
    const yki_row_softmax s = sum_exps(x, NULL, count);
    const float log_sum = logf((float)s.sum); /* faster than a vector of it */
    for (int64_t i = 0; y && i < count; i += YKI_WIDTH) {
        const yki_lanes below = load_lanes_up_to(x + i, count - i, 0) - s.largest;
        store_lanes_up_to(y + i, count - i, below - log_sum);
    }
    return s;
}

/* The sum of the slopes, times y unless it is NULL. */
YKI_FORCE_INLINE float sum_slopes(const float *y, const float *dy, int64_t count)
{
    wide_sum totals = {{{0}}};
    for (int64_t begin = 0; begin < count; begin += NEAR) {
        yki_lanes near = {0};
        for (int64_t i = begin; i < near_end(begin, count); i += YKI_WIDTH) {
            const yki_lanes slope = load_lanes_up_to(dy + i, count - i, 0);
            near += y ? load_lanes_up_to(y + i, count - i, 0) * slope : slope;
        }
        add_lanes(&totals, near);
    }
    return (float)sum_of_lanes(&totals);
}

static void softmax_slopes(const float *y, const float *dy, float *dx, int64_t count)
{
    const float sum = sum_slopes(y, dy, count);
    for (int64_t i = 0; i < count; i += YKI_WIDTH) {
        yki_lanes slope = load_lanes_up_to(dy + i, count - i, 0) - sum;
        store_lanes_up_to(dx + i, count - i, load_lanes_up_to(y + i, count - i, 0) * slope);
    }
}

static void log_softmax_slopes(const float *y, const float *dy, float *dx, int64_t count)
{
    const float sum = sum_slopes(NULL, dy, count);
    for (int64_t i = 0; i < count; i += YKI_WIDTH) {
        const yki_lanes share = yki_exp_or_zero(load_lanes_up_to(y + i, count - i, 0));
        store_lanes_up_to(dx + i, count - i, load_lanes_up_to(dy + i, count - i, 0) - share * sum);
    }
}

/* ---- softmax of as many rows as a vector has lanes ------------------------------------------- */

enum { NEAR_PIXELS = NEAR / YKI_WIDTH };

/* The lanes of the first `used` rows, the others being 0. */
YKI_FORCE_INLINE yki_bits used_rows(int64_t used)
{
    yki_bits mask;
    for (int lane = 0; lane < YKI_WIDTH; lane++)
        mask[lane] = lane < used ? ~0u : 0;
    return mask;
}

/* The sums of exp(x - largest), which y is, unless it is NULL. */
YKI_FORCE_INLINE wide_sum sum_lane_exps(const float *x, float *y, int64_t count, yki_lanes *largest)
{
    yki_lanes most = yki_splat(-INFINITY);
    wide_sum totals = {{{0}}};
    for (int64_t i = 0; i < count; i++) {
        const yki_lanes v = yki_load_pixel(x, i, YK_F32);
        most = yki_larger(v, most); /* ignores NaN */
    }
    for (int64_t begin = 0; begin < count; begin += NEAR_PIXELS) {
        const int64_t end = count - begin < NEAR_PIXELS ? count : begin + NEAR_PIXELS;
        yki_lanes near = {0};
        for (int64_t i = begin; i < end; i++) {
            const yki_lanes v = yki_exp_or_zero(yki_load_pixel(x, i, YK_F32) - most);
            near += v;
            if (y)
                yki_store_lanes(y, i * YKI_WIDTH, v, YK_F32);
        }
        add_lanes(&totals, near);
    }
    *largest = most;
    return totals;
}

static void softmax_lanes(const float *x, float *y, int64_t count, int64_t used)
{
    const yki_bits rows = used_rows(used);
    const yki_lanes zero = {0};
    yki_lanes largest;
    wide_sum totals = sum_lane_exps(x, y, count, &largest);
    for (int j = 0; j < 2; j++)
        totals.v[j] = 1 / totals.v[j];
    const yki_lanes factor = narrow(&totals);
    for (int64_t i = 0; i < count; i++)
        yki_store_lanes(y, i * YKI_WIDTH,
                        yki_select(rows, yki_load_pixel(y, i, YK_F32) * factor, zero), YK_F32);
}

static void log_softmax_lanes(const float *x, float *y, int64_t count, int64_t used)
{
    const yki_bits rows = used_rows(used);
    const yki_lanes zero = {0};
    yki_lanes largest;
    const wide_sum totals = sum_lane_exps(x, NULL, count, &largest);
    const yki_lanes log_sum = yki_log(narrow(&totals));
    for (int64_t i = 0; i < count; i++) {
        const yki_lanes below = yki_load_pixel(x, i, YK_F32) - largest;
        yki_store_lanes(y, i * YKI_WIDTH, yki_select(rows, below - log_sum, zero), YK_F32);
    }
}

/* The sums of the slopes, times y unless it is NULL. */
YKI_FORCE_INLINE yki_lanes sum_lane_slopes(const float *y, const float *dy, int64_t count)
{
    wide_sum totals = {{{0}}};
    for (int64_t begin = 0; begin < count; begin += NEAR_PIXELS) {
        const int64_t end = count - begin < NEAR_PIXELS ? count : begin + NEAR_PIXELS;
        yki_lanes near = {0};
        for (int64_t i = begin; i < end; i++) {
            const yki_lanes slope = yki_load_pixel(dy, i, YK_F32);
            near += y ? yki_load_pixel(y, i, YK_F32) * slope : slope;
        }
        add_lanes(&totals, near);
    }
    return narrow(&totals);
}

static void softmax_lane_slopes(const float *y, const float *dy, float *dx, int64_t count,
                                int64_t used)
{
    const yki_bits rows = used_rows(used);
    const yki_lanes zero = {0}, sum = sum_lane_slopes(y, dy, count);
    for (int64_t i = 0; i < count; i++) {
        const yki_lanes slope = yki_load_pixel(dy, i, YK_F32) - sum;
        yki_store_lanes(dx, i * YKI_WIDTH,
                        yki_select(rows, yki_load_pixel(y, i, YK_F32) * slope, zero), YK_F32);
    }
}

static void log_softmax_lane_slopes(const float *y, const float *dy, float *dx, int64_t count,
                                    int64_t used)
{
    const yki_bits rows = used_rows(used);
    const yki_lanes zero = {0}, sum = sum_lane_slopes(NULL, dy, count);
    for (int64_t i = 0; i < count; i++) {
        const yki_lanes share = yki_exp_or_zero(yki_load_pixel(y, i, YK_F32));
        const yki_lanes slope = yki_load_pixel(dy, i, YK_F32) - share * sum;
        yki_store_lanes(dx, i * YKI_WIDTH, yki_select(rows, slope, zero), YK_F32);
    }
}

/* ---- layer_norm, rms_norm -------------------------------------------------------------------- */

/*
 * Some rows are taken at a time, so that their sums, each of which waits for the number before it,
 * are made beside each other, and weights are loaded once. How many, a constant in every call, as
 * is whether they are centred about their means, in layer_norm, changes no row's bits. The rest of
 * a row that fills no vector is a call of its own, so that all else needs no test.
 *
 * Rows that are far, a constant as well, come from memory. What is read next is prefetched while
 * sums are made, because processors hardly follow several rows at a time, and results bypass the
 * caches.
 */
enum { ROWS = 4 };

typedef struct row_moments {
    float mean, invstd;
} row_moments;

/* Some rows of x and of dy, and what is made of them; `count` numbers each. */
typedef struct some_rows {
    const float *x, *dy, *weight;
    int64_t count;
    bool far;
    row_moments m[ROWS];
} some_rows;

/* Prefetches a line of as many rows, which lie one after the other in memory: another line for each
 * row r and vector i. */
YKI_FORCE_INLINE void prefetch_rows(const float *next, int rows, int r, int64_t i)
{
    yki_prefetch_line(next, rows * i + r * YKI_WIDTH, YK_F32);
}

YKI_FORCE_INLINE void add_vectors(const some_rows *of, int64_t i, int64_t left, int rows,
                                  yki_lanes near[ROWS])
{
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++)
        near[r] += load_lanes_up_to(of->x + r * of->count + i, left, 0);
}

/* The means as they are rounded. */
YKI_FORCE_INLINE void find_means(some_rows *of, int rows)
{
    const double share = 1 / (double)of->count; /* divisions take long */
    wide_sum totals[ROWS] = {{{{0}}}};
    for (int64_t begin = 0; begin < of->count; begin += NEAR) {
        const int64_t end = near_end(begin, of->count);
        int64_t i = begin;
        yki_lanes near[ROWS] = {{0}};
        for (; i + YKI_WIDTH <= end; i += YKI_WIDTH)
            add_vectors(of, i, YKI_WIDTH, rows, near);
        if (i < end)
            add_vectors(of, i, end - i, rows, near);
        for (int r = 0; r < rows; r++)
            add_lanes(&totals[r], near[r]);
    }
    for (int r = 0; r < rows; r++)
        of->m[r].mean = (float)(sum_of_lanes(&totals[r]) * share);
}

YKI_FORCE_INLINE void add_squares(const some_rows *of, int64_t i, int64_t left, int rows,
                                  bool centred, yki_lanes near[ROWS], yki_lanes squares[ROWS])
{
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++) {
        const float mean = of->m[r].mean;
        if (of->far)
            prefetch_rows(of->dy ? of->dy : of->x + rows * of->count, rows, r, i);
        yki_lanes v = load_lanes_up_to(of->x + r * of->count + i, left, mean);
        if (centred) {
            v -= mean;
            near[r] += v;
        }
        squares[r] += v * v;
    }
}

/* The variances about the means; of rows that are not centred, the means of squares. */
YKI_FORCE_INLINE void find_deviations(some_rows *of, double eps, int rows, bool centred)
{
    const double share = 1 / (double)of->count;
    wide_sum totals[ROWS] = {{{{0}}}}, squares[ROWS] = {{{{0}}}};
    for (int64_t begin = 0; begin < of->count; begin += NEAR) {
        const int64_t end = near_end(begin, of->count);
        int64_t i = begin;
        yki_lanes near[ROWS] = {{0}}, near_squares[ROWS] = {{0}};
        for (; i + YKI_WIDTH <= end; i += YKI_WIDTH)
            add_squares(of, i, YKI_WIDTH, rows, centred, near, near_squares);
        if (i < end)
            add_squares(of, i, end - i, rows, centred, near, near_squares);
        for (int r = 0; r < rows; r++) {
            add_lanes(&totals[r], near[r]);
            add_lanes(&squares[r], near_squares[r]);
        }
    }
    for (int r = 0; r < rows; r++) {
        const double offset = sum_of_lanes(&totals[r]) * share;
        const double variance = sum_of_lanes(&squares[r]) * share - offset * offset;
        of->m[r].invstd = (float)(1 / sqrt((variance < 0 ? 0 : variance) + eps));
    }
}

YKI_FORCE_INLINE void find_moments(some_rows *of, double eps, int rows, bool centred)
{
    for (int r = 0; r < rows; r++)
        of->m[r].mean = 0;
    if (centred)
        find_means(of, rows);
    find_deviations(of, eps, rows, centred);
}

/* Of each row, h = (x - mean) invstd. */
YKI_FORCE_INLINE yki_lanes normal_at(const some_rows *of, int r, int64_t i, int64_t left)
{
    const float mean = of->m[r].mean;
    return (load_lanes_up_to(of->x + r * of->count + i, left, mean) - mean) * of->m[r].invstd;
}

/* A vector of far rows is whole and aligned. */
YKI_FORCE_INLINE void put_vector(float *to, int64_t left, yki_lanes x, bool far)
{
    if (far)
        yki_stream_lanes(to, x);
    else
        store_lanes_up_to(to, left, x);
}

YKI_FORCE_INLINE void write_vectors(const some_rows *of, const float *bias, float *y, int64_t i,
                                    int64_t left, int rows)
{
    const yki_lanes weight = load_lanes_up_to(of->weight + i, left, 0);
    const yki_lanes shift = bias ? load_lanes_up_to(bias + i, left, 0) : yki_splat(0);
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++) {
        const yki_lanes h = normal_at(of, r, i, left) * weight;
        put_vector(y + r * of->count + i, left, bias ? h + shift : h, of->far);
    }
}

/* Without bias, they are not centred. */
YKI_FORCE_INLINE void write_rows(const float *x, const float *weight, const float *bias, float *y,
                                 int64_t count, double eps, bool far, int rows)
{
    some_rows of = {.x = x, .weight = weight, .count = count, .far = far};
    find_moments(&of, eps, rows, bias);
    int64_t i = 0;
    for (; i + YKI_WIDTH <= count; i += YKI_WIDTH)
        write_vectors(&of, bias, y, i, YKI_WIDTH, rows);
    if (i < count)
        write_vectors(&of, bias, y, i, count - i, rows);
}

YKI_FORCE_INLINE void write_all_rows(const float *x, const float *weight, const float *bias,
                                     float *y, int64_t rows, int64_t count, double eps, bool far)
{
    int64_t r = 0;
    for (; r + ROWS <= rows; r += ROWS)
        write_rows(x + r * count, weight, bias, y + r * count, count, eps, far, ROWS);
    for (; r < rows; r++)
        write_rows(x + r * count, weight, bias, y + r * count, count, eps, far, 1);
}

static void scale_rows(const float *x, const float *weight, float *y, int64_t rows, int64_t count,
                       double eps, bool far)
{
    if (far)
        write_all_rows(x, weight, NULL, y, rows, count, eps, true);
    else
        write_all_rows(x, weight, NULL, y, rows, count, eps, false);
}

static void normalise_rows(const float *x, const float *weight, const float *bias, float *y,
                           int64_t rows, int64_t count, double eps, bool far)
{
    if (far)
        write_all_rows(x, weight, bias, y, rows, count, eps, true);
    else
        write_all_rows(x, weight, bias, y, rows, count, eps, false);
}

YKI_FORCE_INLINE void add_up_to(double *totals, int64_t count, yki_lanes x)
{
    if (count >= YKI_WIDTH)
        add_lanes_at(totals, x);
    else
        for (int lane = 0; lane < count; lane++)
            totals[lane] += x[lane];
}

/* Adds g and g h to each row's sums, and dy and dy h of all rows to those in memory. */
YKI_FORCE_INLINE void add_slopes(const some_rows *of, yki_row_sums columns, int64_t i, int64_t left,
                                 int rows, bool centred, yki_lanes near[ROWS],
                                 yki_lanes products[ROWS])
{
    const yki_lanes weight = load_lanes_up_to(of->weight + i, left, 0);
    yki_lanes sum = {0}, product = {0};
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++) {
        const yki_lanes h = normal_at(of, r, i, left);
        const yki_lanes d = load_lanes_up_to(of->dy + r * of->count + i, left, 0), g = d * weight;
        if (of->far)
            prefetch_rows(of->x + rows * of->count, rows, r, i);
        if (centred)
            near[r] += g;
        products[r] += g * h;
        sum += d;
        product += d * h;
    }
    if (centred)
        add_up_to(columns.sums + i, left, sum);
    add_up_to(columns.products + i, left, product);
}

/* mean(g) and mean(g h) of each row. */
typedef struct row_slopes_means {
    float g[ROWS], gh[ROWS];
} row_slopes_means;

YKI_FORCE_INLINE row_slopes_means find_slopes(const some_rows *of, yki_row_sums columns, int rows,
                                              bool centred)
{
    const double share = 1 / (double)of->count;
    wide_sum totals[ROWS] = {{{{0}}}}, products[ROWS] = {{{{0}}}};
    row_slopes_means means;
    for (int64_t begin = 0; begin < of->count; begin += NEAR) {
        const int64_t end = near_end(begin, of->count);
        int64_t i = begin;
        yki_lanes near[ROWS] = {{0}}, near_products[ROWS] = {{0}};
        for (; i + YKI_WIDTH <= end; i += YKI_WIDTH)
            add_slopes(of, columns, i, YKI_WIDTH, rows, centred, near, near_products);
        if (i < end)
            add_slopes(of, columns, i, end - i, rows, centred, near, near_products);
        for (int r = 0; r < rows; r++) {
            add_lanes(&totals[r], near[r]);
            add_lanes(&products[r], near_products[r]);
        }
    }
    for (int r = 0; r < rows; r++) {
        means.g[r] = (float)(sum_of_lanes(&totals[r]) * share);
        means.gh[r] = (float)(sum_of_lanes(&products[r]) * share);
    }
    return means;
}

YKI_FORCE_INLINE void write_slopes(const some_rows *of, const row_slopes_means *means, float *dx,
                                   int64_t i, int64_t left, int rows)
{
    const yki_lanes weight = load_lanes_up_to(of->weight + i, left, 0);
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++) {
        const int64_t at = r * of->count + i;
        const yki_lanes h = normal_at(of, r, i, left);
        yki_lanes g = load_lanes_up_to(of->dy + at, left, 0) * weight;
        YKI_KEEP_IN_REGISTER(g); /* rounded, as in the mean, which it may all but equal */
        put_vector(dx + at, left, of->m[r].invstd * (g - means->g[r] - h * means->gh[r]), of->far);
    }
}

/* With g = dy weight: dx = invstd (g - mean(g) - h mean(g h)), without mean(g) in rms_norm. Their
 * sums over rows are added to those in memory at once. */
YKI_FORCE_INLINE void slopes_of_rows(const float *x, const float *dy, const float *weight,
                                     float *dx, yki_row_sums columns, int64_t count, double eps,
                                     bool far, int rows, bool centred)
{
    some_rows of = {.x = x, .dy = dy, .weight = weight, .count = count, .far = far};
    find_moments(&of, eps, rows, centred);
    const row_slopes_means means = find_slopes(&of, columns, rows, centred);
    int64_t i = 0;
    for (; i + YKI_WIDTH <= count; i += YKI_WIDTH)
        write_slopes(&of, &means, dx, i, YKI_WIDTH, rows);
    if (i < count)
        write_slopes(&of, &means, dx, i, count - i, rows);
}

YKI_FORCE_INLINE void slopes_of_all_rows(const float *x, const float *dy, const float *weight,
                                         float *dx, yki_row_sums columns, int64_t rows,
                                         int64_t count, double eps, bool far, bool centred)
{
    int64_t r = 0;
    for (; r + ROWS <= rows; r += ROWS)
        slopes_of_rows(x + r * count, dy + r * count, weight, dx + r * count, columns, count, eps,
                       far, ROWS, centred);
    for (; r < rows; r++)
        slopes_of_rows(x + r * count, dy + r * count, weight, dx + r * count, columns, count, eps,
                       far, 1, centred);
}

static void row_slopes(const float *x, const float *dy, const float *weight, float *dx,
                       yki_row_sums columns, int64_t rows, int64_t count, double eps, bool far)
{
    if (far)
        slopes_of_all_rows(x, dy, weight, dx, columns, rows, count, eps, true, true);
    else
        slopes_of_all_rows(x, dy, weight, dx, columns, rows, count, eps, false, true);
}

static void scaled_row_slopes(const float *x, const float *dy, const float *weight, float *dx,
                              yki_row_sums columns, int64_t rows, int64_t count, double eps,
                              bool far)
{
    if (far)
        slopes_of_all_rows(x, dy, weight, dx, columns, rows, count, eps, true, false);
    else
        slopes_of_all_rows(x, dy, weight, dx, columns, rows, count, eps, false, false);
}

/* ---- cross_entropy --------------------------------------------------------------------------- */

/* The targets of classes from i on; 0 behind the last of them. */
YKI_FORCE_INLINE yki_lanes targets_at(const yki_row_targets *t, int64_t i, int64_t left)
{
    yki_lanes target = yki_splat(t->rest);
    if (t->labels)
        target += t->given * load_lanes_up_to(t->labels + i, left, 0);
    if (t->weights)
        return target * load_lanes_up_to(t->weights + i, left, 0);
    return left < YKI_WIDTH ? load_first((const float *)&target, left, 0) : target;
}

static void weigh_targets(const yki_row_targets *t, const float *logits, float largest,
                          int64_t count, double *taken, double *total)
{
    wide_sum took = {{{0}}}, totals = {{{0}}};
    for (int64_t i = 0; i < count; i += YKI_WIDTH) {
        const yki_lanes target = targets_at(t, i, count - i), zero = {0};
        yki_lanes below = load_lanes_up_to(logits + i, count - i, largest) - largest;
        below = yki_select((yki_bits)(target == zero), zero, below); /* which may be infinite */
        add_lanes(&took, target * below);
        add_lanes(&totals, target);
    }
    *taken = sum_of_lanes(&took);
    *total = sum_of_lanes(&totals);
}

static void target_slopes(const yki_row_targets *t, const float *logits, float log_sum,
                          float *dlogits, float total, float factor, int64_t count)
{
    for (int64_t i = 0; i < count; i += YKI_WIDTH) {
        const yki_lanes x = load_lanes_up_to(logits + i, count - i, 0);
        const yki_lanes p = yki_exp_or_zero(x - log_sum);
        const yki_lanes slope = (total * p - targets_at(t, i, count - i)) * factor;
        store_lanes_up_to(dlogits + i, count - i, slope);
    }
}

/* Rows of numbers: softmax, layer_norm, rms_norm, cross_entropy of samples. Included by
 * loops_table.h alone, after loops_sums.h. */
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
        largest = yki_select((yki_bits)(v > largest), v, largest); /* ignores NaN */
    }
    float part[YKI_WIDTH];
    *(yki_lanes_at *)part = largest;
    for (int half = YKI_WIDTH / 2; half > 0; half /= 2)
        for (int lane = 0; lane < half; lane++)
            part[lane] = part[lane + half] > part[lane] ? part[lane + half] : part[lane];
    return part[0];
}

/* e^x, and 0 where that is no normal number; of a NaN, NaN. */
YKI_FORCE_INLINE yki_lanes exp_or_zero(yki_lanes x)
{
    yki_lanes zero = {0};
    return yki_select((yki_bits)(x < -87.3f), zero, yki_exp(x));
}

static yki_row_softmax softmax(const float *x, float *y, int64_t count)
{
    const float largest = largest_of(x, count);
    wide_sum totals = {{{0}}};
    for (int64_t i = 0; i < count; i += YKI_WIDTH) {
        yki_lanes v = load_lanes_up_to(x + i, count - i, -INFINITY);
        v = exp_or_zero(v - largest);
        add_lanes(&totals, v);
        if (y)
            store_lanes_up_to(y + i, count - i, v);
    }
    const double sum = sum_of_lanes(&totals);
    const float factor = (float)(1 / sum);
    for (int64_t i = 0; y && i < count; i += YKI_WIDTH)
        store_lanes_up_to(y + i, count - i, load_lanes_up_to(y + i, count - i, 0) * factor);
    return (yki_row_softmax){largest, sum};
}

static void softmax_slopes(const float *y, const float *dy, float *dx, int64_t count)
{
    wide_sum totals = {{{0}}};
    for (int64_t i = 0; i < count; i += YKI_WIDTH)
        add_lanes(&totals,
                  load_lanes_up_to(y + i, count - i, 0) * load_lanes_up_to(dy + i, count - i, 0));
    const float sum = (float)sum_of_lanes(&totals);
    for (int64_t i = 0; i < count; i += YKI_WIDTH) {
        yki_lanes slope = load_lanes_up_to(dy + i, count - i, 0) - sum;
        store_lanes_up_to(dx + i, count - i, load_lanes_up_to(y + i, count - i, 0) * slope);
    }
}

/* ---- softmax of as many rows as a vector has lanes ------------------------------------------- */

/* The lanes of the first `used` rows, the others being 0. */
YKI_FORCE_INLINE yki_bits used_rows(int64_t used)
{
    yki_bits mask;
    for (int lane = 0; lane < YKI_WIDTH; lane++)
        mask[lane] = lane < used ? ~0u : 0;
    return mask;
}

static void softmax_lanes(const float *x, float *y, int64_t count, int64_t used)
{
    const yki_bits rows = used_rows(used);
    const yki_lanes zero = {0};
    yki_lanes largest = yki_splat(-INFINITY), factor;
    wide_sum totals = {{{0}}};
    for (int64_t i = 0; i < count; i++) {
        const yki_lanes v = yki_load_pixel(x, i, YK_F32);
        largest = yki_select((yki_bits)(v > largest), v, largest); /* ignores NaN */
    }
    for (int64_t i = 0; i < count; i++) {
        const yki_lanes v = exp_or_zero(yki_load_pixel(x, i, YK_F32) - largest);
        add_lanes(&totals, v);
        yki_store_lanes(y, i * YKI_WIDTH, v, YK_F32);
    }
    for (int lane = 0; lane < YKI_WIDTH; lane++)
        factor[lane] = (float)(1 / totals.v[lane / (YKI_WIDTH / 2)][lane % (YKI_WIDTH / 2)]);
    for (int64_t i = 0; i < count; i++)
        yki_store_lanes(y, i * YKI_WIDTH,
                        yki_select(rows, yki_load_pixel(y, i, YK_F32) * factor, zero), YK_F32);
}

static void softmax_lane_slopes(const float *y, const float *dy, float *dx, int64_t count,
                                int64_t used)
{
    const yki_bits rows = used_rows(used);
    const yki_lanes zero = {0};
    yki_lanes sum;
    wide_sum totals = {{{0}}};
    for (int64_t i = 0; i < count; i++)
        add_lanes(&totals, yki_load_pixel(y, i, YK_F32) * yki_load_pixel(dy, i, YK_F32));
    for (int lane = 0; lane < YKI_WIDTH; lane++)
        sum[lane] = (float)totals.v[lane / (YKI_WIDTH / 2)][lane % (YKI_WIDTH / 2)];
    for (int64_t i = 0; i < count; i++) {
        const yki_lanes slope = yki_load_pixel(dy, i, YK_F32) - sum;
        yki_store_lanes(dx, i * YKI_WIDTH,
                        yki_select(rows, yki_load_pixel(y, i, YK_F32) * slope, zero), YK_F32);
    }
}

/* ---- layer_norm, rms_norm -------------------------------------------------------------------- */

typedef struct row_moments {
    float mean, invstd;
} row_moments;

/* The mean as it is rounded, and the variance about the mean. */
YKI_FORCE_INLINE row_moments row_moments_of(const float *x, int64_t count, double eps)
{
    wide_sum totals = {{{0}}}, distances = {{{0}}}, squares = {{{0}}};
    for (int64_t i = 0; i < count; i += YKI_WIDTH)
        add_lanes(&totals, load_lanes_up_to(x + i, count - i, 0));
    const float mean = (float)(sum_of_lanes(&totals) / (double)count);
    for (int64_t i = 0; i < count; i += YKI_WIDTH) {
        yki_lanes distance = load_lanes_up_to(x + i, count - i, mean) - mean;
        add_lanes(&distances, distance);
        add_lanes(&squares, distance * distance);
    }
    const double offset = sum_of_lanes(&distances) / (double)count;
    const double variance = sum_of_lanes(&squares) / (double)count - offset * offset;
    return (row_moments){mean, (float)(1 / sqrt((variance < 0 ? 0 : variance) + eps))};
}

/* As it has no mean, so that h is x invstd. */
YKI_FORCE_INLINE row_moments scale_of_row(const float *x, int64_t count, double eps)
{
    wide_sum squares = {{{0}}};
    for (int64_t i = 0; i < count; i += YKI_WIDTH) {
        const yki_lanes v = load_lanes_up_to(x + i, count - i, 0);
        add_lanes(&squares, v * v);
    }
    return (row_moments){0, (float)(1 / sqrt(sum_of_lanes(&squares) / (double)count + eps))};
}

static void scale_row(const float *x, const float *weight, float *y, int64_t count, double eps)
{
    const float invstd = scale_of_row(x, count, eps).invstd;
    for (int64_t i = 0; i < count; i += YKI_WIDTH) {
        const yki_lanes h = load_lanes_up_to(x + i, count - i, 0) * invstd;
        store_lanes_up_to(y + i, count - i, h * load_lanes_up_to(weight + i, count - i, 0));
    }
}

static void normalise_row(const float *x, const float *weight, const float *bias, float *y,
                          int64_t count, double eps)
{
    const row_moments m = row_moments_of(x, count, eps);
    for (int64_t i = 0; i < count; i += YKI_WIDTH) {
        yki_lanes h = (load_lanes_up_to(x + i, count - i, 0) - m.mean) * m.invstd;
        h = h * load_lanes_up_to(weight + i, count - i, 0) +
            load_lanes_up_to(bias + i, count - i, 0);
        store_lanes_up_to(y + i, count - i, h);
    }
}

YKI_FORCE_INLINE void add_up_to(double *totals, int64_t count, yki_lanes x)
{
    if (count >= YKI_WIDTH)
        add_lanes_at(totals, x);
    else
        for (int lane = 0; lane < count; lane++)
            totals[lane] += x[lane];
}

enum { SLOPE_ROWS = 4 };

/*
 * Of so many rows, a constant, as is whether they are centred about their means, in layer_norm.
 * With g = dy weight: dx = invstd (g - mean(g) - h mean(g h)), without mean(g) in rms_norm. Their
 * sums over rows are added to those in memory at once.
 */
YKI_FORCE_INLINE void slopes_of_rows(const float *x, const float *dy, const float *weight,
                                     float *dx, yki_row_sums columns, int64_t count, double eps,
                                     int rows, bool centred)
{
    row_moments m[SLOPE_ROWS];
    wide_sum totals[SLOPE_ROWS] = {{{{0}}}}, products[SLOPE_ROWS] = {{{{0}}}};
    for (int r = 0; r < rows; r++)
        m[r] = centred ? row_moments_of(x + r * count, count, eps)
                       : scale_of_row(x + r * count, count, eps);
    for (int64_t i = 0; i < count; i += YKI_WIDTH) {
        const int64_t left = count - i;
        const yki_lanes w = load_lanes_up_to(weight + i, left, 0);
        yki_lanes sum = {0}, product = {0};
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++) {
            const int64_t at = r * count + i;
            const yki_lanes h =
                (load_lanes_up_to(x + at, left, m[r].mean) - m[r].mean) * m[r].invstd;
            const yki_lanes d = load_lanes_up_to(dy + at, left, 0), g = d * w;
            if (centred)
                add_lanes(&totals[r], g);
            add_lanes(&products[r], g * h);
            sum += d;
            product += d * h;
        }
        if (centred)
            add_up_to(columns.sums + i, left, sum);
        add_up_to(columns.products + i, left, product);
    }
    for (int r = 0; r < rows; r++) {
        const float mean = (float)(sum_of_lanes(&totals[r]) / (double)count);
        const float slope = (float)(sum_of_lanes(&products[r]) / (double)count);
        for (int64_t i = 0; i < count; i += YKI_WIDTH) {
            const int64_t at = r * count + i, left = count - i;
            const yki_lanes h = (load_lanes_up_to(x + at, left, 0) - m[r].mean) * m[r].invstd;
            yki_lanes g = load_lanes_up_to(dy + at, left, 0);
            g = g * load_lanes_up_to(weight + i, left, 0);
            YKI_KEEP_IN_REGISTER(g); /* rounded, as in the mean, which it may all but equal */
            store_lanes_up_to(dx + at, left, m[r].invstd * (g - mean - h * slope));
        }
    }
}

YKI_FORCE_INLINE void slopes_of_all_rows(const float *x, const float *dy, const float *weight,
                                         float *dx, yki_row_sums columns, int64_t rows,
                                         int64_t count, double eps, bool centred)
{
    int64_t r = 0;
    for (; r + SLOPE_ROWS <= rows; r += SLOPE_ROWS)
        slopes_of_rows(x + r * count, dy + r * count, weight, dx + r * count, columns, count, eps,
                       SLOPE_ROWS, centred);
    for (; r < rows; r++)
        slopes_of_rows(x + r * count, dy + r * count, weight, dx + r * count, columns, count, eps,
                       1, centred);
}

static void row_slopes(const float *x, const float *dy, const float *weight, float *dx,
                       yki_row_sums columns, int64_t rows, int64_t count, double eps)
{
    slopes_of_all_rows(x, dy, weight, dx, columns, rows, count, eps, true);
}

static void scaled_row_slopes(const float *x, const float *dy, const float *weight, float *dx,
                              yki_row_sums columns, int64_t rows, int64_t count, double eps)
{
    slopes_of_all_rows(x, dy, weight, dx, columns, rows, count, eps, false);
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

static void target_slopes(const yki_row_targets *t, const float *probabilities, float *dlogits,
                          float total, float factor, int64_t count)
{
    for (int64_t i = 0; i < count; i += YKI_WIDTH) {
        const yki_lanes p = load_lanes_up_to(probabilities + i, count - i, 0);
        const yki_lanes slope = (total * p - targets_at(t, i, count - i)) * factor;
        store_lanes_up_to(dlogits + i, count - i, slope);
    }
}

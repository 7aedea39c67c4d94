/*
 * Group norm's sweeps over a channel block of a small image in f32, as wide as a vector: included
 * by table.h alone. Constants are those of the block's channels, and sums go straight to
 * their places, since what batch norm's sweeps prepare for each block would take longer than the
 * image itself. The next block follows in memory, so the processor fetches it ahead by itself.
 *
 * Sums are f32 over all pixels of the block, in four parts, and f64 beyond.
 *
 * Where a group has whole blocks, a call takes all of it, so that sums stay in registers; so does
 * one of the gradient of a block that has several groups.
 */

typedef struct small_sums {
    yki_lanes first[4], second[4];
} small_sums;

/* Constants of channels, or 1 or 0 for all of them. */
YKI_FORCE_INLINE yki_lanes constants_at(const float *of, int64_t channel, float otherwise)
{
    return of ? yki_load_lanes(of, channel, YK_F32) : yki_splat(otherwise);
}

YKI_FORCE_INLINE wide_sum total_of(const yki_lanes part[4])
{
    wide_sum total = widen(part[0] + part[2]);
    add_lanes(&total, part[1] + part[3]);
    return total;
}

YKI_FORCE_INLINE void store_wide(double *to, wide_sum x)
{
    for (int j = 0; j < 2; j++)
        *(wide_lanes_at *)(to + j * YKI_WIDTH / 2) = x.v[j];
}

YKI_FORCE_INLINE void write_total(double *total, const yki_lanes part[4])
{
    store_wide(total, total_of(part));
}

YKI_FORCE_INLINE void add_small_moment(small_sums *s, int part, const float *x, yki_lanes shift)
{
    const yki_lanes distance = yki_load_lanes(x, 0, YK_F32) - shift;
    s->first[part] += distance;
    s->second[part] += distance * distance;
}

YKI_FORCE_INLINE small_sums find_small_moments(const float *x, int64_t pixels, yki_lanes k)
{
    small_sums s = {{{0}}, {{0}}};
    int64_t p = 0;
    for (; p + 4 <= pixels; p += 4)
        for (int part = 0; part < 4; part++)
            add_small_moment(&s, part, x + (p + part) * YKI_WIDTH, k);
    for (int part = 0; part < 3 && p + part < pixels; part++)
        add_small_moment(&s, part, x + (p + part) * YKI_WIDTH, k);
    return s;
}

static void small_moments(const float *x, int64_t pixels, const float *shift, double *distances,
                          double *squares)
{
    const small_sums s = find_small_moments(x, pixels, yki_load_lanes(shift, 0, YK_F32));
    write_total(distances, s.first);
    write_total(squares, s.second);
}

YKI_FORCE_INLINE void write_small(const float *x, float *y, int64_t pixels, yki_lanes mean,
                                  yki_lanes scale, yki_lanes bias)
{
    for (int64_t at = 0; at < pixels * YKI_WIDTH; at += YKI_WIDTH)
        yki_store_lanes(y, at, (yki_load_lanes(x, at, YK_F32) - mean) * scale + bias, YK_F32);
}

static void small_normalise(const float *x, float *y, int64_t pixels, const float *mean,
                            const float *scale, const float *bias)
{
    write_small(x, y, pixels, yki_load_lanes(mean, 0, YK_F32), yki_load_lanes(scale, 0, YK_F32),
                yki_load_lanes(bias, 0, YK_F32));
}

static void small_group(const yki_small_group *g, const float *x, float *y, float *mean,
                        float *invstd)
{
    const int64_t block = g->pixels * YKI_WIDTH;
    const double count = (double)(g->blocks * block);
    wide_sum distances = {{{0}}}, squares = {{{0}}};
    for (int64_t b = 0; b < g->blocks; b++) {
        const small_sums s = find_small_moments(x + b * block, g->pixels, yki_splat(*mean));
        add_wide(&distances, total_of(s.first));
        add_wide(&squares, total_of(s.second));
    }
    const double offset = sum_of_lanes(&distances) / count;
    const double variance = sum_of_lanes(&squares) / count - offset * offset;
    *mean = (float)(*mean + offset);
    *invstd = (float)(1 / sqrt((variance < 0 ? 0 : variance) + g->eps)); /* NaN stays NaN */
    for (int64_t b = 0; b < g->blocks; b++)
        write_small(x + b * block, y + b * block, g->pixels, yki_splat(*mean),
                    constants_at(g->weight, b * YKI_WIDTH, 1) * *invstd,
                    constants_at(g->bias, b * YKI_WIDTH, 0));
}

YKI_FORCE_INLINE void add_small_gradient(small_sums *s, int part, const float *x, const float *dy,
                                         yki_lanes mean)
{
    const yki_lanes g = yki_load_lanes(dy, 0, YK_F32);
    s->first[part] += g;
    s->second[part] += g * (yki_load_lanes(x, 0, YK_F32) - mean);
}

YKI_FORCE_INLINE small_sums find_small_gradients(const float *x, const float *dy, int64_t pixels,
                                                 yki_lanes k)
{
    small_sums s = {{{0}}, {{0}}};
    int64_t p = 0;
    for (; p + 4 <= pixels; p += 4)
        for (int part = 0; part < 4; part++) {
            const int64_t at = (p + part) * YKI_WIDTH;
            add_small_gradient(&s, part, x + at, dy + at, k);
        }
    for (int part = 0; part < 3 && p + part < pixels; part++) {
        const int64_t at = (p + part) * YKI_WIDTH;
        add_small_gradient(&s, part, x + at, dy + at, k);
    }
    return s;
}

static void small_gradient_sums(const float *x, const float *dy, int64_t pixels, const float *mean,
                                double *gradients, double *products)
{
    const small_sums s = find_small_gradients(x, dy, pixels, yki_load_lanes(mean, 0, YK_F32));
    write_total(gradients, s.first);
    write_total(products, s.second);
}

YKI_FORCE_INLINE void write_small_gradient(const float *x, const float *dy, float *dx,
                                           int64_t pixels, yki_lanes mean, yki_lanes a, yki_lanes b,
                                           yki_lanes c)
{
    for (int64_t at = 0; at < pixels * YKI_WIDTH; at += YKI_WIDTH) {
        const yki_lanes rest = b * (yki_load_lanes(x, at, YK_F32) - mean) + c;
        yki_store_lanes(dx, at, a * yki_load_lanes(dy, at, YK_F32) + rest, YK_F32);
    }
}

static void small_gradient(const float *x, const float *dy, float *dx, int64_t pixels,
                           const float *mean, const float *a, const float *b, const float *c)
{
    write_small_gradient(x, dy, dx, pixels, yki_load_lanes(mean, 0, YK_F32),
                         yki_load_lanes(a, 0, YK_F32), yki_load_lanes(b, 0, YK_F32),
                         yki_load_lanes(c, 0, YK_F32));
}

static void small_group_slopes(const yki_small_group *g, const float *x, const float *dy, float *dx,
                               float mean, float invstd, double *gradients, double *products)
{
    const int64_t block = g->pixels * YKI_WIDTH;
    const double count = (double)(g->blocks * block);
    wide_sum all = {{{0}}}, all_products = {{{0}}};
    for (int64_t b = 0; b < g->blocks; b++) {
        const small_sums s =
            find_small_gradients(x + b * block, dy + b * block, g->pixels, yki_splat(mean));
        const wide_sum weight = widen(constants_at(g->weight, b * YKI_WIDTH, 1));
        wide_sum sum = total_of(s.first), product = total_of(s.second);
        for (int j = 0; j < 2; j++) {
            product.v[j] *= (double)invstd;
            all.v[j] += weight.v[j] * sum.v[j];
            all_products.v[j] += weight.v[j] * product.v[j];
        }
        store_wide(gradients + b * YKI_WIDTH, sum);
        store_wide(products + b * YKI_WIDTH, product);
    }
    const double factor = -(double)invstd / count;
    const float x_slope = (float)(factor * invstd * sum_of_lanes(&all_products)),
                offset = (float)(factor * sum_of_lanes(&all));
    for (int64_t b = 0; dx && b < g->blocks; b++)
        write_small_gradient(x + b * block, dy + b * block, dx + b * block, g->pixels,
                             yki_splat(mean), constants_at(g->weight, b * YKI_WIDTH, 1) * invstd,
                             yki_splat(x_slope), yki_splat(offset));
}

/* The sums of every `length` lanes, in all of these; a power of 2, and no more than half of a
 * vector has. */
YKI_FORCE_INLINE wide_lanes sums_of_lanes(wide_lanes x, int64_t length)
{
#if YKI_WIDTH == 16
    if (length > 1)
        x += __builtin_shufflevector(x, x, 1, 0, 3, 2, 5, 4, 7, 6);
    if (length > 2)
        x += __builtin_shufflevector(x, x, 2, 3, 0, 1, 6, 7, 4, 5);
    if (length > 4)
        x += __builtin_shufflevector(x, x, 4, 5, 6, 7, 0, 1, 2, 3);
#elif YKI_WIDTH == 8
    if (length > 1)
        x += __builtin_shufflevector(x, x, 1, 0, 3, 2);
    if (length > 2)
        x += __builtin_shufflevector(x, x, 2, 3, 0, 1);
#else
    if (length > 1)
        x += __builtin_shufflevector(x, x, 1, 0);
#endif
    return x;
}

static void small_groups_slopes(const yki_small_groups *g, const float *x, const float *dy,
                                float *dx, double *gradients, double *products)
{
    const double count = (double)(g->channels * g->pixels);
    const yki_lanes mean = yki_load_lanes(g->mean, 0, YK_F32),
                    invstd = yki_load_lanes(g->invstd, 0, YK_F32),
                    weight = constants_at(g->weight, 0, 1);
    const small_sums s = find_small_gradients(x, dy, g->pixels, mean);
    const wide_sum inverse = widen(invstd), factor = widen(weight);
    wide_sum sum = total_of(s.first), product = total_of(s.second), x_slope, offset;
    for (int j = 0; j < 2; j++) {
        product.v[j] *= inverse.v[j];
        const wide_lanes share = -inverse.v[j] / count;
        offset.v[j] = share * sums_of_lanes(factor.v[j] * sum.v[j], g->channels);
        x_slope.v[j] =
            share * inverse.v[j] * sums_of_lanes(factor.v[j] * product.v[j], g->channels);
    }
    store_wide(gradients, sum);
    store_wide(products, product);
    if (dx)
        write_small_gradient(x, dy, dx, g->pixels, mean, weight * invstd, narrow(&x_slope),
                             narrow(&offset));
}

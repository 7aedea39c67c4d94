/*
 * Group norm's sweeps over a channel block of a small image in f32, as wide as a vector: included
 * by table.h alone. Constants are those of the block's channels, and sums go straight to
 * their places, since what batch norm's sweeps prepare for each block would take longer than the
 * image itself. The next block follows in memory, so the processor fetches it ahead by itself.
 *
 * Sums are f32 over all pixels of the block, in four parts, and f64 beyond.
 */

typedef struct small_sums {
    yki_lanes first[4], second[4];
} small_sums;

YKI_FORCE_INLINE void write_total(double *total, const yki_lanes part[4])
{
    const wide_sum even = widen(part[0] + part[2]), odd = widen(part[1] + part[3]);
    for (int j = 0; j < 2; j++)
        *(wide_lanes_at *)(total + j * YKI_WIDTH / 2) = even.v[j] + odd.v[j];
}

YKI_FORCE_INLINE void add_small_moment(small_sums *s, int part, const float *x, yki_lanes shift)
{
    const yki_lanes distance = yki_load_lanes(x, 0, YK_F32) - shift;
    s->first[part] += distance;
    s->second[part] += distance * distance;
}

static void small_moments(const float *x, int64_t pixels, const float *shift, double *distances,
                          double *squares)
{
    const yki_lanes k = yki_load_lanes(shift, 0, YK_F32);
    small_sums s = {{{0}}, {{0}}};
    int64_t p = 0;
    for (; p + 4 <= pixels; p += 4)
        for (int part = 0; part < 4; part++)
            add_small_moment(&s, part, x + (p + part) * YKI_WIDTH, k);
    for (int part = 0; part < 3 && p + part < pixels; part++)
        add_small_moment(&s, part, x + (p + part) * YKI_WIDTH, k);
    write_total(distances, s.first);
    write_total(squares, s.second);
}

static void small_normalise(const float *x, float *y, int64_t pixels, const float *mean,
                            const float *scale, const float *bias)
{
    const yki_lanes k = yki_load_lanes(mean, 0, YK_F32), a = yki_load_lanes(scale, 0, YK_F32),
                    b = yki_load_lanes(bias, 0, YK_F32);
    for (int64_t at = 0; at < pixels * YKI_WIDTH; at += YKI_WIDTH)
        yki_store_lanes(y, at, (yki_load_lanes(x, at, YK_F32) - k) * a + b, YK_F32);
}

YKI_FORCE_INLINE void add_small_gradient(small_sums *s, int part, const float *x, const float *dy,
                                         yki_lanes mean)
{
    const yki_lanes g = yki_load_lanes(dy, 0, YK_F32);
    s->first[part] += g;
    s->second[part] += g * (yki_load_lanes(x, 0, YK_F32) - mean);
}

static void small_gradient_sums(const float *x, const float *dy, int64_t pixels, const float *mean,
                                double *gradients, double *products)
{
    const yki_lanes k = yki_load_lanes(mean, 0, YK_F32);
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
    write_total(gradients, s.first);
    write_total(products, s.second);
}

static void small_gradient(const float *x, const float *dy, float *dx, int64_t pixels,
                           const float *mean, const float *a, const float *b, const float *c)
{
    const yki_lanes k = yki_load_lanes(mean, 0, YK_F32), dy_slope = yki_load_lanes(a, 0, YK_F32),
                    x_slope = yki_load_lanes(b, 0, YK_F32), offset = yki_load_lanes(c, 0, YK_F32);
    for (int64_t at = 0; at < pixels * YKI_WIDTH; at += YKI_WIDTH) {
        const yki_lanes rest = x_slope * (yki_load_lanes(x, at, YK_F32) - k) + offset;
        yki_store_lanes(dx, at, dy_slope * yki_load_lanes(dy, at, YK_F32) + rest, YK_F32);
    }
}

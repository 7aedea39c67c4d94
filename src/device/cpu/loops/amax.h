/* The largest or the smallest of numbers, and their gradients. Included by table.h alone,
 * after rows.h. `least`, like `dtype`, is a constant in every call. */

#define FOR_EACH_EXTREME(body, dtype, least, ...)                                                  \
    do {                                                                                           \
        if (least)                                                                                 \
            FOR_EACH_DTYPE(body, dtype, __VA_ARGS__, true);                                        \
        else                                                                                       \
            FOR_EACH_DTYPE(body, dtype, __VA_ARGS__, false);                                       \
    } while (0)

/* Of each lane the larger or the smaller, or NaN where either is one. */
YKI_FORCE_INLINE yki_lanes extreme_of(yki_lanes x, yki_lanes y, bool least)
{
    const yki_lanes z = least ? yki_smaller(x, y) : yki_larger(x, y); /* y, where x is a NaN */
#if defined(__AVX512F__) && YKI_WIDTH == 16
    const __mmask16 is_nan = _mm512_cmp_ps_mask((__m512)x, (__m512)x, _CMP_UNORD_Q);
    return (yki_lanes)_mm512_mask_mov_ps((__m512)z, is_nan, (__m512)x);
#elif defined(__AVX__) && YKI_WIDTH == 8
    const __m256 is_nan = _mm256_cmp_ps((__m256)x, (__m256)x, _CMP_UNORD_Q);
    return (yki_lanes)_mm256_blendv_ps((__m256)z, (__m256)x, is_nan);
#else
    return yki_select((yki_bits)(x != x), x, z);
#endif
}

YKI_FORCE_INLINE float extreme_number(float x, float y, bool least)
{
    return (least ? x < y : x > y) || x != x ? x : y;
}

YKI_FORCE_INLINE float extreme_lane(yki_lanes x, bool least)
{
    if (yki_any((yki_bits)(x != x)))
        return NAN;
    return least ? -largest_lane(-x) : largest_lane(x);
}

/* What no number is beyond. */
YKI_FORCE_INLINE yki_lanes farthest(bool least)
{
    return yki_splat(least ? INFINITY : -INFINITY);
}

/* ---- of rows --------------------------------------------------------------------------------- */

YKI_FORCE_INLINE float extreme_of_row(const void *x, int64_t begin, int64_t count, yk_dtype dtype,
                                      bool least)
{
    yki_pack most[2] = {{{farthest(least), farthest(least)}}, {{farthest(least), farthest(least)}}};
    int64_t i = 0;
    for (; i + 2 * YKI_PACK <= count; i += 2 * YKI_PACK)
        for (int p = 0; p < 2; p++) {
            const yki_pack v = yki_load(x, begin + i + p * YKI_PACK, dtype);
            for (int j = 0; j < 2; j++)
                most[p].v[j] = extreme_of(v.v[j], most[p].v[j], least);
        }
    yki_lanes all = extreme_of(most[0].v[0], most[0].v[1], least);
    all = extreme_of(extreme_of(most[1].v[0], most[1].v[1], least), all, least);
    for (; i + YKI_WIDTH <= count; i += YKI_WIDTH)
        all = extreme_of(yki_load_lanes(x, begin + i, dtype), all, least);
    if (dtype == YK_F32 && i < count) {
        const float *rest = (const float *)x + begin + i;
        all = extreme_of(load_first(rest, count - i, farthest(least)[0]), all, least);
        i = count;
    }
    float result = extreme_lane(all, least);
    for (; i < count; i++)
        result = extreme_number(yki_get(x, begin + i, dtype), result, least);
    return result;
}

YKI_FORCE_INLINE void extreme_rows_as(const void *x, int64_t rows, int64_t count, void *y,
                                      bool least, yk_dtype dtype)
{
    for (int64_t r = 0; r < rows; r++)
        yki_put(y, r, extreme_of_row(x, r * count, count, dtype, least), dtype);
}

static void extreme_rows(yk_dtype dtype, bool least, const void *x, int64_t rows, int64_t count,
                         void *y)
{
    FOR_EACH_EXTREME(extreme_rows_as, dtype, least, x, rows, count, y);
}

/* Up to a vector; of 16 bits, exactly one. */
YKI_FORCE_INLINE yki_lanes load_columns(const void *x, int64_t at, int64_t count, yk_dtype dtype)
{
    return dtype == YK_F32 ? load_lanes_up_to((const float *)x + at, count, 0)
                           : yki_load_lanes(x, at, dtype);
}

YKI_FORCE_INLINE void store_columns(void *x, int64_t at, int64_t count, yki_lanes v, yk_dtype dtype)
{
    if (dtype == YK_F32)
        store_lanes_up_to((float *)x + at, count, v);
    else
        yki_store_lanes(x, at, v, dtype);
}

/* Whether there are columns for these. */
YKI_FORCE_INLINE bool are_columns(int64_t count, yk_dtype dtype)
{
    return dtype == YK_F32 ? count > 0 : count >= YKI_WIDTH;
}

/* A column of rows of 16 bits that end within a vector. */
YKI_FORCE_INLINE void extreme_of_column(const void *x, int64_t rows, int64_t stride, int64_t column,
                                        void *y, bool least, yk_dtype dtype)
{
    float most = yki_get(x, column, dtype);
    for (int64_t r = 1; r < rows; r++)
        most = extreme_number(yki_get(x, r * stride + column, dtype), most, least);
    yki_put(y, column, most, dtype);
}

/* Some rows at a time, a constant in every call: y is loaded and stored less often. */
YKI_FORCE_INLINE void take_extremes(const void *x, int64_t begin, int64_t rows, int64_t stride,
                                    int64_t count, void *y, bool least, yk_dtype dtype)
{
    for (int64_t i = 0; i < count; i += YKI_PACK) {
        yki_pack most = yki_load(y, i, dtype);
#pragma GCC unroll 4
        for (int64_t r = 0; r < rows; r++) {
            const yki_pack v = yki_load(x, begin + r * stride + i, dtype);
            for (int j = 0; j < 2; j++)
                most.v[j] = extreme_of(v.v[j], most.v[j], least);
        }
        yki_store(y, i, most, dtype);
    }
}

YKI_FORCE_INLINE void extreme_columns_as(const void *x, int64_t rows, int64_t stride, int64_t count,
                                         void *y, bool least, yk_dtype dtype)
{
    const int64_t whole = count - count % YKI_PACK;
    int64_t r = 1;
    memcpy(y, x, (size_t)whole * yki_size_of(dtype));
    for (; r + 4 <= rows; r += 4)
        take_extremes(x, r * stride, 4, stride, whole, y, least, dtype);
    for (; r < rows; r++)
        take_extremes(x, r * stride, 1, stride, whole, y, least, dtype);
    int64_t i = whole;
    for (; are_columns(count - i, dtype); i += YKI_WIDTH) {
        yki_lanes most = load_columns(x, i, count - i, dtype);
        for (r = 1; r < rows; r++)
            most = extreme_of(load_columns(x, r * stride + i, count - i, dtype), most, least);
        store_columns(y, i, count - i, most, dtype);
    }
    for (; i < count; i++)
        extreme_of_column(x, rows, stride, i, y, least, dtype);
}

static void extreme_columns(yk_dtype dtype, bool least, const void *x, int64_t rows, int64_t stride,
                            int64_t count, void *y)
{
    FOR_EACH_EXTREME(extreme_columns_as, dtype, least, x, rows, stride, count, y);
}

/* Some pixels beside each other, a constant in every call, so that they need not wait. */
YKI_FORCE_INLINE void extreme_pixels(const void *x, const yki_pixel_channels *k, int64_t at,
                                     int pixels, void *y, bool least, yk_dtype dtype)
{
    const yki_bits used = used_rows(k->used);
    const int64_t whole = k->blocks - 1;
    yki_lanes most[4];
#pragma GCC unroll 4
    for (int p = 0; p < pixels; p++)
        most[p] =
            yki_select(used, yki_load_pixel(x, whole * k->pixels + at + p, dtype), farthest(least));
    for (int64_t b = 0; b < whole; b++) {
        const int64_t first = b * k->pixels + at;
#pragma GCC unroll 4
        for (int p = 0; p < pixels; p++)
            most[p] = extreme_of(yki_load_pixel(x, first + p, dtype), most[p], least);
    }
#pragma GCC unroll 4
    for (int p = 0; p < pixels; p++)
        yki_put(y, at + p, extreme_lane(most[p], least), dtype);
}

YKI_FORCE_INLINE void extreme_channels_as(const void *x, const yki_pixel_channels *k, void *y,
                                          bool least, yk_dtype dtype)
{
    int64_t p = 0;
    for (; p + 4 <= k->count; p += 4)
        extreme_pixels(x, k, p, 4, y, least, dtype);
    for (; p < k->count; p++)
        extreme_pixels(x, k, p, 1, y, least, dtype);
}

static void extreme_channels(yk_dtype dtype, bool least, const void *x, const yki_pixel_channels *k,
                             void *y)
{
    FOR_EACH_EXTREME(extreme_channels_as, dtype, least, x, k, y);
}

/* ---- gradients: dy / the number of elements that are y, where they are, and 0 / it elsewhere,
 * which is NaN where y is one and is none of them ---------------------------------------------- */

YKI_FORCE_INLINE yki_lanes count_equal(yki_lanes x, yki_lanes y)
{
    return yki_select((yki_bits)(x == y), yki_splat(1), (yki_lanes){0});
}

YKI_FORCE_INLINE void extreme_row_slopes_as(const void *x, const void *y, const void *dy, void *dx,
                                            int64_t rows, int64_t count, yk_dtype dtype)
{
    const int64_t whole = count - count % YKI_WIDTH;
    for (int64_t r = 0; r < rows; r++) {
        const float best = yki_get(y, r, dtype);
        yki_lanes counts = {0};
        for (int64_t i = 0; i < whole; i += YKI_WIDTH)
            counts += count_equal(yki_load_lanes(x, r * count + i, dtype), yki_splat(best));
        float equal = sum_of_floats(counts);
        for (int64_t i = whole; i < count; i++)
            equal += yki_get(x, r * count + i, dtype) == best;
        const float share = yki_get(dy, r, dtype) / equal, rest = 0 / equal;
        for (int64_t i = 0; i < whole; i += YKI_WIDTH) {
            const yki_lanes v = yki_load_lanes(x, r * count + i, dtype);
            const yki_bits is_best = (yki_bits)(v == yki_splat(best));
            yki_store_lanes(dx, r * count + i,
                            yki_select(is_best, yki_splat(share), yki_splat(rest)), dtype);
        }
        for (int64_t i = r * count + whole; i < (r + 1) * count; i++)
            yki_put(dx, i, yki_get(x, i, dtype) == best ? share : rest, dtype);
    }
}

static void extreme_row_slopes(yk_dtype dtype, const void *x, const void *y, const void *dy,
                               void *dx, int64_t rows, int64_t count)
{
    FOR_EACH_DTYPE(extreme_row_slopes_as, dtype, x, y, dy, dx, rows, count);
}

/* Some rows at a time, as above. */
YKI_FORCE_INLINE void count_extremes(const void *x, int64_t begin, int64_t rows, int64_t stride,
                                     int64_t count, const void *y, float *counts, yk_dtype dtype)
{
    for (int64_t i = 0; i < count; i += YKI_PACK) {
        const yki_pack best = yki_load(y, i, dtype);
        yki_pack equal = yki_load(counts, i, YK_F32);
#pragma GCC unroll 4
        for (int64_t r = 0; r < rows; r++) {
            const yki_pack v = yki_load(x, begin + r * stride + i, dtype);
            for (int j = 0; j < 2; j++)
                equal.v[j] += count_equal(v.v[j], best.v[j]);
        }
        yki_store(counts, i, equal, YK_F32);
    }
}

/* The columns that fill packs. Shares and rests are in their order. */
YKI_FORCE_INLINE void whole_column_slopes(const void *x, int64_t rows, int64_t stride,
                                          int64_t count, const void *y, const void *dy, void *dx,
                                          float *shares, float *rests, yk_dtype dtype)
{
    int64_t r = 0;
    memset(rests, 0, (size_t)count * sizeof *rests);
    for (; r + 4 <= rows; r += 4)
        count_extremes(x, r * stride, 4, stride, count, y, rests, dtype);
    for (; r < rows; r++)
        count_extremes(x, r * stride, 1, stride, count, y, rests, dtype);
    for (int64_t i = 0; i < count; i += YKI_PACK) {
        yki_pack share = yki_load(dy, i, dtype), rest = yki_load(rests, i, YK_F32);
        for (int j = 0; j < 2; j++) {
            share.v[j] /= rest.v[j];
            rest.v[j] = 0 / rest.v[j];
        }
        yki_store(shares, i, share, YK_F32);
        yki_store(rests, i, rest, YK_F32);
    }
    for (r = 0; r < rows; r++)
        for (int64_t i = 0; i < count; i += YKI_PACK) {
            yki_pack v = yki_load(x, r * stride + i, dtype), best = yki_load(y, i, dtype);
            const yki_pack share = yki_load(shares, i, YK_F32), rest = yki_load(rests, i, YK_F32);
            for (int j = 0; j < 2; j++)
                v.v[j] = yki_select((yki_bits)(v.v[j] == best.v[j]), share.v[j], rest.v[j]);
            yki_store(dx, r * stride + i, v, dtype);
        }
}

/* Up to a vector of columns, as above. */
YKI_FORCE_INLINE void few_column_slopes(const void *x, int64_t rows, int64_t stride, int64_t at,
                                        int64_t count, const void *y, const void *dy, void *dx,
                                        yk_dtype dtype)
{
    const yki_lanes best = load_columns(y, at, count, dtype), zero = {0};
    yki_lanes counts = {0};
    for (int64_t r = 0; r < rows; r++)
        counts += count_equal(load_columns(x, r * stride + at, count, dtype), best);
    const yki_lanes share = load_columns(dy, at, count, dtype) / counts, rest = zero / counts;
    for (int64_t r = 0; r < rows; r++) {
        const yki_lanes v = load_columns(x, r * stride + at, count, dtype);
        store_columns(dx, r * stride + at, count, yki_select((yki_bits)(v == best), share, rest),
                      dtype);
    }
}

YKI_FORCE_INLINE void one_column_slopes(const void *x, int64_t rows, int64_t stride, int64_t at,
                                        const void *y, const void *dy, void *dx, yk_dtype dtype)
{
    const float best = yki_get(y, at, dtype);
    float equal = 0;
    for (int64_t r = 0; r < rows; r++)
        equal += yki_get(x, r * stride + at, dtype) == best;
    const float share = yki_get(dy, at, dtype) / equal, rest = 0 / equal;
    for (int64_t r = 0; r < rows; r++) {
        const bool is_best = yki_get(x, r * stride + at, dtype) == best;
        yki_put(dx, r * stride + at, is_best ? share : rest, dtype);
    }
}

YKI_FORCE_INLINE void extreme_column_slopes_as(const void *x, int64_t rows, int64_t stride,
                                               int64_t count, const void *y, const void *dy,
                                               void *dx, float *own, yk_dtype dtype)
{
    const int64_t whole = count - count % YKI_PACK;
    int64_t i = whole;
    whole_column_slopes(x, rows, stride, whole, y, dy, dx, own, own + whole, dtype);
    for (; are_columns(count - i, dtype); i += YKI_WIDTH)
        few_column_slopes(x, rows, stride, i, count - i, y, dy, dx, dtype);
    for (; i < count; i++)
        one_column_slopes(x, rows, stride, i, y, dy, dx, dtype);
}

static void extreme_column_slopes(yk_dtype dtype, const void *x, int64_t rows, int64_t stride,
                                  int64_t count, const void *y, const void *dy, void *dx,
                                  float *own)
{
    FOR_EACH_DTYPE(extreme_column_slopes_as, dtype, x, rows, stride, count, y, dy, dx, own);
}

YKI_FORCE_INLINE void extreme_channel_slopes_as(const void *x, const yki_pixel_channels *k,
                                                const void *y, const void *dy, void *dx,
                                                yk_dtype dtype)
{
    const yki_bits all = ~(yki_bits){0}, used = used_rows(k->used);
    for (int64_t p = 0; p < k->count; p++) {
        const yki_lanes best = yki_splat(yki_get(y, p, dtype)), zero = {0};
        yki_lanes counts = {0};
        for (int64_t b = 0; b < k->blocks; b++) {
            const yki_lanes v = yki_load_pixel(x, b * k->pixels + p, dtype);
            counts += yki_select(b == k->blocks - 1 ? used : all, count_equal(v, best), zero);
        }
        const float equal = sum_of_floats(counts);
        const yki_lanes share = yki_splat(yki_get(dy, p, dtype) / equal), rest = zero / equal;
        for (int64_t b = 0; b < k->blocks; b++) {
            const yki_lanes v = yki_load_pixel(x, b * k->pixels + p, dtype);
            const yki_lanes slope = yki_select((yki_bits)(v == best), share, rest);
            yki_store_lanes(dx, (b * k->pixels + p) * YKI_WIDTH,
                            yki_select(b == k->blocks - 1 ? used : all, slope, zero), dtype);
        }
    }
}

static void extreme_channel_slopes(yk_dtype dtype, const void *x, const yki_pixel_channels *k,
                                   const void *y, const void *dy, void *dx)
{
    FOR_EACH_DTYPE(extreme_channel_slopes_as, dtype, x, k, y, dy, dx);
}

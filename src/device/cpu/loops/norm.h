/*
 * Batch norm's four sweeps over a channel block: included by table.h alone. Forward and
 * backward share normalised(), so that backward's gate is forward's to the last bit.
 *
 * A run of an odd number of pixels ends with half a pack, for which there is code of its own: the
 * compiler knows its length.
 *
 * Sums are f32 for about SUM_RUN elements of a channel block and f64 beyond. A lane makes as many
 * additions in narrow vectors as in wide ones.
 */

enum { SUM_RUN = 128 * YKI_PACK };

/* ---- sums ------------------------------------------------------------------------------------ */

typedef struct sums {
    yki_pack first[2], second[2]; /* two of each, so that additions need not wait */
} sums;

YKI_FORCE_INLINE void flush_one(double *total, const yki_pack part[2], yk_dtype dtype)
{
    for (int j = 0; j < 2; j++) {
        yki_wide wide = __builtin_convertvector(part[0].v[j] + part[1].v[j], yki_wide);
        for (int lane = 0; lane < YKI_WIDTH; lane++)
            total[yki_element(j, lane, dtype)] += wide[lane];
    }
}

YKI_FORCE_INLINE void flush(yki_norm_sums *total, sums *part, yk_dtype dtype)
{
    flush_one(total->first, part->first, dtype);
    flush_one(total->second, part->second, dtype);
    *part = (sums){0};
}

/* Where the run after this one begins (step 1) or the one before (-1): what to prefetch. */
YKI_FORCE_INLINE int64_t following(const yki_runs *runs, yki_run_range range, int64_t run,
                                   int64_t step, int64_t at)
{
    int64_t count, other = run + step;
    return other >= range.begin && other < range.end ? yki_run_at(runs, other, &count) : at;
}

/* ---- forward --------------------------------------------------------------------------------- */

YKI_FORCE_INLINE void add_moments(sums *s, int which, yki_pack x, yki_pack shift)
{
    for (int j = 0; j < 2; j++) {
        yki_lanes distance = x.v[j] - shift.v[j];
        s->first[which].v[j] += distance;
        s->second[which].v[j] += distance * distance;
    }
}

/* The last, shorter pack of a run: lanes after its end are ignored. */
YKI_FORCE_INLINE void add_moments_part(sums *s, const void *x, int64_t at, int64_t count,
                                       yki_pack shift, yk_dtype dtype)
{
    yki_bits inside[2] = {{0}, {0}};
    yki_first(count, inside, dtype);
    yki_pack value = yki_load_part(x, at, count, dtype);
    for (int j = 0; j < 2; j++)
        value.v[j] = yki_select(inside[j], value.v[j], shift.v[j]);
    add_moments(s, 0, value, shift);
}

YKI_FORCE_INLINE void moments_as(const yki_runs *runs, yki_run_range range, const void *x,
                                 const float *shift, yki_norm_sums *total, yk_dtype dtype)
{
    yki_pack k = yki_spread(shift, dtype);
    sums s = {0};
    int64_t held = 0;
    for (int64_t r = range.begin; r < range.end; r++) {
        int64_t count, at = yki_run_at(runs, r, &count), i = 0;
        int64_t next = following(runs, range, r, 1, at);
        for (; i + 2 * YKI_PACK <= count; i += 2 * YKI_PACK) {
            yki_prefetch(x, next + i, dtype);
            yki_prefetch(x, next + i + YKI_PACK, dtype);
            add_moments(&s, 0, yki_load(x, at + i, dtype), k);
            add_moments(&s, 1, yki_load(x, at + i + YKI_PACK, dtype), k);
        }
        for (; i + YKI_PACK <= count; i += YKI_PACK)
            add_moments(&s, 0, yki_load(x, at + i, dtype), k);
        if (count - i == YKI_WIDTH)
            add_moments_part(&s, x, at + i, YKI_WIDTH, k, dtype);
        else if (i < count)
            add_moments_part(&s, x, at + i, count - i, k, dtype);
        held += count;
        if (held >= SUM_RUN || r + 1 == range.end) {
            flush(total, &s, dtype);
            held = 0;
        }
    }
}

static void moments(const yki_runs *runs, yki_run_range range, const void *x, const float *shift,
                    yki_norm_sums *total)
{
    FOR_EACH_DTYPE(moments_as, runs->dtype, runs, range, x, shift, total);
}

typedef struct constants {
    yki_pack mean, scale, bias;
} constants;

YKI_FORCE_INLINE constants spread_constants(const yki_norm_constants *c, yk_dtype dtype)
{
    return (constants){yki_spread(c->mean, dtype), yki_spread(c->scale, dtype),
                       yki_spread(c->bias, dtype)};
}

YKI_FORCE_INLINE yki_lanes normalised(yki_lanes x, const constants *c, int j)
{
    return (x - c->mean.v[j]) * c->scale.v[j] + c->bias.v[j];
}

/* Between which results lie. */
YKI_FORCE_INLINE yki_lanes floor_of(const yki_norm_forward *o)
{
    return yki_splat(o->activation ? 0 : -__builtin_inff());
}

YKI_FORCE_INLINE yki_lanes ceiling_of(const yki_norm_forward *o)
{
    return yki_splat(o->activation == YKI_FUSED_RELU6 ? 6 : __builtin_inff());
}

/* smooth is the activation, or NONE if it is all that floor and ceiling say. */
YKI_FORCE_INLINE yki_pack forward_pack(yki_pack x, const yki_pack *residual, const constants *c,
                                       yki_lanes floor, yki_lanes ceiling, yki_fused smooth)
{
    for (int j = 0; j < 2; j++) {
        yki_lanes y = normalised(x.v[j], c, j);
        if (residual)
            y += residual->v[j];
        if (smooth == YKI_FUSED_SILU)
            x.v[j] = apply(YKI_MAP_SILU, y, y, 0, 0);
        else if (smooth == YKI_FUSED_HARDSWISH)
            x.v[j] = apply(YKI_MAP_HARDSWISH, y, y, 0, 0);
        else
            x.v[j] = yki_smaller(ceiling, yki_larger(floor, y)); /* NaN passes */
    }
    return x;
}

/* The last, shorter pack of a run. */
YKI_FORCE_INLINE void normalise_part(const yki_norm_forward *o, const constants *c, int64_t at,
                                     int64_t count, bool with_residual, yki_fused smooth,
                                     yk_dtype dtype)
{
    yki_lanes floor = floor_of(o), ceiling = ceiling_of(o);
    yki_pack added, value = yki_load_part(o->x, at, count, dtype);
    if (with_residual)
        added = yki_load_part(o->residual, at, count, dtype);
    value = forward_pack(value, with_residual ? &added : NULL, c, floor, ceiling, smooth);
    yki_store_part(o->y, at, count, value, dtype);
}

YKI_FORCE_INLINE void normalise_as(const yki_runs *runs, yki_run_range range,
                                   const yki_norm_forward *o, const yki_norm_constants *given,
                                   bool with_residual, yki_fused smooth, yk_dtype dtype)
{
    constants c = spread_constants(given, dtype);
    yki_lanes floor = floor_of(o), ceiling = ceiling_of(o);
    const void *x = o->x, *residual = o->residual;
    void *y = o->y;
    yki_pack added;
    for (int64_t r = range.end; r-- > range.begin;) {
        int64_t count, at = yki_run_at(runs, r, &count), i = at, end = at + count;
        int64_t next = following(runs, range, r, -1, at) - at;
        bool stream = o->stream && yki_can_stream(y, at, dtype);
        for (; i + YKI_PACK <= end; i += YKI_PACK) {
            yki_prefetch(x, next + i, dtype);
            if (with_residual)
                yki_prefetch(residual, next + i, dtype);
            if (with_residual)
                added = yki_load(residual, i, dtype);
            yki_pack value = yki_load(x, i, dtype);
            value = forward_pack(value, with_residual ? &added : NULL, &c, floor, ceiling, smooth);
            if (stream)
                yki_store_streaming(y, i, value, dtype);
            else
                yki_store(y, i, value, dtype);
        }
        if (end - i == YKI_WIDTH)
            normalise_part(o, &c, i, YKI_WIDTH, with_residual, smooth, dtype);
        else if (i < end)
            normalise_part(o, &c, i, end - i, with_residual, smooth, dtype);
    }
    if (o->stream)
        yki_stream_end();
}

static void normalise(const yki_runs *runs, yki_run_range range, const yki_norm_forward *o,
                      const yki_norm_constants *c)
{
    if (o->residual)
        FOR_EACH_DTYPE(normalise_as, runs->dtype, runs, range, o, c, true, YKI_FUSED_NONE);
    else if (o->activation == YKI_FUSED_SILU)
        FOR_EACH_DTYPE(normalise_as, runs->dtype, runs, range, o, c, false, YKI_FUSED_SILU);
    else if (o->activation == YKI_FUSED_HARDSWISH)
        FOR_EACH_DTYPE(normalise_as, runs->dtype, runs, range, o, c, false, YKI_FUSED_HARDSWISH);
    else
        FOR_EACH_DTYPE(normalise_as, runs->dtype, runs, range, o, c, false, YKI_FUSED_NONE);
}

/* ---- backward -------------------------------------------------------------------------------- */

/* A pack's operands: whole, or its first `part` elements. */
YKI_FORCE_INLINE yki_pack fetch(const void *memory, int64_t at, int64_t part, yk_dtype dtype)
{
    return part == YKI_PACK ? yki_load(memory, at, dtype) : yki_load_part(memory, at, part, dtype);
}

YKI_FORCE_INLINE void put(void *memory, int64_t at, int64_t part, yki_pack value, yk_dtype dtype)
{
    if (part == YKI_PACK)
        yki_store(memory, at, value, dtype);
    else
        yki_store_part(memory, at, part, value, dtype);
}

/* g is dy + dy2 times the activation's slope. */
YKI_FORCE_INLINE yki_pack incoming(const yki_norm_backward *o, const constants *c, yki_pack x,
                                   int64_t at, int64_t part, yki_norm_gate gate, yk_dtype dtype)
{
    yki_lanes zero = {0}, passing = yki_splat(o->passing);
    yki_pack g = fetch(o->dy, at, part, dtype);
    if (o->dy2) {
        yki_pack more = fetch(o->dy2, at, part, dtype);
        for (int j = 0; j < 2; j++)
            g.v[j] += more.v[j];
    }
    if (gate == YKI_GATE_NONE)
        return g;
    yki_pack y = x;
    if (gate == YKI_GATE_Y)
        y = fetch(o->y, at, part, dtype);
    for (int j = 0; j < 2; j++) {
        yki_lanes z = gate == YKI_GATE_Y ? y.v[j] : normalised(x.v[j], c, j);
        yki_bits passes = (yki_bits)(z > zero) & (yki_bits)(z <= passing);
        if (gate == YKI_GATE_SILU)
            g.v[j] = apply(YKI_MAP_SILU_BACKWARD, g.v[j], z, 0, 0);
        else if (gate == YKI_GATE_HARDSWISH)
            g.v[j] = apply(YKI_MAP_HARDSWISH_BACKWARD, g.v[j], z, 0, 0);
        else
            g.v[j] = yki_select(passes, g.v[j], zero);
    }
    return g;
}

YKI_FORCE_INLINE void prefetch_gradient(const yki_norm_backward *o, int64_t at, yki_norm_gate gate,
                                        yk_dtype dtype)
{
    yki_prefetch(o->x, at, dtype);
    yki_prefetch(o->dy, at, dtype);
    if (o->dy2)
        yki_prefetch(o->dy2, at, dtype);
    if (gate == YKI_GATE_Y)
        yki_prefetch(o->y, at, dtype);
}

YKI_FORCE_INLINE void add_gradient(sums *s, int which, const yki_norm_backward *o,
                                   const constants *c, int64_t at, int64_t part, yki_norm_gate gate,
                                   yk_dtype dtype)
{
    yki_pack x = fetch(o->x, at, part, dtype);
    yki_pack g = incoming(o, c, x, at, part, gate, dtype);
    if (o->kept) {
        if (o->stream_kept && part == YKI_PACK)
            yki_store_streaming(o->kept, at, g, dtype);
        else
            put(o->kept, at, part, g, dtype);
    }
    for (int j = 0; j < 2; j++) {
        s->first[which].v[j] += g.v[j];
        s->second[which].v[j] += g.v[j] * (x.v[j] - c->mean.v[j]);
    }
}

YKI_FORCE_INLINE void gradient_sums_as(const yki_runs *runs, yki_run_range range,
                                       const yki_norm_backward *operands,
                                       const yki_norm_constants *given, yki_norm_sums *total,
                                       yki_norm_gate gate, yk_dtype dtype)
{
    yki_norm_backward o = *operands;
    constants c = spread_constants(given, dtype);
    sums s = {0};
    int64_t held = 0;
    const bool two = gate <= YKI_GATE_X; /* packs at a time: other slopes fill the registers */
    for (int64_t r = range.begin; r < range.end; r++) {
        int64_t count, at = yki_run_at(runs, r, &count), i = at, end = at + count;
        int64_t next = following(runs, range, r, 1, at) - at;
        o.stream_kept = operands->stream_kept && yki_can_stream(o.kept, at, dtype);
        for (; two && i + 2 * YKI_PACK <= end; i += 2 * YKI_PACK) {
            prefetch_gradient(&o, next + i, gate, dtype);
            prefetch_gradient(&o, next + i + YKI_PACK, gate, dtype);
            add_gradient(&s, 0, &o, &c, i, YKI_PACK, gate, dtype);
            add_gradient(&s, 1, &o, &c, i + YKI_PACK, YKI_PACK, gate, dtype);
        }
        for (; i + YKI_PACK <= end; i += YKI_PACK) {
            if (!two)
                prefetch_gradient(&o, next + i, gate, dtype);
            add_gradient(&s, 0, &o, &c, i, YKI_PACK, gate, dtype);
        }
        if (end - i == YKI_WIDTH)
            add_gradient(&s, 0, &o, &c, i, YKI_WIDTH, gate, dtype);
        else if (i < end)
            add_gradient(&s, 0, &o, &c, i, end - i, gate, dtype);
        held += count;
        if (held >= SUM_RUN || r + 1 == range.end) {
            flush(total, &s, dtype);
            held = 0;
        }
    }
    if (operands->stream_kept)
        yki_stream_end();
}

/* Calls body(..., gate, dtype) with constants in the last two places. */
#define FOR_EACH_GATE(body, gate, dtype, ...)                                                      \
    do {                                                                                           \
        if (gate == YKI_GATE_NONE)                                                                 \
            FOR_EACH_DTYPE(body, dtype, __VA_ARGS__, YKI_GATE_NONE);                               \
        else if (gate == YKI_GATE_Y)                                                               \
            FOR_EACH_DTYPE(body, dtype, __VA_ARGS__, YKI_GATE_Y);                                  \
        else if (gate == YKI_GATE_X)                                                               \
            FOR_EACH_DTYPE(body, dtype, __VA_ARGS__, YKI_GATE_X);                                  \
        else if (gate == YKI_GATE_SILU)                                                            \
            FOR_EACH_DTYPE(body, dtype, __VA_ARGS__, YKI_GATE_SILU);                               \
        else                                                                                       \
            FOR_EACH_DTYPE(body, dtype, __VA_ARGS__, YKI_GATE_HARDSWISH);                          \
    } while (0)

static void gradient_sums(const yki_runs *runs, yki_run_range range, const yki_norm_backward *o,
                          const yki_norm_constants *c, yki_norm_sums *total)
{
    FOR_EACH_GATE(gradient_sums_as, o->gate, runs->dtype, runs, range, o, c, total);
}

typedef struct slopes {
    yki_pack a, b, c;
} slopes;

YKI_FORCE_INLINE void gradient_pack(const yki_norm_backward *o, const constants *c, const slopes *k,
                                    int64_t at, int64_t part, bool stream, yki_norm_gate gate,
                                    yk_dtype dtype)
{
    yki_pack x = fetch(o->x, at, part, dtype);
    yki_pack g = incoming(o, c, x, at, part, gate, dtype);
    for (int j = 0; j < 2; j++) {
        yki_lanes rest = k->c.v[j];
        if (!o->constant)
            rest = k->b.v[j] * (x.v[j] - c->mean.v[j]) + rest;
        g.v[j] = k->a.v[j] * g.v[j] + rest;
    }
    if (stream)
        yki_store_streaming(o->dx, at, g, dtype);
    else
        put(o->dx, at, part, g, dtype);
}

YKI_FORCE_INLINE void gradient_as(const yki_runs *runs, yki_run_range range,
                                  const yki_norm_backward *operands,
                                  const yki_norm_constants *given,
                                  const yki_norm_slopes *given_slopes, yki_norm_gate gate,
                                  yk_dtype dtype)
{
    yki_norm_backward o = *operands;
    constants c = spread_constants(given, dtype);
    slopes k = {yki_spread(given_slopes->a, dtype), yki_spread(given_slopes->b, dtype),
                yki_spread(given_slopes->c, dtype)};
    for (int64_t r = range.end; r-- > range.begin;) {
        int64_t count, at = yki_run_at(runs, r, &count), i = at, end = at + count;
        int64_t next = following(runs, range, r, -1, at) - at;
        bool stream = o.stream && yki_can_stream(o.dx, at, dtype);
        for (; i + YKI_PACK <= end; i += YKI_PACK) {
            prefetch_gradient(&o, next + i, gate, dtype);
            gradient_pack(&o, &c, &k, i, YKI_PACK, stream, gate, dtype);
        }
        if (end - i == YKI_WIDTH)
            gradient_pack(&o, &c, &k, i, YKI_WIDTH, false, gate, dtype);
        else if (i < end)
            gradient_pack(&o, &c, &k, i, end - i, false, gate, dtype);
    }
    if (operands->stream)
        yki_stream_end();
}

static void gradient(const yki_runs *runs, yki_run_range range, const yki_norm_backward *o,
                     const yki_norm_constants *c, const yki_norm_slopes *k)
{
    yki_norm_backward read = *o;
    if (o->kept) { /* g stands there already */
        read.dy = o->kept;
        read.dy2 = NULL;
        read.gate = YKI_GATE_NONE;
    }
    FOR_EACH_GATE(gradient_as, read.gate, runs->dtype, runs, range, &read, c, k);
}

/* Element by element, y = op(a, b): included by loops_table.h alone. */

YKI_INLINE yki_lanes apply(yki_map_op op, yki_lanes a, yki_lanes b, float factor)
{
    yki_lanes zero = {0};
    switch (op) {
    case YKI_MAP_RELU:
        return yki_select((yki_bits)(a < zero), zero, a); /* NaN passes */
    case YKI_MAP_RELU_BACKWARD:
        return yki_select((yki_bits)(b <= zero), zero, a);
    case YKI_MAP_ADD:
        return a + b;
    case YKI_MAP_SCALE:
        return a * factor;
    }
    return a;
}

YKI_INLINE void map_as(yki_map_op op, const void *a, const void *b, void *y, float factor,
                       int64_t count, yk_dtype dtype)
{
    bool two = op == YKI_MAP_RELU_BACKWARD || op == YKI_MAP_ADD;
    int64_t i = 0;
    for (; i + YKI_PACK <= count; i += YKI_PACK) {
        yki_pack p = yki_load(a, i, dtype), q = two ? yki_load(b, i, dtype) : p;
        for (int j = 0; j < 2; j++)
            p.v[j] = apply(op, p.v[j], q.v[j], factor);
        yki_store(y, i, p, dtype);
    }
    if (i == count)
        return;
    yki_pack p = yki_load_part(a, i, count - i, dtype);
    yki_pack q = two ? yki_load_part(b, i, count - i, dtype) : p;
    for (int j = 0; j < 2; j++)
        p.v[j] = apply(op, p.v[j], q.v[j], factor);
    yki_store_part(y, i, count - i, p, dtype);
}

static void map(yki_map_op op, yk_dtype dtype, const void *a, const void *b, void *y, float factor,
                int64_t count)
{
#define CASE(name)                                                                                 \
    case name:                                                                                     \
        FOR_EACH_DTYPE(map_as, dtype, name, a, b, y, factor, count);                               \
        break
    switch (op) {
        CASE(YKI_MAP_RELU);
        CASE(YKI_MAP_RELU_BACKWARD);
        CASE(YKI_MAP_ADD);
        CASE(YKI_MAP_SCALE);
    }
#undef CASE
}

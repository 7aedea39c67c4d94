/* Element by element, y = op(a, b): included by loops_table.h alone. */

YKI_FORCE_INLINE yki_lanes sigmoid(yki_lanes x)
{
    return 1.0f / (1.0f + yki_exp(-x));
}

/*
 * The normal distribution function, 1/2 erfc(-x / sqrt(2)). erfc(z) = t exp(-z^2 + p(t)) for z >= 0
 * and t = 1 / (1 + z / 2) with Press et al.'s polynomial p ("Numerical Recipes", 6.2),
 * whose relative error is at most 1.2e-7: small values on the left are as precise as the others.
 */
YKI_FORCE_INLINE yki_lanes phi(yki_lanes x)
{
    yki_lanes zero = {0};
    yki_bits right = (yki_bits)(x > zero);
    yki_lanes z = yki_select(right, x, -x) * 0.70710678f, t = 1.0f / (1.0f + 0.5f * z);
    yki_lanes p = yki_splat(0.17087277f);
    p = p * t - 0.82215223f;
    p = p * t + 1.48851587f;
    p = p * t - 1.13520398f;
    p = p * t + 0.27886807f;
    p = p * t - 0.18628806f;
    p = p * t + 0.09678418f;
    p = p * t + 0.37409196f;
    p = p * t + 1.00002368f;
    p = p * t - 1.26551223f;
    yki_lanes tail = 0.5f * t * yki_exp(p - 0.5f * x * x);
    return yki_select(right, 1.0f - tail, tail);
}

/* min(max(x, 0), 6); NaN passes. */
YKI_FORCE_INLINE yki_lanes relu6(yki_lanes x)
{
    yki_lanes zero = {0}, six = yki_splat(6);
    x = yki_select((yki_bits)(x < zero), zero, x);
    return yki_select((yki_bits)(x > six), six, x);
}

/* a where x / 3 + 1 / 2 is hardswish's slope; 0 to the left and a to the right of it. */
YKI_FORCE_INLINE yki_lanes hardswish_backward(yki_lanes a, yki_lanes x)
{
    yki_lanes slope = x * (1 / 3.0f) + 0.5f, zero = {0};
    yki_lanes inside = yki_select((yki_bits)(x > yki_splat(3)), a, a * slope);
    return yki_select((yki_bits)(x < yki_splat(-3)), zero, inside);
}

YKI_FORCE_INLINE yki_lanes apply(yki_map_op op, yki_lanes a, yki_lanes b, float factor)
{
    yki_lanes zero = {0}, six = yki_splat(6);
    switch (op) {
    case YKI_MAP_RELU:
        return yki_select((yki_bits)(a < zero), zero, a); /* NaN passes */
    case YKI_MAP_RELU_BACKWARD:
        return yki_select((yki_bits)(b <= zero), zero, a);
    case YKI_MAP_RELU6:
        return relu6(a);
    case YKI_MAP_RELU6_BACKWARD:
        return yki_select((yki_bits)(b <= zero) | (yki_bits)(b >= six), zero, a);
    case YKI_MAP_SIGMOID:
        return sigmoid(a);
    case YKI_MAP_SIGMOID_BACKWARD:
        return a * b * (1.0f - b);
    case YKI_MAP_SILU:
        return a * sigmoid(a);
    case YKI_MAP_SILU_BACKWARD: {
        yki_lanes s = sigmoid(b);
        return a * s * (1.0f + b * (1.0f - s));
    }
    case YKI_MAP_GELU:
        return a * phi(a);
    case YKI_MAP_GELU_BACKWARD:
        return a * (phi(b) + b * (0.39894228f * yki_exp(-0.5f * b * b))); /* 1 / sqrt(2 pi) */
    case YKI_MAP_HARDSWISH:
        return a * relu6(a + 3.0f) * (1 / 6.0f);
    case YKI_MAP_HARDSWISH_BACKWARD:
        return hardswish_backward(a, b);
    case YKI_MAP_ADD:
        return a + b;
    case YKI_MAP_MULTIPLY:
        return a * b;
    case YKI_MAP_SCALE:
        return a * factor;
    }
    return a;
}

YKI_FORCE_INLINE void map_as(yki_map_op op, const void *a, const void *b, void *y, float factor,
                             int64_t count, yk_dtype dtype)
{
    bool two = op >= YKI_MAP_RELU_BACKWARD;
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
        CASE(YKI_MAP_RELU6);
        CASE(YKI_MAP_SIGMOID);
        CASE(YKI_MAP_SILU);
        CASE(YKI_MAP_GELU);
        CASE(YKI_MAP_HARDSWISH);
        CASE(YKI_MAP_SCALE);
        CASE(YKI_MAP_RELU_BACKWARD);
        CASE(YKI_MAP_RELU6_BACKWARD);
        CASE(YKI_MAP_SIGMOID_BACKWARD);
        CASE(YKI_MAP_SILU_BACKWARD);
        CASE(YKI_MAP_GELU_BACKWARD);
        CASE(YKI_MAP_HARDSWISH_BACKWARD);
        CASE(YKI_MAP_ADD);
        CASE(YKI_MAP_MULTIPLY);
    }
#undef CASE
}

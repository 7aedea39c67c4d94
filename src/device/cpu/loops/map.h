/* Element by element, y = op(a, b): included by table.h alone, after gate_math.h. */

/*
 * What gelu and its slope need at z = |x|: the standard normal distribution's tail beyond z is
 * bell * ratio, with bell = exp(-z^2 / 2). The ratio is a polynomial in t = 1 / (1 + 0.305 z),
 * fitted for the least relative error, 1e-7: small values on the left are as precise as the others,
 * but for the rounding of z^2. Beyond 12.8 the tail is as good as zero, and stays a normal number.
 */
typedef struct normal_tail {
    yki_lanes z, bell, ratio;
} normal_tail;

YKI_FORCE_INLINE normal_tail tail_of(yki_lanes x)
{
    yki_lanes z = yki_smaller(yki_splat(12.8f), yki_abs(x));
    yki_lanes t = 1.0f / (1.0f + 0.305f * z);
    yki_lanes q = yki_splat(0.036699038f);
    q = q * t - 0.152987584f;
    q = q * t + 0.185715422f;
    q = q * t - 0.0379752219f;
    q = q * t + 0.12102066f;
    q = q * t + 0.103421241f;
    q = q * t + 0.122466743f;
    q = q * t + 0.121639736f;
    return (normal_tail){z, yki_exp2(z * z, -0.72134752f), q * t}; /* -1 / (2 ln 2) */
}

/* x Phi(x) = max(x, 0) - z tail(z). Zero is 0 x, which is NaN where Phi(x) is 0 and x infinite. */
YKI_FORCE_INLINE yki_lanes gelu(yki_lanes x)
{
    normal_tail n = tail_of(x);
    return yki_select_by_sign(x, x * 0.0f, x) - n.z * n.bell * n.ratio;
}

/* Phi(x) + x density(x): tail(z) - z density(z) on the left, and 1 minus that on the right. What is
 * added is 0, or NaN where x is infinite. */
YKI_FORCE_INLINE yki_lanes gelu_slope(yki_lanes x)
{
    normal_tail n = tail_of(x);
    yki_lanes left = n.bell * (n.ratio - 0.39894228f * n.z) + x * 0.0f; /* 1 / sqrt(2 pi) */
    return yki_select_by_sign(x, left, 1.0f - left);
}

/* min(max(x, least), most); NaN passes. */
YKI_FORCE_INLINE yki_lanes clamp(yki_lanes x, float least, float most)
{
    return yki_smaller(yki_splat(most), yki_larger(yki_splat(least), x));
}

YKI_FORCE_INLINE yki_lanes relu6(yki_lanes x)
{
    return clamp(x, 0, 6);
}

/* e^x - 1 of x up to 0, precise near 0, too: 2 t / (1 - t) with t = tanh(x / 2). */
YKI_FORCE_INLINE yki_lanes exp_minus_1(yki_lanes x)
{
    const yki_lanes t = tanh_of(0.5f * x);
    return 2.0f * t / (1.0f - t);
}

/*
 * The sine of x, or with `quarters` 1 its cosine, to about 2 units in the last place, by Cephes'
 * sinf and cosf: x = n pi / 2 + r, pi / 2 in three parts of which the first two times n are exact,
 * and one of two polynomials in r. Where x is large or infinite, the C library computes it.
 */
YKI_FORCE_INLINE yki_lanes sine(yki_lanes x, uint32_t quarters)
{
    const yki_lanes shifted = x * 0.63661977f + YKI_ROUNDER, n = shifted - YKI_ROUNDER; /* 2 / pi */
    const yki_lanes r = x - n * 1.5703125f - n * 4.837512969970703125e-4f - n * 7.5497899549e-8f;
    const yki_lanes z = r * r;
    const yki_bits quarter = (yki_bits)shifted + quarters;
    yki_lanes s = yki_splat(-1.9515295891e-4f);
    s = s * z + 8.3321608736e-3f;
    s = s * z - 1.6666654611e-1f;
    s = s * z * r + r;
    yki_lanes c = yki_splat(2.443315711809948e-5f);
    c = c * z - 1.388731625493765e-3f;
    c = c * z + 4.166664568298827e-2f;
    c = c * z * z - 0.5f * z + 1.0f;
    yki_lanes y = yki_select(0u - (quarter & 1u), c, s);
    y = (yki_lanes)((yki_bits)y ^ (quarter & 2u) << 30);
    if (yki_any((yki_bits)(yki_abs(x) > 8192.0f)))
        for (int lane = 0; lane < YKI_WIDTH; lane++)
            y[lane] = quarters ? cosf(x[lane]) : sinf(x[lane]);
    return y;
}

/* e^x to about 2 units in the last place, from 0 to infinity. A power of two for which there is no
 * normal number is multiplied in two steps. */
YKI_FORCE_INLINE yki_lanes exp_of(yki_lanes x)
{
    yki_lanes shifted, rest = yki_exp_rest(clamp(x, -104, 89), &shifted);
    yki_lanes first = clamp(shifted, YKI_ROUNDER - 125, YKI_ROUNDER + 126);
    return rest * yki_power_of_two(first) * yki_power_of_two(shifted - first + YKI_ROUNDER);
}

/* log(x) to about 2 units in the last place, of all numbers: -infinity of 0, NaN of less. */
YKI_FORCE_INLINE yki_lanes log_of_any(yki_lanes x)
{
    const yki_lanes zero = {0}, infinity = yki_splat(INFINITY);
    const yki_bits tiny = (yki_bits)(x < 0x1p-126f);
    yki_lanes y = yki_log(yki_select(tiny, x * 0x1p23f, x));
    y = yki_select(tiny, y - 15.942385f, y); /* 23 ln 2 */
    y = yki_select((yki_bits)(x == infinity), infinity, y);
    y = yki_select((yki_bits)(x == zero), -infinity, y);
    return yki_select((yki_bits)(x < zero), yki_splat(NAN), y);
}

/* By the C library, which is within a unit in the last place. */
YKI_FORCE_INLINE yki_lanes power_of_any(yki_lanes x, float exponent)
{
    for (int lane = 0; lane < YKI_WIDTH; lane++)
        x[lane] = powf(x[lane], exponent);
    return x;
}

/* x^(-3/2), the slope of which 1 / sqrt(x) needs. */
YKI_FORCE_INLINE yki_lanes inverse_of_three_halves(yki_lanes x)
{
    const yki_lanes zero = {0}, root = 1.0f / yki_sqrt(yki_abs(x));
    const yki_bits invalid = (yki_bits)(x < zero) & (yki_bits)(x > -INFINITY);
    return yki_select(invalid, yki_splat(NAN), root * root * root);
}

/* As pow in activation_rules.h; and what gradients of its exponents need. */
YKI_FORCE_INLINE yki_lanes power(yki_lanes x, float exponent)
{
    if (exponent == 0)
        return yki_splat(1);
    if (exponent == 1)
        return x;
    if (exponent == 2)
        return x * x;
    if (exponent == 3)
        return x * x * x;
    if (exponent == -1)
        return 1.0f / x;
    if (exponent == -2)
        return 1.0f / (x * x);
    if (exponent == 0.5f)
        return yki_sqrt(x);
    if (exponent == -0.5f)
        return 1.0f / yki_sqrt(x);
    return exponent == -1.5f ? inverse_of_three_halves(x) : power_of_any(x, exponent);
}

/* a where x / 3 + 1 / 2 is hardswish's slope; 0 to the left and a to the right of it. */
YKI_FORCE_INLINE yki_lanes hardswish_backward(yki_lanes a, yki_lanes x)
{
    yki_lanes slope = x * (1 / 3.0f) + 0.5f, zero = {0};
    yki_lanes inside = yki_select((yki_bits)(x > yki_splat(3)), a, a * slope);
    return yki_select((yki_bits)(x < yki_splat(-3)), zero, inside);
}

YKI_FORCE_INLINE yki_lanes apply(yki_map_op op, yki_lanes a, yki_lanes b, float alpha, float beta)
{
    yki_lanes zero = {0}, six = yki_splat(6);
    switch (op) {
    case YKI_MAP_RELU:
        return yki_larger(zero, a); /* NaN passes */
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
        return gelu(a);
    case YKI_MAP_GELU_BACKWARD:
        return a * gelu_slope(b);
    case YKI_MAP_HARDSWISH:
        return a * relu6(a + 3.0f) * (1 / 6.0f);
    case YKI_MAP_HARDSWISH_BACKWARD:
        return hardswish_backward(a, b);
    case YKI_MAP_TANH:
        return tanh_of(a);
    case YKI_MAP_TANH_BACKWARD:
        return a * (1.0f - b * b);
    case YKI_MAP_LEAKY_RELU:
        return yki_select((yki_bits)(a > zero), a, a * alpha);
    case YKI_MAP_LEAKY_RELU_BACKWARD:
        return yki_select((yki_bits)(b > zero), a, a * alpha);
    case YKI_MAP_ELU:
        return yki_select((yki_bits)(a > zero), a, alpha * exp_minus_1(a));
    case YKI_MAP_ELU_BACKWARD:
        return yki_select((yki_bits)(b > zero), a, a * (alpha * exp_of(b)));
    case YKI_MAP_SIN:
        return sine(a, 0);
    case YKI_MAP_COS:
        return sine(a, 1);
    case YKI_MAP_EXP:
        return exp_of(a);
    case YKI_MAP_LOG:
        return log_of_any(a);
    case YKI_MAP_ABS:
        return yki_abs(a);
    case YKI_MAP_ABS_BACKWARD:
        return yki_select((yki_bits)(b > zero), a, yki_select((yki_bits)(b < zero), -a, zero));
    case YKI_MAP_POW:
        return power(a, alpha);
    case YKI_MAP_POW_BACKWARD:
        return alpha == 0 ? zero : a * (alpha * power(b, alpha - 1));
    case YKI_MAP_CLAMP:
        return clamp(a, alpha, beta);
    case YKI_MAP_CLAMP_BACKWARD:
        return yki_select((yki_bits)(b >= alpha) & (yki_bits)(b <= beta), a, zero);
    case YKI_MAP_ADD:
        return a + b;
    case YKI_MAP_SUBTRACT:
        return a - b;
    case YKI_MAP_MULTIPLY:
        return a * b;
    case YKI_MAP_DIVIDE:
        return a / b;
    case YKI_MAP_MAXIMUM:
        return yki_select((yki_bits)(a > b) | (yki_bits)(a != a), a, b);
    case YKI_MAP_MINIMUM:
        return yki_select((yki_bits)(a < b) | (yki_bits)(a != a), a, b);
    case YKI_MAP_COMPARE: {
        const yki_lanes same = yki_select((yki_bits)(a == b), yki_splat(alpha), yki_splat(beta));
        const yki_lanes rest = yki_select((yki_bits)(a < b), zero, same);
        return yki_select((yki_bits)(a > b), yki_splat(1), rest);
    }
    case YKI_MAP_MASKED_FILL: {
        const yki_lanes value = yki_splat(alpha);
        return beta != 0 ? yki_select((yki_bits)(b == zero), value, a)
                         : yki_select((yki_bits)(b == zero), a, value);
    }
    case YKI_MAP_SCALE:
        return a * alpha;
    case YKI_MAP_ADD_SCALAR:
        return a + alpha;
    }
    return a;
}

/*
 * Where an operation takes long, the processor's window of instructions seems too short to reach
 * the next lines of memory while it computes: gelu in bf16 takes 0.3 of the time with prefetching.
 * f32, which is limited by memory, gains nothing, and relu takes 1.4 times as long.
 */
enum { AHEAD = 2048 /* bytes */ };

YKI_FORCE_INLINE void map_as(yki_map_op op, const yki_elementwise *m, const void *a, const void *b,
                             void *y, int64_t count, yk_dtype dtype)
{
    const bool two = op >= YKI_MAP_RELU_BACKWARD;
    const bool stream = m->stream && yki_can_stream(y, 0, dtype);
    const float alpha = m->alpha, beta = m->beta;
    int64_t i = 0;
    for (; i + YKI_PACK <= count; i += YKI_PACK) {
        if (dtype != YK_F32) {
            const size_t ahead = (size_t)i * yki_size_of(dtype) + AHEAD;
            __builtin_prefetch((const char *)a + ahead);
            if (two)
                __builtin_prefetch((const char *)b + ahead);
            if (!stream)
                __builtin_prefetch((char *)y + ahead, 1);
        }
        yki_pack p = yki_load(a, i, dtype), q = two ? yki_load(b, i, dtype) : p;
        for (int j = 0; j < 2; j++)
            p.v[j] = apply(op, p.v[j], q.v[j], alpha, beta);
        if (stream)
            yki_store_streaming(y, i, p, dtype);
        else
            yki_store(y, i, p, dtype);
    }
    if (i == count)
        return;
    yki_pack p = yki_load_part(a, i, count - i, dtype);
    yki_pack q = two ? yki_load_part(b, i, count - i, dtype) : p;
    for (int j = 0; j < 2; j++)
        p.v[j] = apply(op, p.v[j], q.v[j], alpha, beta);
    yki_store_part(y, i, count - i, p, dtype);
}

static void map(const yki_elementwise *m, const void *a, const void *b, void *y, int64_t count)
{
#define CASE(name)                                                                                 \
    case name:                                                                                     \
        FOR_EACH_DTYPE(map_as, m->dtype, name, m, a, b, y, count);                                 \
        break
    switch (m->op) {
        CASE(YKI_MAP_RELU);
        CASE(YKI_MAP_RELU6);
        CASE(YKI_MAP_SIGMOID);
        CASE(YKI_MAP_SILU);
        CASE(YKI_MAP_GELU);
        CASE(YKI_MAP_HARDSWISH);
        CASE(YKI_MAP_TANH);
        CASE(YKI_MAP_LEAKY_RELU);
        CASE(YKI_MAP_ELU);
        CASE(YKI_MAP_SIN);
        CASE(YKI_MAP_COS);
        CASE(YKI_MAP_SCALE);
        CASE(YKI_MAP_ADD_SCALAR);
        CASE(YKI_MAP_EXP);
        CASE(YKI_MAP_LOG);
        CASE(YKI_MAP_ABS);
        CASE(YKI_MAP_POW);
        CASE(YKI_MAP_CLAMP);
        CASE(YKI_MAP_RELU_BACKWARD);
        CASE(YKI_MAP_RELU6_BACKWARD);
        CASE(YKI_MAP_SIGMOID_BACKWARD);
        CASE(YKI_MAP_SILU_BACKWARD);
        CASE(YKI_MAP_GELU_BACKWARD);
        CASE(YKI_MAP_HARDSWISH_BACKWARD);
        CASE(YKI_MAP_TANH_BACKWARD);
        CASE(YKI_MAP_LEAKY_RELU_BACKWARD);
        CASE(YKI_MAP_ELU_BACKWARD);
        CASE(YKI_MAP_ABS_BACKWARD);
        CASE(YKI_MAP_POW_BACKWARD);
        CASE(YKI_MAP_CLAMP_BACKWARD);
        CASE(YKI_MAP_ADD);
        CASE(YKI_MAP_SUBTRACT);
        CASE(YKI_MAP_MULTIPLY);
        CASE(YKI_MAP_DIVIDE);
        CASE(YKI_MAP_MAXIMUM);
        CASE(YKI_MAP_MINIMUM);
        CASE(YKI_MAP_COMPARE);
        CASE(YKI_MAP_MASKED_FILL);
    }
#undef CASE
}

static void multiply_pixels(const float *x, const float *numbers, float *y, int64_t pixels)
{
    for (int64_t p = 0; p < pixels; p++)
        yki_store_lanes(y, p * YKI_WIDTH, yki_load_pixel(x, p, YK_F32) * numbers[p], YK_F32);
}

/*
 * The cpu device's other kernels in every layout and width of vectors against ref; whole memory is
 * looked at, so that padding channels are seen to stay zero.
 */
#include <float.h>

#include "cpu_check.h"
#include "device/cpu/convert16.h"
#include "graph/pool.h"

static const int64_t maps[][4] = {
    {2, 16, 5, 5}, {1, 19, 7, 3}, {3, 8, 1, 1}, {2, 35, 6, 9}, {1, 21, 9, 10}};
enum { MAPS = sizeof maps / sizeof *maps };

/* ---- element by element ---------------------------------------------------------------------- */

static void elementwise(check_case start)
{
    static const struct {
        const yki_op *op;
        int inputs;
    } ops[] = {{&yki_op_relu, 1},
               {&yki_op_relu_backward, 2},
               {&yki_op_add, 2},
               {&yki_op_scale, 1},
               {&yki_op_gelu, 1},
               {&yki_op_gelu_backward, 2},
               {&yki_op_relu6, 1},
               {&yki_op_relu6_backward, 2},
               {&yki_op_sigmoid, 1},
               {&yki_op_sigmoid_backward, 2},
               {&yki_op_silu, 1},
               {&yki_op_silu_backward, 2},
               {&yki_op_hardswish, 1},
               {&yki_op_hardswish_backward, 2},
               {&yki_op_tanh, 1},
               {&yki_op_tanh_backward, 2},
               {&yki_op_leaky_relu, 1},
               {&yki_op_leaky_relu_backward, 2},
               {&yki_op_elu, 1},
               {&yki_op_elu_backward, 2},
               {&yki_op_sin, 1},
               {&yki_op_cos, 1},
               {&yki_op_abs, 1},
               {&yki_op_abs_backward, 2},
               {&yki_op_exp, 1},
               {&yki_op_clamp, 1},
               {&yki_op_clamp_backward, 2},
               {&yki_op_add_scalar, 1},
               {&yki_op_subtract, 2},
               {&yki_op_maximum, 2},
               {&yki_op_minimum, 2},
               {&yki_op_compare, 2},
               {&yki_op_masked_fill, 2},
               {&yki_op_dropout, 1},
               {&yki_op_dropout_backward, 1}};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        for (int m = 0; m < MAPS; m++)
            for (int training = 0; training < 2; training++) {
                check_case c = start;
                c.op = ops[i].op;
                c.training = training;
                c.attrs = (yki_attrs){.alpha = -0.75, .beta = 1.25, .p = 0.25, .salt = 11};
                for (int in = 0; in < ops[i].inputs; in++)
                    check_in(&c, c.dtype, 4, maps[m], 3, 0);
                check_out(&c, c.dtype, 4, maps[m]);
                check(&c);
            }
}

YK_TEST(elementwise_equals_ref)
{
    check_everywhere(elementwise);
}

/* Relative errors, which check() does not see where results are small; the slope has a zero. */
static void gelu_of_range(check_case start)
{
    static const int64_t shape[] = {1, 16, 8, 64};
    const yki_op *ops[] = {&yki_op_gelu, &yki_op_gelu_backward};
    if (start.dtype != YK_F32)
        return;
    for (int way = 0; way < 2; way++) {
        check_case c = start;
        c.op = ops[way];
        if (way == 1)
            check_in(&c, c.dtype, 4, shape, 0, 1);
        double *values = check_in(&c, c.dtype, 4, shape, 1, 0);
        int64_t count = 16 * 8 * 64;
        for (int64_t i = 0; i < count; i++)
            values[i] = (float)(-6.0 + 12.0 * (double)i / (double)count);
        check_out(&c, c.dtype, 4, shape);
        check_memory cpu, ref;
        check_run(&c, false, &cpu);
        check_run(&c, true, &ref);
        for (int64_t i = 0; i < count; i++) {
            double y = check_get(cpu.out[0], check_place(&c.out[0].operand, c.block, i), c.dtype);
            double expected = check_get(ref.out[0], i, c.dtype);
            double x = values[i], term = way == 1 ? fabs(x) * exp(-x * x / 2) : 0;
            assert_true(fabs(y - expected) <= 3e-6 * (fabs(expected) + term));
        }
        check_free(&cpu);
        check_free(&ref);
        check_end(&c);
    }
}

YK_TEST(gelu_is_precise_on_the_left)
{
    check_everywhere(gelu_of_range);
}

/* Relative errors of f32. `least`: below it, numbers have fewer digits. */
static void precise(check_case start, const yki_op *op, double alpha, double least,
                    double (*draw)(double share))
{
    static const int64_t shape[] = {1, 16, 8, 64};
    const int64_t count = 16 * 8 * 64;
    check_case c = start;
    check_memory cpu, ref;
    c.op = op;
    c.attrs.alpha = alpha;
    double *values = check_in(&c, c.dtype, 4, shape, 1, 0);
    for (int64_t i = 0; i < count; i++)
        values[i] = (float)draw((double)i / (double)count);
    check_out(&c, c.dtype, 4, shape);
    check_run(&c, false, &cpu);
    check_run(&c, true, &ref);
    for (int64_t i = 0; i < count; i++) {
        double y = check_get(cpu.out[0], check_place(&c.out[0].operand, c.block, i), c.dtype);
        double expected = check_get(ref.out[0], i, c.dtype);
        if (isfinite(expected) && !(fabs(y - expected) <= 6e-7 * fabs(expected) + least))
            fail_msg("%s of %.9g is %.9g, expected %.9g", op->name, values[i], y, expected);
        if (!isfinite(expected))
            assert_true(isnan(expected) ? isnan(y) : y == expected);
    }
    check_free(&cpu);
    check_free(&ref);
    check_end(&c);
}

static double from_minus_106_to_90(double share)
{
    return 196 * share - 106;
}

static double of_all_sizes(double share)
{
    return exp2(280 * share - 150);
}

static double from_a_half_to_2(double share)
{
    return exp2(2 * share - 1);
}

static double negative(double share)
{
    return -exp2(60 * share - 30);
}

/* Around multiples of pi / 2 and up to where the vectors end. */
static double turns(double share)
{
    return 8200 * (2 * share - 1);
}

static void curves(check_case start)
{
    static const double exponents[] = {-2, -1.5, -1, -0.5, 0, 0.5, 1, 2, 3, 2.25};
    if (start.dtype != YK_F32)
        return;
    precise(start, &yki_op_exp, 0, 3e-45, from_minus_106_to_90);
    precise(start, &yki_op_log, 0, 0, of_all_sizes);
    precise(start, &yki_op_log, 0, 0, from_a_half_to_2);
    precise(start, &yki_op_elu, 1.5, 0, negative);
    precise(start, &yki_op_sin, 0, 0, negative);
    precise(start, &yki_op_cos, 0, 0, negative);
    precise(start, &yki_op_sin, 0, 0, turns);
    precise(start, &yki_op_cos, 0, 0, turns);
    for (size_t i = 0; i < sizeof exponents / sizeof *exponents; i++) {
        precise(start, &yki_op_pow, exponents[i], FLT_MIN, of_all_sizes);
        precise(start, &yki_op_pow, exponents[i], FLT_MIN, from_minus_106_to_90);
    }
}

YK_TEST(curves_are_precise)
{
    check_everywhere(curves);
}

static void nan_through(check_case start, const yki_op *op)
{
    check_case c = start;
    c.op = op;
    c.training = true;
    c.attrs.p = 0.75;
    double *values = check_in(&c, c.dtype, 4, maps[1], 1, 0);
    values[200] = NAN;
    check_out(&c, c.dtype, 4, maps[1]);
    check_memory cpu;
    check_run(&c, false, &cpu);
    for (int64_t i = 0; i < yki_operand_count(&c.out[0].operand); i++) {
        int64_t at = check_place(&c.out[0].operand, c.block, i);
        assert_int_equal(isnan(check_get(cpu.out[0], at, c.dtype)) != 0, i == 200);
    }
    check_free(&cpu);
    check_end(&c);
}

static void activations_of_nan(check_case start)
{
    static const yki_op *const ops[] = {
        &yki_op_relu,       &yki_op_relu6, &yki_op_sigmoid, &yki_op_silu,
        &yki_op_hardswish,  &yki_op_gelu,  &yki_op_tanh,    &yki_op_leaky_relu,
        &yki_op_dropout,    &yki_op_abs,   &yki_op_exp,     &yki_op_clamp,
        &yki_op_add_scalar, &yki_op_elu,   &yki_op_sin,     &yki_op_cos};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        nan_through(start, ops[i]);
}

YK_TEST(nan_passes_through_activations_and_dropout)
{
    check_everywhere(activations_of_nan);
}

/* Whether both are infinite with the same sign, or NaN, or neither. */
static bool same_class(double a, double b)
{
    return isfinite(a) ? isfinite(b) : isnan(a) ? isnan(b) : a == b;
}

/* dy, which is finite, comes first in backward. */
static void infinity_through(check_case start, const yki_op *op, bool backward)
{
    static const double specials[] = {INFINITY, -INFINITY, NAN};
    check_case c = start;
    check_memory cpu, ref;
    c.op = op;
    c.attrs = (yki_attrs){.alpha = 0.25, .beta = 1.25};
    if (backward)
        check_in(&c, c.dtype, 4, maps[1], 1, 0);
    double *values = check_in(&c, c.dtype, 4, maps[1], 1, 0);
    for (int i = 0; i < 3; i++)
        values[100 * i] = values[100 * i + 51] = specials[i];
    check_out(&c, c.dtype, 4, maps[1]);
    check_run(&c, false, &cpu);
    check_run(&c, true, &ref);
    for (int64_t i = 0; i < yki_operand_count(&c.out[0].operand); i++) {
        int64_t at = check_place(&c.out[0].operand, c.block, i);
        double got = check_get(cpu.out[0], at, c.dtype);
        double expected = check_get(ref.out[0], i, YK_F32);
        if (!same_class(got, expected))
            fail_msg("%s of %g is %g, expected %g", op->name, values[i], got, expected);
    }
    check_free(&cpu);
    check_free(&ref);
    check_end(&c);
}

static void activations_of_infinity(check_case start)
{
    static const yki_op *const ops[] = {
        &yki_op_relu,  &yki_op_relu6, &yki_op_gelu,      &yki_op_sigmoid,
        &yki_op_silu,  &yki_op_tanh,  &yki_op_hardswish, &yki_op_leaky_relu,
        &yki_op_exp,   &yki_op_log,   &yki_op_abs,       &yki_op_pow,
        &yki_op_clamp, &yki_op_elu,   &yki_op_sin,       &yki_op_cos};
    static const yki_op *const slopes[] = {
        &yki_op_relu_backward,      &yki_op_relu6_backward,      &yki_op_gelu_backward,
        &yki_op_sigmoid_backward,   &yki_op_silu_backward,       &yki_op_tanh_backward,
        &yki_op_hardswish_backward, &yki_op_leaky_relu_backward, &yki_op_abs_backward,
        &yki_op_pow_backward,       &yki_op_clamp_backward,      &yki_op_elu_backward};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        infinity_through(start, ops[i], false);
    for (size_t i = 0; i < sizeof slopes / sizeof *slopes; i++)
        infinity_through(start, slopes[i], true);
}

/* Such as silu of minus infinity, which is NaN, as in PyTorch. */
YK_TEST(infinity_and_nan_become_what_they_become_on_ref)
{
    check_everywhere(activations_of_infinity);
}

/* ---- amax, amin ------------------------------------------------------------------------------ */

/* The operands that have the reduced dimension no more are in rows where channels were reduced. */
static void reduced(const check_case *c, check_tensor *t)
{
    if (c->attrs.dim == 1)
        t->operand.layout = YKI_PLAIN;
}

/* Few different values, and here and there none. */
static double *values_with_ties(check_case *c, const int64_t *dims)
{
    static const double specials[] = {INFINITY, -INFINITY, NAN};
    double *values = check_in(c, c->dtype, 4, dims, 1, 0);
    for (int64_t i = 0; i < yki_operand_count(&c->in[c->in_count - 1].operand); i++)
        values[i] = i % 23 == 0 ? specials[i / 23 % 3] : floor(3 * values[i]);
    return values;
}

/* With infinities and NaN. */
static void compare_all(const check_case *c)
{
    check_memory cpu, ref;
    check_run(c, false, &cpu);
    check_run(c, true, &ref);
    for (int64_t i = 0; i < yki_operand_count(&c->out[0].operand); i++) {
        int64_t at = check_place(&c->out[0].operand, c->block, i);
        double got = check_get(cpu.out[0], at, c->dtype);
        double expected = check_get(ref.out[0], i, YK_F32);
        double tolerance = check_is_low(c->dtype) ? c->tolerance_low : 0;
        bool good = same_class(got, expected);
        if (isfinite(expected))
            good = good && fabs(got - expected) <= tolerance * fabs(expected);
        if (!good)
            fail_msg("%s over %d: element %d is %g, expected %g", c->op->name, (int)c->attrs.dim,
                     (int)i, got, expected);
    }
    check_free(&cpu);
    check_free(&ref);
}

static void maxima(check_case start)
{
    const yki_op *ops[] = {&yki_op_amax, &yki_op_amin};
    for (int m = 0; m < MAPS; m++)
        for (int dim = 0; dim < 4; dim++)
            for (int way = 0; way < 2; way++) {
                check_case c = start;
                int64_t y[4];
                check_memory ref;
                memcpy(y, maps[m], sizeof y);
                y[dim] = 1;
                c.op = ops[way];
                c.attrs.dim = dim;
                double *values = values_with_ties(&c, maps[m]);
                check_out(&c, c.dtype, 4, y);
                reduced(&c, &c.out[0]);
                compare_all(&c);
                check_run(&c, true, &ref);

                check_case slopes = start;
                slopes.op = &yki_op_amax_backward;
                slopes.attrs.dim = dim;
                double *dy = check_in(&slopes, c.dtype, 4, y, 1, 0);
                memcpy(check_in(&slopes, c.dtype, 4, maps[m], 1, 0), values,
                       (size_t)yki_operand_count(&c.in[0].operand) * sizeof *values);
                double *best = check_in(&slopes, c.dtype, 4, y, 1, 0);
                reduced(&slopes, &slopes.in[0]);
                reduced(&slopes, &slopes.in[2]);
                for (int64_t i = 0; i < yki_operand_count(&c.out[0].operand); i++) {
                    dy[i] = floor(8 * dy[i]);
                    best[i] = check_get(ref.out[0], i, YK_F32);
                }
                check_out(&slopes, c.dtype, 4, maps[m]);
                compare_all(&slopes);
                check_free(&ref);
                check_end(&slopes);
                check_end(&c);
            }
}

YK_TEST(maxima_are_those_of_ref)
{
    check_everywhere(maxima);
}

/* ---- attention ------------------------------------------------------------------------------- */

/* A key that the mask hides has no share, not even of the largest number. */
static void attention_of_hidden_keys(check_case start)
{
    enum { QUERIES = 5, KEYS = 19, WIDTH = 8 };
    static const int64_t queries[] = {1, QUERIES, WIDTH}, keys[] = {1, KEYS, WIDTH},
                         scores[] = {1, 1, QUERIES, KEYS}, sums[] = {1, 1, QUERIES};
    check_case c = start;
    if (c.blocked)
        return;
    c.op = &yki_op_scaled_dot_product_attention;
    c.attrs = (yki_attrs){.heads = 1, .kv_heads = 1, .alpha = 0.5};
    check_in(&c, c.dtype, 3, queries, 1, 0);
    check_in(&c, c.dtype, 3, keys, 1, 0);
    double *v = check_in(&c, c.dtype, 3, keys, 1, 0);
    double *mask = check_in(&c, YK_F32, 4, scores, 1, 0);
    for (int i = 0; i < WIDTH; i++)
        v[3 * WIDTH + i] = c.dtype == YK_F16 ? 65504 : 0x1p127;
    for (int i = 0; i < QUERIES; i++)
        mask[i * KEYS + 3] = -1e30;
    check_out(&c, c.dtype, 3, queries);
    check_out(&c, YK_F32, 3, sums);
    check(&c);
}

YK_TEST(hidden_keys_have_no_share)
{
    check_everywhere(attention_of_hidden_keys);
}

/* ---- pooling --------------------------------------------------------------------------------- */

typedef struct window_case {
    int64_t size, kernel, stride, padding;
    bool ceil_mode, count_include_pad;
} window_case;

/* ResNet's, overlapping, one with gaps, one whole map; the last two have more places than bytes
 * have values. Means over as many pixels everywhere or not, and windows beyond the padding. */
static const window_case windows[] = {
    {7, 3, 2, 1, false, true},  {6, 2, 2, 0, false, true},   {5, 3, 1, 1, false, true},
    {8, 2, 3, 1, false, true},  {4, 4, 4, 0, false, true},   {3, 2, 2, 1, false, true},
    {9, 2, 2, 1, false, true},  {11, 3, 3, 0, false, true},  {8, 3, 3, 1, false, true},
    {8, 3, 2, 0, true, true},   {7, 3, 2, 1, false, false},  {7, 2, 2, 0, true, true},
    {8, 3, 2, 1, true, true},   {9, 2, 2, 1, true, false},   {2, 3, 2, 0, true, true},
    {10, 3, 3, 1, true, false}, {18, 16, 1, 0, false, true}, {19, 17, 2, 1, false, true},
};
enum { WINDOWS = sizeof windows / sizeof *windows };

static void pooled_dims(const window_case *w, const int64_t *x, int64_t *y)
{
    y[0] = x[0];
    y[1] = x[1];
    for (int i = 2; i < 4; i++)
        y[i] = yki_pool_windows(x[i], w->kernel, w->stride, w->padding, w->ceil_mode);
}

static void pools(check_case start)
{
    static const int64_t channels[] = {16, 19, 5};
    for (int w = 0; w < WINDOWS; w++)
        for (int m = 0; m < 3; m++) {
            const int64_t x[] = {2, channels[m], windows[w].size, windows[w].size + 1};
            int64_t y[4];
            pooled_dims(&windows[w], x, y);
            check_case c = start;
            c.attrs = (yki_attrs){.kernel = {windows[w].kernel, windows[w].kernel},
                                  .stride = {windows[w].stride, windows[w].stride},
                                  .padding = {windows[w].padding, windows[w].padding},
                                  .ceil_mode = windows[w].ceil_mode,
                                  .count_include_pad = windows[w].count_include_pad};
            c.op = &yki_op_max_pool2d;
            /* Few different values: ties. */
            double *values = check_in(&c, c.dtype, 4, x, 1, 0);
            for (int64_t i = 0; i < yki_operand_count(&c.in[0].operand); i++)
                values[i] = floor(4 * values[i]);
            check_out(&c, c.dtype, 4, y);
            check_out(&c, yki_max_pool2d_index_dtype(c.attrs.kernel), 4, y);
            check(&c);

            c.in_count = c.out_count = 0;
            c.op = &yki_op_avg_pool2d;
            check_in(&c, c.dtype, 4, x, 1, 0);
            check_out(&c, c.dtype, 4, y);
            check(&c);

            c.in_count = c.out_count = 0;
            c.op = &yki_op_avg_pool2d_backward;
            check_in(&c, c.dtype, 4, y, 1, 0);
            check_out(&c, c.dtype, 4, x);
            check(&c);
        }
}

YK_TEST(pooling_equals_ref)
{
    check_everywhere(pools);
}

/* Every third window of the first channel holds a NaN, in any place: it is the maximum. */
static void max_of_nan(check_case start)
{
    static const int64_t x[] = {1, 16, 4, 36}, y[] = {1, 16, 2, 18};
    check_case c = start;
    c.op = &yki_op_max_pool2d;
    c.attrs = (yki_attrs){.kernel = {2, 2}, .stride = {2, 2}};
    double *values = check_in(&c, c.dtype, 4, x, 1, 0);
    for (int i = 0; i < 18; i += 3)
        values[i % 2 * 36 + 2 * i + i / 2 % 2] = NAN;
    check_out(&c, c.dtype, 4, y);
    check_out(&c, YK_U8, 4, y);
    check_memory cpu, ref;
    check_run(&c, false, &cpu);
    check_run(&c, true, &ref);
    for (int i = 0; i < 16 * 36; i++) {
        int64_t at = check_place(&c.out[0].operand, c.block, i);
        bool nan = isnan(check_get(cpu.out[0], at, c.dtype));
        assert_int_equal(nan, i < 18 && i % 3 == 0);
        assert_int_equal(((uint8_t *)cpu.out[1])[at], ((uint8_t *)ref.out[1])[i]);
    }
    check_free(&cpu);
    check_free(&ref);
    check_end(&c);
}

YK_TEST(a_nan_is_the_maximum)
{
    check_everywhere(max_of_nan);
}

static void max_backward(check_case start)
{
    for (int w = 0; w < WINDOWS; w++) {
        const int64_t x[] = {2, 19, windows[w].size, windows[w].size};
        int64_t y[4], kernel = windows[w].kernel;
        pooled_dims(&windows[w], x, y);
        check_case c = start;
        c.attrs = (yki_attrs){.kernel = {kernel, kernel},
                              .stride = {windows[w].stride, windows[w].stride},
                              .padding = {windows[w].padding, windows[w].padding}};
        c.op = &yki_op_max_pool2d_backward;
        check_in(&c, c.dtype, 4, y, 1, 0);
        double area = (double)(kernel * kernel);
        check_in(&c, yki_max_pool2d_index_dtype(c.attrs.kernel), 4, y, area / 2, area / 2);
        check_out(&c, c.dtype, 4, x);
        check(&c);
    }
}

YK_TEST(max_pooling_backward_equals_ref)
{
    check_everywhere(max_backward);
}

static void global(check_case start)
{
    for (int m = 0; m < MAPS; m++) {
        const int64_t pooled[] = {maps[m][0], maps[m][1], 1, 1};
        check_case c = start;
        c.op = &yki_op_global_avg_pool2d;
        check_in(&c, c.dtype, 4, maps[m], 1, 0.5);
        check_out(&c, c.dtype, 4, pooled);
        check(&c);

        c.in_count = c.out_count = 0;
        c.op = &yki_op_global_avg_pool2d_backward;
        check_in(&c, c.dtype, 4, pooled, 1, 0.5);
        check_out(&c, c.dtype, 4, maps[m]);
        check(&c);
    }
}

YK_TEST(global_pooling_equals_ref)
{
    check_everywhere(global);
}

/* Sums of all pixels in f32 would have errors of 1e-4 and more: those of large numbers add up. */
static void large_means(check_case start)
{
    static const int64_t shape[] = {1, 16, 300, 500}, pooled[] = {1, 16, 1, 1};
    if (start.dtype != YK_F32)
        return;
    check_case c = start;
    c.op = &yki_op_global_avg_pool2d;
    check_in(&c, c.dtype, 4, shape, 1, 1000);
    check_out(&c, c.dtype, 4, pooled);
    check_memory cpu, ref;
    check_run(&c, false, &cpu);
    check_run(&c, true, &ref);
    for (int64_t i = 0; i < pooled[1]; i++) {
        double y = check_get(cpu.out[0], check_place(&c.out[0].operand, c.block, i), c.dtype);
        double expected = check_get(ref.out[0], i, c.dtype);
        assert_true(fabs(y - expected) <= 3e-7 * fabs(expected));
    }
    check_free(&cpu);
    check_free(&ref);
    check_end(&c);
}

YK_TEST(means_of_large_images_are_precise)
{
    check_everywhere(large_means);
}

/* ---- layouts --------------------------------------------------------------------------------- */

static void flattened(check_case start)
{
    for (int m = 0; m < MAPS; m++) {
        const int64_t flat[] = {maps[m][0], maps[m][1] * maps[m][2] * maps[m][3]};
        check_case c = start;
        c.op = &yki_op_flatten;
        c.tolerance = c.tolerance_low = 0;
        check_in(&c, c.dtype, 4, maps[m], 1, 0);
        check_out(&c, c.dtype, 2, flat);
        check(&c);

        c.in_count = c.out_count = 0;
        c.op = &yki_op_reshape;
        check_in(&c, c.dtype, 2, flat, 1, 0);
        check_out(&c, c.dtype, 4, maps[m]);
        check(&c);
    }
}

YK_TEST(flatten_equals_ref)
{
    check_everywhere(flattened);
}

/* ---- loss ------------------------------------------------------------------------------------ */

/* Class labels and, in a case without a mean, a weight of each class. */
static void cross_entropy(check_case start, int ndim, const int64_t *dims, bool smooth, bool sum)
{
    static const int64_t scalar[1] = {0};
    const int64_t labels[] = {dims[0], ndim > 2 ? dims[2] : 0, ndim > 3 ? dims[3] : 0};
    const int64_t log_sums[] = {dims[0], (ndim > 2 ? dims[2] : 1) * (ndim > 3 ? dims[3] : 1)};
    check_case c = start;
    c.op = &yki_op_cross_entropy;
    c.attrs = (yki_attrs){.label_smoothing = smooth ? 0.1 : 0,
                          .ignore_index = smooth && dims[0] > 1 ? 3 : -100,
                          .reduction = sum ? YK_LOSS_SUM : YK_LOSS_MEAN};
    check_in(&c, c.dtype, ndim, dims, 30, 20);
    check_in(&c, YK_I32, ndim - 1, labels, 4.9, 5);
    check_in(&c, YK_F32, sum ? 1 : -1, &dims[1], 0.5, 1);
    check_out(&c, YK_F32, 0, scalar);
    check_out(&c, YK_F32, 2, log_sums);
    check_out(&c, YK_F32, 0, scalar);
    check(&c);

    c.in_count = c.out_count = 0;
    c.op = &yki_op_cross_entropy_backward;
    check_in(&c, c.dtype, ndim, dims, 1, 2);
    check_in(&c, YK_I32, ndim - 1, labels, 4.9, 5);
    check_in(&c, YK_F32, 0, scalar, 1, 2);
    check_in(&c, YK_F32, 2, log_sums, 1, 4);
    check_in(&c, YK_F32, sum ? 1 : -1, &dims[1], 0.5, 1);
    check_in(&c, YK_F32, sum ? -1 : 0, scalar, 0, (double)dims[0]);
    check_out(&c, c.dtype, ndim, dims);
    check(&c);
}

static void losses(check_case start)
{
    static const int64_t sizes[][4] = {{1, 10},       {33, 10},        {7, 1000},
                                       {2, 10, 1500}, {2, 12, 33, 40}, {3, 11, 1, 1}};
    static const int ranks[] = {2, 2, 2, 3, 4, 4};
    for (int s = 0; s < 6; s++)
        for (int smooth = 0; smooth < 2; smooth++)
            for (int sum = 0; sum < 2 && !(start.blocked && s == 5); sum++) /* samples are plain */
                cross_entropy(start, ranks[s], sizes[s], smooth, sum);
}

/* Of logits whose exponentials are far beyond the range of f32, too. */
static void pair_loss(check_case start, const yki_op *op, const yki_op *backward, int weights)
{
    static const int64_t sizes[][4] = {{1, 16, 1, 1}, {3, 32, 5, 7}, {2, 16, 33, 40}};
    static const double ranges[] = {3, 200};
    for (int i = 0; i < 6 && start.dtype == YK_F32; i++) {
        static const int64_t scalar[1] = {0};
        const int64_t *dims = sizes[i / 2], count = weights ? dims[1] : 0;
        check_case c = start;
        c.attrs = (yki_attrs){.beta = 0.7, .reduction = i % 2 ? YK_LOSS_SUM : YK_LOSS_MEAN};
        c.op = op;
        check_in(&c, YK_F32, 4, dims, ranges[i % 2], 0);
        check_in(&c, YK_F32, 4, dims, 0.5, 0.5);
        if (weights)
            check_in(&c, YK_F32, 1, &count, 1, 1.5);
        check_out(&c, YK_F32, 0, scalar);
        check(&c);

        c.in_count = c.out_count = 0;
        c.op = backward;
        check_in(&c, YK_F32, 4, dims, ranges[i % 2], 0);
        check_in(&c, YK_F32, 4, dims, 0.5, 0.5);
        check_in(&c, YK_F32, 0, scalar, 1, 2);
        if (weights)
            check_in(&c, YK_F32, 1, &count, 1, 1.5);
        check_out(&c, YK_F32, 4, dims);
        check(&c);
    }
}

static void pair_losses(check_case start)
{
    pair_loss(start, &yki_op_smooth_l1_loss, &yki_op_smooth_l1_loss_backward, 0);
    pair_loss(start, &yki_op_binary_cross_entropy_with_logits,
              &yki_op_binary_cross_entropy_with_logits_backward, 0);
    if (!start.blocked)
        pair_loss(start, &yki_op_binary_cross_entropy_with_logits,
                  &yki_op_binary_cross_entropy_with_logits_backward, 1);
}

YK_TEST(pair_losses_equal_ref)
{
    check_everywhere(pair_losses);
}

YK_TEST(cross_entropy_equals_ref)
{
    check_everywhere(losses);
}

/* ---- bf16 ------------------------------------------------------------------------------------ */

static float of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

YK_TEST(narrowing_rounds_to_even_and_keeps_nan)
{
    static const struct {
        uint32_t from;
        uint16_t to;
    } cases[] = {{0x3f800000, 0x3f80}, {0x3f808000, 0x3f80}, {0x3f818000, 0x3f82},
                 {0x3f808001, 0x3f81}, {0x3f807fff, 0x3f80}, {0x80000000, 0x8000},
                 {0x7f7fffff, 0x7f80}, {0xff800000, 0xff80}, {0x00018000, 0x0002},
                 {0x7f800001, 0x7fc0}, {0x7fffffff, 0x7fff}, {0xffc00000, 0xffc0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        float from = of_bits(cases[i].from);
        uint16_t to;
        yki_cpu_narrow(&to, &from, YK_BF16, 1, 1);
        assert_int_equal(to, cases[i].to);
    }
}

/* Vector loops round by code of their own: every bf16 plus every bf16 near it, exactly halved. */
static void halves(check_case start)
{
    static const int64_t dims[] = {1, 1, 1, 512};
    check_case c = start;
    if (c.dtype != YK_BF16 || c.blocked)
        return;
    c.op = &yki_op_scale;
    c.attrs = (yki_attrs){.alpha = 1.5};
    c.tolerance_low = 0;
    double *values = check_in(&c, YK_BF16, 4, dims, 1, 0);
    for (int i = 0; i < 512; i++)
        values[i] = check_widen((uint16_t)(0x3f80 + i));
    check_out(&c, YK_BF16, 4, dims);
    check_memory cpu;
    check_run(&c, false, &cpu);
    for (int i = 0; i < 512; i++)
        assert_int_equal(((uint16_t *)cpu.out[0])[i], check_narrow((float)(1.5 * values[i])));
    check_free(&cpu);
    check_end(&c);
}

YK_TEST(vector_loops_round_to_even)
{
    check_everywhere(halves);
}

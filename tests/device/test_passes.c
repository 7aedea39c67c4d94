/* Sweeps on every device against scalar formulas, in tensors of several sizes and both types. Sums
 * and updates have the same bits everywhere. */
#include <math.h>
#include <stdlib.h>

#include "device/block.h"
#include "device/device.h"
#include "harness.h"

enum { SPANS = 6, TENSORS = YKI_SWEEP_TENSORS };

static const char *const devices[] = {"ref", "cpu", "sim"};
enum { DEVICES = sizeof devices / sizeof *devices };

/* Chunks end at multiples of 16384. */
static const int64_t counts[SPANS] = {1, 17, 16384, 16385, 40000, 0};

/* Tensors of a device, and what the host expects in them. */
typedef struct fixture {
    yki_device *device;
    yk_dtype dtype;
    yki_span spans[SPANS];
    double *host[SPANS][TENSORS];
    yki_sweep *sweep;
    yki_block coefficients;
    void *result;
} fixture;

/* GCC 12 leaves some of the roundings out once it has inlined them. */
static double rounded(const fixture *f, double value)
{
    volatile float narrow = (float)value;
    return f->dtype == YK_F32 ? (double)narrow : value;
}

static double drawn(uint64_t *state)
{
    *state = *state * 6364136223846793005U + 1442695040888963407U;
    return (double)(*state >> 33) / (double)(1U << 31) - 0.5;
}

static size_t bytes_of(const fixture *f, int span)
{
    return (size_t)counts[span] * yk_dtype_size(f->dtype);
}

static yk_tensor tensor_of(const fixture *f, void *data, int64_t count, yk_dtype dtype)
{
    return (yk_tensor){
        .data = data, .dtype = dtype, .ndim = 1, .dims = {count}, .device = f->device};
}

static void set_tensor(fixture *f, int span, int tensor)
{
    void *values = calloc((size_t)counts[span] + 1, 8);
    assert_non_null(values);
    for (int64_t i = 0; i < counts[span]; i++)
        if (f->dtype == YK_F32)
            ((float *)values)[i] = (float)f->host[span][tensor][i];
        else
            ((double *)values)[i] = f->host[span][tensor][i];
    yk_tensor view = tensor_of(f, f->spans[span].at[tensor], counts[span], f->dtype);
    if (counts[span])
        assert_ok(yk_tensor_write(&view, values));
    free(values);
}

static void expect_tensor(const fixture *f, int span, int tensor)
{
    yk_tensor view = tensor_of(f, f->spans[span].at[tensor], counts[span], f->dtype);
    void *values = calloc((size_t)counts[span] + 1, 8);
    assert_non_null(values);
    if (counts[span])
        assert_ok(yk_tensor_read(&view, values));
    for (int64_t i = 0; i < counts[span]; i++) {
        double got = f->dtype == YK_F32 ? (double)((float *)values)[i] : ((double *)values)[i];
        double expected = f->host[span][tensor][i];
        if (!(got == expected) && !(isnan(got) && isnan(expected)))
            fail_msg("%s: tensor %d of span %d [%lld] is %.17g, expected %.17g",
                     f->device->type->name, tensor, span, (long long)i, got, expected);
    }
    free(values);
}

static void expect_all(const fixture *f)
{
    for (int span = 0; span < SPANS; span++)
        for (int tensor = 0; tensor < TENSORS; tensor++)
            expect_tensor(f, span, tensor);
}

static void begin(fixture *f, const char *device, yk_dtype dtype)
{
    uint64_t seed = 1;
    *f = (fixture){.dtype = dtype};
    assert_ok(yki_device_create(&f->device, device,
                                &(yki_device_options){.threads = 2, .winograd = true}));
    for (int span = 0; span < SPANS; span++) {
        f->spans[span] =
            (yki_span){.count = counts[span], .dtype = dtype, .group = span == 1 ? 1 : 0};
        for (int tensor = 0; tensor < TENSORS; tensor++) {
            f->host[span][tensor] = calloc((size_t)counts[span] + 1, sizeof(double));
            assert_non_null(f->host[span][tensor]);
            for (int64_t i = 0; i < counts[span]; i++) {
                double value = rounded(f, drawn(&seed));
                f->host[span][tensor][i] = tensor == 3 ? fabs(value) : value;
            }
            assert_ok(yki_device_alloc(f->device, bytes_of(f, span), &f->spans[span].at[tensor]));
            set_tensor(f, span, tensor);
        }
    }
    assert_ok(yki_sweep_create(&f->sweep, f->device, f->spans, SPANS));
    assert_ok(
        yki_block_create(&f->coefficients, f->device, 2 * YKI_SWEEP_COEFFICIENTS * sizeof(double)));
    assert_ok(yki_device_alloc(f->device, SPANS * sizeof(uint64_t), &f->result));
}

static void end(fixture *f)
{
    for (int span = 0; span < SPANS; span++)
        for (int tensor = 0; tensor < TENSORS; tensor++) {
            free(f->host[span][tensor]);
            yki_device_free(f->device, f->spans[span].at[tensor], bytes_of(f, span));
        }
    yki_sweep_destroy(f->sweep);
    yki_block_destroy(&f->coefficients);
    yki_device_free(f->device, f->result, SPANS * sizeof(uint64_t));
    yki_device_destroy(f->device);
}

/* The second group has its first coefficient halved. */
static void run(fixture *f, yki_sweep_op op, const double *c)
{
    void *room;
    yki_stream *stream = yki_device_stream(f->device);
    assert_ok(yki_block_open(&f->coefficients, &room));
    double *values = room;
    for (int i = 0; i < 2 * YKI_SWEEP_COEFFICIENTS; i++)
        values[i] = c[i % YKI_SWEEP_COEFFICIENTS];
    values[YKI_SWEEP_COEFFICIENTS] /= 2;
    assert_ok(yki_block_send(&f->coefficients, stream));
    assert_ok(yki_sweep_run(f->sweep, op, f->coefficients.memory, f->result, stream));
}

static double result_of(const fixture *f)
{
    double result;
    yk_tensor view = tensor_of(f, f->result, 1, YK_F64);
    assert_ok(yk_tensor_read(&view, &result));
    return result;
}

/* The formulas below for one element; t[] are the tensors' elements, and first is c[0]. */
typedef void (*formula)(const fixture *f, double *t, const double *c, double first);

static void expect_formula(fixture *f, yki_sweep_op op, const double *c, formula expected)
{
    for (int span = 0; span < SPANS; span++)
        for (int64_t i = 0; i < counts[span]; i++) {
            double t[TENSORS];
            for (int tensor = 0; tensor < TENSORS; tensor++)
                t[tensor] = f->host[span][tensor][i];
            expected(f, t, c, f->spans[span].group ? c[0] / 2 : c[0]);
            for (int tensor = 0; tensor < TENSORS; tensor++)
                f->host[span][tensor][i] = t[tensor];
        }
    run(f, op, c);
    expect_all(f);
}

static void copied(const fixture *f, double *t, const double *c, double first)
{
    (void)f, (void)c, (void)first;
    t[0] = t[1];
}

static void swapped(const fixture *f, double *t, const double *c, double first)
{
    (void)f, (void)c, (void)first;
    double kept = t[0];
    t[0] = t[1];
    t[1] = kept;
}

static void added(const fixture *f, double *t, const double *c, double first)
{
    (void)c;
    t[0] = rounded(f, rounded(f, rounded(f, first) * t[0]) + t[1]);
}

static void scaled(const fixture *f, double *t, const double *c, double first)
{
    (void)c;
    t[0] = rounded(f, rounded(f, first) * t[0]);
}

static void approached(const fixture *f, double *t, const double *c, double first)
{
    (void)c;
    double step = rounded(f, rounded(f, first) * rounded(f, t[1] - t[0]));
    t[0] = rounded(f, t[0] + step);
}

static void sgd(const fixture *f, double *t, const double *c, double lr)
{
    double g = rounded(f, t[1] + rounded(f, rounded(f, c[YKI_SGD_DECAY]) * t[0]));
    double kept = rounded(f, rounded(f, c[YKI_SGD_KEEP]) * t[2]);
    double b = rounded(f, kept + rounded(f, rounded(f, c[YKI_SGD_TAKE]) * g));
    double ahead = rounded(f, g + rounded(f, rounded(f, c[YKI_SGD_MOMENTUM]) * b));
    t[2] = b;
    t[0] = rounded(f, t[0] - rounded(f, rounded(f, lr) * (c[YKI_SGD_NESTEROV] != 0 ? ahead : b)));
}

/* largest: by the largest mean of squares so far, tensor 4. */
static void adam_step(const fixture *f, double *t, const double *c, double step, bool largest)
{
    double g = rounded(f, t[1] + rounded(f, rounded(f, c[YKI_ADAM_DECAY]) * t[0]));
    double beta1 = c[YKI_ADAM_BETA1], beta2 = c[YKI_ADAM_BETA2];
    double m =
        rounded(f, rounded(f, rounded(f, beta1) * t[2]) + rounded(f, rounded(f, 1 - beta1) * g));
    double v = rounded(f, rounded(f, rounded(f, beta2) * t[3]) +
                              rounded(f, rounded(f, 1 - beta2) * rounded(f, g * g)));
    t[4] = largest ? fmax(t[4], v) : t[4];
    double root = rounded(f, sqrt(largest ? t[4] : v));
    double below =
        rounded(f, rounded(f, root / rounded(f, c[YKI_ADAM_ROOT])) + rounded(f, c[YKI_ADAM_EPS]));
    double shrunk = rounded(f, rounded(f, c[YKI_ADAM_SHRINK]) * t[0]);
    t[2] = m;
    t[3] = v;
    t[0] = rounded(f, shrunk - rounded(f, rounded(f, rounded(f, step) * m) / below));
}

static void adam(const fixture *f, double *t, const double *c, double step)
{
    adam_step(f, t, c, step, false);
}

static void amsgrad(const fixture *f, double *t, const double *c, double step)
{
    adam_step(f, t, c, step, true);
}

static void nadam(const fixture *f, double *t, const double *c, double step)
{
    double g = rounded(f, t[1] + rounded(f, rounded(f, c[YKI_ADAM_DECAY]) * t[0]));
    double value = rounded(f, rounded(f, c[YKI_ADAM_SHRINK]) * t[0]);
    double ahead = rounded(f, rounded(f, c[YKI_NADAM_AHEAD]) * g);
    adam_step(f, t, c, step, false);
    double below = rounded(f, rounded(f, sqrt(t[3])) + rounded(f, c[YKI_ADAM_EPS]));
    double above = rounded(f, rounded(f, rounded(f, step) * t[2]) + ahead);
    t[0] = rounded(f, value - rounded(f, above / below));
}

static void adamax(const fixture *f, double *t, const double *c, double step)
{
    double g = rounded(f, t[1] + rounded(f, rounded(f, c[YKI_ADAM_DECAY]) * t[0]));
    double beta1 = c[YKI_ADAM_BETA1];
    t[2] = rounded(f, rounded(f, rounded(f, beta1) * t[2]) + rounded(f, rounded(f, 1 - beta1) * g));
    t[3] = fmax(rounded(f, rounded(f, c[YKI_ADAM_BETA2]) * t[3]),
                rounded(f, fabs(g) + rounded(f, c[YKI_ADAM_EPS])));
    t[0] = rounded(f, t[0] - rounded(f, rounded(f, rounded(f, step) * t[2]) / t[3]));
}

/* What RMSprop divides the gradient to; centered: by the deviation from the mean, tensor 4. */
static double rmsprop_scaled(const fixture *f, double *t, const double *c, bool centered)
{
    double g = rounded(f, t[1] + rounded(f, rounded(f, c[YKI_RMSPROP_DECAY]) * t[0]));
    double alpha = rounded(f, c[YKI_RMSPROP_ALPHA]), take = rounded(f, c[YKI_RMSPROP_TAKE]);
    double under = t[2] =
        rounded(f, rounded(f, alpha * t[2]) + rounded(f, take * rounded(f, g * g)));
    if (centered) {
        t[4] = rounded(f, t[4] + rounded(f, take * rounded(f, g - t[4])));
        under = rounded(f, under - rounded(f, t[4] * t[4]));
    }
    return rounded(f, g / rounded(f, rounded(f, sqrt(under)) + rounded(f, c[YKI_RMSPROP_EPS])));
}

static void descend(const fixture *f, double *t, double lr, double by)
{
    t[0] = rounded(f, t[0] - rounded(f, rounded(f, lr) * by));
}

static double with_momentum(const fixture *f, double *t, const double *c, double scaled)
{
    t[3] = rounded(f, rounded(f, rounded(f, c[YKI_RMSPROP_MOMENTUM]) * t[3]) + scaled);
    return t[3];
}

static void rmsprop(const fixture *f, double *t, const double *c, double lr)
{
    descend(f, t, lr, rmsprop_scaled(f, t, c, false));
}

/* Tensor 3: the mean of squared updates. */
static void adadelta(const fixture *f, double *t, const double *c, double lr)
{
    double g = rounded(f, t[1] + rounded(f, rounded(f, c[YKI_RMSPROP_DECAY]) * t[0]));
    double rho = rounded(f, c[YKI_RMSPROP_ALPHA]), take = rounded(f, c[YKI_RMSPROP_TAKE]);
    double eps = rounded(f, c[YKI_RMSPROP_EPS]);
    t[2] = rounded(f, rounded(f, rho * t[2]) + rounded(f, take * rounded(f, g * g)));
    double above = rounded(f, sqrt(rounded(f, t[3] + eps)));
    double below = rounded(f, sqrt(rounded(f, t[2] + eps)));
    double update = rounded(f, rounded(f, above / below) * g);
    t[3] = rounded(f, rounded(f, rho * t[3]) + rounded(f, take * rounded(f, update * update)));
    descend(f, t, lr, update);
}

static void rmsprop_momentum(const fixture *f, double *t, const double *c, double lr)
{
    descend(f, t, lr, with_momentum(f, t, c, rmsprop_scaled(f, t, c, false)));
}

static void rmsprop_centered(const fixture *f, double *t, const double *c, double lr)
{
    descend(f, t, lr, rmsprop_scaled(f, t, c, true));
}

static void rmsprop_both(const fixture *f, double *t, const double *c, double lr)
{
    descend(f, t, lr, with_momentum(f, t, c, rmsprop_scaled(f, t, c, true)));
}

static void unchanged(const fixture *f, double *t, const double *c, double first)
{
    (void)f, (void)t, (void)c, (void)first;
}

static void check_formulas(const char *device, yk_dtype dtype)
{
    fixture f;
    const double momentum[] = {0.1, 0.9, 0.8, 0.7, 0.01, 0, 0, 0};
    const double nesterov[] = {0.1, 0.9, 0.9, 1, 0.01, 1, 0, 0};
    begin(&f, device, dtype);
    expect_formula(&f, YKI_SWEEP_ADD, (double[8]){0.3}, added);
    expect_formula(&f, YKI_SWEEP_SCALE, (double[8]){0.7}, scaled);
    expect_formula(&f, YKI_SWEEP_APPROACH, (double[8]){0.2}, approached);
    expect_formula(&f, YKI_SWEEP_SWAP, (double[8]){0}, swapped);
    expect_formula(&f, YKI_SWEEP_SGD, momentum, sgd);
    expect_formula(&f, YKI_SWEEP_SGD, nesterov, sgd);
    expect_formula(&f, YKI_SWEEP_COPY, (double[8]){0}, copied);
    static const yki_sweep_op updates[] = {
        YKI_SWEEP_SGD,      YKI_SWEEP_ADAM,    YKI_SWEEP_NADAM,
        YKI_SWEEP_ADAMAX,   YKI_SWEEP_RMSPROP, YKI_SWEEP_ADADELTA,
        YKI_SWEEP_APPROACH, YKI_SWEEP_SWAP,    YKI_SWEEP_COPY};
    for (size_t i = 0; i < sizeof updates / sizeof *updates; i++)
        expect_formula(&f, updates[i], (double[8]){0.2, [YKI_SWEEP_SKIP] = 1}, unchanged);
    end(&f);
}

YK_TEST(each_element_follows_its_formula)
{
    for (int i = 0; i < DEVICES; i++) {
        check_formulas(devices[i], YK_F32);
        check_formulas(devices[i], YK_F64);
    }
}

static void check_adam(const char *device, yk_dtype dtype, formula expected, bool largest)
{
    fixture f;
    const double rates[] = {0.01, 0.9, 0.75, 0.3, 1e-8, 0.02, 0.99, 0};
    begin(&f, device, dtype);
    for (size_t span = 0; span < SPANS; span++)
        yki_sweep_move(f.sweep, span, 4, largest ? f.spans[span].at[4] : NULL);
    expect_formula(&f, YKI_SWEEP_ADAM, rates, expected);
    expect_formula(&f, YKI_SWEEP_ADAM, rates, expected);
    end(&f);
}

YK_TEST(adam_follows_its_formula_with_and_without_the_largest_squares)
{
    for (int i = 0; i < DEVICES; i++)
        for (yk_dtype dtype = YK_F32; dtype <= YK_F64; dtype++) {
            check_adam(devices[i], dtype, adam, false);
            check_adam(devices[i], dtype, amsgrad, true);
        }
}

static void check_relatives(const char *device, yk_dtype dtype)
{
    fixture f;
    const double rates[] = {0.01, 0.9, 0.75, 0.3, 1e-8, 0.02, 0.99, 0};
    begin(&f, device, dtype);
    for (int i = 0; i < 2; i++)
        expect_formula(&f, YKI_SWEEP_NADAM, rates, nadam);
    for (int i = 0; i < 2; i++)
        expect_formula(&f, YKI_SWEEP_ADAMAX, rates, adamax);
    end(&f);
}

YK_TEST(nadam_and_adamax_follow_their_formulas)
{
    for (int i = 0; i < DEVICES; i++) {
        check_relatives(devices[i], YK_F32);
        check_relatives(devices[i], YK_F64);
    }
}

/* RAdam's first steps, which divide by nothing: an infinite root, and an eps of 1. */
static void undivided(const fixture *f, double *t, const double *c, double step)
{
    double value = t[0];
    adam_step(f, t, c, step, false);
    t[0] = rounded(f, value - rounded(f, rounded(f, step) * t[2]));
}

YK_TEST(adam_with_an_infinite_root_does_not_divide)
{
    const double rates[] = {0.01, 0.9, 0.75, INFINITY, 1, 0.02, 1, 0};
    for (int i = 0; i < DEVICES; i++)
        for (yk_dtype dtype = YK_F32; dtype <= YK_F64; dtype++) {
            fixture f;
            begin(&f, devices[i], dtype);
            for (size_t span = 0; span < SPANS; span++)
                yki_sweep_move(f.sweep, span, 4, NULL);
            expect_formula(&f, YKI_SWEEP_ADAM, rates, undivided);
            end(&f);
        }
}

/* What torch.maximum does. */
YK_TEST(nan_replaces_the_largest_squares_and_stays)
{
    const double rates[] = {0.01, 0.9, 0.75, 0.3, 1e-8, 0, 1, 0};
    for (int i = 0; i < DEVICES; i++) {
        fixture f;
        begin(&f, devices[i], YK_F32);
        for (int64_t j = 0; j < counts[1]; j++) {
            f.host[1][1][j] = j % 2 ? NAN : f.host[1][1][j];
            f.host[1][4][j] = 1;
        }
        set_tensor(&f, 1, 1);
        set_tensor(&f, 1, 4);
        run(&f, YKI_SWEEP_ADAM, rates);
        for (int64_t j = 0; j < counts[1]; j++) {
            f.host[1][1][j] = j % 2 ? 0 : f.host[1][1][j];
            f.host[1][4][j] = j % 2 ? NAN : 1;
        }
        set_tensor(&f, 1, 1);
        run(&f, YKI_SWEEP_ADAM, rates);
        expect_tensor(&f, 1, 4);
        end(&f);
    }
}

/* Makes a tensor squares that are at least those of the mean, as those of gradients are. */
static void set_squares(fixture *f, int tensor)
{
    for (int span = 0; span < SPANS; span++) {
        double *numbers = f->host[span][tensor];
        for (int64_t i = 0; i < counts[span]; i++)
            numbers[i] = rounded(f, fabs(numbers[i]) + 0.3);
        set_tensor(f, span, tensor);
    }
}

static void check_rmsprop(const char *device, yk_dtype dtype)
{
    static const struct {
        formula expected;
        bool has[2]; /* momentum and mean */
    } forms[] = {{rmsprop, {false, false}},
                 {rmsprop_momentum, {true, false}},
                 {rmsprop_centered, {false, true}},
                 {rmsprop_both, {true, true}}};
    const double c[8] = {0.1, 0.97, 1e-3, 0.02, 0.8, 0.05};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        fixture f;
        begin(&f, device, dtype);
        set_squares(&f, 2);
        for (size_t span = 0; span < SPANS; span++)
            for (int t = 0; t < 2; t++)
                yki_sweep_move(f.sweep, span, 3 + t,
                               forms[i].has[t] ? f.spans[span].at[3 + t] : NULL);
        expect_formula(&f, YKI_SWEEP_RMSPROP, c, forms[i].expected);
        expect_formula(&f, YKI_SWEEP_RMSPROP, c, forms[i].expected);
        end(&f);
    }
}

static void check_adadelta(const char *device, yk_dtype dtype)
{
    fixture f;
    const double c[8] = {0.5, 0.9, 1e-3, 0.02, 0, 0.1};
    begin(&f, device, dtype);
    set_squares(&f, 2);
    set_squares(&f, 3);
    expect_formula(&f, YKI_SWEEP_ADADELTA, c, adadelta);
    expect_formula(&f, YKI_SWEEP_ADADELTA, c, adadelta);
    end(&f);
}

YK_TEST(adadelta_follows_its_formula)
{
    for (int i = 0; i < DEVICES; i++) {
        check_adadelta(devices[i], YK_F32);
        check_adadelta(devices[i], YK_F64);
    }
}

YK_TEST(rmsprop_follows_its_formula_with_and_without_momentum_and_mean)
{
    for (int i = 0; i < DEVICES; i++) {
        check_rmsprop(devices[i], YK_F32);
        check_rmsprop(devices[i], YK_F64);
    }
}

static void plain(const fixture *f, double *t, const double *c, double lr)
{
    double g = rounded(f, t[1] + rounded(f, rounded(f, c[YKI_SGD_DECAY]) * t[0]));
    t[0] = rounded(f, t[0] - rounded(f, rounded(f, lr) * g));
}

/* Moves tensors and groups between runs: without a momentum, in other memory. */
YK_TEST(spans_can_move_between_runs)
{
    for (int i = 0; i < DEVICES; i++) {
        fixture f;
        begin(&f, devices[i], YK_F32);
        const double c[8] = {[YKI_SGD_LR] = 0.1, [YKI_SGD_DECAY] = 0.5};
        for (int round = 0; round < 3; round++) {
            for (int span = 0; span < SPANS; span++) {
                void *other = f.spans[span].at[3];
                double *host = f.host[span][3];
                f.spans[span].at[3] = f.spans[span].at[0];
                f.host[span][3] = f.host[span][0];
                f.spans[span].at[0] = other;
                f.host[span][0] = host;
                f.spans[span].group = (span + round) % 2;
                yki_sweep_move(f.sweep, (size_t)span, 0, other);
                yki_sweep_move(f.sweep, (size_t)span, 2, NULL);
                yki_sweep_regroup(f.sweep, (size_t)span, f.spans[span].group);
            }
            expect_formula(&f, YKI_SWEEP_SGD, c, plain);
        }
        end(&f);
    }
}

/* ---- results --------------------------------------------------------------------------------- */

/* In the order of sweep_loops.h: 16 sums by chunk. */
static double squares_of(const fixture *f)
{
    double sum = 0;
    for (int span = 0; span < SPANS; span++)
        for (int64_t begin = 0; begin < counts[span]; begin += 16384) {
            double lanes[16] = {0}, chunk = 0;
            for (int64_t i = begin; i < counts[span] && i < begin + 16384; i++)
                lanes[i % 16] += f->host[span][0][i] * f->host[span][0][i];
            for (int j = 0; j < 16; j++)
                chunk += lanes[j];
            sum += chunk;
        }
    return sum;
}

static void check_clipping(const char *device, yk_dtype dtype, double spoiled)
{
    fixture f;
    begin(&f, device, dtype);
    if (spoiled != 0)
        f.host[4][0][39999] = spoiled;
    set_tensor(&f, 4, 0);
    run(&f, YKI_SWEEP_SQUARES, (double[8]){0});
    double squares = result_of(&f), norm = sqrt(squares);
    if (spoiled == 0)
        assert_true(squares == squares_of(&f));
    if (isfinite(norm)) {
        run(&f, YKI_SWEEP_CLIP, (double[8]){squares, 2 * norm});
        expect_all(&f); /* nothing to be done */
    }
    run(&f, YKI_SWEEP_CLIP, (double[8]){squares, 1});
    for (int span = 0; span < SPANS; span++)
        for (int64_t i = 0; i < counts[span]; i++)
            f.host[span][0][i] = rounded(&f, f.host[span][0][i] * rounded(&f, 1 / (norm + 1e-6)));
    expect_all(&f);
    end(&f);
}

YK_TEST(squares_are_summed_and_clipped)
{
    for (int i = 0; i < DEVICES; i++) {
        check_clipping(devices[i], YK_F32, 0);
        check_clipping(devices[i], YK_F64, 0);
    }
}

YK_TEST(clipping_by_a_norm_that_is_not_finite_spoils_everything)
{
    for (int i = 0; i < DEVICES; i++) {
        check_clipping(devices[i], YK_F32, INFINITY);
        check_clipping(devices[i], YK_F64, NAN);
    }
}

YK_TEST(unscaling_finds_what_is_not_finite)
{
    const double found[] = {NAN, INFINITY, -INFINITY};
    for (int i = 0; i < DEVICES; i++)
        for (int type = 0; type < 2; type++) {
            fixture f;
            begin(&f, devices[i], type ? YK_F64 : YK_F32);
            expect_formula(&f, YKI_SWEEP_UNSCALE, (double[8]){0.5}, scaled);
            assert_true(result_of(&f) == 0);
            for (int k = 0; k < 3; k++) {
                f.host[3][0][16384] = found[k];
                set_tensor(&f, 3, 0);
                run(&f, YKI_SWEEP_UNSCALE, (double[8]){1});
                assert_true(result_of(&f) == 1);
            }
            end(&f);
        }
}

static void hashes_of(fixture *f, uint64_t *hashes)
{
    run(f, YKI_SWEEP_HASH, (double[8]){0});
    yk_tensor view = tensor_of(f, f->result, SPANS, YK_I64);
    assert_ok(yk_tensor_read(&view, hashes));
}

YK_TEST(a_hash_tells_tensors_apart_and_is_the_same_everywhere)
{
    uint64_t first[SPANS], hashes[SPANS];
    for (int i = 0; i < DEVICES; i++) {
        fixture f;
        begin(&f, devices[i], YK_F32);
        hashes_of(&f, hashes);
        if (i == 0)
            memcpy(first, hashes, sizeof first);
        assert_memory_equal(first, hashes, sizeof first);
        double kept = f.host[4][0][39999];
        f.host[4][0][39999] = f.host[4][0][20000];
        f.host[4][0][20000] = kept;
        f.host[1][0][16] = -f.host[1][0][16];
        set_tensor(&f, 4, 0);
        set_tensor(&f, 1, 0);
        hashes_of(&f, hashes);
        for (int span = 0; span < SPANS; span++)
            assert_true((hashes[span] != first[span]) == (span == 4 || span == 1));
        end(&f);
    }
}

/* ---- blocks ---------------------------------------------------------------------------------- */

/* Each run reads the values that were sent before it, though the host has written later ones. */
YK_TEST(a_block_keeps_the_values_of_each_run)
{
    for (int i = 0; i < DEVICES; i++) {
        fixture f;
        begin(&f, devices[i], YK_F64);
        for (int round = 1; round <= 3 * YKI_BLOCK_SLOTS; round++) {
            for (int span = 0; span < SPANS; span++)
                for (int64_t k = 0; k < counts[span]; k++)
                    f.host[span][0][k] *= (f.spans[span].group ? 0.5 : 1) * (1.0 / round);
            run(&f, YKI_SWEEP_SCALE, (double[8]){1.0 / round});
        }
        expect_all(&f);
        end(&f);
    }
}

/*
 * LARS and LAMB against their formulas, tensor by tensor in double precision: ratios with and
 * without weight decay, tensors and gradients of zeros, tensors of several chunks, steps that the
 * scaler leaves out, checkpoints, misuse.
 */
#include "harness.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <yoke/checkpoint.h>

#include "linear_model.h"

enum { MOST = 3 * 6007, STEPS = 6 };

/* A tensor as double, with what its optimizer keeps. */
typedef struct tensor {
    int64_t count;
    double value[MOST], grad[MOST], first[MOST], second[MOST];
} tensor;

typedef struct rule {
    double lr, momentum, decay, trust;
    bool nesterov;
} rule;

static double norm_of(const double *values, int64_t count)
{
    double squares = 0;
    for (int64_t i = 0; i < count; i++)
        squares += values[i] * values[i];
    return sqrt(squares);
}

static void follow_lars(tensor *t, const rule *r, int step)
{
    (void)step;
    double value = norm_of(t->value, t->count), grad = norm_of(t->grad, t->count), ratio = 1;
    if (r->decay > 0 && value > 0 && grad > 0)
        ratio = r->trust * value / (grad + r->decay * value + 1e-8);
    for (int64_t i = 0; i < t->count; i++) {
        double g = ratio * (t->grad[i] + r->decay * t->value[i]);
        t->first[i] = r->momentum * t->first[i] + g;
        t->value[i] -= r->lr * (r->nesterov ? g + r->momentum * t->first[i] : t->first[i]);
    }
}

static void follow_lamb(tensor *t, const rule *r, int step)
{
    static double update[MOST];
    double value = norm_of(t->value, t->count), ratio = 1;
    for (int64_t i = 0; i < t->count; i++) {
        double g = t->grad[i];
        t->first[i] = 0.9 * t->first[i] + 0.1 * g;
        t->second[i] = 0.999 * t->second[i] + 0.001 * g * g;
        update[i] = t->first[i] / (1 - pow(0.9, step)) /
                        (sqrt(t->second[i] / (1 - pow(0.999, step))) + 1e-6) +
                    r->decay * t->value[i];
    }
    double length = norm_of(update, t->count);
    if (r->decay > 0 && value > 0 && length > 0)
        ratio = value / length;
    for (int64_t i = 0; i < t->count; i++)
        t->value[i] -= r->lr * ratio * update[i];
}

/* ---- following ------------------------------------------------------------------------------- */

typedef void follow(tensor *t, const rule *r, int step);

static tensor tensors[2]; /* weight and bias */

static void copy_in(yk_tensor to, const double *values)
{
    int64_t count = yk_tensor_count(&to);
    float *narrow = malloc((size_t)count * sizeof *narrow);
    assert_non_null(narrow);
    for (int64_t i = 0; i < count; i++)
        narrow[i] = (float)values[i];
    assert_ok(yk_tensor_write(&to, to.dtype == YK_F64 ? (const void *)values : narrow));
    free(narrow);
}

static void begin(yk_model *model, double scale)
{
    for (size_t p = 0; p < 2; p++) {
        tensor *t = &tensors[p];
        yk_tensor value = yk_model_parameter(model, p).value;
        memset(t, 0, sizeof *t);
        t->count = yk_tensor_count(&value);
        assert_true(t->count <= MOST);
        for (int64_t i = 0; i < t->count; i++)
            t->value[i] = (double)(float)(scale * sin(0.7 * (double)i + (double)p));
        copy_in(value, t->value);
    }
}

static void set_gradients(yk_model *model, int step, double scale)
{
    for (size_t p = 0; p < 2; p++) {
        tensor *t = &tensors[p];
        for (int64_t i = 0; i < t->count; i++)
            t->grad[i] = (double)(float)(scale * sin(1.3 * step + (double)i + 10 * (double)p));
        copy_in(yk_model_parameter(model, p).grad, t->grad);
    }
}

static void expect_values(const yk_model *model, double tolerance, int step)
{
    for (size_t p = 0; p < 2; p++) {
        yk_tensor value = yk_model_parameter(model, p).value;
        for (int64_t i = 0; i<tensors[p].count; i += tensors[p].count> 100 ? 97 : 1) {
            double found = get(value, i), expected = tensors[p].value[i];
            if (!(fabs(found - expected) <= tolerance * (1 + fabs(expected))))
                fail_msg("step %d, parameter %zu, element %d: %.17g is not %.17g", step, p, (int)i,
                         found, expected);
        }
    }
}

static double tolerance_of(yk_dtype dtype)
{
    return dtype == YK_F64 ? 1e-13 : 2e-6;
}

/* rules: those of the weight and of the bias. */
static void check_steps(yk_model *model, yk_optimizer *optimizer, follow *formula,
                        const rule rules[2], double tolerance)
{
    for (int step = 1; step <= STEPS; step++) {
        set_gradients(model, step, 0.3);
        for (size_t p = 0; p < 2; p++)
            formula(&tensors[p], &rules[p], step);
        assert_ok(yk_optimizer_step(optimizer));
        expect_values(model, tolerance, step);
    }
}

static yk_status make_lars(yk_optimizer **optimizer, yk_model *model, const rule *r)
{
    return yk_lars_create(optimizer, model,
                          YK_WITH(yk_lars_options, YK_LARS_OPTIONS_INIT, o.lr = r->lr,
                                  o.momentum = r->momentum, o.weight_decay = r->decay,
                                  o.nesterov = r->nesterov, o.trust_coefficient = r->trust));
}

static yk_status make_lamb(yk_optimizer **optimizer, yk_model *model, const rule *r)
{
    return yk_lamb_create(
        optimizer, model,
        YK_WITH(yk_lamb_options, YK_LAMB_OPTIONS_INIT, o.lr = r->lr, o.weight_decay = r->decay));
}

/* Weights of a few elements and of more than one chunk. */
static void check(yk_status (*make)(yk_optimizer **, yk_model *, const rule *), follow *formula,
                  const rule rules[2], double scale)
{
    for (yk_dtype dtype = YK_F32; dtype <= YK_F64; dtype++)
        for (int large = 0; large <= 1; large++) {
            yk_model *model = make_linear_model(dtype, large ? 6007 : 4, 3);
            yk_optimizer *optimizer;
            begin(model, scale);
            assert_ok(make(&optimizer, model, &rules[0]));
            assert_ok(
                yk_optimizer_add_param_group(optimizer, yk_filter_norms_and_biases, NULL, NULL));
            assert_ok(yk_optimizer_set_group_hyperparameter(optimizer, 1, "weight_decay",
                                                            rules[1].decay));
            check_steps(model, optimizer, formula, rules, tolerance_of(dtype));
            yk_optimizer_destroy(optimizer);
            yk_model_destroy(model);
        }
}

static void check_lars(const rule rules[2], double scale)
{
    check(make_lars, follow_lars, rules, scale);
}

static void check_lamb(const rule rules[2], double scale)
{
    check(make_lamb, follow_lamb, rules, scale);
}

YK_TEST(lars_scales_each_tensor_that_decays)
{
    const rule weight = {.lr = 3, .momentum = 0.9, .decay = 0.01, .trust = 0.02};
    rule bias = weight;
    check_lars((rule[]){weight, bias}, 0.5);
    bias.decay = 0;
    check_lars((rule[]){weight, bias}, 0.5);
}

YK_TEST(lars_with_nesterov_momentum_or_without_any)
{
    rule one = {.lr = 3, .momentum = 0.9, .decay = 0.01, .trust = 0.02, .nesterov = true};
    check_lars((rule[]){one, one}, 0.5);
    one.nesterov = false;
    one.momentum = 0;
    check_lars((rule[]){one, one}, 0.5);
}

YK_TEST(lars_updates_a_tensor_of_zeros)
{
    const rule one = {.lr = 3, .momentum = 0.9, .decay = 0.01, .trust = 0.02};
    check_lars((rule[]){one, one}, 0);
}

YK_TEST(lamb_scales_each_tensor_that_decays)
{
    const rule weight = {.lr = 0.05, .decay = 0.1};
    rule bias = weight;
    check_lamb((rule[]){weight, bias}, 0.5);
    bias.decay = 0;
    check_lamb((rule[]){weight, bias}, 0.5);
}

YK_TEST(lamb_updates_a_tensor_of_zeros)
{
    const rule one = {.lr = 0.05, .decay = 0.1};
    check_lamb((rule[]){one, one}, 0);
}

/* ---- what is left out, saved and refused ----------------------------------------------------- */

/* The second of three steps has a gradient that is not finite. */
static void check_skip(yk_optimizer *optimizer, yk_model *model, follow *formula, const rule *r)
{
    yk_grad_scaler *scaler;
    assert_ok(yk_grad_scaler_create(&scaler, model,
                                    YK_WITH(yk_grad_scaler_options, YK_GRAD_SCALER_OPTIONS_INIT,
                                            o.init_scale = 4, o.growth_interval = 1000)));
    begin(model, 0.5);
    for (int step = 1, taken = 0; step <= 3; step++) {
        double scale = yk_grad_scaler_scale(scaler);
        set_gradients(model, step, 0.3 * scale);
        for (size_t p = 0; p < 2; p++)
            for (int64_t i = 0; i < tensors[p].count; i++)
                tensors[p].grad[i] /= scale;
        if (step == 2)
            put(yk_model_parameter(model, 0).grad, 1, (double)INFINITY);
        else
            for (size_t p = 0; p < 2; p++)
                formula(&tensors[p], r, taken + 1);
        taken += step != 2;
        assert_ok(yk_grad_scaler_step(scaler, optimizer));
        assert_ok(yk_grad_scaler_update(scaler));
        expect_values(model, 2e-6, step);
        assert_int_equal(yk_optimizer_steps(optimizer), taken);
    }
    yk_grad_scaler_destroy(scaler);
}

YK_TEST(a_step_that_overflows_is_left_out)
{
    const rule r = {.lr = 0.05, .momentum = 0.9, .decay = 0.1, .trust = 0.02};
    yk_model *model = make_linear_model(YK_F32, 4, 3);
    yk_optimizer *optimizer;
    assert_ok(make_lamb(&optimizer, model, &r));
    check_skip(optimizer, model, follow_lamb, &r);
    yk_optimizer_destroy(optimizer);
    assert_ok(make_lars(&optimizer, model, &r));
    check_skip(optimizer, model, follow_lars, &r);
    yk_optimizer_destroy(optimizer);
    yk_model_destroy(model);
}

typedef yk_status create(yk_optimizer **optimizer, yk_model *model);

static yk_status create_sgd(yk_optimizer **optimizer, yk_model *model)
{
    return yk_sgd_create(optimizer, model,
                         YK_WITH(yk_sgd_options, YK_SGD_OPTIONS_INIT, o.momentum = 0.9));
}

static yk_status create_adamw(yk_optimizer **optimizer, yk_model *model)
{
    return yk_adam_create(optimizer, model,
                          YK_WITH(yk_adam_options, YK_ADAM_OPTIONS_INIT, o.decoupled = true));
}

static yk_status create_lars(yk_optimizer **optimizer, yk_model *model)
{
    return yk_lars_create(optimizer, model, NULL);
}

static yk_status create_lamb(yk_optimizer **optimizer, yk_model *model)
{
    return yk_lamb_create(optimizer, model, NULL);
}

static create *const all[] = {create_sgd, create_adamw, create_lars, create_lamb};

static void take_steps(yk_model *model, yk_optimizer *optimizer, int first, int end)
{
    for (int step = first; step < end; step++) {
        set_gradients(model, step, 0.3);
        assert_ok(yk_optimizer_step(optimizer));
    }
}

static void expect_same(const yk_model *a, const yk_model *b)
{
    for (size_t p = 0; p < 2; p++)
        for (int64_t i = 0; i < tensors[p].count; i++)
            assert_true(get(yk_model_parameter(a, p).value, i) ==
                        get(yk_model_parameter(b, p).value, i));
}

YK_TEST(promise_15_checkpoints_continue_to_the_same_bits)
{
    for (int kind = 2; kind < 4; kind++) {
        yk_model *model = make_linear_model(YK_F32, 4, 3), *other = make_linear_model(YK_F32, 4, 3);
        yk_optimizer *optimizer, *loaded;
        const char *path = yk_test_path("layerwise.pth");
        assert_ok(all[kind](&optimizer, model));
        begin(model, 0.5);
        take_steps(model, optimizer, 1, 4);
        assert_ok(yk_checkpoint_save(path, model, optimizer, NULL));
        take_steps(model, optimizer, 4, 7);
        assert_ok(all[kind](&loaded, other));
        assert_ok(yk_checkpoint_load(path, other, loaded, NULL));
        assert_int_equal(yk_optimizer_steps(loaded), kind == 3 ? 3 : 1); /* as of SGD's files */
        take_steps(other, loaded, 4, 7);
        expect_same(model, other);
        yk_optimizer_destroy(loaded);
        for (int wrong = 0; wrong < 4; wrong++) {
            if (wrong == kind)
                continue;
            assert_ok(all[wrong](&loaded, other));
            assert_status(YK_ERROR_MISMATCH, yk_checkpoint_load(path, other, loaded, NULL));
            assert_contains(yk_last_error(), yk_optimizer_name(loaded));
            yk_optimizer_destroy(loaded);
        }
        yk_optimizer_destroy(optimizer);
        yk_model_destroy(model);
        yk_model_destroy(other);
    }
}

YK_TEST(adamws_checkpoint_is_not_lambs)
{
    yk_model *model = make_linear_model(YK_F32, 4, 3);
    yk_optimizer *adamw, *lamb;
    const char *path = yk_test_path("adamw.pth");
    begin(model, 0.5);
    assert_ok(create_adamw(&adamw, model));
    take_steps(model, adamw, 1, 2);
    assert_ok(yk_checkpoint_save(path, model, adamw, NULL));
    assert_ok(create_lamb(&lamb, model));
    assert_status(YK_ERROR_MISMATCH, yk_checkpoint_load(path, model, lamb, NULL));
    assert_contains(yk_last_error(), "its optimizer is adamw, not lamb");
    yk_optimizer_destroy(lamb);
    yk_optimizer_destroy(adamw);
    yk_model_destroy(model);
}

#define REFUSED(kind, KIND, change, message)                                                       \
    assert_status(                                                                                 \
        YK_ERROR_INVALID_ARGUMENT,                                                                 \
        yk_##kind##_create(&optimizer, model,                                                      \
                           YK_WITH(yk_##kind##_options, YK_##KIND##_OPTIONS_INIT, change)));       \
    assert_contains(yk_last_error(), message);                                                     \
    assert_null(optimizer)

YK_TEST(wrong_options_are_refused)
{
    yk_model *model = make_linear_model(YK_F32, 4, 3);
    yk_optimizer *optimizer;
    REFUSED(lars, LARS, o.lr = -1, "lars: lr");
    REFUSED(lars, LARS, o.momentum = -0.1, "lars: momentum");
    REFUSED(lars, LARS, o.weight_decay = NAN, "lars: weight_decay");
    REFUSED(lars, LARS, o.trust_coefficient = -1, "lars: trust_coefficient");
    REFUSED(lars, LARS, (o.momentum = 0, o.nesterov = true), "lars: nesterov needs a momentum");
    REFUSED(lamb, LAMB, o.lr = INFINITY, "lamb: lr");
    REFUSED(lamb, LAMB, o.beta1 = 1, "lamb: beta1");
    REFUSED(lamb, LAMB, o.beta2 = -0.5, "lamb: beta2");
    REFUSED(lamb, LAMB, o.eps = -1, "lamb: eps");
    REFUSED(lamb, LAMB, o.weight_decay = -1, "lamb: weight_decay");
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_lars_create(NULL, model, NULL));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_lamb_create(&optimizer, NULL, NULL));
    yk_model_destroy(model);
}

/*
 * Optimizers against sequences worked out by hand from the formulas of torch.optim, in f64 to the
 * last digits and in f32; the options; and that large and tiny parameters are all reached.
 */
#include "harness.h"

#include <math.h>
#include <string.h>

#include "linear_model.h"

/* The rule to follow, one number at a time: state holds what the optimizer keeps. */
typedef double (*scalar_rule)(double value, double grad, double state[3], int step);

/* 20 steps on parameters of 3 x 2 and 2 elements, gradients that change sign and size. */
static void assert_follows(yk_dtype dtype, yk_model *model, yk_optimizer *optimizer,
                           scalar_rule rule)
{
    double value[2][6], state[2][6][3] = {0};
    const int64_t counts[2] = {6, 2};
    for (size_t p = 0; p < 2; p++)
        for (int64_t i = 0; i < counts[p]; i++) {
            value[p][i] = 0.5 * (double)(i + 1) * (i % 2 ? -1 : 1);
            put(yk_model_parameter(model, p).value, i, value[p][i]);
        }
    double tolerance = dtype == YK_F64 ? 1e-14 : 1e-6;
    for (int step = 1; step <= 20; step++) {
        for (size_t p = 0; p < 2; p++)
            for (int64_t i = 0; i < counts[p]; i++) {
                double grad = sin(step * 1.3 + (double)i + (double)p * 10) * 0.3;
                put(yk_model_parameter(model, p).grad, i, grad);
                if (dtype == YK_F32)
                    grad = (double)(float)grad;
                value[p][i] = rule(value[p][i], grad, state[p][i], step);
            }
        assert_ok(yk_optimizer_step(optimizer));
        for (size_t p = 0; p < 2; p++)
            for (int64_t i = 0; i < counts[p]; i++) {
                double found = get(yk_model_parameter(model, p).value, i);
                if (!(fabs(found - value[p][i]) <= tolerance * (1 + fabs(value[p][i]))))
                    fail_msg("step %d, parameter %zu, element %d: %.17g is not %.17g", step, p,
                             (int)i, found, value[p][i]);
            }
    }
    assert_int_equal(yk_optimizer_steps(optimizer), 20);
}

static void check_sgd(const yk_sgd_options *options, scalar_rule rule)
{
    for (yk_dtype dtype = YK_F32; dtype <= YK_F64; dtype++) {
        yk_model *model = make_linear_model(dtype, 3, 2);
        yk_optimizer *optimizer;
        assert_ok(yk_sgd_create(&optimizer, model, options));
        assert_follows(dtype, model, optimizer, rule);
        yk_optimizer_destroy(optimizer);
        yk_model_destroy(model);
    }
}

static void check_adam(const yk_adam_options *options, scalar_rule rule)
{
    for (yk_dtype dtype = YK_F32; dtype <= YK_F64; dtype++) {
        yk_model *model = make_linear_model(dtype, 3, 2);
        yk_optimizer *optimizer;
        assert_ok(yk_adam_create(&optimizer, model, options));
        assert_follows(dtype, model, optimizer, rule);
        yk_optimizer_destroy(optimizer);
        yk_model_destroy(model);
    }
}

static double plain(double value, double grad, double state[3], int step)
{
    (void)state, (void)step;
    return value - 0.1 * (grad + 0.01 * value);
}

YK_TEST(sgd_plain)
{
    check_sgd(YK_WITH(yk_sgd_options, YK_SGD_OPTIONS_INIT, o.lr = 0.1, o.weight_decay = 0.01),
              plain);
}

static double with_momentum(double value, double grad, double state[3], int step)
{
    (void)step;
    state[0] = 0.9 * state[0] + grad + 5e-4 * value;
    return value - 0.1 * state[0];
}

YK_TEST(sgd_momentum_and_weight_decay)
{
    check_sgd(YK_WITH(yk_sgd_options, YK_SGD_OPTIONS_INIT, o.lr = 0.1, o.momentum = 0.9,
                      o.weight_decay = 5e-4),
              with_momentum);
}

static double with_dampening(double value, double grad, double state[3], int step)
{
    state[0] = step == 1 ? grad : 0.8 * state[0] + 0.5 * grad;
    return value - 0.05 * state[0];
}

YK_TEST(sgd_first_step_is_not_dampened)
{
    check_sgd(YK_WITH(yk_sgd_options, YK_SGD_OPTIONS_INIT, o.lr = 0.05, o.momentum = 0.8,
                      o.dampening = 0.5),
              with_dampening);
}

static double with_nesterov(double value, double grad, double state[3], int step)
{
    (void)step;
    double g = grad + 0.01 * value;
    state[0] = 0.9 * state[0] + g;
    return value - 0.1 * (g + 0.9 * state[0]);
}

YK_TEST(sgd_nesterov)
{
    check_sgd(YK_WITH(yk_sgd_options, YK_SGD_OPTIONS_INIT, o.lr = 0.1, o.momentum = 0.9,
                      o.weight_decay = 0.01, o.nesterov = true),
              with_nesterov);
}

static double adam_step(double value, double grad, double state[3], int step, double lr)
{
    state[0] = 0.9 * state[0] + 0.1 * grad;
    state[1] = 0.999 * state[1] + 0.001 * grad * grad;
    double root = sqrt(state[1]) / sqrt(1 - pow(0.999, step)) + 1e-8;
    return value - lr / (1 - pow(0.9, step)) * state[0] / root;
}

static double with_adam(double value, double grad, double state[3], int step)
{
    return adam_step(value, grad + 0.02 * value, state, step, 1e-3);
}

static double with_adamw(double value, double grad, double state[3], int step)
{
    return adam_step(value * (1 - 0.003 * 0.01), grad, state, step, 0.003);
}

YK_TEST(adam_adds_the_decay_to_the_gradient)
{
    check_adam(YK_WITH(yk_adam_options, YK_ADAM_OPTIONS_INIT, o.weight_decay = 0.02), with_adam);
}

YK_TEST(adamw_shrinks_the_weights)
{
    check_adam(YK_WITH(yk_adam_options, YK_ADAM_OPTIONS_INIT, o.lr = 0.003, o.weight_decay = 0.01,
                       o.decoupled = true),
               with_adamw);
}

/* state[2] is the largest mean of squares; with a beta2 for which it is often not the last. */
static double amsgrad_step(double value, double grad, double state[3], int step)
{
    state[0] = 0.9 * state[0] + 0.1 * grad;
    state[1] = 0.6 * state[1] + 0.4 * grad * grad;
    state[2] = fmax(state[2], state[1]);
    double root = sqrt(state[2]) / sqrt(1 - pow(0.6, step)) + 1e-8;
    return value - 0.003 / (1 - pow(0.9, step)) * state[0] / root;
}

static double with_amsgrad(double value, double grad, double state[3], int step)
{
    return amsgrad_step(value, grad + 0.02 * value, state, step);
}

static double with_amsgrad_and_shrinking(double value, double grad, double state[3], int step)
{
    return amsgrad_step(value * (1 - 0.003 * 0.02), grad, state, step);
}

YK_TEST(amsgrad_divides_by_the_largest_mean_of_squares)
{
    yk_adam_options options = YK_ADAM_OPTIONS_INIT;
    options.lr = 0.003;
    options.beta2 = 0.6;
    options.weight_decay = 0.02;
    options.amsgrad = true;
    check_adam(&options, with_amsgrad);
    options.decoupled = true;
    check_adam(&options, with_amsgrad_and_shrinking);
}

/* beta1 = beta2 = eps = 0: the gradient over its own magnitude. */
static double with_zeros(double value, double grad, double state[3], int step)
{
    (void)step;
    state[0] = grad;
    state[1] = grad * grad;
    return value - 0.01 * grad / sqrt(grad * grad);
}

YK_TEST(zeros_are_values_not_defaults)
{
    check_adam(YK_WITH(yk_adam_options, YK_ADAM_OPTIONS_INIT, o.lr = 0.01, o.beta1 = 0, o.beta2 = 0,
                       o.eps = 0),
               with_zeros);
    yk_model *model = make_linear_model(YK_F32, 3, 2);
    yk_optimizer *optimizer;
    assert_ok(yk_adam_create(&optimizer, model,
                             YK_WITH(yk_adam_options, YK_ADAM_OPTIONS_INIT, o.lr = 0)));
    assert_true(yk_optimizer_lr(optimizer) == 0);
    yk_optimizer_destroy(optimizer);
    assert_ok(
        yk_sgd_create(&optimizer, model, YK_WITH(yk_sgd_options, YK_SGD_OPTIONS_INIT, o.lr = 0)));
    assert_true(yk_optimizer_lr(optimizer) == 0);
    yk_optimizer_destroy(optimizer);
    assert_ok(yk_sgd_create(&optimizer, model, NULL));
    assert_true(yk_optimizer_lr(optimizer) == 1e-3);
    yk_optimizer_destroy(optimizer);
    yk_model_destroy(model);
}

/* ---- NAdam, RAdam and Adamax --------------------------------------------------------------- */

#define FOLLOWS(kind, options, rule)                                                               \
    for (yk_dtype dtype = YK_F32; dtype <= YK_F64; dtype++) {                                      \
        yk_model *model = make_linear_model(dtype, 3, 2);                                          \
        yk_optimizer *optimizer;                                                                   \
        assert_ok(yk_##kind##_create(&optimizer, model, options));                                 \
        assert_string_equal(yk_optimizer_name(optimizer), #kind);                                  \
        assert_follows(dtype, model, optimizer, rule);                                             \
        yk_optimizer_destroy(optimizer);                                                           \
        yk_model_destroy(model);                                                                   \
    }

/* state[2]: the product of momenta, which is a float32 in PyTorch. */
static double nadam_step(double value, double grad, double state[3], int step, double lr,
                         const double h[4])
{
    double mu = h[0] * (1 - 0.5 * pow(0.96, step * h[3]));
    double next = h[0] * (1 - 0.5 * pow(0.96, (step + 1) * h[3]));
    float product = (step == 1 ? 1 : (float)state[2]) * (float)mu;
    state[0] = h[0] * state[0] + (1 - h[0]) * grad;
    state[1] = h[1] * state[1] + (1 - h[1]) * grad * grad;
    state[2] = (double)product;
    double root = sqrt(state[1] / (1 - pow(h[1], step))) + h[2];
    value -= lr * (1 - mu) / (1 - state[2]) * grad / root;
    return value - lr * next / (1 - state[2] * next) * state[0] / root;
}

static double with_nadam(double value, double grad, double state[3], int step)
{
    return nadam_step(value, grad, state, step, 2e-3, (double[]){0.9, 0.999, 1e-8, 4e-3});
}

static const double nadam_settings[] = {0.8, 0.95, 1e-3, 0.5};

static double nadam_decaying(double value, double grad, double state[3], int step)
{
    return nadam_step(value, grad + 0.02 * value, state, step, 0.01, nadam_settings);
}

static double nadam_shrinking(double value, double grad, double state[3], int step)
{
    return nadam_step(value * (1 - 0.01 * 0.02), grad, state, step, 0.01, nadam_settings);
}

YK_TEST(nadam_looks_ahead_of_the_mean)
{
    yk_nadam_options options = {sizeof options, 0.01, 0.8, 0.95, 1e-3, 0.02, 0.5, false};
    FOLLOWS(nadam, NULL, with_nadam);
    FOLLOWS(nadam, &options, nadam_decaying);
    options.decoupled_weight_decay = true;
    FOLLOWS(nadam, &options, nadam_shrinking);
}

static double radam_step(double value, double grad, double state[3], int step, double lr,
                         double beta2, double eps)
{
    double power = pow(beta2, step), limit = 2 / (1 - beta2) - 1;
    double length = limit - 2 * step * power / (1 - power);
    state[0] = 0.9 * state[0] + 0.1 * grad;
    state[1] = beta2 * state[1] + (1 - beta2) * grad * grad;
    double mean = state[0] / (1 - pow(0.9, step));
    if (length <= 5)
        return value - lr * mean;
    double rectified =
        sqrt((length - 4) * (length - 2) * limit / ((limit - 4) * (limit - 2) * length));
    return value - lr * mean * rectified * sqrt(1 - power) / (sqrt(state[1]) + eps);
}

static double with_radam(double value, double grad, double state[3], int step)
{
    return radam_step(value, grad, state, step, 1e-3, 0.999, 1e-8);
}

static double radam_decaying(double value, double grad, double state[3], int step)
{
    return radam_step(value, grad + 0.02 * value, state, step, 0.003, 0.9, 1e-3);
}

static double radam_shrinking(double value, double grad, double state[3], int step)
{
    return radam_step(value * (1 - 0.003 * 0.02), grad, state, step, 0.003, 0.9, 1e-3);
}

/* No sequence of gradients is long enough for a beta2 of 0.5. */
static double never_rectified(double value, double grad, double state[3], int step)
{
    return radam_step(value, grad, state, step, 1e-3, 0.5, 1e-8);
}

YK_TEST(radam_is_rectified_after_its_first_steps)
{
    yk_radam_options options = {sizeof options, 0.003, 0.9, 0.9, 1e-3, 0.02, false};
    FOLLOWS(radam, NULL, with_radam);
    FOLLOWS(radam, &options, radam_decaying);
    options.decoupled_weight_decay = true;
    FOLLOWS(radam, &options, radam_shrinking);
    FOLLOWS(radam, YK_WITH(yk_radam_options, YK_RADAM_OPTIONS_INIT, o.beta2 = 0.5),
            never_rectified);
}

static double adamax_step(double value, double grad, double state[3], int step, double lr,
                          double beta2, double eps)
{
    state[0] = 0.9 * state[0] + 0.1 * grad;
    state[1] = fmax(beta2 * state[1], fabs(grad) + eps);
    return value - lr / (1 - pow(0.9, step)) * state[0] / state[1];
}

static double with_adamax(double value, double grad, double state[3], int step)
{
    return adamax_step(value, grad, state, step, 2e-3, 0.999, 1e-8);
}

static double adamax_decaying(double value, double grad, double state[3], int step)
{
    return adamax_step(value, grad + 0.02 * value, state, step, 0.01, 0.6, 1e-3);
}

YK_TEST(adamax_divides_by_the_largest_gradient)
{
    FOLLOWS(adamax, NULL, with_adamax);
    FOLLOWS(adamax,
            YK_WITH(yk_adamax_options, YK_ADAMAX_OPTIONS_INIT, o.lr = 0.01, o.beta2 = 0.6,
                    o.eps = 1e-3, o.weight_decay = 0.02),
            adamax_decaying);
}

static void set_gradients(const yk_model *model, int step)
{
    for (size_t p = 0; p < yk_model_parameter_count(model); p++) {
        yk_tensor grad = yk_model_parameter(model, p).grad;
        for (int64_t i = 0; i < yk_tensor_count(&grad); i++)
            put(grad, i, sin(step + (double)i + (double)p));
    }
}

/* Of two equal optimizers one has its steps set, as a program's own file may do: NAdam's product
 * follows. */
YK_TEST(nadam_has_its_product_after_steps_that_are_set)
{
    yk_model *models[2];
    yk_optimizer *optimizers[2];
    for (int m = 0; m < 2; m++) {
        models[m] = make_linear_model(YK_F64, 3, 2);
        assert_ok(yk_nadam_create(&optimizers[m], models[m], NULL));
    }
    for (int step = 1; step <= 6; step++)
        for (int m = 0; m < 2; m++) {
            set_gradients(models[m], step);
            if (step == 5 && m == 1)
                yk_optimizer_set_steps(optimizers[m], 4);
            assert_ok(yk_optimizer_step(optimizers[m]));
        }
    for (size_t p = 0; p < 2; p++) {
        yk_tensor a = yk_model_parameter(models[0], p).value;
        yk_tensor b = yk_model_parameter(models[1], p).value;
        for (int64_t i = 0; i < yk_tensor_count(&a); i++)
            assert_true(get(a, i) == get(b, i));
    }
    yk_optimizer_set_steps(optimizers[1], INT64_MAX); /* by when the product is 0 */
    for (int m = 0; m < 2; m++) {
        yk_optimizer_destroy(optimizers[m]);
        yk_model_destroy(models[m]);
    }
}

/* ---- Adagrad --------------------------------------------------------------------------------- */

static double with_adagrad(double value, double grad, double state[3], int step)
{
    (void)step;
    state[0] += grad * grad;
    return value - 0.01 * grad / (sqrt(state[0]) + 1e-10);
}

static double adagrad_with_all(double value, double grad, double state[3], int step)
{
    double g = grad + 0.02 * value;
    state[0] += g * g + (step == 1 ? 0.3 : 0);
    return value - 0.05 / (1 + (step - 1) * 0.1) * g / (sqrt(state[0]) + 1e-3);
}

YK_TEST(adagrad_divides_by_the_root_of_the_sum_of_squares)
{
    FOLLOWS(adagrad, NULL, with_adagrad);
    FOLLOWS(adagrad,
            YK_WITH(yk_adagrad_options, YK_ADAGRAD_OPTIONS_INIT, o.lr = 0.05, o.lr_decay = 0.1,
                    o.weight_decay = 0.02, o.initial_accumulator_value = 0.3, o.eps = 1e-3),
            adagrad_with_all);
}

YK_TEST(sums_of_adagrad_start_from_a_value)
{
    yk_model *model = make_linear_model(YK_F32, 3, 2);
    yk_optimizer *optimizer;
    const char *name;
    yk_tensor sum;
    assert_ok(yk_adagrad_create(
        &optimizer, model,
        YK_WITH(yk_adagrad_options, YK_ADAGRAD_OPTIONS_INIT, o.initial_accumulator_value = 0.25)));
    for (size_t p = 0; p < 2; p++) {
        assert_true(yk_optimizer_state(optimizer, p, 0, &name, &sum));
        assert_string_equal(name, "sum");
        for (int64_t i = 0; i < yk_tensor_count(&sum); i++)
            assert_true(get(sum, i) == 0.25);
        assert_false(yk_optimizer_state(optimizer, p, 1, &name, &sum));
    }
    yk_optimizer_destroy(optimizer);
    yk_model_destroy(model);
}

/* ---- Adadelta -------------------------------------------------------------------------------- */

static double adadelta_step(double value, double grad, double state[3], double lr, double rho,
                            double eps)
{
    state[0] = rho * state[0] + (1 - rho) * grad * grad;
    double update = sqrt(state[1] + eps) / sqrt(state[0] + eps) * grad;
    state[1] = rho * state[1] + (1 - rho) * update * update;
    return value - lr * update;
}

static double with_adadelta(double value, double grad, double state[3], int step)
{
    (void)step;
    return adadelta_step(value, grad, state, 1, 0.9, 1e-6);
}

static double adadelta_decaying(double value, double grad, double state[3], int step)
{
    (void)step;
    return adadelta_step(value, grad + 0.02 * value, state, 0.5, 0.8, 1e-3);
}

YK_TEST(adadelta_steps_by_the_root_of_the_mean_squared_update)
{
    FOLLOWS(adadelta, NULL, with_adadelta);
    FOLLOWS(adadelta,
            YK_WITH(yk_adadelta_options, YK_ADADELTA_OPTIONS_INIT, o.lr = 0.5, o.rho = 0.8,
                    o.eps = 1e-3, o.weight_decay = 0.02),
            adadelta_decaying);
}

/* ---- RMSprop --------------------------------------------------------------------------------- */

/* With the default alpha and eps; state: the mean of squares, the momentum, the mean. */
static double rmsprop(double value, double grad, double state[3], int step)
{
    (void)step;
    state[0] = 0.99 * state[0] + 0.01 * grad * grad;
    return value - 0.01 * grad / (sqrt(state[0]) + 1e-8);
}

static double rmsprop_decaying(double value, double grad, double state[3], int step)
{
    (void)step;
    double g = grad + 0.02 * value;
    state[0] = 0.9 * state[0] + 0.1 * g * g;
    return value - 0.003 * g / (sqrt(state[0]) + 0.0316);
}

static double rmsprop_with_momentum(double value, double grad, double state[3], int step)
{
    (void)step;
    state[0] = 0.99 * state[0] + 0.01 * grad * grad;
    state[1] = 0.9 * state[1] + grad / (sqrt(state[0]) + 1e-8);
    return value - 0.01 * state[1];
}

static double centered(double grad, double state[3], double alpha, double eps)
{
    state[0] = alpha * state[0] + (1 - alpha) * grad * grad;
    state[2] = alpha * state[2] + (1 - alpha) * grad;
    return grad / (sqrt(state[0] - state[2] * state[2]) + eps);
}

static double rmsprop_centered(double value, double grad, double state[3], int step)
{
    (void)step;
    return value - 0.01 * centered(grad, state, 0.99, 1e-8);
}

static double rmsprop_with_both(double value, double grad, double state[3], int step)
{
    (void)step;
    state[1] = 0.8 * state[1] + centered(grad + 0.01 * value, state, 0.9, 1e-3);
    return value - 0.001 * state[1];
}

YK_TEST(rmsprop_divides_by_the_root_of_the_mean_square)
{
    FOLLOWS(rmsprop, NULL, rmsprop);
    FOLLOWS(rmsprop,
            YK_WITH(yk_rmsprop_options, YK_RMSPROP_OPTIONS_INIT, o.lr = 0.003, o.alpha = 0.9,
                    o.eps = 0.0316, o.weight_decay = 0.02),
            rmsprop_decaying);
}

YK_TEST(rmsprop_with_momentum_and_centered)
{
    FOLLOWS(rmsprop, YK_WITH(yk_rmsprop_options, YK_RMSPROP_OPTIONS_INIT, o.momentum = 0.9),
            rmsprop_with_momentum);
    FOLLOWS(rmsprop, YK_WITH(yk_rmsprop_options, YK_RMSPROP_OPTIONS_INIT, o.centered = true),
            rmsprop_centered);
    FOLLOWS(rmsprop,
            YK_WITH(yk_rmsprop_options, YK_RMSPROP_OPTIONS_INIT, o.lr = 0.001, o.alpha = 0.9,
                    o.eps = 1e-3, o.weight_decay = 0.01, o.momentum = 0.8, o.centered = true),
            rmsprop_with_both);
}

static void expect_slots(const yk_optimizer *optimizer, size_t parameter, const char *names)
{
    char found[64] = "";
    const char *name;
    yk_tensor tensor;
    for (size_t slot = 0; yk_optimizer_state(optimizer, parameter, slot, &name, &tensor); slot++) {
        strcat(found, slot ? " " : "");
        strcat(found, name);
    }
    assert_string_equal(found, names);
}

/* Each optimizer has memory for what it was created with, and a group for less, if it needs less.
 */
YK_TEST(rmsprop_keeps_what_its_settings_need)
{
    static const char *const names[2][2] = {
        {"square_avg", "square_avg momentum_buffer"},
        {"square_avg grad_avg", "square_avg momentum_buffer grad_avg"}};
    yk_model *model = make_linear_model(YK_F32, 3, 2);
    yk_optimizer *optimizer;
    for (int center = 0; center < 2; center++)
        for (int momentum = 0; momentum < 2; momentum++) {
            assert_ok(yk_rmsprop_create(&optimizer, model,
                                        YK_WITH(yk_rmsprop_options, YK_RMSPROP_OPTIONS_INIT,
                                                o.momentum = momentum, o.centered = center)));
            assert_string_equal(yk_optimizer_name(optimizer), "rmsprop");
            expect_slots(optimizer, 0, names[center][momentum]);
            assert_status(momentum ? YK_OK : YK_ERROR_INVALID_ARGUMENT,
                          yk_optimizer_set_hyperparameter(optimizer, "momentum", 0.5));
            assert_status(center ? YK_OK : YK_ERROR_INVALID_ARGUMENT,
                          yk_optimizer_set_hyperparameter(optimizer, "centered", 1));
            if (!center)
                assert_string_equal(yk_last_error(),
                                    "yoke: rmsprop: it was created without centered and has no "
                                    "memory for grad_avg: create it with centered");
            assert_ok(yk_optimizer_add_param_group(optimizer, yk_filter_name, "*.bias", NULL));
            assert_ok(yk_optimizer_set_group_hyperparameter(optimizer, 1, "momentum", 0));
            expect_slots(optimizer, 0, names[center][momentum]);
            expect_slots(optimizer, 1, names[center][0]);
            assert_ok(yk_optimizer_set_group_hyperparameter(optimizer, 0, "centered", 0));
            expect_slots(optimizer, 0, names[0][momentum]);
            yk_optimizer_destroy(optimizer);
        }
    yk_model_destroy(model);
}

YK_TEST(adam_keeps_the_largest_squares_if_it_is_created_with_amsgrad)
{
    yk_model *model = make_linear_model(YK_F32, 3, 2);
    yk_optimizer *optimizer;
    assert_ok(yk_adam_create(&optimizer, model, NULL));
    expect_slots(optimizer, 0, "exp_avg exp_avg_sq");
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_optimizer_set_hyperparameter(optimizer, "amsgrad", 1));
    assert_string_equal(yk_last_error(),
                        "yoke: adam: it was created without amsgrad and has no memory for "
                        "max_exp_avg_sq: create it with amsgrad");
    yk_optimizer_destroy(optimizer);
    assert_ok(yk_adam_create(
        &optimizer, model,
        YK_WITH(yk_adam_options, YK_ADAM_OPTIONS_INIT, o.decoupled = true, o.amsgrad = true)));
    assert_ok(yk_optimizer_add_param_group(optimizer, yk_filter_name, "*.bias", NULL));
    assert_ok(yk_optimizer_set_group_hyperparameter(optimizer, 1, "amsgrad", 0));
    expect_slots(optimizer, 0, "exp_avg exp_avg_sq max_exp_avg_sq");
    expect_slots(optimizer, 1, "exp_avg exp_avg_sq");
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_optimizer_set_hyperparameter(optimizer, "amsgrad", 0.5));
    assert_string_equal(yk_last_error(), "yoke: adamw: amsgrad must be 0 or 1, not 0.5");
    yk_optimizer_destroy(optimizer);
    yk_model_destroy(model);
}

/* ---- all of them ----------------------------------------------------------------------------- */

/* More elements than a chunk, and a number that no vector width divides. */
YK_TEST(every_element_is_updated_once)
{
    yk_model *model = make_linear_model(YK_F32, 20011, 3);
    yk_optimizer *optimizer;
    assert_ok(
        yk_sgd_create(&optimizer, model,
                      YK_WITH(yk_sgd_options, YK_SGD_OPTIONS_INIT, o.lr = 1, o.momentum = 0.5)));
    for (size_t p = 0; p < 2; p++) {
        yk_parameter_view view = yk_model_parameter(model, p);
        for (int64_t i = 0; i < yk_tensor_count(&view.value); i++) {
            put(view.value, i, 0);
            put(view.grad, i, (double)i);
        }
    }
    assert_ok(yk_optimizer_step(optimizer));
    for (size_t p = 0; p < 2; p++) {
        yk_parameter_view view = yk_model_parameter(model, p);
        for (int64_t i = 0; i < yk_tensor_count(&view.value); i++)
            if (get(view.value, i) != -(double)i)
                fail_msg("parameter %zu, element %d: %g", p, (int)i, get(view.value, i));
    }
    yk_optimizer_destroy(optimizer);
    yk_model_destroy(model);
}

YK_TEST(state_and_hyperparameters_have_torchs_names)
{
    yk_model *model = make_linear_model(YK_F32, 3, 2);
    yk_optimizer *optimizer;
    const char *name;
    yk_tensor tensor;
    double value;
    assert_ok(
        yk_sgd_create(&optimizer, model,
                      YK_WITH(yk_sgd_options, YK_SGD_OPTIONS_INIT, o.lr = 0.1, o.momentum = 0.9)));
    assert_string_equal(yk_optimizer_name(optimizer), "sgd");
    assert_true(yk_optimizer_state(optimizer, 1, 0, &name, &tensor));
    assert_string_equal(name, "momentum_buffer");
    assert_int_equal(yk_tensor_count(&tensor), 2);
    assert_false(yk_optimizer_state(optimizer, 1, 1, &name, &tensor));
    assert_false(yk_optimizer_state(optimizer, 2, 0, &name, &tensor));
    static const char *const names[] = {"lr", "momentum", "dampening", "weight_decay", "nesterov"};
    for (size_t i = 0; i < 5; i++) {
        assert_true(yk_optimizer_hyperparameter(optimizer, i, &name, &value));
        assert_string_equal(name, names[i]);
    }
    assert_false(yk_optimizer_hyperparameter(optimizer, 5, &name, &value));
    assert_ok(yk_optimizer_set_hyperparameter(optimizer, "lr", 0.25));
    assert_true(yk_optimizer_lr(optimizer) == 0.25);
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_optimizer_set_hyperparameter(optimizer, "beta1", 0.25));
    yk_optimizer_destroy(optimizer);

    assert_ok(
        yk_sgd_create(&optimizer, model, YK_WITH(yk_sgd_options, YK_SGD_OPTIONS_INIT, o.lr = 0.1)));
    assert_false(yk_optimizer_state(optimizer, 0, 0, &name, &tensor));
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_optimizer_set_hyperparameter(optimizer, "momentum", 0.5));
    assert_string_equal(yk_last_error(), "yoke: sgd: it was created without a momentum and has no "
                                         "memory for one: create it with a momentum above 0");
    yk_optimizer_destroy(optimizer);

    assert_ok(yk_adam_create(&optimizer, model,
                             YK_WITH(yk_adam_options, YK_ADAM_OPTIONS_INIT, o.decoupled = true)));
    assert_string_equal(yk_optimizer_name(optimizer), "adamw");
    assert_true(yk_optimizer_lr(optimizer) == 1e-3);
    assert_true(yk_optimizer_state(optimizer, 0, 1, &name, &tensor));
    assert_string_equal(name, "exp_avg_sq");
    yk_optimizer_destroy(optimizer);
    yk_model_destroy(model);
}

static void assert_refused(yk_model *model, const yk_sgd_options *options, const char *word)
{
    yk_optimizer *optimizer;
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_sgd_create(&optimizer, model, options));
    assert_null(optimizer);
    assert_contains(yk_last_error(), word);
}

YK_TEST(wrong_options_are_named)
{
    yk_model *model = make_linear_model(YK_F32, 3, 2);
    assert_refused(model, YK_WITH(yk_sgd_options, YK_SGD_OPTIONS_INIT, o.lr = -1), "lr");
    assert_refused(model, YK_WITH(yk_sgd_options, YK_SGD_OPTIONS_INIT, o.lr = NAN), "lr");
    assert_refused(model,
                   YK_WITH(yk_sgd_options, YK_SGD_OPTIONS_INIT, o.lr = 0.1, o.momentum = -0.1),
                   "momentum");
    assert_refused(
        model, YK_WITH(yk_sgd_options, YK_SGD_OPTIONS_INIT, o.lr = 0.1, o.weight_decay = INFINITY),
        "weight_decay");
    assert_refused(model,
                   YK_WITH(yk_sgd_options, YK_SGD_OPTIONS_INIT, o.lr = 0.1, o.momentum = 0.9,
                           o.dampening = NAN),
                   "dampening");
    assert_refused(model,
                   YK_WITH(yk_sgd_options, YK_SGD_OPTIONS_INIT, o.lr = 0.1, o.nesterov = true),
                   "nesterov");
    assert_refused(model,
                   YK_WITH(yk_sgd_options, YK_SGD_OPTIONS_INIT, o.lr = 0.1, o.momentum = 0.9,
                           o.dampening = 0.1, o.nesterov = true),
                   "dampening");
    yk_optimizer *optimizer;
    assert_status(
        YK_ERROR_INVALID_ARGUMENT,
        yk_rmsprop_create(&optimizer, model,
                          YK_WITH(yk_rmsprop_options, YK_RMSPROP_OPTIONS_INIT, o.alpha = 1)));
    assert_contains(yk_last_error(), "rmsprop: alpha must be at least 0 and below 1, not 1");
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_adagrad_create(&optimizer, model,
                                    YK_WITH(yk_adagrad_options, YK_ADAGRAD_OPTIONS_INIT,
                                            o.initial_accumulator_value = -1)));
    assert_contains(yk_last_error(), "initial_accumulator_value must be at least 0, not -1");
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_adam_create(&optimizer, model,
                                 YK_WITH(yk_adam_options, YK_ADAM_OPTIONS_INIT, o.beta2 = 1)));
    assert_contains(yk_last_error(), "beta2 must be at least 0 and below 1, not 1");
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_adam_create(&optimizer, model,
                                 YK_WITH(yk_adam_options, YK_ADAM_OPTIONS_INIT, o.size = 0)));
    assert_contains(yk_last_error(), "initialise the struct with YK_ADAM_OPTIONS_INIT");
    assert_ok(
        yk_sgd_create(&optimizer, model,
                      YK_WITH(yk_sgd_options, YK_SGD_OPTIONS_INIT, o.lr = 0.1, o.momentum = 0.9)));
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_optimizer_set_hyperparameter(optimizer, "nesterov", 0.5));
    assert_contains(yk_last_error(), "nesterov must be 0 or 1, not 0.5");
    yk_optimizer_destroy(optimizer);
    yk_optimizer_destroy(NULL);
    yk_model_destroy(model);
}

/*
 * Adam (Kingma and Ba, 2015) and AdamW (Loshchilov and Hutter, "Decoupled Weight Decay
 * Regularization", 2019) as torch.optim does them. With m and v the running means of the gradient
 * and of its square, and t the step from 1:
 *
 *     value -= lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps)
 *
 * Adam adds weight_decay times the value to the gradient; AdamW instead shrinks the value by
 * lr * weight_decay before that.
 */
#include "optim/optimizer.h"

#include <math.h>

#include "base/options.h"
#include "optim/vectorised.h"

enum { BETA1 = YKI_LR + 1, BETA2, EPS, WEIGHT_DECAY, HYPERPARAMETERS };
enum { C_STEP, C_BETA1, C_BETA2, C_ROOT, C_EPS, C_DECAY, C_SHRINK };

static int adam_slots(const double *h)
{
    (void)h;
    return 2;
}

static yk_status check_as(const char *name, const double *h)
{
    YK_TRY(yki_check_option(name, "lr", h[YKI_LR], 0, 0));
    YK_TRY(yki_check_option(name, "beta1", h[BETA1], 0, 1));
    YK_TRY(yki_check_option(name, "beta2", h[BETA2], 0, 1));
    YK_TRY(yki_check_option(name, "eps", h[EPS], 0, 0));
    return yki_check_option(name, "weight_decay", h[WEIGHT_DECAY], 0, 0);
}

static yk_status check_adam(const double *h)
{
    return check_as("adam", h);
}

static yk_status check_adamw(const double *h)
{
    return check_as("adamw", h);
}

static yki_coefficients adam_coefficients(const double *h, int64_t step, double decay,
                                          double shrink)
{
    return (yki_coefficients){{[C_STEP] = h[YKI_LR] / (1 - pow(h[BETA1], (double)step)),
                               [C_BETA1] = h[BETA1],
                               [C_BETA2] = h[BETA2],
                               [C_ROOT] = sqrt(1 - pow(h[BETA2], (double)step)),
                               [C_EPS] = h[EPS],
                               [C_DECAY] = decay,
                               [C_SHRINK] = shrink}};
}

static yki_coefficients prepare_adam(const double *h, int64_t step)
{
    return adam_coefficients(h, step, h[WEIGHT_DECAY], 1);
}

static yki_coefficients prepare_adamw(const double *h, int64_t step)
{
    return adam_coefficients(h, step, 0, 1 - h[YKI_LR] * h[WEIGHT_DECAY]);
}

#define DEFINE_UPDATE(name, real, root)                                                            \
    YKI_VECTORISED static void name##_loop(real *restrict value, const real *restrict grad,        \
                                           real *restrict mean, real *restrict square,             \
                                           int64_t count, const double *c)                         \
    {                                                                                              \
        const real step = (real)c[C_STEP], beta1 = (real)c[C_BETA1], beta2 = (real)c[C_BETA2];     \
        const real take1 = (real)(1 - c[C_BETA1]), take2 = (real)(1 - c[C_BETA2]);                 \
        const real correction = (real)c[C_ROOT], eps = (real)c[C_EPS];                             \
        const real decay = (real)c[C_DECAY], shrink = (real)c[C_SHRINK];                           \
        _Pragma("omp simd") for (int64_t i = 0; i < count; i++)                                    \
        {                                                                                          \
            real g = grad[i] + decay * value[i];                                                   \
            real m = beta1 * mean[i] + take1 * g;                                                  \
            real v = beta2 * square[i] + take2 * (g * g);                                          \
            mean[i] = m;                                                                           \
            square[i] = v;                                                                         \
            value[i] = shrink * value[i] - step * m / (root(v) / correction + eps);                \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    static void name(const yki_piece *piece, const yki_coefficients *coefficients)                 \
    {                                                                                              \
        name##_loop(piece->value, piece->grad, piece->state[0], piece->state[1], piece->count,     \
                    coefficients->c);                                                              \
    }

DEFINE_UPDATE(update_f32, float, sqrtf)
DEFINE_UPDATE(update_f64, double, sqrt)

static const yki_optimizer_rule adam = {
    .name = "adam",
    .hyperparameters = HYPERPARAMETERS,
    .hyperparameter_names = {"lr", "beta1", "beta2", "eps", "weight_decay"},
    .slot_names = {"exp_avg", "exp_avg_sq"},
    .slots = adam_slots,
    .check = check_adam,
    .prepare = prepare_adam,
    .update_f32 = update_f32,
    .update_f64 = update_f64,
};

static const yki_optimizer_rule adamw = {
    .name = "adamw",
    .hyperparameters = HYPERPARAMETERS,
    .hyperparameter_names = {"lr", "beta1", "beta2", "eps", "weight_decay"},
    .slot_names = {"exp_avg", "exp_avg_sq"},
    .slots = adam_slots,
    .check = check_adamw,
    .prepare = prepare_adamw,
    .update_f32 = update_f32,
    .update_f64 = update_f64,
};

yk_status yk_adam_create(yk_optimizer **optimizer, yk_model *model, const yk_adam_options *options)
{
    YKI_NOT_NULL(optimizer);
    *optimizer = NULL;
    YKI_NOT_NULL(model);
    yk_adam_options o;
    YK_TRY(YKI_READ_OPTIONS(&o, options, yk_adam_options, YK_ADAM_OPTIONS_INIT));
    double hyperparameters[] = {o.lr, o.beta1, o.beta2, o.eps, o.weight_decay};
    return yki_optimizer_create(optimizer, model, o.decoupled ? &adamw : &adam, hyperparameters);
}

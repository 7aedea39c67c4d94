/*
 * Adam (Kingma and Ba, 2015) and AdamW (Loshchilov and Hutter, "Decoupled Weight Decay
 * Regularization", 2019) as torch.optim does them. With m and v the running means of the gradient
 * and of its square, and t the step from 1:
 *
 *     value -= lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps)
 *
 * Adam adds weight_decay times the value to the gradient; AdamW instead shrinks the value by
 * lr * weight_decay before that. With amsgrad (Reddi, Kale and Kumar, "On the Convergence of Adam
 * and Beyond", 2018), the largest v of all steps so far is divided by instead of the present one.
 */
#include "optim/optimizer.h"

#include <math.h>

#include "base/options.h"

enum { BETA1 = YKI_LR + 1, BETA2, EPS, WEIGHT_DECAY, AMSGRAD, HYPERPARAMETERS };
enum { EXP_AVG, EXP_AVG_SQ, MAX_EXP_AVG_SQ };

static unsigned adam_slots(const double *h)
{
    return 1U << EXP_AVG | 1U << EXP_AVG_SQ | (h[AMSGRAD] != 0 ? 1U << MAX_EXP_AVG_SQ : 0);
}

static yk_status check_as(const char *name, const double *h)
{
    YK_TRY(yki_check_option(name, "lr", h[YKI_LR], 0, 0));
    YK_TRY(yki_check_option(name, "beta1", h[BETA1], 0, 1));
    YK_TRY(yki_check_option(name, "beta2", h[BETA2], 0, 1));
    YK_TRY(yki_check_option(name, "eps", h[EPS], 0, 0));
    YK_TRY(yki_check_option(name, "weight_decay", h[WEIGHT_DECAY], 0, 0));
    return yki_check_switch(name, "amsgrad", h[AMSGRAD]);
}

static yk_status check_adam(const double *h)
{
    return check_as("adam", h);
}

static yk_status check_adamw(const double *h)
{
    return check_as("adamw", h);
}

static void prepare(double *c, const double *h, const yki_state_age *age, double decay,
                    double shrink)
{
    c[YKI_ADAM_STEP] = h[YKI_LR] / (1 - pow(h[BETA1], (double)age->steps));
    c[YKI_ADAM_BETA1] = h[BETA1];
    c[YKI_ADAM_BETA2] = h[BETA2];
    c[YKI_ADAM_ROOT] = sqrt(1 - pow(h[BETA2], (double)age->steps));
    c[YKI_ADAM_EPS] = h[EPS];
    c[YKI_ADAM_DECAY] = decay;
    c[YKI_ADAM_SHRINK] = shrink;
}

static void prepare_adam(double *c, const double *h, const yki_state_age *age)
{
    prepare(c, h, age, h[WEIGHT_DECAY], 1);
}

static void prepare_adamw(double *c, const double *h, const yki_state_age *age)
{
    prepare(c, h, age, 0, 1 - h[YKI_LR] * h[WEIGHT_DECAY]);
}

static const yki_optimizer_rule adam = {
    .update = YKI_SWEEP_ADAM,
    .name = "adam",
    .hyperparameters = HYPERPARAMETERS,
    .hyperparameter_names = {"lr", "beta1", "beta2", "eps", "weight_decay", "amsgrad"},
    .slot_names =
        {[EXP_AVG] = "exp_avg", [EXP_AVG_SQ] = "exp_avg_sq", [MAX_EXP_AVG_SQ] = "max_exp_avg_sq"},
    .slot_switches = {[MAX_EXP_AVG_SQ] = "amsgrad"},
    .slots = adam_slots,
    .saves_step = true,
    .check = check_adam,
    .prepare = prepare_adam,
};

static const yki_optimizer_rule adamw = {
    .update = YKI_SWEEP_ADAM,
    .name = "adamw",
    .hyperparameters = HYPERPARAMETERS,
    .hyperparameter_names = {"lr", "beta1", "beta2", "eps", "weight_decay", "amsgrad"},
    .slot_names =
        {[EXP_AVG] = "exp_avg", [EXP_AVG_SQ] = "exp_avg_sq", [MAX_EXP_AVG_SQ] = "max_exp_avg_sq"},
    .slot_switches = {[MAX_EXP_AVG_SQ] = "amsgrad"},
    .slots = adam_slots,
    .saves_step = true,
    .check = check_adamw,
    .prepare = prepare_adamw,
};

yk_status yk_adam_create(yk_optimizer **optimizer, yk_model *model, const yk_adam_options *options)
{
    YKI_NOT_NULL(optimizer);
    *optimizer = NULL;
    YKI_NOT_NULL(model);
    yk_adam_options o;
    YK_TRY(YKI_READ_OPTIONS(&o, options, yk_adam_options, YK_ADAM_OPTIONS_INIT));
    double hyperparameters[] = {o.lr, o.beta1, o.beta2, o.eps, o.weight_decay, o.amsgrad};
    return yki_optimizer_create(optimizer, model, o.decoupled ? &adamw : &adam, hyperparameters);
}

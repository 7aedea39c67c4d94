/*
 * NAdam (Dozat, "Incorporating Nesterov Momentum into Adam", 2016) as torch.optim.NAdam does it.
 * With m and v the running means of the gradient g and of its square, and t the step from 1:
 *
 *     mu(t) = beta1 * (1 - 0.96^(t * momentum_decay) / 2)
 *     product = product * mu(t), from 1
 *     ahead = (1 - mu(t)) / (1 - product) * g + mu(t + 1) / (1 - product * mu(t + 1)) * m
 *     value -= lr * ahead / (sqrt(v) / sqrt(1 - beta2^t) + eps)
 *
 * weight_decay times the value is added to the gradient or, with decoupled_weight_decay, the value
 * is shrunk by lr * weight_decay before that. beta1 may change from step to step, so the product is
 * kept for each parameter, in f32 as PyTorch keeps it.
 */
#include <math.h>

#include "base/options.h"
#include "optim/optimizer.h"

enum { BETA1 = YKI_LR + 1, BETA2, EPS, WEIGHT_DECAY, MOMENTUM_DECAY, DECOUPLED, HYPERPARAMETERS };
enum { EXP_AVG, EXP_AVG_SQ };

static unsigned nadam_slots(const double *h)
{
    (void)h;
    return 1U << EXP_AVG | 1U << EXP_AVG_SQ;
}

static yk_status check_nadam(const double *h)
{
    YK_TRY(yki_check_option("nadam", "lr", h[YKI_LR], 0, 0));
    YK_TRY(yki_check_option("nadam", "beta1", h[BETA1], 0, 1));
    YK_TRY(yki_check_option("nadam", "beta2", h[BETA2], 0, 1));
    YK_TRY(yki_check_option("nadam", "eps", h[EPS], 0, 0));
    YK_TRY(yki_check_option("nadam", "weight_decay", h[WEIGHT_DECAY], 0, 0));
    YK_TRY(yki_check_option("nadam", "momentum_decay", h[MOMENTUM_DECAY], 0, 0));
    return yki_check_switch("nadam", "decoupled_weight_decay", h[DECOUPLED]);
}

static double momentum_of(const double *h, int64_t step)
{
    return h[BETA1] * (1 - 0.5 * pow(0.96, (double)step * h[MOMENTUM_DECAY]));
}

/* The rates are multiplied with the root of 1 - beta2^t instead of dividing sqrt(v) by it. */
static void prepare_nadam(double *c, const double *h, const yki_state_age *age)
{
    double root = sqrt(1 - pow(h[BETA2], (double)age->steps)), product = age->product;
    double mu = momentum_of(h, age->steps), next = momentum_of(h, age->steps + 1);
    c[YKI_ADAM_STEP] = h[YKI_LR] * next / (1 - product * next) * root;
    c[YKI_NADAM_AHEAD] = h[YKI_LR] * (1 - mu) / (1 - product) * root;
    c[YKI_ADAM_BETA1] = h[BETA1];
    c[YKI_ADAM_BETA2] = h[BETA2];
    c[YKI_ADAM_EPS] = h[EPS] * root;
    c[YKI_ADAM_DECAY] = h[DECOUPLED] != 0 ? 0 : h[WEIGHT_DECAY];
    c[YKI_ADAM_SHRINK] = h[DECOUPLED] != 0 ? 1 - h[YKI_LR] * h[WEIGHT_DECAY] : 1;
}

static const yki_optimizer_rule nadam = {
    .update = YKI_SWEEP_NADAM,
    .name = "nadam",
    .hyperparameters = HYPERPARAMETERS,
    .hyperparameter_names = {"lr", "beta1", "beta2", "eps", "weight_decay", "momentum_decay",
                             "decoupled_weight_decay"},
    .slot_names = {[EXP_AVG] = "exp_avg", [EXP_AVG_SQ] = "exp_avg_sq"},
    .slots = nadam_slots,
    .saves_step = true,
    .product_name = "mu_product",
    .factor = momentum_of,
    .check = check_nadam,
    .prepare = prepare_nadam,
};

yk_status yk_nadam_create(yk_optimizer **optimizer, yk_model *model,
                          const yk_nadam_options *options)
{
    YKI_NOT_NULL(optimizer);
    *optimizer = NULL;
    YKI_NOT_NULL(model);
    yk_nadam_options o;
    YK_TRY(YKI_READ_OPTIONS(&o, options, yk_nadam_options, YK_NADAM_OPTIONS_INIT));
    double hyperparameters[] = {
        o.lr, o.beta1, o.beta2, o.eps, o.weight_decay, o.momentum_decay, o.decoupled_weight_decay};
    return yki_optimizer_create(optimizer, model, &nadam, hyperparameters);
}

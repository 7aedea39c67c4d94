/*
 * RAdam (Liu et al., "On the Variance of the Adaptive Learning Rate and Beyond", 2020) as
 * torch.optim.RAdam does it. With m and v the running means of the gradient and of its square, and
 * t the step from 1:
 *
 *     limit = 2 / (1 - beta2) - 1
 *     length = limit - 2 * t * beta2^t / (1 - beta2^t)
 *     value -= lr / (1 - beta1^t) * m                                            while length <= 5
 *     value -= lr / (1 - beta1^t) * m * rectification * sqrt(1 - beta2^t) / (sqrt(v) + eps)   then
 *     rectification^2 = (length - 4) * (length - 2) * limit / ((limit - 4) * (limit - 2) * length)
 *
 * weight_decay times the value is added to the gradient or, with decoupled_weight_decay, the value
 * is shrunk by lr * weight_decay before that. All but m and v depends on the step alone, so this is
 * Adam's update with other coefficients.
 */
#include <math.h>

#include "base/options.h"
#include "optim/optimizer.h"

enum { BETA1 = YKI_LR + 1, BETA2, EPS, WEIGHT_DECAY, DECOUPLED, HYPERPARAMETERS };
enum { EXP_AVG, EXP_AVG_SQ };

static unsigned radam_slots(const double *h)
{
    (void)h;
    return 1U << EXP_AVG | 1U << EXP_AVG_SQ;
}

static yk_status check_radam(const double *h)
{
    YK_TRY(yki_check_option("radam", "lr", h[YKI_LR], 0, 0));
    YK_TRY(yki_check_option("radam", "beta1", h[BETA1], 0, 1));
    YK_TRY(yki_check_option("radam", "beta2", h[BETA2], 0, 1));
    YK_TRY(yki_check_option("radam", "eps", h[EPS], 0, 0));
    YK_TRY(yki_check_option("radam", "weight_decay", h[WEIGHT_DECAY], 0, 0));
    return yki_check_switch("radam", "decoupled_weight_decay", h[DECOUPLED]);
}

/* What the adaptive rate is multiplied with, or 0 while nothing is to be divided by sqrt(v): the
 * variance of 1 / sqrt(v) is too large then, or infinite. */
static double rectification(double beta2, double t)
{
    double limit = 2 / (1 - beta2) - 1, power = pow(beta2, t);
    double length = limit - 2 * t * power / (1 - power);
    if (length <= 5)
        return 0;
    return sqrt((length - 4) * (length - 2) * limit / ((limit - 4) * (limit - 2) * length));
}

static void prepare_radam(double *c, const double *h, const yki_state_age *age)
{
    double t = (double)age->steps, rect = rectification(h[BETA2], t);
    double rate = h[YKI_LR] / (1 - pow(h[BETA1], t));
    c[YKI_ADAM_STEP] = rect > 0 ? rate * rect * sqrt(1 - pow(h[BETA2], t)) : rate;
    c[YKI_ADAM_BETA1] = h[BETA1];
    c[YKI_ADAM_BETA2] = h[BETA2];
    c[YKI_ADAM_ROOT] = rect > 0 ? 1 : INFINITY; /* so that m is divided by 0 + 1 */
    c[YKI_ADAM_EPS] = rect > 0 ? h[EPS] : 1;
    c[YKI_ADAM_DECAY] = h[DECOUPLED] != 0 ? 0 : h[WEIGHT_DECAY];
    c[YKI_ADAM_SHRINK] = h[DECOUPLED] != 0 ? 1 - h[YKI_LR] * h[WEIGHT_DECAY] : 1;
}

static const yki_optimizer_rule radam = {
    .update = YKI_SWEEP_ADAM,
    .name = "radam",
    .hyperparameters = HYPERPARAMETERS,
    .hyperparameter_names = {"lr", "beta1", "beta2", "eps", "weight_decay",
                             "decoupled_weight_decay"},
    .slot_names = {[EXP_AVG] = "exp_avg", [EXP_AVG_SQ] = "exp_avg_sq"},
    .slots = radam_slots,
    .saves_step = true,
    .check = check_radam,
    .prepare = prepare_radam,
};

yk_status yk_radam_create(yk_optimizer **optimizer, yk_model *model,
                          const yk_radam_options *options)
{
    YKI_NOT_NULL(optimizer);
    *optimizer = NULL;
    YKI_NOT_NULL(model);
    yk_radam_options o;
    YK_TRY(YKI_READ_OPTIONS(&o, options, yk_radam_options, YK_RADAM_OPTIONS_INIT));
    double hyperparameters[] = {o.lr,  o.beta1,        o.beta2,
                                o.eps, o.weight_decay, o.decoupled_weight_decay};
    return yki_optimizer_create(optimizer, model, &radam, hyperparameters);
}

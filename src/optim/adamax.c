/*
 * Adamax (Kingma and Ba, "Adam: A Method for Stochastic Optimization", 2015, section 7.1) as
 * torch.optim.Adamax does it: with g the gradient plus weight_decay times the value, m its running
 * mean and t the step from 1,
 *
 *     largest = max(beta2 * largest, |g| + eps)
 *     value -= lr / (1 - beta1^t) * m / largest
 */
#include <math.h>

#include "base/options.h"
#include "optim/optimizer.h"

enum { BETA1 = YKI_LR + 1, BETA2, EPS, WEIGHT_DECAY, HYPERPARAMETERS };
enum { EXP_AVG, EXP_INF };

static unsigned adamax_slots(const double *h)
{
    (void)h;
    return 1U << EXP_AVG | 1U << EXP_INF;
}

static yk_status check_adamax(const double *h)
{
    YK_TRY(yki_check_option("adamax", "lr", h[YKI_LR], 0, 0));
    YK_TRY(yki_check_option("adamax", "beta1", h[BETA1], 0, 1));
    YK_TRY(yki_check_option("adamax", "beta2", h[BETA2], 0, 1));
    YK_TRY(yki_check_option("adamax", "eps", h[EPS], 0, 0));
    return yki_check_option("adamax", "weight_decay", h[WEIGHT_DECAY], 0, 0);
}

static void prepare_adamax(double *c, const double *h, const yki_state_age *age)
{
    c[YKI_ADAM_STEP] = h[YKI_LR] / (1 - pow(h[BETA1], (double)age->steps));
    c[YKI_ADAM_BETA1] = h[BETA1];
    c[YKI_ADAM_BETA2] = h[BETA2];
    c[YKI_ADAM_EPS] = h[EPS];
    c[YKI_ADAM_DECAY] = h[WEIGHT_DECAY];
}

static const yki_optimizer_rule adamax = {
    .update = YKI_SWEEP_ADAMAX,
    .name = "adamax",
    .hyperparameters = HYPERPARAMETERS,
    .hyperparameter_names = {"lr", "beta1", "beta2", "eps", "weight_decay"},
    .slot_names = {[EXP_AVG] = "exp_avg", [EXP_INF] = "exp_inf"},
    .slots = adamax_slots,
    .saves_step = true,
    .check = check_adamax,
    .prepare = prepare_adamax,
};

yk_status yk_adamax_create(yk_optimizer **optimizer, yk_model *model,
                           const yk_adamax_options *options)
{
    YKI_NOT_NULL(optimizer);
    *optimizer = NULL;
    YKI_NOT_NULL(model);
    yk_adamax_options o;
    YK_TRY(YKI_READ_OPTIONS(&o, options, yk_adamax_options, YK_ADAMAX_OPTIONS_INIT));
    double hyperparameters[] = {o.lr, o.beta1, o.beta2, o.eps, o.weight_decay};
    return yki_optimizer_create(optimizer, model, &adamax, hyperparameters);
}

/*
 * Adagrad (Duchi, Hazan and Singer, "Adaptive Subgradient Methods for Online Learning and
 * Stochastic Optimization", 2011) as torch.optim.Adagrad does it: with g the gradient plus
 * weight_decay times the parameter, t the step from 1, and a sum that starts from
 * initial_accumulator_value,
 *
 *     sum = sum + g^2
 *     value -= lr / (1 + (t - 1) * lr_decay) * g / (sqrt(sum) + eps)
 *
 * This is RMSprop's update where nothing of the mean of squares fades.
 */
#include "base/options.h"
#include "optim/optimizer.h"

enum { LR_DECAY = YKI_LR + 1, EPS, WEIGHT_DECAY, INITIAL, HYPERPARAMETERS };
enum { SUM };

static unsigned adagrad_slots(const double *h)
{
    (void)h;
    return 1U << SUM;
}

static yk_status check_adagrad(const double *h)
{
    YK_TRY(yki_check_option("adagrad", "lr", h[YKI_LR], 0, 0));
    YK_TRY(yki_check_option("adagrad", "lr_decay", h[LR_DECAY], 0, 0));
    YK_TRY(yki_check_option("adagrad", "eps", h[EPS], 0, 0));
    YK_TRY(yki_check_option("adagrad", "weight_decay", h[WEIGHT_DECAY], 0, 0));
    return yki_check_option("adagrad", "initial_accumulator_value", h[INITIAL], 0, 0);
}

static void prepare_adagrad(double *c, const double *h, const yki_state_age *age)
{
    c[YKI_RMSPROP_LR] = h[YKI_LR] / (1 + (double)(age->steps - 1) * h[LR_DECAY]);
    c[YKI_RMSPROP_ALPHA] = 1;
    c[YKI_RMSPROP_TAKE] = 1;
    c[YKI_RMSPROP_EPS] = h[EPS];
    c[YKI_RMSPROP_DECAY] = h[WEIGHT_DECAY];
}

static const yki_optimizer_rule adagrad = {
    .update = YKI_SWEEP_RMSPROP,
    .name = "adagrad",
    .hyperparameters = HYPERPARAMETERS,
    .hyperparameter_names = {"lr", "lr_decay", "eps", "weight_decay", "initial_accumulator_value"},
    .slot_names = {[SUM] = "sum"},
    .slot_starts = {[SUM] = INITIAL},
    .slots = adagrad_slots,
    .saves_step = true,
    .check = check_adagrad,
    .prepare = prepare_adagrad,
};

yk_status yk_adagrad_create(yk_optimizer **optimizer, yk_model *model,
                            const yk_adagrad_options *options)
{
    YKI_NOT_NULL(optimizer);
    *optimizer = NULL;
    YKI_NOT_NULL(model);
    yk_adagrad_options o;
    YK_TRY(YKI_READ_OPTIONS(&o, options, yk_adagrad_options, YK_ADAGRAD_OPTIONS_INIT));
    double hyperparameters[] = {o.lr, o.lr_decay, o.eps, o.weight_decay,
                                o.initial_accumulator_value};
    return yki_optimizer_create(optimizer, model, &adagrad, hyperparameters);
}

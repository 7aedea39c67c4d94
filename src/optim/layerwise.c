/*
 * Optimizers for large batches, which scale the update of each tensor by a trust ratio. LARS (You,
 * Gitman, Ginsburg, "Large Batch Training of Convolutional Networks", 2017) is SGD with the
 * gradient
 *
 *     g = trust_coefficient |value| / (|grad| + weight_decay |value|) (grad + weight_decay value)
 *
 * and LAMB (You et al., "Large Batch Optimization for Deep Learning", 2019) is AdamW with
 *
 *     update = mean / (sqrt(square) + eps) + weight_decay value       (both means unbiased)
 *     value -= lr |value| / |update| update
 *
 * The ratio is 1 where weights do not decay. These are the conventions of timm and of apex, where
 * groups without weight decay, usually of norms and biases, are not adapted.
 */
#include <math.h>

#include "base/options.h"
#include "optim/optimizer.h"

/* ---- LARS ------------------------------------------------------------------------------------ */

enum { MOMENTUM = YKI_LR + 1, DECAY, NESTEROV, TRUST, LARS_HYPERPARAMETERS };

static unsigned lars_slots(const double *h)
{
    return h[MOMENTUM] != 0;
}

static yk_status check_lars(const double *h)
{
    YK_TRY(yki_check_option("lars", "lr", h[YKI_LR], 0, 0));
    YK_TRY(yki_check_option("lars", "momentum", h[MOMENTUM], 0, 0));
    YK_TRY(yki_check_option("lars", "weight_decay", h[DECAY], 0, 0));
    YK_TRY(yki_check_option("lars", "trust_coefficient", h[TRUST], 0, 0));
    YK_TRY(yki_check_switch("lars", "nesterov", h[NESTEROV]));
    if (h[NESTEROV] != 0 && h[MOMENTUM] == 0)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "lars: nesterov needs a momentum above 0");
    return YK_OK;
}

static void prepare_lars(double *c, const double *h, const yki_state_age *age)
{
    c[YKI_SGD_LR] = h[YKI_LR];
    c[YKI_SGD_MOMENTUM] = h[MOMENTUM];
    c[YKI_SGD_KEEP] = age->steps == 1 ? 0 : h[MOMENTUM];
    c[YKI_SGD_TAKE] = 1;
    c[YKI_SGD_DECAY] = h[DECAY];
    c[YKI_SGD_NESTEROV] = h[NESTEROV];
    c[YKI_LARS_TRUST] = h[TRUST];
}

static const yki_optimizer_rule lars = {
    .update = YKI_SWEEP_LARS,
    .has_trust_ratios = true,
    .find_norms = YKI_SWEEP_NORMS,
    .name = "lars",
    .hyperparameters = LARS_HYPERPARAMETERS,
    .hyperparameter_names = {"lr", "momentum", "weight_decay", "nesterov", "trust_coefficient"},
    .slot_names = {"momentum_buffer"},
    .slots = lars_slots,
    .check = check_lars,
    .prepare = prepare_lars,
};

yk_status yk_lars_create(yk_optimizer **optimizer, yk_model *model, const yk_lars_options *options)
{
    YKI_NOT_NULL(optimizer);
    *optimizer = NULL;
    YKI_NOT_NULL(model);
    yk_lars_options o;
    YK_TRY(YKI_READ_OPTIONS(&o, options, yk_lars_options, YK_LARS_OPTIONS_INIT));
    double hyperparameters[] = {o.lr, o.momentum, o.weight_decay, o.nesterov, o.trust_coefficient};
    return yki_optimizer_create(optimizer, model, &lars, hyperparameters);
}

/* ---- LAMB ------------------------------------------------------------------------------------ */

enum { BETA1 = YKI_LR + 1, BETA2, EPS, LAMB_DECAY, LAMB_HYPERPARAMETERS };

static unsigned lamb_slots(const double *h)
{
    (void)h;
    return 3; /* both */
}

static yk_status check_lamb(const double *h)
{
    YK_TRY(yki_check_option("lamb", "lr", h[YKI_LR], 0, 0));
    YK_TRY(yki_check_option("lamb", "beta1", h[BETA1], 0, 1));
    YK_TRY(yki_check_option("lamb", "beta2", h[BETA2], 0, 1));
    YK_TRY(yki_check_option("lamb", "eps", h[EPS], 0, 0));
    return yki_check_option("lamb", "weight_decay", h[LAMB_DECAY], 0, 0);
}

static void prepare_lamb(double *c, const double *h, const yki_state_age *age)
{
    c[YKI_ADAM_STEP] = 1 / (1 - pow(h[BETA1], (double)age->steps));
    c[YKI_ADAM_BETA1] = h[BETA1];
    c[YKI_ADAM_BETA2] = h[BETA2];
    c[YKI_ADAM_ROOT] = sqrt(1 - pow(h[BETA2], (double)age->steps));
    c[YKI_ADAM_EPS] = h[EPS];
    c[YKI_ADAM_DECAY] = h[LAMB_DECAY];
    c[YKI_LAMB_LR] = h[YKI_LR];
}

static const yki_optimizer_rule lamb = {
    .update = YKI_SWEEP_LAMB,
    .has_trust_ratios = true,
    .find_norms = YKI_SWEEP_MOMENTS,
    .name = "lamb",
    .hyperparameters = LAMB_HYPERPARAMETERS,
    .hyperparameter_names = {"lr", "beta1", "beta2", "eps", "weight_decay"},
    .slot_names = {"exp_avg", "exp_avg_sq"},
    .slots = lamb_slots,
    .saves_step = true,
    .check = check_lamb,
    .prepare = prepare_lamb,
};

yk_status yk_lamb_create(yk_optimizer **optimizer, yk_model *model, const yk_lamb_options *options)
{
    YKI_NOT_NULL(optimizer);
    *optimizer = NULL;
    YKI_NOT_NULL(model);
    yk_lamb_options o;
    YK_TRY(YKI_READ_OPTIONS(&o, options, yk_lamb_options, YK_LAMB_OPTIONS_INIT));
    double hyperparameters[] = {o.lr, o.beta1, o.beta2, o.eps, o.weight_decay};
    return yki_optimizer_create(optimizer, model, &lamb, hyperparameters);
}

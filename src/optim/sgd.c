/*
 * Stochastic gradient descent as torch.optim.SGD does it: with g the gradient plus weight_decay
 * times the parameter,
 *
 *     buffer = momentum * buffer + (1 - dampening) * g      (the first step: buffer = g)
 *     value -= lr * buffer            or, with nesterov,    lr * (g + momentum * buffer)
 *
 * Nesterov's form is Sutskever et al., "On the importance of initialization and momentum" (2013).
 */
#include "optim/optimizer.h"

#include <math.h>

#include "base/options.h"

enum { MOMENTUM = YKI_LR + 1, DAMPENING, WEIGHT_DECAY, NESTEROV, HYPERPARAMETERS };

static unsigned sgd_slots(const double *h)
{
    return h[MOMENTUM] != 0;
}

static yk_status check_sgd(const double *h)
{
    YK_TRY(yki_check_option("sgd", "lr", h[YKI_LR], 0, 0));
    YK_TRY(yki_check_option("sgd", "momentum", h[MOMENTUM], 0, 0));
    YK_TRY(yki_check_option("sgd", "weight_decay", h[WEIGHT_DECAY], 0, 0));
    if (!isfinite(h[DAMPENING]))
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "sgd: dampening must be a number, not %g",
                         h[DAMPENING]);
    YK_TRY(yki_check_switch("sgd", "nesterov", h[NESTEROV]));
    if (h[NESTEROV] != 0 && (h[MOMENTUM] == 0 || h[DAMPENING] != 0))
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "sgd: nesterov needs a momentum above 0 and no"
                         " dampening, not momentum %g and dampening %g",
                         h[MOMENTUM], h[DAMPENING]);
    return YK_OK;
}

static void prepare_sgd(double *c, const double *h, const yki_state_age *age)
{
    bool first = age->steps == 1;
    c[YKI_SGD_LR] = h[YKI_LR];
    c[YKI_SGD_MOMENTUM] = h[MOMENTUM];
    c[YKI_SGD_KEEP] = first ? 0 : h[MOMENTUM];
    c[YKI_SGD_TAKE] = first ? 1 : 1 - h[DAMPENING];
    c[YKI_SGD_DECAY] = h[WEIGHT_DECAY];
    c[YKI_SGD_NESTEROV] = h[NESTEROV];
}

static const yki_optimizer_rule sgd = {
    .update = YKI_SWEEP_SGD,
    .name = "sgd",
    .hyperparameters = HYPERPARAMETERS,
    .hyperparameter_names = {"lr", "momentum", "dampening", "weight_decay", "nesterov"},
    .slot_names = {"momentum_buffer"},
    .slots = sgd_slots,
    .check = check_sgd,
    .prepare = prepare_sgd,
};

yk_status yk_sgd_create(yk_optimizer **optimizer, yk_model *model, const yk_sgd_options *options)
{
    YKI_NOT_NULL(optimizer);
    *optimizer = NULL;
    YKI_NOT_NULL(model);
    yk_sgd_options o;
    YK_TRY(YKI_READ_OPTIONS(&o, options, yk_sgd_options, YK_SGD_OPTIONS_INIT));
    double hyperparameters[] = {o.lr, o.momentum, o.dampening, o.weight_decay, o.nesterov};
    return yki_optimizer_create(optimizer, model, &sgd, hyperparameters);
}

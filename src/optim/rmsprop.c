/*
 * RMSprop (Hinton, "Neural Networks for Machine Learning", lecture 6e, 2012) as torch.optim.RMSprop
 * does it: with g the gradient plus weight_decay times the parameter,
 *
 *     square_avg = alpha * square_avg + (1 - alpha) * g^2
 *     grad_avg = grad_avg + (1 - alpha) * (g - grad_avg)
 *     scaled = g / (sqrt(square_avg) + eps)
 *              or, with centered,      g / (sqrt(square_avg - grad_avg^2) + eps)
 *     value -= lr * scaled    or, with a momentum, buffer = momentum * buffer + scaled
 *                                                  value -= lr * buffer
 *
 * With centered, square_avg - grad_avg^2 may round to less than 0 once a gradient has stayed the
 * same for about a thousand steps. The value then becomes NaN, as in PyTorch.
 */
#include "base/options.h"
#include "optim/optimizer.h"

enum { MOMENTUM = YKI_LR + 1, ALPHA, EPS, CENTERED, WEIGHT_DECAY, HYPERPARAMETERS };
enum { SQUARE_AVG, MOMENTUM_BUFFER, GRAD_AVG };

static unsigned rmsprop_slots(const double *h)
{
    return 1U << SQUARE_AVG | (h[MOMENTUM] != 0 ? 1U << MOMENTUM_BUFFER : 0) |
           (h[CENTERED] != 0 ? 1U << GRAD_AVG : 0);
}

static yk_status check_rmsprop(const double *h)
{
    YK_TRY(yki_check_option("rmsprop", "lr", h[YKI_LR], 0, 0));
    YK_TRY(yki_check_option("rmsprop", "momentum", h[MOMENTUM], 0, 0));
    YK_TRY(yki_check_option("rmsprop", "alpha", h[ALPHA], 0, 1));
    YK_TRY(yki_check_option("rmsprop", "eps", h[EPS], 0, 0));
    YK_TRY(yki_check_option("rmsprop", "weight_decay", h[WEIGHT_DECAY], 0, 0));
    return yki_check_switch("rmsprop", "centered", h[CENTERED]);
}

static void prepare_rmsprop(double *c, const double *h, const yki_state_age *age)
{
    (void)age;
    c[YKI_RMSPROP_LR] = h[YKI_LR];
    c[YKI_RMSPROP_ALPHA] = h[ALPHA];
    c[YKI_RMSPROP_TAKE] = 1 - h[ALPHA];
    c[YKI_RMSPROP_EPS] = h[EPS];
    c[YKI_RMSPROP_DECAY] = h[WEIGHT_DECAY];
    c[YKI_RMSPROP_MOMENTUM] = h[MOMENTUM];
}

static const yki_optimizer_rule rmsprop = {
    .update = YKI_SWEEP_RMSPROP,
    .name = "rmsprop",
    .hyperparameters = HYPERPARAMETERS,
    .hyperparameter_names = {"lr", "momentum", "alpha", "eps", "centered", "weight_decay"},
    .slot_names = {[SQUARE_AVG] = "square_avg",
                   [MOMENTUM_BUFFER] = "momentum_buffer",
                   [GRAD_AVG] = "grad_avg"},
    .slot_switches = {[GRAD_AVG] = "centered"},
    .slots = rmsprop_slots,
    .saves_step = true,
    .check = check_rmsprop,
    .prepare = prepare_rmsprop,
};

yk_status yk_rmsprop_create(yk_optimizer **optimizer, yk_model *model,
                            const yk_rmsprop_options *options)
{
    YKI_NOT_NULL(optimizer);
    *optimizer = NULL;
    YKI_NOT_NULL(model);
    yk_rmsprop_options o;
    YK_TRY(YKI_READ_OPTIONS(&o, options, yk_rmsprop_options, YK_RMSPROP_OPTIONS_INIT));
    double hyperparameters[] = {o.lr, o.momentum, o.alpha, o.eps, o.centered, o.weight_decay};
    return yki_optimizer_create(optimizer, model, &rmsprop, hyperparameters);
}

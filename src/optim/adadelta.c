/*
 * Adadelta (Zeiler, "ADADELTA: An Adaptive Learning Rate Method", 2012) as torch.optim.Adadelta
 * does it: with g the gradient plus weight_decay times the parameter,
 *
 *     square_avg = rho * square_avg + (1 - rho) * g^2
 *     delta = sqrt(acc_delta + eps) / sqrt(square_avg + eps) * g
 *     acc_delta = rho * acc_delta + (1 - rho) * delta^2
 *     value -= lr * delta
 */
#include "base/options.h"
#include "optim/optimizer.h"

enum { RHO = YKI_LR + 1, EPS, WEIGHT_DECAY, HYPERPARAMETERS };
enum { SQUARE_AVG, ACC_DELTA };

static unsigned adadelta_slots(const double *h)
{
    (void)h;
    return 1U << SQUARE_AVG | 1U << ACC_DELTA;
}

static yk_status check_adadelta(const double *h)
{
    YK_TRY(yki_check_option("adadelta", "lr", h[YKI_LR], 0, 0));
    YK_TRY(yki_check_option("adadelta", "rho", h[RHO], 0, 1));
    YK_TRY(yki_check_option("adadelta", "eps", h[EPS], 0, 0));
    return yki_check_option("adadelta", "weight_decay", h[WEIGHT_DECAY], 0, 0);
}

static void prepare_adadelta(double *c, const double *h, const yki_state_age *age)
{
    (void)age;
    c[YKI_RMSPROP_LR] = h[YKI_LR];
    c[YKI_RMSPROP_ALPHA] = h[RHO];
    c[YKI_RMSPROP_TAKE] = 1 - h[RHO];
    c[YKI_RMSPROP_EPS] = h[EPS];
    c[YKI_RMSPROP_DECAY] = h[WEIGHT_DECAY];
}

static const yki_optimizer_rule adadelta = {
    .update = YKI_SWEEP_ADADELTA,
    .name = "adadelta",
    .hyperparameters = HYPERPARAMETERS,
    .hyperparameter_names = {"lr", "rho", "eps", "weight_decay"},
    .slot_names = {[SQUARE_AVG] = "square_avg", [ACC_DELTA] = "acc_delta"},
    .slots = adadelta_slots,
    .saves_step = true,
    .check = check_adadelta,
    .prepare = prepare_adadelta,
};

yk_status yk_adadelta_create(yk_optimizer **optimizer, yk_model *model,
                             const yk_adadelta_options *options)
{
    YKI_NOT_NULL(optimizer);
    *optimizer = NULL;
    YKI_NOT_NULL(model);
    yk_adadelta_options o;
    YK_TRY(YKI_READ_OPTIONS(&o, options, yk_adadelta_options, YK_ADADELTA_OPTIONS_INIT));
    double hyperparameters[] = {o.lr, o.rho, o.eps, o.weight_decay};
    return yki_optimizer_create(optimizer, model, &adadelta, hyperparameters);
}

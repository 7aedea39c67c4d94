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
#include "optim/vectorised.h"

enum { MOMENTUM = YKI_LR + 1, DAMPENING, WEIGHT_DECAY, NESTEROV, HYPERPARAMETERS };
enum { C_LR, C_MOMENTUM, C_KEEP, C_TAKE, C_WEIGHT_DECAY, C_NESTEROV };

static int sgd_slots(const double *h)
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
    if (h[NESTEROV] != 0 && h[NESTEROV] != 1)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "sgd: nesterov must be 0 or 1, not %g",
                         h[NESTEROV]);
    if (h[NESTEROV] != 0 && (h[MOMENTUM] == 0 || h[DAMPENING] != 0))
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "sgd: nesterov needs a momentum above 0 and no"
                         " dampening, not momentum %g and dampening %g",
                         h[MOMENTUM], h[DAMPENING]);
    return YK_OK;
}

static yki_coefficients prepare_sgd(const double *h, int64_t step)
{
    bool first = step == 1;
    return (yki_coefficients){{[C_LR] = h[YKI_LR],
                               [C_MOMENTUM] = h[MOMENTUM],
                               [C_KEEP] = first ? 0 : h[MOMENTUM],
                               [C_TAKE] = first ? 1 : 1 - h[DAMPENING],
                               [C_WEIGHT_DECAY] = h[WEIGHT_DECAY],
                               [C_NESTEROV] = h[NESTEROV]}};
}

/* One pass over value, gradient and buffer: the step is bound by memory. */
#define DEFINE_UPDATE(name, real)                                                                  \
    YKI_VECTORISED static void name##_plain(real *restrict value, const real *restrict grad,       \
                                            int64_t count, real lr, real decay)                    \
    {                                                                                              \
        _Pragma("omp simd") for (int64_t i = 0; i < count; i++) value[i] -=                        \
            lr * (grad[i] + decay * value[i]);                                                     \
    }                                                                                              \
                                                                                                   \
    YKI_VECTORISED static void name##_momentum(real *restrict value, const real *restrict grad,    \
                                               real *restrict buffer, int64_t count,               \
                                               const double *c)                                    \
    {                                                                                              \
        const real lr = (real)c[C_LR], momentum = (real)c[C_MOMENTUM], keep = (real)c[C_KEEP];     \
        const real take = (real)c[C_TAKE], decay = (real)c[C_WEIGHT_DECAY];                        \
        const bool nesterov = c[C_NESTEROV] != 0;                                                  \
        _Pragma("omp simd") for (int64_t i = 0; i < count; i++)                                    \
        {                                                                                          \
            real g = grad[i] + decay * value[i];                                                   \
            real b = keep * buffer[i] + take * g;                                                  \
            buffer[i] = b;                                                                         \
            value[i] -= lr * (nesterov ? g + momentum * b : b);                                    \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    static void name(const yki_piece *piece, const yki_coefficients *coefficients)                 \
    {                                                                                              \
        const double *c = coefficients->c;                                                         \
        if (piece->state[0])                                                                       \
            name##_momentum(piece->value, piece->grad, piece->state[0], piece->count, c);          \
        else                                                                                       \
            name##_plain(piece->value, piece->grad, piece->count, (real)c[C_LR],                   \
                         (real)c[C_WEIGHT_DECAY]);                                                 \
    }

DEFINE_UPDATE(update_f32, float)
DEFINE_UPDATE(update_f64, double)

static const yki_optimizer_rule sgd = {
    .name = "sgd",
    .hyperparameters = HYPERPARAMETERS,
    .hyperparameter_names = {"lr", "momentum", "dampening", "weight_decay", "nesterov"},
    .slot_names = {"momentum_buffer"},
    .slots = sgd_slots,
    .check = check_sgd,
    .prepare = prepare_sgd,
    .update_f32 = update_f32,
    .update_f64 = update_f64,
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

/*
 * What sweeps do with one element, for every device, kernels of GPUs too: inline functions of
 * YKI_SWEEP_REAL, with YKI_SWEEP_NAME(name) for their names and YKI_SWEEP_SQRT for its square root.
 * Included once for each type; in valid C and C++.
 *
 * Coefficients are rounded to the type once, before the loop.
 */
#include "base/host_device.h"

/* ---- SGD ------------------------------------------------------------------------------------- */

typedef struct YKI_SWEEP_NAME(sgd) {
    YKI_SWEEP_REAL lr, momentum, keep, take, decay;
    bool nesterov;
} YKI_SWEEP_NAME(sgd);

YKI_HOST_DEVICE YKI_SWEEP_NAME(sgd) YKI_SWEEP_NAME(read_sgd)(const double *c)
{
    YKI_SWEEP_NAME(sgd) k;
    k.lr = (YKI_SWEEP_REAL)c[YKI_SGD_LR];
    k.momentum = (YKI_SWEEP_REAL)c[YKI_SGD_MOMENTUM];
    k.keep = (YKI_SWEEP_REAL)c[YKI_SGD_KEEP];
    k.take = (YKI_SWEEP_REAL)c[YKI_SGD_TAKE];
    k.decay = (YKI_SWEEP_REAL)c[YKI_SGD_DECAY];
    k.nesterov = c[YKI_SGD_NESTEROV] != 0;
    return k;
}

YKI_HOST_DEVICE YKI_SWEEP_REAL YKI_SWEEP_NAME(sgd_plain)(const YKI_SWEEP_NAME(sgd) * k,
                                                         YKI_SWEEP_REAL value, YKI_SWEEP_REAL grad)
{
    return value - k->lr * (grad + k->decay * value);
}

YKI_HOST_DEVICE YKI_SWEEP_REAL YKI_SWEEP_NAME(sgd_momentum)(const YKI_SWEEP_NAME(sgd) * k,
                                                            YKI_SWEEP_REAL value,
                                                            YKI_SWEEP_REAL grad,
                                                            YKI_SWEEP_REAL *buffer)
{
    YKI_SWEEP_REAL g = grad + k->decay * value;
    YKI_SWEEP_REAL b = k->keep * *buffer + k->take * g;
    *buffer = b;
    return value - k->lr * (k->nesterov ? g + k->momentum * b : b);
}

/* ---- Adam ------------------------------------------------------------------------------------ */

typedef struct YKI_SWEEP_NAME(adam) {
    YKI_SWEEP_REAL step, beta1, beta2, take1, take2, root, eps, decay, shrink;
} YKI_SWEEP_NAME(adam);

YKI_HOST_DEVICE YKI_SWEEP_NAME(adam) YKI_SWEEP_NAME(read_adam)(const double *c)
{
    YKI_SWEEP_NAME(adam) k;
    k.step = (YKI_SWEEP_REAL)c[YKI_ADAM_STEP];
    k.beta1 = (YKI_SWEEP_REAL)c[YKI_ADAM_BETA1];
    k.beta2 = (YKI_SWEEP_REAL)c[YKI_ADAM_BETA2];
    k.take1 = (YKI_SWEEP_REAL)(1 - c[YKI_ADAM_BETA1]);
    k.take2 = (YKI_SWEEP_REAL)(1 - c[YKI_ADAM_BETA2]);
    k.root = (YKI_SWEEP_REAL)c[YKI_ADAM_ROOT];
    k.eps = (YKI_SWEEP_REAL)c[YKI_ADAM_EPS];
    k.decay = (YKI_SWEEP_REAL)c[YKI_ADAM_DECAY];
    k.shrink = (YKI_SWEEP_REAL)c[YKI_ADAM_SHRINK];
    return k;
}

YKI_HOST_DEVICE void YKI_SWEEP_NAME(adam_moments)(const YKI_SWEEP_NAME(adam) * k,
                                                  YKI_SWEEP_REAL grad, YKI_SWEEP_REAL *mean,
                                                  YKI_SWEEP_REAL *square)
{
    *mean = k->beta1 * *mean + k->take1 * grad;
    *square = k->beta2 * *square + k->take2 * (grad * grad);
}

YKI_HOST_DEVICE YKI_SWEEP_REAL YKI_SWEEP_NAME(adam_value)(const YKI_SWEEP_NAME(adam) * k,
                                                          YKI_SWEEP_REAL value, YKI_SWEEP_REAL mean,
                                                          YKI_SWEEP_REAL square)
{
    return k->shrink * value - k->step * mean / (YKI_SWEEP_SQRT(square) / k->root + k->eps);
}

YKI_HOST_DEVICE YKI_SWEEP_REAL YKI_SWEEP_NAME(adam_step)(const YKI_SWEEP_NAME(adam) * k,
                                                         YKI_SWEEP_REAL value, YKI_SWEEP_REAL grad,
                                                         YKI_SWEEP_REAL *mean,
                                                         YKI_SWEEP_REAL *square)
{
    YKI_SWEEP_NAME(adam_moments)(k, grad + k->decay * value, mean, square);
    return YKI_SWEEP_NAME(adam_value)(k, value, *mean, *square);
}

/* AMSGrad: by the largest mean of squares so far. NaN replaces it, as in torch.maximum. */
YKI_HOST_DEVICE YKI_SWEEP_REAL YKI_SWEEP_NAME(amsgrad_step)(
    const YKI_SWEEP_NAME(adam) * k, YKI_SWEEP_REAL value, YKI_SWEEP_REAL grad, YKI_SWEEP_REAL *mean,
    YKI_SWEEP_REAL *square, YKI_SWEEP_REAL *largest)
{
    YKI_SWEEP_NAME(adam_moments)(k, grad + k->decay * value, mean, square);
    *largest = *largest > *square ? *largest : *square;
    return YKI_SWEEP_NAME(adam_value)(k, value, *mean, *largest);
}

/* Nesterov's momentum: steps by the mean that the next gradient would leave, taking this gradient
 * in its place. */
YKI_HOST_DEVICE YKI_SWEEP_REAL YKI_SWEEP_NAME(nadam_step)(const YKI_SWEEP_NAME(adam) * k,
                                                          YKI_SWEEP_REAL ahead,
                                                          YKI_SWEEP_REAL value, YKI_SWEEP_REAL grad,
                                                          YKI_SWEEP_REAL *mean,
                                                          YKI_SWEEP_REAL *square)
{
    YKI_SWEEP_REAL g = grad + k->decay * value;
    YKI_SWEEP_NAME(adam_moments)(k, g, mean, square);
    return k->shrink * value - (k->step * *mean + ahead * g) / (YKI_SWEEP_SQRT(*square) + k->eps);
}

/* A gradient that is NaN is the largest, as in torch.maximum. */
YKI_HOST_DEVICE YKI_SWEEP_REAL YKI_SWEEP_NAME(adamax_step)(const YKI_SWEEP_NAME(adam) * k,
                                                           YKI_SWEEP_REAL value,
                                                           YKI_SWEEP_REAL grad,
                                                           YKI_SWEEP_REAL *mean,
                                                           YKI_SWEEP_REAL *largest)
{
    YKI_SWEEP_REAL g = grad + k->decay * value;
    YKI_SWEEP_REAL size = (g < 0 ? -g : g) + k->eps, faded = k->beta2 * *largest;
    *mean = k->beta1 * *mean + k->take1 * g;
    *largest = faded > size ? faded : size;
    return value - k->step * *mean / *largest;
}

/* ---- RMSprop --------------------------------------------------------------------------------- */

typedef struct YKI_SWEEP_NAME(rmsprop) {
    YKI_SWEEP_REAL lr, alpha, take, eps, decay, momentum;
} YKI_SWEEP_NAME(rmsprop);

YKI_HOST_DEVICE YKI_SWEEP_NAME(rmsprop) YKI_SWEEP_NAME(read_rmsprop)(const double *c)
{
    YKI_SWEEP_NAME(rmsprop) k;
    k.lr = (YKI_SWEEP_REAL)c[YKI_RMSPROP_LR];
    k.alpha = (YKI_SWEEP_REAL)c[YKI_RMSPROP_ALPHA];
    k.take = (YKI_SWEEP_REAL)c[YKI_RMSPROP_TAKE];
    k.eps = (YKI_SWEEP_REAL)c[YKI_RMSPROP_EPS];
    k.decay = (YKI_SWEEP_REAL)c[YKI_RMSPROP_DECAY];
    k.momentum = (YKI_SWEEP_REAL)c[YKI_RMSPROP_MOMENTUM];
    return k;
}

/* The gradient over the root of its running mean of squares. */
YKI_HOST_DEVICE YKI_SWEEP_REAL YKI_SWEEP_NAME(rmsprop_scaled)(const YKI_SWEEP_NAME(rmsprop) * k,
                                                              YKI_SWEEP_REAL value,
                                                              YKI_SWEEP_REAL grad,
                                                              YKI_SWEEP_REAL *square)
{
    YKI_SWEEP_REAL g = grad + k->decay * value;
    YKI_SWEEP_REAL s = k->alpha * *square + k->take * (g * g);
    *square = s;
    return g / (YKI_SWEEP_SQRT(s) + k->eps);
}

/* The gradient over its running standard deviation. */
YKI_HOST_DEVICE YKI_SWEEP_REAL YKI_SWEEP_NAME(rmsprop_centered)(const YKI_SWEEP_NAME(rmsprop) * k,
                                                                YKI_SWEEP_REAL value,
                                                                YKI_SWEEP_REAL grad,
                                                                YKI_SWEEP_REAL *square,
                                                                YKI_SWEEP_REAL *mean)
{
    YKI_SWEEP_REAL g = grad + k->decay * value;
    YKI_SWEEP_REAL s = k->alpha * *square + k->take * (g * g);
    YKI_SWEEP_REAL m = *mean + k->take * (g - *mean);
    *square = s;
    *mean = m;
    return g / (YKI_SWEEP_SQRT(s - m * m) + k->eps);
}

/* What is subtracted of a value, times the rate: the momentum of these gradients. */
YKI_HOST_DEVICE YKI_SWEEP_REAL YKI_SWEEP_NAME(rmsprop_momentum)(const YKI_SWEEP_NAME(rmsprop) * k,
                                                                YKI_SWEEP_REAL scaled,
                                                                YKI_SWEEP_REAL *buffer)
{
    YKI_SWEEP_REAL b = k->momentum * *buffer + scaled;
    *buffer = b;
    return b;
}

/* ---- Adadelta -------------------------------------------------------------------------------- */

YKI_HOST_DEVICE YKI_SWEEP_REAL YKI_SWEEP_NAME(adadelta_step)(const YKI_SWEEP_NAME(rmsprop) * k,
                                                             YKI_SWEEP_REAL value,
                                                             YKI_SWEEP_REAL grad,
                                                             YKI_SWEEP_REAL *square,
                                                             YKI_SWEEP_REAL *updates)
{
    YKI_SWEEP_REAL g = grad + k->decay * value;
    YKI_SWEEP_REAL s = k->alpha * *square + k->take * (g * g);
    YKI_SWEEP_REAL u = YKI_SWEEP_SQRT(*updates + k->eps) / YKI_SWEEP_SQRT(s + k->eps) * g;
    *square = s;
    *updates = k->alpha * *updates + k->take * (u * u);
    return value - k->lr * u;
}

/* ---- LARS and LAMB --------------------------------------------------------------------------- */

/* The gradient that SGD, without a weight decay of its own, then takes. */
YKI_HOST_DEVICE YKI_SWEEP_REAL YKI_SWEEP_NAME(lars_gradient)(YKI_SWEEP_REAL ratio,
                                                             YKI_SWEEP_REAL decay,
                                                             YKI_SWEEP_REAL value,
                                                             YKI_SWEEP_REAL grad)
{
    return ratio * (grad + decay * value);
}

YKI_HOST_DEVICE YKI_SWEEP_REAL YKI_SWEEP_NAME(lamb_update)(const YKI_SWEEP_NAME(adam) * k,
                                                           YKI_SWEEP_REAL value,
                                                           YKI_SWEEP_REAL mean,
                                                           YKI_SWEEP_REAL square)
{
    return k->step * mean / (YKI_SWEEP_SQRT(square) / k->root + k->eps) + k->decay * value;
}

/* ---- averages -------------------------------------------------------------------------------- */

/* The average of torch.optim.swa_utils, with share = 1 - decay. */
YKI_HOST_DEVICE YKI_SWEEP_REAL YKI_SWEEP_NAME(approach)(YKI_SWEEP_REAL average,
                                                        YKI_SWEEP_REAL share, YKI_SWEEP_REAL value)
{
    return average + share * (value - average);
}

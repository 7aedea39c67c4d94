/*
 * What sweeps do with one element, for every device: inline functions of YKI_REAL, with
 * YKI_RULE(name) for their names and YKI_SQRT for its square root. Included once for each type.
 *
 * Coefficients are rounded to the type once, before the loop.
 */

/* ---- SGD ------------------------------------------------------------------------------------- */

typedef struct YKI_RULE(sgd) {
    YKI_REAL lr, momentum, keep, take, decay;
    bool nesterov;
} YKI_RULE(sgd);

static inline YKI_RULE(sgd) YKI_RULE(read_sgd)(const double *c)
{
    return (YKI_RULE(sgd)){.lr = (YKI_REAL)c[YKI_SGD_LR],
                           .momentum = (YKI_REAL)c[YKI_SGD_MOMENTUM],
                           .keep = (YKI_REAL)c[YKI_SGD_KEEP],
                           .take = (YKI_REAL)c[YKI_SGD_TAKE],
                           .decay = (YKI_REAL)c[YKI_SGD_DECAY],
                           .nesterov = c[YKI_SGD_NESTEROV] != 0};
}

static inline YKI_REAL YKI_RULE(sgd_plain)(const YKI_RULE(sgd) * k, YKI_REAL value, YKI_REAL grad)
{
    return value - k->lr * (grad + k->decay * value);
}

static inline YKI_REAL YKI_RULE(sgd_momentum)(const YKI_RULE(sgd) * k, YKI_REAL value,
                                              YKI_REAL grad, YKI_REAL *buffer)
{
    YKI_REAL g = grad + k->decay * value;
    YKI_REAL b = k->keep * *buffer + k->take * g;
    *buffer = b;
    return value - k->lr * (k->nesterov ? g + k->momentum * b : b);
}

/* ---- Adam ------------------------------------------------------------------------------------ */

typedef struct YKI_RULE(adam) {
    YKI_REAL step, beta1, beta2, take1, take2, root, eps, decay, shrink;
} YKI_RULE(adam);

static inline YKI_RULE(adam) YKI_RULE(read_adam)(const double *c)
{
    return (YKI_RULE(adam)){.step = (YKI_REAL)c[YKI_ADAM_STEP],
                            .beta1 = (YKI_REAL)c[YKI_ADAM_BETA1],
                            .beta2 = (YKI_REAL)c[YKI_ADAM_BETA2],
                            .take1 = (YKI_REAL)(1 - c[YKI_ADAM_BETA1]),
                            .take2 = (YKI_REAL)(1 - c[YKI_ADAM_BETA2]),
                            .root = (YKI_REAL)c[YKI_ADAM_ROOT],
                            .eps = (YKI_REAL)c[YKI_ADAM_EPS],
                            .decay = (YKI_REAL)c[YKI_ADAM_DECAY],
                            .shrink = (YKI_REAL)c[YKI_ADAM_SHRINK]};
}

static inline YKI_REAL YKI_RULE(adam_step)(const YKI_RULE(adam) * k, YKI_REAL value, YKI_REAL grad,
                                           YKI_REAL *mean, YKI_REAL *square)
{
    YKI_REAL g = grad + k->decay * value;
    YKI_REAL m = k->beta1 * *mean + k->take1 * g;
    YKI_REAL v = k->beta2 * *square + k->take2 * (g * g);
    *mean = m;
    *square = v;
    return k->shrink * value - k->step * m / (YKI_SQRT(v) / k->root + k->eps);
}

/* ---- averages -------------------------------------------------------------------------------- */

/* The average of torch.optim.swa_utils, with share = 1 - decay. */
static inline YKI_REAL YKI_RULE(approach)(YKI_REAL average, YKI_REAL share, YKI_REAL value)
{
    return average + share * (value - average);
}

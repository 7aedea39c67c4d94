/*
 * Losses of one element and their slopes, each slope below its loss. NaN passes, as in PyTorch.
 *
 * Inline functions as in activation_rules.h.
 */

/* Of the difference d = x - target (Girshick 2015). */
YKI_HOST_DEVICE YKI_REAL YKI_RULE(smooth_l1)(YKI_REAL d, YKI_REAL beta)
{
    YKI_REAL distance = d < 0 ? -d : d;
    return distance < beta ? d * d / (2 * beta) : distance - beta / 2;
}

YKI_HOST_DEVICE YKI_REAL YKI_RULE(smooth_l1_slope)(YKI_REAL d, YKI_REAL beta)
{
    return d > beta ? 1 : d < -beta ? -1 : beta > 0 ? d / beta : d;
}

/* With the larger of -x and 0 taken out of log(1 + exp(-x)), nothing overflows. */
YKI_HOST_DEVICE YKI_REAL YKI_RULE(bce)(YKI_REAL x, YKI_REAL target, YKI_REAL pos_weight)
{
    YKI_REAL distance = x < 0 ? -x : x;
    YKI_REAL softplus = log1p(exp(-distance)) + (x < 0 ? -x : 0); /* -log(sigmoid(x)) */
    return (1 - target) * x + (1 + (pos_weight - 1) * target) * softplus;
}

YKI_HOST_DEVICE YKI_REAL YKI_RULE(bce_slope)(YKI_REAL x, YKI_REAL target, YKI_REAL pos_weight)
{
    return (1 + (pos_weight - 1) * target) / (1 + exp(-x)) - pos_weight * target;
}

/* See draws.h: gamma by Marsaglia and Tsang (2000). */
#include "data/transforms/draws.h"

#include <math.h>

#include "base/normal.h"

static double normal_draw(yki_draws *draws)
{
    double value = yki_normal_at(draws->state, 0);
    draws->state += 2 * YKI_WORD_STEP;
    return value;
}

/* The logarithm of a number from Gamma(alpha, 1), which may be too small for a double. */
static double log_gamma_draw(yki_draws *draws, double alpha)
{
    if (alpha < 1)
        return log_gamma_draw(draws, alpha + 1) + log(1 - yki_draw_unit(draws)) / alpha;
    double d = alpha - 1.0 / 3, c = 1 / sqrt(9 * d);
    for (;;) {
        double x = normal_draw(draws), v = 1 + c * x;
        if (v <= 0)
            continue;
        v = v * v * v;
        if (log(1 - yki_draw_unit(draws)) < 0.5 * x * x + d - d * v + d * log(v))
            return log(d * v);
    }
}

double yki_draw_beta(yki_draws *draws, double alpha)
{
    double a = log_gamma_draw(draws, alpha), b = log_gamma_draw(draws, alpha);
    return 1 / (1 + exp(b - a));
}

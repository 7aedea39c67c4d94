/* See draws.h: normal numbers by Box and Muller, gamma by Marsaglia and Tsang (2000). */
#include "data/draws.h"

#include <math.h>

double yki_draw_normal(yki_draws *draws)
{
    const double pi = 3.14159265358979323846;
    double radius = sqrt(-2 * log(1 - yki_draw_unit(draws)));
    return radius * cos(2 * pi * yki_draw_unit(draws));
}

/* The logarithm of a number from Gamma(alpha, 1), which may be too small for a double. */
static double log_gamma_draw(yki_draws *draws, double alpha)
{
    if (alpha < 1)
        return log_gamma_draw(draws, alpha + 1) + log(1 - yki_draw_unit(draws)) / alpha;
    double d = alpha - 1.0 / 3, c = 1 / sqrt(9 * d);
    for (;;) {
        double x = yki_draw_normal(draws), v = 1 + c * x;
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

/*
 * Normal numbers by Box and Muller, with the same bits on every processor and on GPUs: log and cos
 * are polynomials in operations that all of them round alike. Their error is a few units in the
 * last place. Nothing here may be contracted to fused multiply-adds.
 */
#ifndef YKI_NORMAL_H
#define YKI_NORMAL_H

#include <math.h>
#include <string.h>

#include "base/random.h"

/* x in (0, 1], not denormal. With x = m 2^e and m in [sqrt(1/2), sqrt(2)), log m is
 * 2 artanh((m - 1) / (m + 1)), by its series. */
YKI_HOST_DEVICE double yki_normal_log(double x)
{
    const double series[] = {1.0 / 3,  1.0 / 5,  1.0 / 7,  1.0 / 9,  1.0 / 11,
                             1.0 / 13, 1.0 / 15, 1.0 / 17, 1.0 / 19, 1.0 / 21};
    uint64_t bits;
    double m, sum = 1.0 / 23;
    memcpy(&bits, &x, sizeof bits);
    int e = (int)(bits >> 52) - 1023;
    bits = (bits & 0xfffffffffffffu) | (uint64_t)1023 << 52; /* m in [1, 2) */
    memcpy(&m, &bits, sizeof m);
    if (m > 1.4142135623730951) {
        m *= 0.5;
        e++;
    }
    double s = (m - 1) / (m + 1), z = s * s;
    for (int i = 9; i >= 0; i--)
        sum = series[i] + z * sum;
    return e * 0.69314718055994530942 + (2 * s + 2 * s * (z * sum));
}

/* cos(2 pi turns) for turns in [0, 1): the angle less a multiple of pi / 2, and Taylor's series. */
YKI_HOST_DEVICE double yki_normal_cos(double turns)
{
    const double cosines[] = {1.0 / (1 * 2),  1.0 / (3 * 4),   1.0 / (5 * 6),   1.0 / (7 * 8),
                              1.0 / (9 * 10), 1.0 / (11 * 12), 1.0 / (13 * 14), 1.0 / (15 * 16)};
    const double sines[] = {1.0 / (2 * 3),   1.0 / (4 * 5),   1.0 / (6 * 7),   1.0 / (8 * 9),
                            1.0 / (10 * 11), 1.0 / (12 * 13), 1.0 / (14 * 15), 1.0 / (16 * 17)};
    int quarter = (int)(4 * turns + 0.5);
    double angle = (4 * turns - quarter) * 1.57079632679489661923, z = angle * angle, sum = 1;
    const double *series = quarter % 2 ? sines : cosines;
    for (int i = 7; i >= 0; i--)
        sum = 1 - z * series[i] * sum;
    double value = quarter % 2 ? angle * sum : sum;
    return quarter == 1 || quarter == 2 ? -value : value;
}

/* Of two words of random bits. */
YKI_HOST_DEVICE double yki_normal_of(uint64_t first, uint64_t second)
{
    double radius = sqrt(-2 * yki_normal_log(1 - yki_unit_of(first)));
    return radius * yki_normal_cos(yki_unit_of(second));
}

/* Number index of the normal numbers made of a sequence of words: each takes two. */
YKI_HOST_DEVICE double yki_normal_at(uint64_t state, uint64_t index)
{
    return yki_normal_of(yki_word(state, 2 * index), yki_word(state, 2 * index + 1));
}

#endif

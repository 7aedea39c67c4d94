/*
 * Functions of two numbers that choose: see graph/compare.c. NaN passes maximum and minimum, as in
 * PyTorch.
 *
 * Inline functions of YKI_REAL, with YKI_RULE(name) for their names; included once for each type.
 */
YKI_HOST_DEVICE YKI_REAL YKI_RULE(maximum)(YKI_REAL a, YKI_REAL b)
{
    return a > b || a != a ? a : b;
}

YKI_HOST_DEVICE YKI_REAL YKI_RULE(minimum)(YKI_REAL a, YKI_REAL b)
{
    return a < b || a != a ? a : b;
}

YKI_HOST_DEVICE YKI_REAL YKI_RULE(compare)(YKI_REAL a, YKI_REAL b, YKI_REAL equal,
                                           YKI_REAL unordered)
{
    return a > b ? 1 : a < b ? 0 : a == b ? equal : unordered;
}

/* filled: 0 where the mask is true, 1 where it is false. */
YKI_HOST_DEVICE YKI_REAL YKI_RULE(masked_fill)(YKI_REAL x, YKI_REAL mask, YKI_REAL value,
                                               YKI_REAL filled)
{
    return (mask != 0) == (filled == 0) ? value : x;
}

/* See median.h. */
#include "common/median.h"

#include <math.h>
#include <stdlib.h>

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double cli_take_median(double *values, size_t count)
{
    if (count == 0)
        return (double)NAN;
    qsort(values, count, sizeof *values, compare_doubles);
    return values[count / 2];
}

double cli_take_trimmed_mean(double *values, size_t count)
{
    size_t kept = count - count / 4;
    double sum = 0;
    qsort(values, count, sizeof *values, compare_doubles);
    for (size_t i = 0; i < kept; i++)
        sum += values[i];
    return sum / (double)kept;
}

/* One number for many measurements. */
#ifndef YOKE_CLI_MEDIAN_H
#define YOKE_CLI_MEDIAN_H

#include <stddef.h>

/* Sorts the values and returns the middle one, of two the upper one; NaN if there are none. */
double cli_take_median(double *values, size_t count);

/*
 * Sorts the values and returns the mean of all but the largest quarter, which something else may
 * have held up; NaN if there are none. The values of parts, made from as many measurements, add up
 * to at most the value of the whole.
 */
double cli_take_trimmed_mean(double *values, size_t count);

#endif

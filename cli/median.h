/* The median of measurements. */
#ifndef YOKE_CLI_MEDIAN_H
#define YOKE_CLI_MEDIAN_H

#include <stddef.h>

/* Sorts the values and returns the one in the middle, the upper one of two; NaN if there are none.
 */
double cli_take_median(double *values, size_t count);

#endif

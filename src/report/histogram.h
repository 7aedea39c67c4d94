/* How the elements of a tensor are distributed: counts in intervals of equal width. */
#ifndef YKI_HISTOGRAM_H
#define YKI_HISTOGRAM_H

#include "base/error.h"
#include <yoke/tensor.h>

enum { YKI_HISTOGRAM_BINS = 64 };

typedef struct yki_histogram {
    double minimum, maximum, sum, sum_of_squares; /* of the finite elements */
    double count;                                 /* of them */
    int bins;                         /* 1 where all are equal, 0 where there are none */
    double limit[YKI_HISTOGRAM_BINS]; /* the upper ends; an element at a limit lies above it, but
                                         the maximum lies in the last bin */
    double in_bin[YKI_HISTOGRAM_BINS];
} yki_histogram;

/* YK_ERROR_UNSUPPORTED for a tensor of another dtype than f32 and f64. */
yk_status yki_histogram_measure(yki_histogram *histogram, const yk_tensor *tensor);

#endif

/*
 * Modified Gram-Schmidt: from each vector, its share in every one before it is subtracted, and the
 * rest is normalised. Vectors are taken in panels, which stay in a cache while those before them
 * are read from memory once for the whole panel. Sums have a fixed order, and this file is compiled
 * without contraction.
 */
#include "tensor/orthonormalise.h"

#include <math.h>

#include "base/clones.h"

enum { LANES = 16, PANEL = 16 };

/* Into each clone of its caller. */
#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* Element i is added to lane i mod LANES. */
ALWAYS_INLINE double dot(const double *a, const double *b, int64_t count)
{
    double lanes[LANES] = {0}, sum = 0;
    int64_t whole = count - count % LANES;
    for (int64_t i = 0; i < whole; i += LANES)
        for (int j = 0; j < LANES; j++)
            lanes[j] += a[i + j] * b[i + j];
    for (int64_t i = whole; i < count; i++)
        lanes[i - whole] += a[i] * b[i];
    for (int j = 0; j < LANES; j++)
        sum += lanes[j];
    return sum;
}

ALWAYS_INLINE void subtract_share(double *restrict vector, const double *restrict unit,
                                  int64_t length)
{
    double share = dot(vector, unit, length);
    for (int64_t i = 0; i < length; i++)
        vector[i] -= share * unit[i];
}

ALWAYS_INLINE void normalise(double *vector, int64_t length)
{
    double norm = sqrt(dot(vector, vector, length));
    for (int64_t i = 0; i < length && norm > 0; i++)
        vector[i] /= norm;
}

YKI_VECTOR_CLONES
static void orthonormalise(double *vectors, int64_t length, int64_t count)
{
    for (int64_t first = 0; first < count; first += PANEL) {
        int64_t end = first + PANEL < count ? first + PANEL : count;
        for (int64_t k = 0; k < end; k++) {
            if (k >= first)
                normalise(vectors + k * length, length);
            for (int64_t j = k < first ? first : k + 1; j < end; j++)
                subtract_share(vectors + j * length, vectors + k * length, length);
        }
    }
}

void yki_orthonormalise(double *vectors, int64_t length, int64_t count)
{
    orthonormalise(vectors, length, count);
}

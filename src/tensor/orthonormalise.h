/* Orthonormal vectors. */
#ifndef YKI_ORTHONORMALISE_H
#define YKI_ORTHONORMALISE_H

#include <stdint.h>

/*
 * Makes `count` vectors, each of `length` numbers and linearly independent, orthonormal: vector k
 * becomes the k-th column of Q in a QR decomposition where R has a positive diagonal. The bits are
 * the same on every processor.
 */
void yki_orthonormalise(double *vectors, int64_t length, int64_t count);

#endif

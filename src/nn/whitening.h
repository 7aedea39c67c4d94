/*
 * Whitening filters: they make the values of image patches uncorrelated and of equal variance, and
 * are computed from the patches of some images. In f64 throughout: in f32 the smallest eigenvalues
 * may come out negative.
 */
#ifndef YKI_WHITENING_H
#define YKI_WHITENING_H

#include <yoke/tensor.h>

#include "base/error.h"

/* Sums over patches of (channels, rows, columns), as long vectors of `size` elements. */
typedef struct yki_whitening {
    int64_t channels, rows, columns, size;
    int64_t patches;
    double *products; /* (size, size): sums of x x^T */
    double *room;     /* for the solver, and for one patch */
} yki_whitening;

/* Call yki_whitening_end even if this fails. */
yk_status yki_whitening_begin(yki_whitening *w, int64_t channels, int64_t rows, int64_t columns);
/* Adds all patches of images (N, C, H, W), f32 or f64, which are at least as large as a patch. */
void yki_whitening_add(yki_whitening *w, const yk_tensor *images);
/* Fills weight (2 size, channels, rows, columns), f32 or f64: the eigenvectors of the patches'
 * products divided by sqrt(eigenvalue + eps), the largest first, then their negation. */
void yki_whitening_solve(yki_whitening *w, double eps, yk_tensor *weight);
void yki_whitening_end(yki_whitening *w);

/*
 * Eigenvalues, the largest first, and eigenvectors, one in each row of vectors, of the symmetric
 * matrix a (n, n), which is destroyed. The largest element of each vector is positive.
 */
void yki_eigen_symmetric(double *a, int64_t n, double *values, double *vectors);

#endif

/*
 * The update of one matrix by Muon (Jordan et al., "Muon: An optimizer for hidden layers in neural
 * networks", 2024), which a device computes in one call:
 *
 *     X = U / (|U| + 1e-7)                        (rows and columns exchanged if U is tall)
 *     `steps` times:  A = X X^T,  X = 3.4445 X + (2.0315 A A - 4.775 A) X
 *     value = (1 - lr weight_decay) value - lr X                 or, normalised,
 *     value = (1 - lr weight_decay) value sqrt(rows) / |value| - lr X
 *
 * These are steps of Newton and Schulz towards the orthogonal matrix that is nearest to U. A value
 * of zeros is not normalised. All numbers are f32, and norms are summed in double. Ranks that have
 * the same gradients must keep the same weights. On host devices every sum is therefore one of
 * fused multiply-adds in the order of its terms: the bits are the same on every processor and for
 * every number of threads. GPUs of one model with one version of cuBLASLt have the same bits.
 */
#ifndef YKI_MUON_H
#define YKI_MUON_H

#include "device/sweep.h"

/* The coefficient of a group whose matrices are updated: after those of YKI_SWEEP_SGD, which makes
 * U. YKI_SWEEP_SKIP applies, too. */
enum { YKI_MUON_LR = YKI_SGD_NESTEROV + 1 };

/* All pointers are to the device's memory. */
typedef struct yki_muon_args {
    float *value;        /* (rows, columns) */
    const float *update; /* (rows, columns): U */
    void *scratch;       /* of as many bytes as prepare has said */
    int64_t rows, columns;
    const double *coefficients; /* of the matrix's group */
    double weight_decay;
    int steps;
    bool normalize;
    yki_stream *stream;
} yki_muon_args;

typedef struct yki_muon_ops {
    /* Before a matrix of this shape is first updated; says how many bytes of scratch it takes. */
    yk_status (*prepare)(yki_device *device, int64_t rows, int64_t columns, size_t *scratch);
    yk_status (*update)(yki_device *device, const yki_muon_args *args);
} yki_muon_ops;

/* ---- for host devices ------------------------------------------------------------------------ */

/* yki_muon_ops.prepare: X and the next X, X^T, A and B. */
yk_status yki_muon_prepare(yki_device *device, int64_t rows, int64_t columns, size_t *scratch);

/* c (m, n) = alpha d + beta p q for p (m, k) and q (k, n); d may be NULL. */
typedef struct yki_muon_product {
    float *c;
    const float *d, *p, *q;
    int64_t m, n, k;
    float alpha, beta;
} yki_muon_product;

/* The whole update, whose products are made by `multiply` (muon.c). */
void yki_muon_run(const yki_muon_args *args,
                  void (*multiply)(const yki_device *device, const yki_muon_product *product),
                  const yki_device *device);

#endif

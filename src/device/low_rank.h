/*
 * Approximations of matrices by products of thin ones, M ~ P Q^T: what PowerSGD
 * (parallel/powersgd.c) computes between its exchanges. All matrices are f32, and the factors are
 * stored transposed, so that each of their columns is contiguous.
 *
 * The factors have a few columns, so each pass over M does little arithmetic for each element that
 * it reads, and memory is the limit. Passes that would have M to themselves, such as adding the
 * error, are therefore parts of the products. (A library multiplies large matrices better, as Muon
 * has it do, but it cannot save a pass.)
 *
 * A device's sums have an order that depends on shapes alone. On the host, and in sim, a product of
 * two vectors adds element i to partial sum i mod 32, and then the second half of the partial sums
 * to the first half, until one is left; all other sums are added one by one. Each product is
 * rounded before it is added, so that the bits are the same on every processor.
 */
#ifndef YKI_LOW_RANK_H
#define YKI_LOW_RANK_H

#include "base/random.h"
#include "device/memory.h"

#pragma GCC visibility push(default) /* shared with modules, see device/module.h */

typedef enum yki_low_rank_op {
    YKI_LOW_RANK_BEGIN,            /* draws Q unless it is from an earlier step */
    YKI_LOW_RANK_ORTHONORMALISE_P, /* of many matrices; modified Gram-Schmidt: each column is */
    YKI_LOW_RANK_ORTHONORMALISE_Q, /* normalised, and subtracted from those after it */
    YKI_LOW_RANK_PROJECT,          /* M += error, P = M Q */
    YKI_LOW_RANK_PROJECT_BACK,     /* Q = M^T P */
    YKI_LOW_RANK_APPROXIMATE,      /* M' = P Q^T, error = M - share M', M = M'; if bad, all of M is
                                      NaN, and the error 0 */
    YKI_LOW_RANK_END               /* counts a step that is not bad, and forgets Q after others */
} yki_low_rank_op;

enum { YKI_LOW_RANK_OPS = YKI_LOW_RANK_END + 1 };

/* All pointers are to the device's memory. Only M, the error, P and Q differ between the matrices
 * that are exchanged together. */
typedef struct yki_low_rank {
    float *matrix; /* (n, m) */
    float *error;  /* (n, m), or NULL */
    float *p;      /* (rank, n) */
    float *q;      /* (rank, m) */
    int64_t n, m, rank;
} yki_low_rank;

typedef struct yki_low_rank_args {
    yki_low_rank_op op;
    yki_low_rank at; /* of BEGIN only q, m and rank, which may be those of all matrices */
    /* Of ORTHONORMALISE, in place of `at`, because factors are small and have little to do for many
     * processors; read before the call returns. */
    const yki_low_rank *matrices;
    size_t matrix_count;
    double epsilon; /* added to norms */
    float share;    /* of this rank in M' */
    bool always_draws;
    uint64_t number;     /* of these matrices among all: draws differ */
    const uint64_t *key; /* of the step's draws */
    uint8_t *warm;       /* whether Q is from an earlier step */
    const double *bad;   /* not 0: some rank's numbers are not finite */
    int64_t *count;      /* of the steps that were not bad */
    yki_stream *stream;
} yki_low_rank_args;

/* Approximately normal and the same on every machine: the sum of four uniform numbers. */
YKI_HOST_DEVICE float yki_low_rank_draw(uint64_t key, uint64_t number, uint64_t element)
{
    uint64_t bits = yki_hash3(key, number, element);
    int sum = 0;
    for (int part = 0; part < 4; part++)
        sum += (int)(bits >> 16 * part & 0xffff) - 0x8000;
    return (float)sum / 0x8000;
}

/* In the host's memory, on the calling thread. */
void yki_low_rank_run(const yki_low_rank_args *args);

#pragma GCC visibility pop

#endif

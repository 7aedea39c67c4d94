/*
 * How a synchronised batch_norm meets its peers: a kernel puts two numbers for each channel and a
 * count into a small vector, exchanges it, and reads the vectors of all ranks. Who carries them is
 * not a device's business: the model hands the kernel a yki_sync (see yki_kernel_args).
 *
 * Every rank merges in rank order, so that all come to the same bits. Ranks without samples take
 * part with a count of 0.
 */
#ifndef YKI_SYNC_H
#define YKI_SYNC_H

#include <stdint.h>

#include "base/error.h"

/* A vector is count, first[channels], second[channels]. The concrete struct embeds it first. */
typedef struct yki_sync {
    int world;
    double *mine;      /* this rank's vector, written before gather */
    const double *all; /* [world] vectors in rank order, valid after it */
    /* A collective call; blocks. */
    yk_status (*gather)(const struct yki_sync *sync, int64_t channels);
    void (*destroy)(struct yki_sync *sync);
} yki_sync;

/* Doubles in a vector. */
static inline int64_t yki_sync_length(int64_t channels)
{
    return 2 * channels + 1;
}

static inline void yki_sync_put(const yki_sync *sync, int64_t channels, int64_t channel,
                                double first, double second)
{
    sync->mine[1 + channel] = first;
    sync->mine[1 + channels + channel] = second;
}

/* Values of a channel over all ranks. */
double yki_sync_count(const yki_sync *sync, int64_t channels);

/* Of one channel; squares are of the distances from the mean. */
typedef struct yki_moments {
    double count, mean, squares;
} yki_moments;

/* The moments of a and b together (Chan, Golub and LeVeque 1979). */
yki_moments yki_moments_merge(yki_moments a, yki_moments b);

/* Over all ranks, where first is each rank's mean and second its squares. */
yki_moments yki_sync_moments(const yki_sync *sync, int64_t channels, int64_t channel);

/* Over all ranks: the sums of first and of second. */
void yki_sync_sums(const yki_sync *sync, int64_t channels, int64_t channel, double *first,
                   double *second);

#endif

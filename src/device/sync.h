/*
 * How a synchronised batch_norm exchanges statistics: a kernel writes a count and two numbers for
 * each channel into a small vector, exchanges it, and reads the vectors of all ranks. A device does
 * not know how they are transported: the model passes the kernel a yki_sync (see yki_kernel_args).
 * An asynchronous device enters the work that measures, calls gather, which orders itself after it,
 * and enters the work that reads the result.
 *
 * Every rank merges the vectors in rank order, so that all ranks get the same bits. Ranks without
 * samples take part with a count of 0.
 */
#ifndef YKI_SYNC_H
#define YKI_SYNC_H

#include <stdint.h>

#include "base/error.h"
#include "base/host_device.h"
#include "device/memory.h"

/* A vector is count, first[channels], second[channels]. The concrete struct embeds it first. */
typedef struct yki_sync {
    int world;
    double *mine;      /* in the device's memory: this rank's vector, written before gather */
    const double *all; /* likewise: [world] vectors in rank order, valid after it */
    /* Exchanges the vectors, in order with what is in the stream. Collective; blocks. */
    yk_status (*gather)(const struct yki_sync *sync, int64_t channels, yki_stream *stream);
    void (*destroy)(struct yki_sync *sync);
} yki_sync;

/* The number of doubles in a vector. */
YKI_HOST_DEVICE int64_t yki_sync_length(int64_t channels)
{
    return 2 * channels + 1;
}

static inline void yki_sync_put(const yki_sync *sync, int64_t channels, int64_t channel,
                                double first, double second)
{
    sync->mine[1 + channel] = first;
    sync->mine[1 + channels + channel] = second;
}

/* The number of values of a channel on all ranks. */
double yki_sync_count(const yki_sync *sync, int64_t channels);

/* Moments of one channel; squares is the sum of squared distances from the mean. */
typedef struct yki_moments {
    double count, mean, squares;
} yki_moments;

/* From the sum of `count` values and that of their squares, which loses as many digits as the
 * mean's square is larger than the variance: see yki_sums_dtype. */
YKI_HOST_DEVICE yki_moments yki_moments_of_sums(double count, double sum, double squares)
{
    double distances = squares - sum * sum / count;
    yki_moments found = {count, sum / count,
                         distances > 0 || distances != distances ? distances : 0};
    return found;
}

/* The moments of a and b together (Chan, Golub and LeVeque 1979). */
YKI_HOST_DEVICE yki_moments yki_moments_merge(yki_moments a, yki_moments b)
{
    if (a.count == 0 || b.count == 0)
        return a.count == 0 ? b : a;
    double count = a.count + b.count, distance = b.mean - a.mean;
    yki_moments both = {count, a.mean + distance * b.count / count,
                        a.squares + (b.squares + distance * distance * a.count * b.count / count)};
    return both;
}

/* The moments over all ranks, if first holds each rank's mean and second its squares. */
yki_moments yki_sync_moments(const yki_sync *sync, int64_t channels, int64_t channel);

/* The sums of first and of second over all ranks. */
void yki_sync_sums(const yki_sync *sync, int64_t channels, int64_t channel, double *first,
                   double *second);

#endif

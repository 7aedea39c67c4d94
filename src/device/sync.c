/* See sync.h. */
#include "device/sync.h"

static const double *vector_of(const yki_sync *sync, int64_t channels, int rank)
{
    return sync->all + rank * yki_sync_length(channels);
}

double yki_sync_count(const yki_sync *sync, int64_t channels)
{
    double count = 0;
    for (int rank = 0; rank < sync->world; rank++)
        count += vector_of(sync, channels, rank)[0];
    return count;
}

yki_moments yki_sync_moments(const yki_sync *sync, int64_t channels, int64_t channel)
{
    yki_moments all = {0, 0, 0};
    for (int rank = 0; rank < sync->world; rank++) {
        const double *vector = vector_of(sync, channels, rank);
        yki_moments one = {vector[0], vector[1 + channel], vector[1 + channels + channel]};
        all = yki_moments_merge(all, one);
    }
    return all;
}

void yki_sync_sums(const yki_sync *sync, int64_t channels, int64_t channel, double *first,
                   double *second)
{
    *first = *second = 0;
    for (int rank = 0; rank < sync->world; rank++) {
        const double *vector = vector_of(sync, channels, rank);
        *first += vector[1 + channel];
        *second += vector[1 + channels + channel];
    }
}

/* See trial.h. */
#include "conv/trial.h"

#include <stdlib.h>

enum { REPEATS = 5 };

/* Writes more than the caches hold, so that they have none of the operands, and so that the GPU is
 * busy while the host enters the run. */
static yk_status empty_caches(const void *context)
{
    const yki_cuda_trial *trial = context;
    yki_device *device = &trial->device->base;
    return yki_device_fill(device, trial->caches, 0, trial->cache_bytes, device->stream);
}

static yk_status run(const void *context)
{
    const yki_cuda_trial *trial = context;
    return trial->run(trial->context);
}

static int compare(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

/* The first run does not count. */
double yki_cuda_try(const yki_cuda_trial *trial)
{
    double times[REPEATS + 1];
    for (int i = 0; i <= REPEATS; i++)
        if (trial->device->launcher->measure(&trial->device->base, empty_caches, run, trial,
                                             &times[i]) != YK_OK)
            return 0;
    qsort(times + 1, REPEATS, sizeof *times, compare);
    return times[1 + REPEATS / 2];
}

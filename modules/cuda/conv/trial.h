/*
 * How long the GPU takes for something: the median of a few runs, each with empty caches, so that
 * neither the host nor what ran before counts.
 */
#ifndef YKI_CUDA_TRIAL_H
#define YKI_CUDA_TRIAL_H

#include "cuda.h"

typedef struct yki_cuda_trial {
    yki_cuda_device *device;
    yk_status (*run)(const void *context); /* enters the work in the device's stream */
    const void *context;
    void *caches; /* in the device's memory: as much as its caches hold, or less */
    size_t cache_bytes;
} yki_cuda_trial;

/* In seconds; 0 if it cannot be measured. The device's launcher measures. */
double yki_cuda_try(const yki_cuda_trial *trial);

#endif

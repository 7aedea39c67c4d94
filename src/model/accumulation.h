/*
 * Gradients of several backwards in one. The first backward after an optimizer step writes into the
 * gradients themselves. Each further one writes a gradient into memory of its own and adds it at
 * the moment it is final, while it is still in the cache:
 *
 *     gradient = kept_weight * gradient + increment
 *
 * The mean over all samples is kept as a running mean: with S samples in the gradients and n new
 * ones the weights are S / (S + n) and n / (S + n), so that the number of backwards need not be
 * known in advance. Distributed training weighs over all ranks instead (parallel/reducer.c).
 */
#ifndef YKI_ACCUMULATION_H
#define YKI_ACCUMULATION_H

#include "device/sweep.h"
#include "model/model_hooks.h"
#include "model/variables.h"

typedef struct yki_accumulation {
    yk_accumulation mode;
    bool spent;           /* the optimizer has used the gradients: the next backward sets them */
    int64_t kept_samples; /* that the gradients stand for */
    bool adding;          /* the running backward adds to the gradients */
    void *memory;         /* of the increments; NULL until a backward adds */
    size_t bytes;
    yki_sweep **sweeps; /* by parameter: the addition */
    size_t count;
} yki_accumulation;

void yki_accumulation_destroy(yki_accumulation *accumulation, yki_device *device);

/* How a backward over so many samples would weigh them, by what the loss consists of. */
yki_backward yki_accumulation_weigh(const yki_accumulation *accumulation, int64_t samples,
                                    bool has_means, bool has_sums);
/* Before backward's first kernel. */
yk_status yki_accumulation_begin(yki_accumulation *accumulation, yki_variables *variables,
                                 const yki_backward *backward);
/* Where the running backward writes the gradient of this parameter. */
void *yki_accumulation_target(const yki_accumulation *accumulation, const yki_variable *parameter);
/* The gradient has been written there: adds it where backward adds. kept_weight is a coefficient
 * in the device's memory. */
yk_status yki_accumulation_add(const yki_accumulation *accumulation, const yki_variables *variables,
                               size_t parameter, const double *kept_weight);
/* After backward's last kernel. */
void yki_accumulation_end(yki_accumulation *accumulation, const yki_backward *backward);

#endif

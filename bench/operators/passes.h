/* Passes of optimizers over TENSORS tensors, which have as many elements as a problem's shape says
 * together. */
#ifndef YOKE_BENCH_PASSES_H
#define YOKE_BENCH_PASSES_H

#include "device/sweep.h"
#include "problem.h"

typedef struct passes {
    yki_sweep *sweep;
    void *memory[YKI_SWEEP_TENSORS];
    size_t bytes;
} passes;

/* Whether the problem is one of them. */
bool is_pass(const problem *p);

void passes_init(passes *s, yki_device *device, const problem *p);
void passes_run(const passes *s, const problem *p);
void passes_fini(passes *s);

#endif

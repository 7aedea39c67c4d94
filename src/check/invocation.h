/* One node of a trial, run on its own with operands in memory. */
#ifndef YKI_CHECK_INVOCATION_H
#define YKI_CHECK_INVOCATION_H

#include "check/trial.h"

/* What runs a node: a device with the operands' own dtypes, or ref with every float in f64. */
typedef struct yki_runner {
    yki_device *device;
    bool exact;
    bool plain_in, plain_out; /* operands of four dimensions are no images */
} yki_runner;

/* A node's kernel with its operands in memory. */
typedef struct yki_invocation {
    const yki_runner *runner;
    const yki_node *node;
    yki_kernel_desc desc;
    yki_kernel *kernel;
    void *in[YKI_MAX_IN], *out[YKI_MAX_OUT];
} yki_invocation;

/* With all outputs, or with output 0 alone. Needs yki_invocation_fini() after a failure, too. */
yk_status yki_invocation_init(yki_invocation *call, const yki_trial *trial, const yki_runner *r,
                              const yki_node *node, bool all);
void yki_invocation_fini(yki_invocation *call);
/* Runs with these pointers, packing the parameter that the kernel wants packed. */
yk_status yki_invocation_run(const yki_invocation *call, void *const *in, void *const *out);
/* Initialises an invocation and runs it with its own operands. */
yk_status yki_invoke(yki_invocation *call, const yki_trial *trial, const yki_runner *r,
                     const yki_node *node, bool all);

#endif

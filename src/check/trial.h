/* A case of the conformance suite, built and filled with numbers. */
#ifndef YKI_CHECK_TRIAL_H
#define YKI_CHECK_TRIAL_H

#include "check/conformance.h"

typedef struct yki_trial {
    const yki_conformance_case *row;
    yk_graph *graph;
    yk_value *dout[YKI_MAX_OUT], *more_dy; /* what `adjust` adds to dout[0], or NULL */
    yk_value *din[YKI_MAX_IN];
    double **numbers; /* by value id */
    bool *plain;      /* by value id: always in plain layout, as the planner has it */
    uint64_t draws;
    char label[256];
} yki_trial;

/* Builds the case and the gradient of its node; empty: without samples. yki_trial_fini() is needed
 * after a failure, too. */
yk_status yki_trial_init(yki_trial *trial, const yki_conformance_case *row, yk_dtype dtype,
                         const char *device, bool empty);
void yki_trial_fini(yki_trial *trial);

int64_t yki_value_elements(const yk_value *value);
/* Numbers for a value, all 0; NULL when memory is out. */
double *yki_trial_numbers(const yk_value *value);
/* Rounds numbers to what the value's dtype can hold. */
void yki_trial_round(const yk_value *value, double *numbers);

#endif

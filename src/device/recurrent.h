/* The sizes of lstm, gru and their gradients. */
#ifndef YKI_DEVICE_RECURRENT_H
#define YKI_DEVICE_RECURRENT_H

#include "device/device.h"
#include "device/time_steps.h"

typedef struct yki_recurrent {
    int64_t samples, steps, size; /* size: of a state */
    int64_t gates;                /* 4 of lstm, 3 of gru */
    bool reverse;
} yki_recurrent;

/* Of what all four have in common: the first input is (N, T, ...), the second the weight. */
static inline yki_recurrent yki_recurrent_of(const yki_kernel_desc *desc, const yki_attrs *attrs)
{
    const yki_operand *first = &desc->in[0], *weight = &desc->in[1];
    return (yki_recurrent){.samples = first->dims[0],
                           .steps = first->dims[1],
                           .size = weight->dims[1],
                           .gates = weight->dims[0] / weight->dims[1],
                           .reverse = attrs->reverse};
}

#endif

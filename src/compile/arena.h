/* Memory by lifetime: slots that never live at the same time may share bytes. */
#ifndef YKI_ARENA_H
#define YKI_ARENA_H

#include "base/error.h"

typedef struct yki_slot {
    size_t bytes;
    int first, last; /* the steps it is alive in, both included */
    size_t offset;   /* the answer, a multiple of YKI_SCRATCH_ALIGNMENT */
} yki_slot;

/*
 * Gives every slot an offset; *total is the bytes of all. Largest first, each into the smallest
 * gap that holds it among the slots alive with it: greedy-by-size of Pisarchyk and Lee,
 * "Efficient Memory Management for Deep Neural Net Inference" (2020).
 */
yk_status yki_arena_assign(yki_slot *slots, size_t count, size_t *total);

#endif

/* The model's inputs, and where the running batch has put their data. */
#ifndef YKI_INPUTS_H
#define YKI_INPUTS_H

#include <yoke/model.h>

#include "graph/graph.h"

typedef struct yki_inputs {
    const yk_value **values; /* in order of declaration */
    const void **data;
    size_t count;
} yki_inputs;

yk_status yki_inputs_create(yki_inputs *inputs, const yk_graph *graph);
void yki_inputs_destroy(yki_inputs *inputs);

/* Finds each input in the batch, checks its dtype and shape, and notes where its data is. */
yk_status yki_inputs_take(yki_inputs *inputs, const yk_batch *batch, const bool *needed,
                          bool *incomplete);
/* The name of an input that the last batch did not have; "" if it had all. */
const char *yki_inputs_absent(const yki_inputs *inputs);

/* The batch without samples: every input with its own dtype and no rows. Names and tensors are on
 * the heap; yki_inputs_free_batch frees them. */
yk_status yki_inputs_empty_batch(const yki_inputs *inputs, yk_batch *batch);
void yki_inputs_free_batch(yk_batch *batch);

#endif

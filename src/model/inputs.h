/*
 * The model's inputs, and where kernels read the running batch's data: in the batch itself where
 * its tensors are in memory that the device can use, else in a copy of the device's own.
 */
#ifndef YKI_INPUTS_H
#define YKI_INPUTS_H

#include <yoke/model.h>

#include "device/feed.h"
#include "graph/graph.h"

typedef struct yki_input {
    const yk_value *value;
    bool absent;      /* from the last batch */
    const void *data; /* where kernels read it */
    yki_feed feed;    /* of tensors of the host, on a device with memory of its own */
    int64_t classes;  /* number of classes if these are labels or indices, else 0 */
    int64_t ignored;  /* the label that no loss counts, which may be no class */
    bool last;        /* of labels: the logits' last dimension is that of the classes */
    const char *what; /* a label, or an index, in messages */
} yki_input;

typedef struct yki_inputs {
    yki_device *device;
    yki_input *list; /* in order of declaration */
    size_t count;
    yki_stream *copies; /* of batches, to the device */
    uint64_t moves;     /* the same as long as kernels read from the same addresses */
} yki_inputs;

yk_status yki_inputs_create(yki_inputs *inputs, yki_device *device, const yk_graph *graph);
/* Once the device has done all that was entered. */
void yki_inputs_destroy(yki_inputs *inputs);

/* Finds each input in the batch, checks its dtype and shape, and brings its data to where kernels
 * read it. Tensors that they read in place must stay as they are while they do. */
yk_status yki_inputs_take(yki_inputs *inputs, const yk_batch *batch, const bool *needed,
                          bool *incomplete);
/* The name of an input that the last batch did not have; "" if it had all. */
const char *yki_inputs_absent(const yki_inputs *inputs);

/* The batch without samples: every input with its own dtype and no rows. Names and tensors are on
 * the heap; yki_inputs_free_batch frees them. */
yk_status yki_inputs_empty_batch(const yki_inputs *inputs, yk_batch *batch);
void yki_inputs_free_batch(yk_batch *batch);

#endif

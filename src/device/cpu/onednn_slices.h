/*
 * A convolution that is cut into slices of the batch, which threads take from a shared counter. A
 * slice is computed by one thread, with a primitive that was made for one. The bits therefore do
 * not depend on the number of threads.
 */
#ifndef YKI_ONEDNN_SLICES_H
#define YKI_ONEDNN_SLICES_H

#include "device/cpu/onednn.h"

/* A thread's own stream, and the primitive with its own memory objects. */
typedef struct yki_dnn_share {
    dnnl_stream_t stream;
    yki_dnn_primitive primitive;
} yki_dnn_share;

typedef struct yki_dnn_slices {
    int64_t count; /* 0: the batch is not cut, and all threads work on it together */
    int team;
    size_t
        steps[YKI_DNN_ARGS]; /* bytes from a slice's argument to the next one's; 0: they share it */
    size_t scratch;          /* of a thread */
    yki_dnn_share *shares;   /* of the team */
} yki_dnn_slices;

/* What is described in between is described for one thread if there are slices. begin returns what
 * end restores. */
int yki_dnn_slices_begin(const yki_dnn_slices *slices);
void yki_dnn_slices_end(int threads);

/* Makes every thread's share of the primitive of desc, which is that of one slice; the other
 * arguments are those of yki_dnn_prepare. */
yk_status yki_dnn_slices_prepare(yki_dnn_slices *slices, dnnl_primitive_desc_t desc,
                                 dnnl_engine_t engine, int count, const int *arguments,
                                 const yki_const_md *mds);

/* Runs all slices; the pointers are those of the first. `scratch` has room for the team. */
yk_status yki_dnn_slices_run(const yki_dnn_slices *slices, void *const *pointers, void *scratch);
/* Adds so many floats of the other slices to those of the first, in the order of slices. They begin
 * `step` bytes after each other. */
void yki_dnn_slices_add(const yki_dnn_slices *slices, void *sums, size_t floats, size_t step);
void yki_dnn_slices_destroy(yki_dnn_slices *slices);

#endif

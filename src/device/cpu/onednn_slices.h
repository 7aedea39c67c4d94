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
    size_t x_bytes, y_bytes; /* of a slice */
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

/* Runs all slices. The first and the third pointer are to activations, of which each slice has so
 * many bytes: what is read and what is made. `scratch` has room for the team. */
yk_status yki_dnn_slices_run(const yki_dnn_slices *slices, void *const *pointers, size_t in_bytes,
                             size_t out_bytes, void *scratch);
void yki_dnn_slices_destroy(yki_dnn_slices *slices);

#endif

/*
 * All parameters of a model cut into pieces of about equal size, so that threads share a pass over
 * them evenly and a small tensor needs no separate parallel region. The cut depends on the shapes
 * alone: sums made chunk by chunk and added up in order do not depend on the number of threads.
 */
#ifndef YKI_CHUNKS_H
#define YKI_CHUNKS_H

#include <yoke/model.h>

#include "base/error.h"

typedef struct yki_chunk {
    size_t parameter;
    int64_t begin, count; /* elements */
} yki_chunk;

typedef struct yki_chunks {
    yki_chunk *of;
    size_t count;
} yki_chunks;

/* Over the values of count views. */
yk_status yki_chunks_create(yki_chunks *chunks, const yk_parameter_view *views, size_t count);
/* Drops the chunks of parameters that are not to be kept. */
void yki_chunks_keep(yki_chunks *chunks, const bool *keep);
void yki_chunks_destroy(yki_chunks *chunks);

#endif

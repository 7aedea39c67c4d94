/*
 * What becomes of a picture on its way into a batch: it is decoded if need be, transformed and
 * converted. The loader makes one pipeline for each field of pictures and runs it on its workers;
 * the loader knows nothing about how pictures are decoded or transformed.
 */
#ifndef YKI_PIPELINE_H
#define YKI_PIPELINE_H

#include "data/transform.h"
#include "data/worker.h"

typedef struct yki_pipeline {
    yk_field field; /* what goes in */
    yk_dtype dtype; /* what comes out: YK_F32 or YK_F64 (C, H, W) */
    int64_t dims[3];
    yki_transform_plan plan;
} yki_pipeline;

/* Into a pipeline of zeros, which the caller destroys on failure, too. */
yk_status yki_pipeline_prepare(yki_pipeline *pipeline, const yk_field *field,
                               const yk_loader_options *options);
void yki_pipeline_destroy(yki_pipeline *pipeline);

/* Random choices depend only on (seed, epoch, index). scratch is the worker's. */
typedef struct yki_pipeline_draw {
    uint64_t seed;
    int64_t epoch, index;
} yki_pipeline_draw;
yk_status yki_pipeline_run(const yki_pipeline *pipeline, yki_room *scratch,
                           const yk_field_buffer *picture, yki_pipeline_draw draw, void *out);

/* The picture as it is, for a yk_reader: *tensor is YK_U8 (C, H, W), valid until the picture's
 * buffer or scratch is used again. */
yk_status yki_pipeline_decode(const yk_field *field, yki_room *scratch, yki_decoder *decoder,
                              const yk_field_buffer *picture, yk_tensor *tensor);

#endif

/*
 * What becomes of a picture on its way into a batch: it is decoded if need be, transformed and
 * converted. The loader makes one pipeline for each field of pictures and runs it on its workers;
 * the loader knows nothing about how pictures are decoded or transformed.
 */
#ifndef YKI_PIPELINE_H
#define YKI_PIPELINE_H

#include "data/transforms/crop_flip.h"
#include "data/transforms/frame.h"
#include "data/worker.h"
#include "device/pictures.h"

typedef struct yki_pipeline {
    yk_field field; /* what goes in */
    yk_dtype dtype; /* what comes out: YK_F32 or YK_F64 (C, H, W) */
    int64_t dims[3];
    const yk_transforms *transforms;         /* a reference of its own */
    int picture_steps;                       /* the list's first steps */
    const yk_transform_normalize *normalize; /* of the list, or NULL */
    bool alternates;                         /* the list has AlternatingHorizontalFlip */
    int erasing_count;                       /* steps RandomErasing of the list */
    int *erasing_steps;                      /* (erasing_count) their numbers */
    yki_picture_erasing *erasings;           /* (erasing_count) what they write */
    bool direct;                             /* the picture steps are `plan` */
    yki_crop_flip plan;
    yki_byte_tables tables;
} yki_pipeline;

/* What a worker needs to run pipelines, kept from one picture to the next; start from zeros. */
typedef struct yki_pipeline_memory {
    yki_frame_memory frame;
    yki_room room;
} yki_pipeline_memory;

void yki_pipeline_memory_free(yki_pipeline_memory *memory);

/* Into a pipeline of zeros, which the caller destroys on failure, too. */
yk_status yki_pipeline_prepare(yki_pipeline *pipeline, const yk_field *field,
                               const yk_transforms *transforms, yk_dtype dtype);
void yki_pipeline_destroy(yki_pipeline *pipeline);

/* Random choices depend only on (seed, epoch, index). */
typedef struct yki_pipeline_draw {
    uint64_t seed;
    int64_t epoch, index;
} yki_pipeline_draw;
/* decoder: the worker's, of encoded pictures. */
yk_status yki_pipeline_run(const yki_pipeline *pipeline, yki_pipeline_memory *memory,
                           yki_decoder *decoder, const yk_field_buffer *picture,
                           yki_pipeline_draw draw, void *out);

/* ---- parts of a run, for deferral.h --------------------------------------------------------- */

/* What all draws for a sample are made of, see draws.h. */
uint64_t yki_pipeline_word(const yki_pipeline *pipeline, yki_pipeline_draw draw);
/* Where each RandomErasing erases: boxes (erasing_count). */
void yki_pipeline_draw_boxes(const yki_pipeline *pipeline, uint64_t word, yki_picture_box *boxes);
/* The picture after all steps on pictures, of which some may be pending. */
yk_status yki_pipeline_frame(const yki_pipeline *pipeline, yki_pipeline_memory *memory,
                             yki_decoder *decoder, const yk_field_buffer *picture, uint64_t word,
                             yki_frame *frame);

#endif

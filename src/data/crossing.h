/*
 * Pictures on their way to a device that makes the batch of them (deferral.h). What crosses is one
 * block for each batch: how samples are mixed, how each is made, what is erased of it, then the
 * pictures; or without
 * them, if the device keeps all pictures of the data set. Workers write blocks in pinned memory.
 * The consumer's thread, which runs the model, sends them, in order with the model's work.
 */
#ifndef YKI_CROSSING_H
#define YKI_CROSSING_H

#include "data/deferral.h"
#include "device/stages.h"

typedef struct yki_crossing {
    yki_device *device; /* NULL: nothing crosses */
    const yki_pipeline *pipeline;
    yki_deferral deferral;
    bool mixes;
    size_t rows;          /* of the largest batch */
    size_t picture_bytes; /* of what crosses for each sample; 0 if the device keeps the pictures */
    yki_stages stages;
    void *numbers, *erasings, *batch, *kept; /* the device's memory */
    size_t batch_bytes, kept_bytes;
} yki_crossing;

/* Decides what crosses, and lets the device keep all pictures of the data set if they are at most
 * so many bytes, can all be read, and fit. */
yk_status yki_crossing_plan(yki_crossing *crossing, yki_device *device,
                            const yki_pipeline *pipeline, const yk_dataset *dataset, int field,
                            size_t keep);
/* Allocates the rest. */
yk_status yki_crossing_create(yki_crossing *crossing, size_t rows, bool mixes);
/* After all work that has been entered. Accepts zeros. */
void yki_crossing_destroy(yki_crossing *crossing);

/* ---- a block --------------------------------------------------------------------------------- */

size_t yki_crossing_bytes(const yki_crossing *crossing);
yki_picture_mix *yki_crossing_mix(void *block);
/* Writes the host's part of a sample into the block. */
yk_status yki_crossing_write(const yki_crossing *crossing, void *block, int64_t row,
                             yki_pipeline_memory *memory, yki_decoder *decoder,
                             const yk_field_buffer *picture, yki_pipeline_draw draw);
/* Enters the work that makes crossing->batch of a block. The block is free after yki_stages_wait.
 */
yk_status yki_crossing_send(yki_crossing *crossing, const void *block, int64_t rows,
                            yki_stream *copies);

#endif

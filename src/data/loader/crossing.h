/*
 * Pictures on their way to the devices that make a batch of them (deferral.h): one device, or as
 * many as divide the batches of a model with replicas. What crosses to each is one block for each
 * batch: how samples are mixed, how each is made, what is erased of it, then the pictures; or
 * without them, if the device keeps all pictures of the data set. Workers write the blocks, one
 * after the other, in pinned memory. The consumer's thread, which runs the model, sends them, in
 * order with the model's work.
 */
#ifndef YKI_CROSSING_H
#define YKI_CROSSING_H

#include "data/loader/deferral.h"
#include "device/stages.h"

/* To one device. */
typedef struct yki_lane {
    yki_device *device;
    yki_stream *copies;
    yki_stages stages;
    void *numbers, *erasings, *batch, *kept; /* the device's memory */
} yki_lane;

typedef struct yki_crossing {
    int lane_count; /* 0: nothing crosses */
    yki_lane *lanes;
    const yki_pipeline *pipeline;
    yki_deferral deferral;
    bool mixes;
    size_t rows;          /* of the largest part of a batch, and one more if samples are mixed */
    size_t picture_bytes; /* of what crosses for each sample; 0 if devices keep the pictures */
    size_t batch_bytes, kept_bytes; /* of each device */
    yk_tensor *tensors;             /* (lane_count) what the devices make */
    yk_tensor_parts parts;          /* of the batch that was sent last */
} yki_crossing;

/* Decides what crosses, and lets the devices keep all pictures of the data set if they are at most
 * so many bytes, can all be read, and fit. Accepts no devices, to which nothing crosses. */
yk_status yki_crossing_plan(yki_crossing *crossing, yki_device *const *devices, int count,
                            const yki_pipeline *pipeline, const yk_dataset *dataset, int field,
                            size_t keep);
/* Allocates the rest, for batches of at most so many samples. */
yk_status yki_crossing_create(yki_crossing *crossing, size_t samples, bool mixes);
/* After all work that has been entered. Accepts zeros. */
void yki_crossing_destroy(yki_crossing *crossing);

/* ---- the blocks of a batch ------------------------------------------------------------------- */

size_t yki_crossing_bytes(const yki_crossing *crossing);
/* Writes the host's part of sample `row` of so many into its block. */
yk_status yki_crossing_write(const yki_crossing *crossing, void *blocks, int64_t samples,
                             int64_t row, yki_pipeline_memory *memory, yki_decoder *decoder,
                             const yk_field_buffer *picture, yki_pipeline_draw draw);
/* Once all are written: how they are mixed. */
void yki_crossing_mix(const yki_crossing *crossing, void *blocks, int64_t samples,
                      const yki_picture_mix *mix);
/* Enters the work that makes the batch. The blocks are free after yki_crossing_wait. */
yk_status yki_crossing_send(yki_crossing *crossing, const void *blocks, int64_t samples);
yk_status yki_crossing_wait(yki_crossing *crossing);
/* Where the batch is that was sent last: all of a tensor but its type and dimensions. */
void yki_crossing_place(const yki_crossing *crossing, yk_tensor *tensor);

#endif

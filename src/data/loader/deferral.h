/*
 * The last steps of a pipeline, left to a device (device/pictures.h). Pictures of one size that are
 * only cropped and flipped cross as the data set has them, and the device does all steps. Of others
 * the host does the steps on pictures, except for flips at their end; what crosses is bytes, a
 * quarter of the numbers that they become. Draws are the host's in both cases, and so are the bits.
 */
#ifndef YKI_DEFERRAL_H
#define YKI_DEFERRAL_H

#include "data/transforms/pipeline.h"
#include "device/pictures.h"

typedef struct yki_deferral {
    bool whole;       /* the device does all steps */
    int64_t dims[3];  /* (C, H, W) of what crosses */
    bool interleaved; /* as (H, W, C) */
    bool reflects;
} yki_deferral;

/* Whether the last steps can be left to a device. */
bool yki_pipeline_defers(const yki_pipeline *pipeline);
/* How they are; kept: pictures cross once, before the first epoch, if they can cross whole. */
void yki_pipeline_defer(yki_deferral *deferral, const yki_pipeline *pipeline, bool kept);
/* The host's part of a run: pixels, which may be NULL if they cross whole, all of *made but its
 * source, and the boxes that the pipeline's erasings have. */
yk_status yki_deferral_run(const yki_deferral *deferral, const yki_pipeline *pipeline,
                           yki_pipeline_memory *memory, yki_decoder *decoder,
                           const yk_field_buffer *picture, yki_pipeline_draw draw, uint8_t *pixels,
                           yki_picture_draw *made, yki_picture_box *boxes);

#endif

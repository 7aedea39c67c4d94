/* A transform made ready: per channel a table from pixel byte to normalised value. */
#ifndef YKI_TRANSFORM_H
#define YKI_TRANSFORM_H

#include "data/dataset.h"

typedef struct yki_transform_plan {
    int padding;
    bool flip;
    float f32[3][256];
    double f64[3][256];
} yki_transform_plan;

yk_status yki_transform_prepare(yki_transform_plan *plan, const yk_transform *transform);
/* pixels (3, 32, 32) bytes -> out (3, 32, 32) of dtype f32 or f64. */
void yki_transform_apply(const yki_transform_plan *plan, const uint8_t *pixels, uint64_t seed,
                         int64_t epoch, int64_t index, yk_dtype dtype, void *out);

#endif

/* A transform made ready: per channel a table from pixel byte to normalised value. */
#ifndef YKI_TRANSFORM_H
#define YKI_TRANSFORM_H

#include <yoke/data.h>

#include "base/error.h"

enum { YKI_TRANSFORM_CHANNELS = 3 };

typedef struct yki_transform_plan {
    int channels, height, width;
    int padding;
    bool flip;
    float f32[YKI_TRANSFORM_CHANNELS][256];
    double f64[YKI_TRANSFORM_CHANNELS][256];
} yki_transform_plan;

/* For pictures of dims (C, H, W). */
yk_status yki_transform_prepare(yki_transform_plan *plan, const yk_transform *transform,
                                const int64_t dims[3]);
/* pixels (C, H, W) bytes -> out (C, H, W) of dtype f32 or f64; scratch has room for two such
 * pictures. */
void yki_transform_apply(const yki_transform_plan *plan, const uint8_t *pixels, uint64_t seed,
                         int64_t epoch, int64_t index, uint8_t *scratch, yk_dtype dtype, void *out);

#endif

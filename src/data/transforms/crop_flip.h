/*
 * The usual augmentation of small pictures in one pass: RandomCrop(its own size, padding), then
 * RandomHorizontalFlip or AlternatingHorizontalFlip, either of which may be missing, then a table
 * from byte to number.
 */
#ifndef YKI_CROP_FLIP_H
#define YKI_CROP_FLIP_H

#include <yoke/tensor.h>

#include "image/byte_tables.h"

typedef struct yki_crop_flip {
    int channels, height, width;
    int padding;
    bool flip;
    bool reflect; /* the padding is the picture mirrored at its edges, not zeros */
} yki_crop_flip;

/* Whether these steps on planar pictures of dims (C, H, W) are no more than that; fills *plan. */
bool yki_crop_flip_plan(yki_crop_flip *plan, const yk_transform_step *steps, int count,
                        const int64_t dims[3]);
/*
 * pixels (C, H, W) bytes -> out (C, H, W) of dtype f32 or f64; scratch has room for two such
 * pictures. word: the sample's, see draws.h.
 */
void yki_crop_flip_apply(const yki_crop_flip *plan, const yki_byte_tables *tables,
                         const uint8_t *pixels, uint64_t word, uint8_t *scratch, yk_dtype dtype,
                         void *out);

#endif

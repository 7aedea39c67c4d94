/* The steps on tensors: bytes to normalised numbers, and RandomErasing. */
#ifndef YKI_TENSOR_STEPS_H
#define YKI_TENSOR_STEPS_H

#include <yoke/tensor.h>

#include "data/transforms/draws.h"
#include "device/pictures.h"
#include "image/byte_tables.h"
#include "image/picture.h"

/* (H, W, C) bytes -> out (C, H, W), mirrored and upside down on the way. */
void yki_to_tensor(const yki_byte_tables *tables, const yki_picture *picture, bool mirrored,
                   bool upside_down, yk_dtype dtype, void *out);
/* (C, H, W) bytes -> out (C, H, W), likewise. */
void yki_planes_to_tensor(const yki_byte_tables *tables, const yki_planes *planes, bool mirrored,
                          bool upside_down, yk_dtype dtype, void *out);
/* What RandomErasing writes; numbers: of the Normalize that follows it, or NULL. */
yki_picture_erasing yki_erasing_of(const yk_transform_random_erasing *step,
                                   const yk_transform_normalize *numbers);
/* The box that it erases of a (C, H, W), which may be none. */
yki_picture_box yki_draw_erasing(const yk_transform_random_erasing *step, yki_draws draws,
                                 const int64_t dims[3]);
/* Erases the box of out (C, H, W). */
void yki_erase(const yki_picture_erasing *erasing, const yki_picture_box *box,
               const int64_t dims[3], yk_dtype dtype, void *out);

#endif

/* The steps on tensors: bytes to normalised numbers, and RandomErasing. */
#ifndef YKI_TENSOR_STEPS_H
#define YKI_TENSOR_STEPS_H

#include <yoke/tensor.h>

#include "data/draws.h"
#include "image/byte_tables.h"
#include "image/picture.h"

/* (H, W, C) bytes -> out (C, H, W), mirrored and upside down on the way. */
void yki_to_tensor(const yki_byte_tables *tables, const yki_picture *picture, bool mirrored,
                   bool upside_down, yk_dtype dtype, void *out);
/* (C, H, W) bytes -> out (C, H, W), likewise. */
void yki_planes_to_tensor(const yki_byte_tables *tables, const yki_planes *planes, bool mirrored,
                          bool upside_down, yk_dtype dtype, void *out);
/* The box that RandomErasing erases; false if there is none. */
bool yki_draw_erasing(const yk_transform_random_erasing *step, yki_draws *draws,
                      const int64_t dims[3], yki_box *box);
/* What a value before Normalize becomes; numbers is NULL where no Normalize follows. */
double yki_erased_number(double value, const yk_transform_normalize *numbers, int channel);
/* RandomErasing of out (C, H, W). With numbers, the value is one before Normalize, which follows.
 */
void yki_erase(const yk_transform_random_erasing *step, const yk_transform_normalize *numbers,
               yki_draws *draws, const int64_t dims[3], yk_dtype dtype, void *out);

#endif

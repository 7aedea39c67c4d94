/* Normal numbers in f32 with the bits of PyTorch's. */
#ifndef YKI_BOX_MULLER_H
#define YKI_BOX_MULLER_H

#include <stdint.h>

/*
 * Turns blocks of 16 uniform numbers from [0, 1) into normal ones, in place: of each the
 * first eight are radii, the last eight angles.
 */
void yki_box_muller_f32(float *data, int64_t blocks, float mean, float deviation);

#endif

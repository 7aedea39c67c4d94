/*
 * How operands of which some are broadcast lie in memory: along an axis for each dimension, and one
 * for the lanes of blocks, of which a plain tensor has one. Images end with the axes (images,
 * blocks, rows, columns, lanes). An operand that is repeated along an axis has a stride of 0 there.
 * Neighbouring axes that all operands walk alike are one axis.
 */
#ifndef YKI_CPU_BROADCAST_AXES_H
#define YKI_CPU_BROADCAST_AXES_H

#include "device/device.h"

enum { YKI_MAX_AXES = YK_MAX_DIMS + 1, YKI_AXIS_OPERANDS = 3 };

typedef enum yki_side { YKI_SIDE_A, YKI_SIDE_B, YKI_SIDE_Y } yki_side; /* in[0], in[1], out[0] */

typedef struct yki_axis {
    int64_t size;
    int64_t stride[YKI_AXIS_OPERANDS]; /* elements */
} yki_axis;

typedef struct yki_axes {
    int count; /* at least one */
    yki_axis axis[YKI_MAX_AXES];
    /* Where channels end within a block, its axis and that of lanes, the last one, are never
     * merged; else it is -1. */
    int block_axis;
    int64_t last_lanes; /* of the last block */
} yki_axes;

/* The axes of `large`, the operand of which no dimension is repeated. */
yki_axes yki_axes_of(const yki_device *device, const yki_kernel_desc *desc,
                     const yki_operand *large);

/* How many lanes of a block have a channel. */
int64_t yki_axes_lanes(const yki_axes *axes, int64_t block);

/* Whether the kernels of broadcast.c and reduce.c compute it: a side in blocks is only known beside
 * a large operand in blocks. */
bool yki_axes_known(const yki_kernel_desc *desc, const yki_operand *large);

#endif

/* How much a kernel has to do, for profiles. */
#ifndef YKI_WORK_H
#define YKI_WORK_H

#include "device/device.h"

enum { YKI_WORK_SHAPE = 64 };

typedef struct yki_work {
    double flop;     /* by the operator's definition */
    double computed; /* by the kernel's algorithm */
    double bytes;    /* of all operands */
    bool matrix_unit;
    char shape[YKI_WORK_SHAPE];
} yki_work;

yki_work yki_work_of(const yki_device *device, const yki_kernel_desc *desc,
                     const yki_kernel *kernel);

#endif

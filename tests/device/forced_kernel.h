/* Kernels of the cpu device wherever they are possible, whatever the rules say. */
#ifndef YK_FORCED_KERNEL_H
#define YK_FORCED_KERNEL_H

#include "device/device.h"

/* The cpu device, where the kernels of this name come first and always gain; valid until the next
 * call. */
const yki_device_type *forced_kernel_type(const char *name);

#endif

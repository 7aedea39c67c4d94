/* Kernels of the cpu device wherever they are possible, whatever the rules say, and what they do
 * for large operands alone. */
#ifndef YK_FORCED_KERNEL_H
#define YK_FORCED_KERNEL_H

#include "device/device.h"

/* The cpu device, where the kernels of this name come first and always gain; valid until the next
 * call. */
const yki_device_type *forced_kernel_type(const char *name);

/* A type of the cpu device, on which operands of 1 KiB are large (see yki_cpu_sizes), so that
 * several threads share them, and results are written past the caches; valid until the next call.
 */
const yki_device_type *with_small_sizes(const yki_device_type *type);

#endif

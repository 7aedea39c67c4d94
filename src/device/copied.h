/*
 * Kernels for operands in other layouts than those for which a device has a kernel, or a fast one:
 * inputs are copied to scratch memory in the layouts of an inner kernel, and outputs from there.
 */
#ifndef YKI_COPIED_H
#define YKI_COPIED_H

#include "device/device.h"

/*
 * The members of a yki_kernel_impl. `inner` describes the inner kernel, which the device looks for:
 * it differs from desc in layouts alone.
 */
yk_status yki_copied_prepare(yki_device *device, const yki_kernel_desc *desc,
                             const yki_kernel_desc *inner, yki_kernel **kernel);
yk_status yki_copied_run(const yki_kernel *kernel, const yki_kernel_args *args);
void yki_copied_destroy(yki_kernel *kernel);
yk_status yki_copied_pack(const yki_kernel *kernel, const void *parameter, void *packed,
                          yki_stream *stream);
bool yki_copied_same_pack(const yki_kernel *kernel, const yki_kernel *other);

#endif

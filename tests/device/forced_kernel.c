/* See forced_kernel.h. */
#include "forced_kernel.h"

#include <string.h>

#include "device/cpu/onednn.h"
#include "harness.h"

enum { MOST_KERNELS = 256 };

const yki_device_type *forced_kernel_type(const char *name)
{
    static yki_kernel_impl forced[MOST_KERNELS];
    static const yki_kernel_impl *kernels[2 * MOST_KERNELS];
    static yki_device_type type;
    size_t count = 0;
    type = yki_device_cpu;
    for (const yki_kernel_impl *const *impl = type.kernels; *impl; impl++)
        if ((*impl)->name && strcmp((*impl)->name, name) == 0) {
            forced[count] = **impl;
            forced[count].gains = NULL;
            kernels[count] = &forced[count];
            count++;
        }
#if defined(__x86_64__)
    assert_true(count > 0);
#else
    if (count == 0)
        skip_because("this processor is not x86");
#endif
    size_t i = 0;
    for (; yki_device_cpu.kernels[i]; i++)
        kernels[count + i] = yki_device_cpu.kernels[i];
    kernels[count + i] = NULL; /* after a name of more kernels */
    type.kernels = kernels;
    return &type;
}

static yk_status create_with_small_sizes(yki_device **device, const yki_device_options *options)
{
    YK_TRY(yki_device_cpu.create(device, options));
    ((yki_cpu_device *)*device)->sizes =
        (yki_cpu_sizes){.share = 64, .streamed = 1 << 10, .far = 2 << 10};
    return YK_OK;
}

const yki_device_type *with_small_sizes(const yki_device_type *type)
{
    static yki_device_type small;
    small = *type;
    small.create = create_with_small_sizes;
    return &small;
}

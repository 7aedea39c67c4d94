/*
 * Convolutions of a few channels, or of groups of a few, for which oneDNN has only its reference
 * implementation in the layouts of the device (plain for fewer than five channels, else blocked):
 * it computes one number at a time and takes hundreds of times as long as others. Activations are
 * therefore copied. If one of the two is blocked already, and oneDNN has another implementation for
 * two blocked ones, the plain one is copied to a blocked one with padding. Otherwise both become
 * plain, and oneDNN convolves them as products of matrices.
 */
#include "device/copied.h"
#include "device/cpu/onednn.h"

bool yki_conv_lacks_kernel(const yki_device *device, const yki_kernel_desc *desc)
{
    yki_kernel_desc asked = *desc;
    yki_conv_activations of = yki_conv_activations_of(&asked);
    if (!yki_prefers_bf16(device, of.first))
        of.first->dtype = of.second->dtype = YK_F32;
    return yki_conv_is_reference(device, &asked);
}

static yki_kernel_desc in_layout(const yki_kernel_desc *desc, yki_layout layout)
{
    yki_kernel_desc other = *desc;
    yki_conv_activations of = yki_conv_activations_of(&other);
    of.first->layout = of.second->layout = layout;
    return other;
}

/* How many of the two activations are blocked. */
static int count_blocked(const yki_device *device, const yki_kernel_desc *desc)
{
    yki_kernel_desc copy = *desc;
    yki_conv_activations of = yki_conv_activations_of(&copy);
    if (!device->block || of.first->dtype != of.second->dtype)
        return 0;
    return (of.first->layout == YKI_BLOCKED) + (of.second->layout == YKI_BLOCKED);
}

static bool gains_in(const yki_device *device, const yki_kernel_desc *desc, yki_layout layout)
{
    yki_kernel_desc other = in_layout(desc, layout);
    return yki_conv_lacks_kernel(device, desc) && !yki_conv_lacks_kernel(device, &other);
}

/* ---- to blocked activations ------------------------------------------------------------------ */

static bool supports_blocked(const yki_device *device, const yki_kernel_desc *desc)
{
    return count_blocked(device, desc) == 1;
}

static bool gains_blocked(const yki_device *device, const yki_kernel_desc *desc)
{
    return gains_in(device, desc, YKI_BLOCKED);
}

static yk_status prepare_blocked(yki_device *device, const yki_kernel_desc *desc,
                                 yki_kernel **kernel)
{
    yki_kernel_desc inner = in_layout(desc, YKI_BLOCKED);
    return yki_copied_prepare(device, desc, &inner, kernel);
}

/* ---- to plain activations -------------------------------------------------------------------- */

static bool supports_plain(const yki_device *device, const yki_kernel_desc *desc)
{
    return count_blocked(device, desc) > 0;
}

static bool gains_plain(const yki_device *device, const yki_kernel_desc *desc)
{
    return gains_in(device, desc, YKI_PLAIN);
}

static yk_status prepare_plain(yki_device *device, const yki_kernel_desc *desc, yki_kernel **kernel)
{
    yki_kernel_desc inner = in_layout(desc, YKI_PLAIN);
    return yki_copied_prepare(device, desc, &inner, kernel);
}

/* They have no names: kernels for the copies may be measured against each other, and without need
 * there are no copies. */
#define COPIED(which, layout)                                                                      \
    const yki_kernel_impl yki_cpu_##which##_##layout = {.op = &yki_op_##which,                     \
                                                        .supports = supports_##layout,             \
                                                        .gains = gains_##layout,                   \
                                                        .prepare = prepare_##layout,               \
                                                        .run = yki_copied_run,                     \
                                                        .destroy = yki_copied_destroy,             \
                                                        .pack = yki_copied_pack,                   \
                                                        .same_pack = yki_copied_same_pack}
COPIED(conv2d, blocked);
COPIED(conv2d_backward_data, blocked);
COPIED(conv2d_backward_weight, blocked);
COPIED(conv2d, plain);
COPIED(conv2d_backward_data, plain);
COPIED(conv2d_backward_weight, plain);

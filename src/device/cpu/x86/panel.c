/* Which activations the convolutions of panels take, and how they see them. */
#include "device/cpu/x86/panel.h"

bool yki_panel_takes(const yki_device *device, const yki_operand *activation)
{
    const yki_operand *a = activation;
    return device->block == YKI_PANEL_LANES &&
           (a->dtype == YK_F32 || a->dtype == YK_BF16 || a->dtype == YK_F16) && a->ndim == 4 &&
           a->layout == YKI_BLOCKED && a->dims[1] % YKI_PANEL_SIDE == 0;
}

yki_panel_activation yki_panel_activation_of(const yki_operand *activation)
{
    const int64_t *dims = activation->dims;
    return (yki_panel_activation){.dtype = activation->dtype,
                                  .groups = dims[1] / YKI_PANEL_SIDE,
                                  .rows = dims[2],
                                  .columns = dims[3]};
}

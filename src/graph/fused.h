/* The activation that fusion (compile/fuse.c) has made a part of batch_norm. */
#ifndef YKI_FUSED_H
#define YKI_FUSED_H

#include <stdbool.h>

#include "base/host_device.h"

typedef enum yki_fused {
    YKI_FUSED_NONE,
    YKI_FUSED_RELU,
    YKI_FUSED_RELU6,
    YKI_FUSED_SILU,
    YKI_FUSED_HARDSWISH,
} yki_fused;

/* Whether the slope follows from the result, too; of the others, kernels compute the argument
 * again, for which there must be no residual. */
YKI_HOST_DEVICE bool yki_fused_clamps(yki_fused activation)
{
    return activation <= YKI_FUSED_RELU6;
}

#endif

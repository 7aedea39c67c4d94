/*
 * Windows of max_pool2d and avg_pool2d along one dimension, as in PyTorch. Window i has the pixels
 * from i stride - padding on.
 */
#ifndef YKI_POOL_H
#define YKI_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/host_device.h"

/* How many windows so many pixels have; less than 1 if none fits. With ceil_mode, the last one may
 * reach beyond the padding, but begins in the image or in the padding before it. */
static inline int64_t yki_pool_windows(int64_t pixels, int64_t kernel, int64_t stride,
                                       int64_t padding, bool ceil_mode)
{
    const int64_t room = pixels + 2 * padding - kernel + (ceil_mode ? stride - 1 : 0);
    const int64_t windows = room < 0 ? 0 : room / stride + 1;
    return ceil_mode && (windows - 1) * stride >= pixels + padding ? windows - 1 : windows;
}

/* How many pixels the mean of window i is over: those in the image, and those in the padding if it
 * counts. What is beyond the padding never counts. */
YKI_HOST_DEVICE int64_t yki_pool_counted(int64_t i, int64_t kernel, int64_t stride, int64_t padding,
                                         bool count_include_pad, int64_t pixels)
{
    const int64_t margin = count_include_pad ? padding : 0;
    const int64_t begin = i * stride - padding, end = begin + kernel;
    return (end < pixels + margin ? end : pixels + margin) - (begin > -margin ? begin : -margin);
}

#endif

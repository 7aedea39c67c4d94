/* An f32 and its bits. */
#ifndef YKI_FLOAT_BITS_H
#define YKI_FLOAT_BITS_H

#include <stdint.h>
#include <string.h>

#include "base/host_device.h"

YKI_HOST_DEVICE uint32_t yki_float_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

YKI_HOST_DEVICE float yki_float_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

#endif

/* Operands in memory, in whatever layout a device has for them. Values are kept as doubles. */
#ifndef YKI_CHECK_OPERAND_H
#define YKI_CHECK_OPERAND_H

#include "device/device.h"

static inline bool yki_dtype_is_float(yk_dtype dtype)
{
    return dtype == YK_F32 || dtype == YK_F64 || dtype == YK_BF16 || dtype == YK_F16;
}

static inline bool yki_dtype_is_16_bit(yk_dtype dtype)
{
    return dtype == YK_BF16 || dtype == YK_F16;
}

/* Aligned memory, filled with one byte; NULL when memory is out. */
void *yki_operand_allocate(size_t bytes, int fill);
/* The operand's memory with these numbers and zeros as padding; NULL when memory is out. */
void *yki_operand_encode(const yki_device *device, const yki_operand *operand,
                         const double *numbers);
void yki_operand_decode(const yki_device *device, const yki_operand *operand, const void *memory,
                        double *numbers);

#endif

/* See operand.h, and conformance.h. */
#include "check/operand.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "check/conformance.h"
#include "tensor/element.h"

static int64_t blocks_of(const yki_device *device, const yki_operand *operand)
{
    return (operand->dims[1] + device->block - 1) / device->block;
}

int64_t yki_conformance_place(const yki_device *device, const yki_operand *operand, int64_t i)
{
    if (operand->layout == YKI_PLAIN)
        return i;
    int64_t pixels = operand->dims[2] * operand->dims[3], block = device->block;
    int64_t pixel = i % pixels, c = i / pixels % operand->dims[1];
    int64_t n = i / pixels / operand->dims[1];
    if (operand->layout == YKI_CHANNELS_LAST)
        return (n * pixels + pixel) * operand->dims[1] + c;
    return ((n * blocks_of(device, operand) + c / block) * pixels + pixel) * block + c % block;
}

yk_status yki_conformance_padding(const yki_device *device, const yki_operand *operand,
                                  const void *memory)
{
    if (operand->ndim < 0 || operand->layout != YKI_BLOCKED || !yki_dtype_is_float(operand->dtype))
        return YK_OK;
    int64_t pixels = operand->dims[2] * operand->dims[3], block = device->block;
    int64_t elements = yki_operand_elements(device, operand);
    for (int64_t i = 0; i < elements; i++) {
        int64_t c = i / block / pixels % blocks_of(device, operand) * block + i % block;
        double number = yki_element_get(operand->dtype, memory, i);
        if (c >= operand->dims[1] && number != 0)
            return yki_error(YK_ERROR_INTERNAL, "padding channel %lld of %lld holds %g",
                             (long long)c, (long long)operand->dims[1], number);
    }
    return YK_OK;
}

void *yki_operand_allocate(size_t bytes, int fill)
{
    size_t aligned = yki_align(bytes ? bytes : 1, YKI_ALIGNMENT);
    void *memory = aligned_alloc(YKI_ALIGNMENT, aligned);
    if (memory)
        memset(memory, fill, aligned);
    else
        yki_error_memory(aligned, "the check of an operator");
    return memory;
}

void *yki_operand_encode(const yki_device *device, const yki_operand *operand,
                         const double *numbers)
{
    void *memory = yki_operand_allocate(yki_operand_bytes(device, operand), 0);
    int64_t count = yki_operand_count(operand);
    for (int64_t i = 0; memory && i < count; i++)
        yki_element_set(operand->dtype, memory, yki_conformance_place(device, operand, i),
                        numbers[i]);
    return memory;
}

void yki_operand_decode(const yki_device *device, const yki_operand *operand, const void *memory,
                        double *numbers)
{
    int64_t count = yki_operand_count(operand);
    for (int64_t i = 0; i < count; i++)
        numbers[i] =
            yki_element_get(operand->dtype, memory, yki_conformance_place(device, operand, i));
}

/* Operands in memory, and the end of a prepared kernel. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "device/device.h"

void yki_kernel_destroy(yki_kernel *kernel)
{
    if (!kernel)
        return;
    if (kernel->impl && kernel->impl->destroy)
        kernel->impl->destroy(kernel);
    else
        free(kernel);
}

int64_t yki_operand_count(const yki_operand *operand)
{
    int64_t count = operand->ndim < 0 ? 0 : 1;
    for (int i = 0; i < operand->ndim; i++)
        count *= operand->dims[i];
    return count;
}

int64_t yki_operand_elements(const yki_device *device, const yki_operand *operand)
{
    int64_t count = yki_operand_count(operand);
    if (operand->layout == YKI_BLOCKED)
        count = count / operand->dims[1] *
                (int64_t)yki_align((size_t)operand->dims[1], (size_t)device->block);
    return count;
}

size_t yki_operand_bytes(const yki_device *device, const yki_operand *operand)
{
    return (size_t)yki_operand_elements(device, operand) * yk_dtype_size(operand->dtype);
}

void yki_operand_clear_padding(const yki_device *device, const yki_operand *operand, void *memory)
{
    if (operand->ndim < 0 || operand->layout != YKI_BLOCKED)
        return;
    int64_t block = device->block, used = operand->dims[1] % block;
    int64_t blocks = (operand->dims[1] + block - 1) / block;
    int64_t pixels = operand->dims[2] * operand->dims[3];
    size_t size = yk_dtype_size(operand->dtype);
    for (int64_t image = 0; used && image < operand->dims[0]; image++) {
        int64_t last = ((image + 1) * blocks - 1) * pixels;
        for (int64_t pixel = last; pixel < last + pixels; pixel++)
            memset((char *)memory + (size_t)(pixel * block + used) * size, 0,
                   (size_t)(block - used) * size);
    }
}

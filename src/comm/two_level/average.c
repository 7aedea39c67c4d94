/* The division of an average where the levels could only add. */
#include "comm/two_level/two_level.h"
#include "tensor/bf16.h"
#include "tensor/f16.h"

#define DIVIDE(type)                                                                               \
    do {                                                                                           \
        type *x = data;                                                                            \
        for (size_t i = 0; i < count; i++)                                                         \
            x[i] = (type)(x[i] / (type)ranks);                                                     \
    } while (0)

void yki_two_level_divide(void *data, size_t count, yk_dtype dtype, int ranks)
{
    uint16_t *half = data;
    switch (dtype) {
    case YK_F32:
        DIVIDE(float);
        break;
    case YK_F64:
        DIVIDE(double);
        break;
    case YK_I32:
        DIVIDE(int32_t);
        break;
    case YK_I64:
        DIVIDE(int64_t);
        break;
    case YK_BF16:
        for (size_t i = 0; i < count; i++)
            half[i] = yki_bf16_from_float(yki_bf16_to_float(half[i]) / (float)ranks);
        break;
    case YK_F16:
        for (size_t i = 0; i < count; i++)
            half[i] = yki_f16_from_float(yki_f16_to_float(half[i]) / (float)ranks);
        break;
    default: /* collectives.c has refused all others */
        break;
    }
}

/* Elements of tensors as doubles, for programs. */
#include "tensor/element.h"

double yk_tensor_get(const yk_tensor *tensor, int64_t index)
{
    return tensor ? yki_element_get(tensor->dtype, tensor->data, index) : 0;
}

void yk_tensor_set(const yk_tensor *tensor, int64_t index, double number)
{
    if (tensor)
        yki_element_set(tensor->dtype, tensor->data, index, number);
}

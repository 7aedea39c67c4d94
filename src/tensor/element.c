/* Elements of tensors as doubles, for programs. */
#include "tensor/element.h"

#include <stdbool.h>

/* Whether a program may use the element: it is there, and in the host's memory. */
static bool has_element(const yk_tensor *tensor, int64_t index)
{
    return tensor && tensor->data && !tensor->device && index >= 0 &&
           index < yk_tensor_count(tensor);
}

double yk_tensor_get(const yk_tensor *tensor, int64_t index)
{
    return has_element(tensor, index) ? yki_element_get(tensor->dtype, tensor->data, index) : 0;
}

void yk_tensor_set(const yk_tensor *tensor, int64_t index, double number)
{
    if (has_element(tensor, index))
        yki_element_set(tensor->dtype, tensor->data, index, number);
}

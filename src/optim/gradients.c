/* See gradients.h. */
#include "optim/gradients.h"

#include <stdlib.h>

#include "base/memory.h"
#include "model/model_hooks.h"

yk_status yki_gradients_create(yki_sweep **sweep, const yk_model *model)
{
    size_t count = yk_model_parameter_count(model);
    yki_span *spans = yki_calloc(count, sizeof *spans);
    *sweep = NULL;
    if (!spans)
        return yki_error_memory(count * sizeof *spans, "a sweep over the gradients");
    for (size_t i = 0; i < count; i++) {
        yk_parameter_view view = yk_model_parameter(model, i);
        spans[i] = (yki_span){.at = {view.grad.data},
                              .dtype = view.grad.dtype,
                              .count = view.trainable ? yk_tensor_count(&view.grad) : 0};
    }
    yk_status status = yki_sweep_create(sweep, yki_model_device(model), spans, count);
    free(spans);
    return status;
}

void yki_gradients_place(yki_sweep *sweep, const yk_model *model)
{
    for (size_t i = 0; i < yk_model_parameter_count(model); i++)
        yki_sweep_move(sweep, i, 0, yk_model_parameter(model, i).grad.data);
}

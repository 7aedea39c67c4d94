/* The batch without samples that fits any model: every input with its own dtype and no rows. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "model/model.h"

static yk_tensor no_rows(const yk_value *input)
{
    static char nothing;
    yk_tensor tensor = {.data = &nothing, .dtype = input->dtype, .ndim = input->ndim};
    for (int d = 0; d < input->ndim; d++)
        tensor.dims[d] = input->dims[d] == YK_BATCH ? 0 : input->dims[d];
    return tensor;
}

yk_status yki_model_forward_empty(yk_model *model)
{
    size_t count = model->input_count;
    const char **names = yki_calloc(count, sizeof *names);
    yk_tensor *tensors = yki_calloc(count, sizeof *tensors);
    yk_status status = YK_OK;
    if (!names || !tensors)
        status = yki_error_memory(count * sizeof *tensors, "an empty batch");
    if (status == YK_OK) {
        for (size_t i = 0; i < count; i++) {
            names[i] = model->inputs[i]->name;
            tensors[i] = no_rows(model->inputs[i]);
        }
        yk_batch batch = {.count = (int)count, .names = names, .tensors = tensors};
        status = yki_model_forward(model, &batch);
        model->batch = NULL;
    }
    free(names);
    free(tensors);
    return status;
}

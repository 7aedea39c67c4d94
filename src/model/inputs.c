/* See inputs.h. */
#include "model/inputs.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

yk_status yki_inputs_create(yki_inputs *inputs, const yk_graph *graph)
{
    inputs->values = yki_calloc(graph->value_count, sizeof *inputs->values);
    inputs->data = yki_calloc(graph->value_count, sizeof *inputs->data);
    if (!inputs->values || !inputs->data)
        return yki_error_memory(graph->value_count * sizeof *inputs->values, "the model's inputs");
    for (size_t i = 0; i < graph->value_count; i++)
        if (graph->values[i]->kind == YKI_INPUT)
            inputs->values[inputs->count++] = graph->values[i];
    return YK_OK;
}

void yki_inputs_destroy(yki_inputs *inputs)
{
    free(inputs->values);
    free(inputs->data);
}

static const yk_tensor *find_batch_tensor(const yk_batch *batch, const char *name)
{
    for (int t = 0; t < batch->count; t++)
        if (batch->names[t] && strcmp(batch->names[t], name) == 0)
            return &batch->tensors[t];
    return NULL;
}

static bool fits(const yk_tensor *tensor, const yk_value *input, int64_t samples)
{
    if (tensor->dtype != input->dtype || tensor->ndim != input->ndim)
        return false;
    for (int d = 0; d < input->ndim; d++)
        if (tensor->dims[d] != (input->dims[d] == YK_BATCH ? samples : input->dims[d]))
            return false;
    return true;
}

const char *yki_inputs_absent(const yki_inputs *inputs)
{
    for (size_t i = 0; i < inputs->count; i++)
        if (!inputs->data[i])
            return inputs->values[i]->name;
    return "";
}

yk_status yki_inputs_take(yki_inputs *inputs, const yk_batch *batch, const bool *needed,
                          bool *incomplete)
{
    *incomplete = false;
    if (batch->count > 0 && (!batch->names || !batch->tensors))
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "the batch has no names or no tensors: NULL");
    for (size_t i = 0; i < inputs->count; i++) {
        const yk_value *input = inputs->values[i];
        const yk_tensor *tensor = find_batch_tensor(batch, input->name);
        char text[96];
        if (!tensor && needed && !needed[input->id]) {
            inputs->data[i] = NULL;
            *incomplete = true;
            continue;
        }
        if (!tensor)
            return yki_error(YK_ERROR_INVALID_ARGUMENT, "the batch has no tensor \"%s\"",
                             input->name);
        if (!fits(tensor, input, batch->size))
            return yki_error(YK_ERROR_INVALID_SHAPE,
                             "the batch's \"%s\" does not fit: expected %s %s with N = %lld",
                             input->name, yki_shape_text(input, text, sizeof text),
                             yk_dtype_name(input->dtype), (long long)batch->size);
        if (!tensor->data && batch->size > 0)
            return yki_error(YK_ERROR_INVALID_ARGUMENT, "the batch's \"%s\" has no data: NULL",
                             input->name);
        inputs->data[i] = tensor->data;
    }
    return YK_OK;
}

/* ---- the batch without samples -------------------------------------------------------------- */

static yk_tensor no_rows(const yk_value *input)
{
    static const char nothing; /* an address for no data at all */
    yk_tensor tensor = {
        .data = (void *)(uintptr_t)&nothing, .dtype = input->dtype, .ndim = input->ndim};
    for (int d = 0; d < input->ndim; d++)
        tensor.dims[d] = input->dims[d] == YK_BATCH ? 0 : input->dims[d];
    return tensor;
}

yk_status yki_inputs_empty_batch(const yki_inputs *inputs, yk_batch *batch)
{
    const char **names = yki_calloc(inputs->count, sizeof *names);
    yk_tensor *tensors = yki_calloc(inputs->count, sizeof *tensors);
    *batch = (yk_batch){.count = (int)inputs->count, .names = names, .tensors = tensors};
    if (!names || !tensors) {
        yki_inputs_free_batch(batch);
        return yki_error_memory(inputs->count * sizeof *tensors, "an empty batch");
    }
    for (size_t i = 0; i < inputs->count; i++) {
        names[i] = inputs->values[i]->name;
        tensors[i] = no_rows(inputs->values[i]);
    }
    return YK_OK;
}

void yki_inputs_free_batch(yk_batch *batch)
{
    free((void *)(uintptr_t)batch->names);
    free((void *)(uintptr_t)batch->tensors);
    *batch = (yk_batch){0};
}

/* See inputs.h. */
#include "model/inputs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "graph/operators.h"
#include "tensor/element.h"
#include "tensor/tensor.h"

#define NO_LABEL INT64_MIN

/* Labels of a loss are below the number of its classes, or ignored: by all losses, or they are
 * labels to another. Indices are labels of which none is ignored. */
static void limit_input(yki_inputs *inputs, const yk_value *value, const char *what,
                        int64_t classes, int64_t ignored)
{
    for (size_t i = 0; i < inputs->count; i++) {
        yki_input *input = &inputs->list[i];
        if (input->value != value || !yki_is_index(value->dtype))
            continue;
        bool first = input->classes == 0;
        input->ignored = first || ignored == input->ignored ? ignored : NO_LABEL;
        if (first || classes < input->classes) {
            input->classes = classes;
            input->what = what;
        }
    }
}

/* Which dimension of logits is that of the classes is what the first of several losses says. */
static void limit_labels(yki_inputs *inputs, const yki_node *loss)
{
    const yk_value *labels = loss->in[YKI_CROSS_ENTROPY_LABELS];
    for (size_t i = 0; i < inputs->count; i++)
        if (inputs->list[i].value == labels && inputs->list[i].classes == 0)
            inputs->list[i].last = loss->attrs.classes_last;
    limit_input(inputs, labels, "cross_entropy: label", yki_cross_entropy_classes(loss),
                loss->attrs.ignore_index);
}

/* Labels are checked before anything runs: kernels would find a wrong one after batch norm has
 * moved its statistics, and those of an asynchronous device cannot refuse it. */
static void find_labels(yki_inputs *inputs, const yk_graph *graph)
{
    for (size_t n = 0; n < graph->node_count; n++) {
        const yki_node *node = graph->nodes[n];
        if (node->op == &yki_op_cross_entropy)
            limit_labels(inputs, node);
        else if (node->op == &yki_op_embedding)
            limit_input(inputs, node->in[YKI_EMBEDDING_INDICES], "embedding: index",
                        node->in[YKI_EMBEDDING_WEIGHT]->dims[0], NO_LABEL);
        else if (node->op == &yki_op_take_along_dim)
            limit_input(inputs, node->in[YKI_TAKE_ALONG_DIM_INDEX], "take_along_dim: index",
                        node->in[YKI_TAKE_ALONG_DIM_X]->dims[node->attrs.dim], NO_LABEL);
    }
}

yk_status yki_inputs_create(yki_inputs *inputs, yki_device *device, const yk_graph *graph)
{
    inputs->device = device;
    inputs->list = yki_calloc(graph->value_count, sizeof *inputs->list);
    if (!inputs->list)
        return yki_error_memory(graph->value_count * sizeof *inputs->list, "the model's inputs");
    for (size_t i = 0; i < graph->value_count; i++)
        if (graph->values[i]->kind == YKI_INPUT)
            inputs->list[inputs->count++].value = graph->values[i];
    find_labels(inputs, graph);
    return yki_stream_create(device, &inputs->copies);
}

void yki_inputs_destroy(yki_inputs *inputs)
{
    for (size_t i = 0; i < inputs->count; i++)
        yki_feed_destroy(&inputs->list[i].feed);
    yki_stream_destroy(inputs->device, inputs->copies);
    free(inputs->list);
}

/* ---- a batch -------------------------------------------------------------------------------- */

const yk_tensor *yk_batch_find(const yk_batch *batch, const char *name)
{
    for (int t = 0; batch && name && t < batch->count && batch->names && batch->tensors; t++)
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
        if (inputs->list[i].absent)
            return inputs->list[i].value->name;
    return "";
}

static yk_status check_tensor(const yki_inputs *inputs, const yk_value *input,
                              const yk_tensor *tensor, int64_t samples)
{
    char expected[96], given[96];
    if (!fits(tensor, input, samples))
        return yki_error(YK_ERROR_INVALID_SHAPE,
                         "the batch's \"%s\" does not fit: expected %s %s with N = %lld, not %s %s",
                         input->name, yki_shape_text(input, expected, sizeof expected),
                         yk_dtype_name(input->dtype), (long long)samples,
                         yki_dims_text(given, sizeof given, tensor->ndim, tensor->dims),
                         yk_dtype_name(tensor->dtype));
    if (!tensor->data && !tensor->parts && samples > 0)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "the batch's \"%s\" has no data: NULL",
                         input->name);
    if (tensor->device && yki_device_is_host(inputs->device))
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "the batch's \"%s\" is in the memory of a device, which the model cannot "
                         "use: copy it with yk_tensor_read",
                         input->name);
    return YK_OK;
}

static int64_t label_at(yk_dtype dtype, const void *labels, int64_t n)
{
    const size_t size = yk_dtype_size(dtype);
    int64_t label = 0; /* whose alignment is that of either dtype */
    memcpy(&label, (const char *)labels + n * (int64_t)size, size);
    return yki_index_at(dtype, &label, 0);
}

/* labels are the host's, of any alignment. */
static yk_status check_labels(const yki_input *input, const void *labels, const yk_tensor *tensor)
{
    int64_t count = yk_tensor_count(tensor);
    for (int64_t n = 0; input->classes > 0 && n < count; n++) {
        const int64_t label = label_at(tensor->dtype, labels, n);
        if ((label < 0 || label >= input->classes) && label != input->ignored)
            return yki_error(YK_ERROR_INVALID_ARGUMENT, "%s %lld of sample %lld is outside 0..%lld",
                             input->what, (long long)label,
                             (long long)(n / (count / tensor->dims[0])),
                             (long long)input->classes - 1);
    }
    return YK_OK;
}

/* There is room for the largest batch so far. */
static yk_status reserve_feed(yki_inputs *inputs, yki_input *input, size_t bytes)
{
    yki_device *device = inputs->device;
    if (bytes <= input->feed.bytes)
        return YK_OK;
    YK_TRY(yki_stream_wait(device, inputs->copies));
    YK_TRY(yki_stream_wait(device, yki_device_stream(device)));
    yki_feed_destroy(&input->feed);
    return yki_feed_create(&input->feed, device, bytes);
}

static yk_status copy_tensor(yki_inputs *inputs, yki_input *input, const yk_tensor *tensor)
{
    size_t bytes = yk_tensor_bytes(tensor);
    void *room;
    YK_TRY(reserve_feed(inputs, input, bytes));
    input->data = input->feed.memory;
    if (bytes == 0)
        return YK_OK;
    YK_TRY(yki_feed_open(&input->feed, &room));
    YK_TRY(yk_tensor_read(tensor, room));
    YK_TRY(check_labels(input, room, tensor));
    return yki_feed_send(&input->feed, bytes, inputs->copies);
}

static bool is_aligned(const yk_tensor *tensor, size_t alignment)
{
    return (uintptr_t)tensor->data % alignment == 0;
}

/* Whether kernels can read the tensor where it is: those of the host need elements to be aligned,
 * and elsewhere the host looks at labels first. */
static bool is_in_place(const yki_inputs *inputs, const yki_input *input, const yk_tensor *tensor)
{
    if (yki_device_is_host(inputs->device))
        return is_aligned(tensor, yk_dtype_size(tensor->dtype));
    return tensor->device == inputs->device && !tensor->parts &&
           is_aligned(tensor, YKI_OPERAND_ALIGNMENT) && input->classes == 0;
}

static yk_status take_tensor(yki_inputs *inputs, yki_input *input, const yk_tensor *tensor)
{
    if (!is_in_place(inputs, input, tensor))
        return copy_tensor(inputs, input, tensor);
    input->data = tensor->data;
    return check_labels(input, tensor->data, tensor);
}

static yk_status no_tensor(const yk_batch *batch, const char *name)
{
    char names[160] = "";
    size_t used = 0;
    for (int t = 0; t < batch->count && used < sizeof names; t++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s\"%s\"", t > 0 ? ", " : "",
                                 batch->names[t] ? batch->names[t] : "");
    return yki_error(YK_ERROR_INVALID_ARGUMENT, "the batch has no tensor \"%s\": it has %s", name,
                     batch->count > 0 ? names : "none");
}

static uint64_t hash_addresses(const yki_inputs *inputs)
{
    uint64_t hash = 0;
    for (size_t i = 0; i < inputs->count; i++)
        hash += yki_mix64((uint64_t)(uintptr_t)inputs->list[i].data + i);
    return hash;
}

yk_status yki_inputs_take(yki_inputs *inputs, const yk_batch *batch, const bool *needed,
                          bool *incomplete)
{
    *incomplete = false;
    if (batch->count > 0 && (!batch->names || !batch->tensors))
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "the batch has no names or no tensors: NULL");
    for (size_t i = 0; i < inputs->count; i++) {
        yki_input *input = &inputs->list[i];
        const yk_tensor *tensor = yk_batch_find(batch, input->value->name);
        input->absent = !tensor && needed && !needed[input->value->id];
        *incomplete |= input->absent;
        if (input->absent)
            continue;
        if (!tensor)
            return no_tensor(batch, input->value->name);
        YK_TRY(check_tensor(inputs, input->value, tensor, batch->size));
        YK_TRY(take_tensor(inputs, input, tensor));
    }
    inputs->moves = hash_addresses(inputs);
    return YK_OK;
}

/* ---- the batch without samples -------------------------------------------------------------- */

static yk_tensor no_rows(const yk_value *input)
{
    static const double nothing; /* an address for no data at all, of any dtype */
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
        names[i] = inputs->list[i].value->name;
        tensors[i] = no_rows(inputs->list[i].value);
    }
    return YK_OK;
}

void yki_inputs_free_batch(yk_batch *batch)
{
    yki_free_const(batch->names);
    yki_free_const(batch->tensors);
    *batch = (yk_batch){0};
}

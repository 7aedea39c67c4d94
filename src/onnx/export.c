/*
 * Export as ONNX: a ModelProto (https://github.com/onnx/onnx/blob/main/docs/IR.md), which is a few
 * lines about the model and one GraphProto. Weights are written straight from the model's memory,
 * so the length of the graph, which comes before it, is the sum of its parts: first what
 * nodes.c has made, then each weight's description and its elements.
 */
#include <yoke/onnx.h>

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include <yoke/system.h>

#include "base/memory.h"
#include "io/atomic_file.h"
#include "io/json.h"
#include "model/model.h"
#include "nn/model_info_json.h"
#include "onnx/nodes.h"

enum { IR_VERSION = 8, OPERATOR_SET = 17 }; /* both of 2021 */

typedef enum field {
    MODEL_IR_VERSION = 1,
    MODEL_PRODUCER_NAME = 2,
    MODEL_PRODUCER_VERSION = 3,
    MODEL_GRAPH = 7,
    MODEL_OPERATOR_SETS = 8,
    MODEL_METADATA = 14,
    SET_DOMAIN = 1,
    SET_VERSION = 2,
    ENTRY_KEY = 1,
    ENTRY_VALUE = 2,
    GRAPH_NAME = 2
} field;

/* ---- what the file says about the model ------------------------------------------------------ */

static void add_metadata(yki_protobuf *model, const char *key, const char *value)
{
    size_t entry = yki_protobuf_begin(model, MODEL_METADATA);
    yki_protobuf_text(model, ENTRY_KEY, key);
    yki_protobuf_text(model, ENTRY_VALUE, value);
    yki_protobuf_end(model, entry);
}

/* Each member of the description; those about its own format are the producer's here. */
static yk_status add_description(yki_protobuf *model, const yk_model_info *info)
{
    char *text;
    YK_TRY(yki_model_info_to_json(&text, info));
    cJSON *item, *root = yki_json_parse(text);
    free(text);
    bool fine = root != NULL;
    cJSON_ArrayForEach(item, root)
    {
        if (strcmp(item->string, "format") == 0 || strcmp(item->string, "yoke") == 0)
            continue;
        char *printed = cJSON_IsString(item) ? NULL : yki_json_print(item);
        fine = fine && (printed || cJSON_IsString(item));
        if (fine)
            add_metadata(model, item->string, printed ? printed : item->valuestring);
        free(printed);
    }
    cJSON_Delete(root);
    return fine ? YK_OK : yki_error_memory(256, "a model's description");
}

static yk_status describe_model(yki_protobuf *message, const yk_model *model)
{
    yki_protobuf_int(message, MODEL_IR_VERSION, IR_VERSION);
    yki_protobuf_text(message, MODEL_PRODUCER_NAME, "yoke");
    yki_protobuf_text(message, MODEL_PRODUCER_VERSION, yk_version());
    size_t set = yki_protobuf_begin(message, MODEL_OPERATOR_SETS);
    yki_protobuf_text(message, SET_DOMAIN, "");
    yki_protobuf_int(message, SET_VERSION, OPERATOR_SET);
    yki_protobuf_end(message, set);
    return model->info ? add_description(message, model->info) : YK_OK;
}

/* ---- weights --------------------------------------------------------------------------------- */

/* What writes a file. */
typedef struct exporter {
    const yk_model *model;
    yki_onnx_graph graph;
    yki_protobuf head;
    yki_protobuf weight, scratch; /* see describe_weight */
    yki_atomic_file file;
} exporter;

/* Whether the graph reads this entry of the model. */
static bool is_read(const exporter *e, size_t index)
{
    const yki_variables *variables = &e->model->variables;
    size_t parameters = variables->parameter_count;
    const yki_variable *variable = index < parameters ? &variables->parameters[index]
                                                      : &variables->buffers[index - parameters];
    return e->graph.read[variable->value->id];
}

/* Into e->weight: everything of it in the GraphProto but its elements, which follow. */
static yk_status describe_weight(exporter *e, const yk_parameter_view *weight)
{
    size_t bytes = yk_tensor_bytes(&weight->value);
    yki_protobuf_clear(&e->scratch);
    yki_onnx_describe_tensor(&e->scratch, weight->name, weight->value.dtype, weight->value.ndim,
                             weight->value.dims);
    yki_protobuf_head(&e->scratch, YKI_ONNX_TENSOR_RAW_DATA, bytes);
    yki_protobuf_clear(&e->weight);
    yki_protobuf_head(&e->weight, YKI_ONNX_GRAPH_INITIALIZER, e->scratch.size + bytes);
    yki_protobuf_add(&e->weight, &e->scratch);
    return e->weight.failed ? yki_error_memory(e->weight.size, "a weight of an ONNX file") : YK_OK;
}

/* The bytes that write_weights writes. */
static yk_status add_up_weights(exporter *e, size_t *bytes)
{
    *bytes = 0;
    for (size_t i = 0; i < yki_model_entry_count(e->model); i++) {
        yk_parameter_view weight = yki_model_entry(e->model, i);
        if (!is_read(e, i))
            continue;
        YK_TRY(describe_weight(e, &weight));
        *bytes += e->weight.size + yk_tensor_bytes(&weight.value);
    }
    return YK_OK;
}

static yk_status write_elements(const exporter *e, const yk_tensor *value)
{
    size_t bytes = yk_tensor_bytes(value);
    if (!value->device)
        return yki_write_all(e->file.fd, e->file.path, value->data, bytes);
    void *host = yki_calloc(bytes, 1);
    yk_status status = host ? yk_tensor_read(value, host) : yki_error_memory(bytes, "a weight");
    if (status == YK_OK)
        status = yki_write_all(e->file.fd, e->file.path, host, bytes);
    free(host);
    return status;
}

static yk_status write_weights(exporter *e)
{
    for (size_t i = 0; i < yki_model_entry_count(e->model); i++) {
        yk_parameter_view weight = yki_model_entry(e->model, i);
        if (!is_read(e, i))
            continue;
        YK_TRY(describe_weight(e, &weight));
        YK_TRY(yki_write_all(e->file.fd, e->file.path, e->weight.data, e->weight.size));
        YK_TRY(write_elements(e, &weight.value));
    }
    return YK_OK;
}

/* ---- the file -------------------------------------------------------------------------------- */

static yk_status write_file(exporter *e)
{
    size_t weights;
    const yk_model_info *info = e->model->info;
    yki_protobuf_text(&e->graph.message, GRAPH_NAME, info && info->arch ? info->arch : "yoke");
    YK_TRY(describe_model(&e->head, e->model));
    YK_TRY(add_up_weights(e, &weights));
    size_t graph = e->graph.message.size + weights;
    if (graph + e->head.size > INT_MAX - 64)
        return yki_error(YK_ERROR_UNSUPPORTED,
                         "%s: the network takes %zu bytes, and an ONNX file holds less than 2 GiB",
                         e->file.path, graph);
    yki_protobuf_head(&e->head, MODEL_GRAPH, graph);
    if (e->head.failed || e->graph.message.failed)
        return yki_error_memory(e->head.size, "an ONNX file");
    YK_TRY(yki_write_all(e->file.fd, e->file.path, e->head.data, e->head.size));
    YK_TRY(yki_write_all(e->file.fd, e->file.path, e->graph.message.data, e->graph.message.size));
    return write_weights(e);
}

static yk_status replace_file(exporter *e, const char *path)
{
    YK_TRY(yki_atomic_open(&e->file, path));
    yk_status status = write_file(e);
    if (status == YK_OK)
        return yki_atomic_commit(&e->file);
    yki_atomic_abandon(&e->file);
    return status;
}

/* The logits as the user made them: the model may have flattened them, to be read row by row. */
static const yk_value *user_logits(const yk_model *model)
{
    const yki_output *output = &model->executor.source.outputs.list[0];
    const yk_value *logits = output->read;
    bool flattened = logits->ndim == 2 && output->made->ndim == 4;
    return flattened ? logits->producer->in[0] : logits;
}

yk_status yk_model_export_onnx(const yk_model *model, const char *path)
{
    YKI_NOT_NULL(model);
    YKI_NOT_NULL(path);
    if (!yki_logits_of(&model->executor.source))
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "%s: the model was created without options.logits, the output to export",
                         path);
    exporter e = {.model = model};
    yk_status status = yki_onnx_graph_create(&e.graph, &model->executor.source, user_logits(model));
    status = status == YK_OK ? replace_file(&e, path) : yki_error_context(status, "%s", path);
    yki_onnx_graph_fini(&e.graph);
    yki_protobuf_fini(&e.head);
    yki_protobuf_fini(&e.weight);
    yki_protobuf_fini(&e.scratch);
    return status;
}

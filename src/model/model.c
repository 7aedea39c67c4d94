/*
 * A model: a graph, rewritten and differentiated once, with its parameters. executor.c runs it by
 * a plan for each batch size and mode.
 */
#include <stdlib.h>

#include <yoke/system.h>

#include "base/memory.h"
#include "base/options.h"
#include "model/model.h"

static yk_status check_model_options(const yk_model_options *options)
{
    if (options->threads < 1 || options->threads > YKI_MODEL_THREADS_MAX)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "threads is %d, expected 1 to %d or YK_THREADS_AUTO", options->threads,
                         YKI_MODEL_THREADS_MAX);
    if ((unsigned)options->amp > YK_AMP_FP16)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "amp is %d, expected off, bf16 or fp16",
                         (int)options->amp);
    return yk_autocast_check(options->autocast);
}

/* Users read outputs row-major, which a device's layout of (N, C, H, W) need not be. The export
 * writes what was flattened: yk_flatten() might return the rows that a reshape has made it of. */
static yk_status flatten_outputs(yk_graph *graph, const yki_outputs *outputs)
{
    for (size_t i = 0; i < outputs->count; i++) {
        yk_value **read = &outputs->list[i].read;
        if (*read && (*read)->ndim == 4 && (*read)->dims[0] == YK_BATCH)
            *read = yki_emit_one(*read, &yki_op_flatten, NULL);
    }
    return graph->status == YK_OK ? YK_OK : yki_error(graph->status, "%s", graph->error);
}

static bool is_full_float(yk_dtype dtype)
{
    return dtype == YK_F32 || dtype == YK_F64;
}

static yk_status expect_float(const yk_value *value, const char *name)
{
    if (!value || is_full_float(value->dtype))
        return YK_OK;
    return yki_error(YK_ERROR_INVALID_ARGUMENT, "%s is %s, expected float32 or float64", name,
                     yk_dtype_name(value->dtype));
}

/* Gradients, and what optimizers do with them, are computed in f32 or f64. */
static yk_status check_parameters(const yk_graph *graph)
{
    for (size_t i = 0; i < graph->value_count; i++) {
        const yk_value *value = graph->values[i];
        if (value->kind == YKI_PARAMETER && !value->frozen && !is_full_float(value->dtype))
            return yki_error(YK_ERROR_INVALID_ARGUMENT,
                             "parameter %s is %s, but only float32 and float64 are trained: "
                             "declare a buffer (yk_buffer), or freeze it (yk_graph_set_trainable)",
                             value->name, yk_dtype_name(value->dtype));
    }
    return YK_OK;
}

static yk_status check_loss(const yk_value *loss)
{
    char text[96];
    YK_TRY(expect_float(loss, "the loss"));
    if (loss->ndim > 0)
        return yki_error(YK_ERROR_INVALID_SHAPE, "the loss has shape %s, expected a scalar",
                         yki_shape_text(loss, text, sizeof text));
    return check_parameters(loss->graph);
}

/* An output must be of the same graph as `result`, of which a model can be made. */
static yk_status check_output(const yk_value *output, const yk_value *result, const char *name)
{
    if (!output || !output->graph)
        return yki_value_check(output, name);
    if (output->graph != result->graph)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "%s belongs to another graph", name);
    return expect_float(output, name);
}

/* What says which graph it is: any value that the model is to compute. */
static const yk_value *result_of(const yk_value *loss, const yk_model_options *options)
{
    const yk_value *output = options->output_count && options->outputs ? options->outputs[0] : NULL;
    return loss ? loss : options->logits ? options->logits : output;
}

static yk_status check_values(const yk_value *loss, const yk_model_options *options)
{
    const yk_value *result = result_of(loss, options);
    char name[48];
    if (options->output_count && !options->outputs)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "options.outputs is NULL, but output_count is %zu", options->output_count);
    YK_TRY(yki_value_check(result, loss ? "the loss"
                                   : options->output_count
                                       ? "options.outputs[0]"
                                       : "there is no loss, and options.logits"));
    if (options->logits)
        YK_TRY(check_output(options->logits, result, "options.logits"));
    for (size_t i = 0; i < options->output_count; i++) {
        snprintf(name, sizeof name, "options.outputs[%zu]", i);
        YK_TRY(check_output(options->outputs[i], result, name));
    }
    return loss ? check_loss(loss) : YK_OK;
}

/* The arrays of the options are the caller's. */
static yk_status list_outputs(yk_model *model)
{
    yki_outputs *outputs = &model->executor.source.outputs;
    const yk_model_options *options = &model->options;
    size_t count = 1 + options->output_count;
    outputs->list = yki_calloc(count, sizeof *outputs->list);
    if (!outputs->list)
        return yki_error_memory(count * sizeof *outputs->list, "the model's outputs");
    outputs->count = count;
    for (size_t i = 0; i < count; i++) {
        yk_value *value = i ? options->outputs[i - 1] : options->logits;
        outputs->list[i] = (yki_output){.made = value, .read = value};
    }
    return YK_OK;
}

static yk_status append_backward(yk_graph *graph, yk_value *loss, yk_value **terms,
                                 yki_gradients *gradients)
{
    YK_TRY(yki_graph_split_loss(graph, loss, terms));
    YK_TRY(yki_graph_differentiate(graph, terms, gradients));
    return yki_graph_fuse_backward(graph, gradients->first_node);
}

/* Pruning, freezing, autocast, fusion; then backward, for which there must be a loss. */
static yk_status rewrite_graph(yk_model *model, yk_value *loss, yki_gradients *gradients)
{
    yk_graph *graph = model->graph;
    yki_plan_source *source = &model->executor.source;
    const yki_outputs outputs = source->outputs;
    YK_TRY(yki_graph_prune(graph, loss, &outputs));
    yki_graph_freeze_norms(graph);
    if (model->options.amp != YK_AMP_OFF)
        YK_TRY(yki_graph_autocast(graph, model->options.amp == YK_AMP_FP16 ? YK_F16 : YK_BF16,
                                  model->options.autocast, &outputs));
    YK_TRY(yki_graph_fuse_forward(graph, loss, &outputs));
    YK_TRY(flatten_outputs(graph, &outputs));
    yk_value *terms[YKI_LOSS_KINDS] = {NULL};
    gradients->first_node = graph->node_count;
    if (loss)
        YK_TRY(append_backward(graph, loss, terms, gradients));
    yki_graph_remove_detached(graph, &loss, terms, &outputs, &gradients->first_node);
    if (loss && model->options.recompute)
        YK_TRY(yki_graph_recompute(graph, gradients->first_node, &outputs));
    YK_TRY(yki_graph_fuse_sums(graph, gradients->first_node));
    *source = (yki_plan_source){.graph = graph,
                                .device = source->device,
                                .loss = loss,
                                .outputs = outputs,
                                .terms = {terms[YKI_LOSS_MEANS], terms[YKI_LOSS_SUMS]},
                                .first_backward = gradients->first_node,
                                .largest_batch = yki_largest_batch(graph)};
    return YK_OK;
}

/* Gives everything that is no activation its place, and the gradients their order. */
static yk_status place_values(yk_model *model, const yki_gradients *gradients)
{
    yki_executor *executor = &model->executor;
    size_t count = model->graph->value_count;
    yki_place *fixed = yki_calloc(count, sizeof *fixed);
    if (!fixed)
        return yki_error_memory(count * sizeof *fixed, "the model");
    executor->source.fixed = fixed;
    for (size_t i = 0; i < executor->inputs.count; i++)
        fixed[executor->inputs.list[i].value->id] =
            (yki_place){.kind = YKI_PLACE_INPUT, .index = i};
    for (size_t kind = 0; kind < YKI_LOSS_KINDS; kind++)
        if (gradients->loss_gradient[kind])
            fixed[gradients->loss_gradient[kind]->id] =
                (yki_place){.kind = YKI_PLACE_LOSS_GRADIENT, .index = kind};
    yki_variables_place(&model->variables, gradients, fixed);
    yki_variables_order(&model->variables, model->graph, gradients->first_node, fixed);
    return YK_OK;
}

/* Which values the outputs depend on: only these are computed for a batch without the others. */
static yk_status find_inference(yk_model *model)
{
    const yk_graph *graph = model->graph;
    yki_plan_source *source = &model->executor.source;
    bool any = false;
    bool *needed = yki_calloc(graph->value_count, sizeof *needed);
    if (!needed)
        return yki_error_memory(graph->value_count * sizeof *needed, "the model");
    for (size_t i = 0; i < source->outputs.count; i++) {
        const yk_value *read = source->outputs.list[i].read;
        any |= read != NULL;
        if (read)
            needed[read->id] = true;
    }
    yki_graph_mark_needed(graph, source->first_backward, needed);
    if (any)
        source->for_outputs = needed;
    else
        free(needed);
    return YK_OK;
}

static yk_status create_variables(yk_model *model, bool trained)
{
    YK_TRY(yki_variables_create(&model->variables, model->executor.source.device, model->graph,
                                trained));
    return yki_variables_draw(&model->variables, model->options.seed);
}

yk_status yki_model_open_device(yk_model *model)
{
    const yk_model_options *options = &model->options;
    return yki_device_create(&model->executor.source.device, options->device,
                             &(yki_device_options){.threads = options->threads,
                                                   .winograd = options->winograd,
                                                   .measures = options->benchmark});
}

static yk_status build_model(yk_model *model, yk_value *loss)
{
    yki_gradients gradients = {0};
    YK_TRY(list_outputs(model));
    YK_TRY(yki_model_open_device(model));
    YK_TRY(yki_executor_create(&model->executor));
    YK_TRY(create_variables(model, loss != NULL));
    yk_status status = rewrite_graph(model, loss, &gradients);
    if (status == YK_OK) /* whose labels are those of the losses that are left */
        status =
            yki_inputs_create(&model->executor.inputs, model->executor.source.device, model->graph);
    if (status == YK_OK)
        status = place_values(model, &gradients);
    if (status == YK_OK)
        status = yki_graph_find_images(model->graph, &model->executor.source.images);
    if (status == YK_OK)
        status = find_inference(model);
    free(gradients.of);
    return status;
}

yk_status yk_model_create(yk_model **model, yk_value *loss, const yk_model_options *options)
{
    YKI_NOT_NULL(model);
    *model = NULL;
    yk_model_options chosen;
    YK_TRY(YKI_READ_OPTIONS(&chosen, options, yk_model_options, YK_MODEL_OPTIONS_INIT));
    YK_TRY(check_values(loss, &chosen));
    if (!chosen.device)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "options.device is NULL");
    if (chosen.threads == YK_THREADS_AUTO)
        chosen.threads = yk_threads_default(1);
    YK_TRY(check_model_options(&chosen));

    yk_model *made = yki_calloc(1, sizeof *made);
    if (!made)
        return yki_error_memory(sizeof *made, "the model");
    yki_reference_init(&made->reference);
    yk_graph *graph = result_of(loss, &chosen)->graph;
    made->graph = graph;
    made->options = chosen;
    made->training = loss != NULL;
    made->accumulation.spent = true;
    made->loss_scale = (yki_loss_scale){.factor = 1, .weight = 1};
    graph->state = YKI_GRAPH_TAKEN;
    yk_status status = build_model(made, loss);
    made->options.autocast = NULL; /* the caller's */
    made->options.outputs = NULL;
    const yki_device *device = made->executor.source.device;
    made->options.device = device ? device->name : NULL;
    if (status != YK_OK) {
        made->graph = NULL; /* stays the caller's */
        yk_model_destroy(made);
        return status;
    }
    graph->state = YKI_GRAPH_OWNED;
    *model = made;
    return YK_OK;
}

void yki_model_retain(yk_model *model)
{
    yki_reference_retain(&model->reference);
}

/* The device comes last: it frees the memory of all others, which its stream may still be using. */
static void destroy_memory(yk_model *model)
{
    yki_device *device = model->executor.source.device;
    if (!device)
        return;
    yki_stream_wait(device, yki_device_stream(device));
    yki_model_set_sync(model, NULL);
    yki_model_set_exchange(model, NULL);
    yki_device_free_pinned(device, model->room, model->room_bytes);
    yki_accumulation_destroy(&model->accumulation, device);
    yki_variables_destroy(&model->variables);
    yki_executor_destroy(&model->executor);
}

void yki_model_release(yk_model *model)
{
    if (!yki_reference_release(&model->reference))
        return;
    destroy_memory(model);
    if (!model->is_replica) {
        yki_graph_free(model->graph);
        free(model->executor.source.outputs.list);
    }
    yki_model_info_destroy(model->info);
    free(model);
}

yk_status yki_model_check_trained(const yk_model *model, const char *who)
{
    if (model->executor.source.loss)
        return YK_OK;
    return yki_error(YK_ERROR_INVALID_ARGUMENT,
                     "%s: the model is for inference alone: it was created without a loss", who);
}

yk_status yki_model_check_trainable(const yk_model *model, const char *who)
{
    YK_TRY(yki_model_check_trained(model, who));
    for (size_t i = 0; i < model->variables.parameter_count; i++)
        if (model->variables.used[i])
            return YK_OK;
    return yki_error(YK_ERROR_INVALID_ARGUMENT,
                     "%s: nothing is trained: the loss depends on no parameter, or only on frozen "
                     "ones; thaw some with yk_graph_set_trainable",
                     who);
}

void yk_model_destroy(yk_model *model)
{
    if (model)
        yki_model_release(model);
}

void yk_model_train(yk_model *model)
{
    if (model)
        model->training = model->executor.source.loss != NULL;
}

void yk_model_eval(yk_model *model)
{
    if (model)
        model->training = false;
}

int yk_model_threads(const yk_model *model)
{
    return model ? model->executor.source.device->threads : 0;
}

const char *yk_model_device_description(const yk_model *model)
{
    return model ? model->executor.source.device->description : NULL;
}

int64_t yk_model_forwards(const yk_model *model)
{
    return model ? (int64_t)model->step : 0;
}

void yk_model_set_forwards(yk_model *model, int64_t forwards)
{
    if (model)
        model->step = (uint64_t)forwards;
}

void yk_model_set_accumulation(yk_model *model, yk_accumulation accumulation)
{
    if (model)
        model->accumulation.mode = accumulation;
}

void yk_model_zero_grad(yk_model *model)
{
    if (!model)
        return;
    const yki_model_hooks *hooks = &model->distribution.hooks;
    model->accumulation.spent = true;
    if (hooks->zero_grad)
        hooks->zero_grad(hooks->context);
}

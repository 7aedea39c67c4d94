/*
 * A model: a graph, rewritten and differentiated once, with its parameters. model_run.c makes a
 * plan of it for each batch size and mode that comes by.
 */
#include <stdlib.h>

#include <yoke/system.h>

#include "base/memory.h"
#include "model/model.h"

static yk_status check_options(const yk_model_options *options)
{
    if (options->threads < 0)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "threads is %d, expected 0 or more",
                         options->threads);
    if ((unsigned)options->amp > YK_AMP_FP16)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "amp is %d, expected off, bf16 or fp16",
                         (int)options->amp);
    return yk_autocast_check(options->autocast);
}

/* Who reads an output reads it row-major, and that no device's layout of (N, C, H, W) need be. */
static yk_status flatten_output(yk_graph *graph, yk_value **logits)
{
    if (!*logits || (*logits)->ndim != 4)
        return YK_OK;
    *logits = yk_flatten(*logits);
    return graph->status == YK_OK ? YK_OK : yki_error(graph->status, "%s", graph->error);
}

/* Autocast, fusion, gradient, fusion. */
static yk_status rewrite(yk_model *model, yk_value *loss, yki_gradients *gradients)
{
    yk_graph *graph = model->graph;
    yk_value *logits = model->options.logits;
    YK_TRY(yki_graph_prune(graph, loss, logits));
    if (model->options.amp != YK_AMP_OFF)
        YK_TRY(yki_graph_autocast(graph, model->options.amp == YK_AMP_FP16 ? YK_F16 : YK_BF16,
                                  model->options.autocast, &logits));
    YK_TRY(yki_graph_fuse_forward(graph, loss, &logits));
    YK_TRY(flatten_output(graph, &logits));
    YK_TRY(yki_graph_differentiate(graph, loss, gradients));
    YK_TRY(yki_graph_fuse_backward(graph, gradients->first_node));
    model->source = (yki_plan_source){.graph = graph,
                                      .device = model->device,
                                      .loss = loss,
                                      .logits = logits,
                                      .loss_gradient = gradients->loss_gradient,
                                      .first_backward = gradients->first_node};
    return YK_OK;
}

static yk_status build(yk_model *model, yk_value *loss)
{
    yki_gradients gradients = {0};
    bool winograd = !model->options.no_winograd;
    YK_TRY(
        yki_device_create(&model->device, model->options.device, model->options.threads, winograd));
    yk_status status = rewrite(model, loss, &gradients);
    if (status == YK_OK)
        status = yki_variables_create(model);
    if (status == YK_OK)
        status = yki_variables_draw(model);
    if (status == YK_OK)
        status = yki_variables_place(model, &gradients);
    free(gradients.of);
    return status;
}

yk_status yk_model_create(yk_model **model, yk_value *loss, const yk_model_options *options)
{
    *model = NULL;
    yk_graph *graph = loss->graph;
    if (!graph)
        return yki_error(YK_ERROR_OUT_OF_MEMORY, "out of memory while building the graph");
    if (graph->status != YK_OK)
        return yki_error(graph->status, "%s", graph->error);
    if (graph->taken)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "the graph belongs to another model already: each "
                         "model is made of a graph of its own");

    yk_model_options chosen = options ? *options : (yk_model_options){0};
    if (chosen.logits && chosen.logits->graph != graph)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "options.logits belongs to another graph");
    if (!chosen.device)
        chosen.device = "cpu";
    if (chosen.threads == 0)
        chosen.threads = yk_threads_default(1);
    YK_TRY(check_options(&chosen));

    yk_model *made = yki_calloc(1, sizeof *made);
    if (!made)
        return yki_error_memory(sizeof *made, "the model");
    made->graph = graph;
    made->options = chosen;
    made->training = made->gradients_spent = true;
    made->loss_scale = 1;
    graph->taken = true;
    yk_status status = build(made, loss);
    made->options.autocast = NULL; /* the caller's */
    if (status != YK_OK) {
        made->graph = NULL; /* stays the caller's */
        yk_model_destroy(made);
        return status;
    }
    *model = made;
    return YK_OK;
}

void yk_model_destroy(yk_model *model)
{
    if (!model)
        return;
    yki_packs_destroy(model);
    for (size_t i = 0; i < model->plan_count; i++)
        yki_plan_destroy(model->plans[i]);
    free(model->plans);
    yki_unmap(model->arena, model->arena_bytes);
    yki_variables_destroy(model);
    free(model->source.fixed);
    free(model->sync);
    yki_device_destroy(model->device);
    if (!model->is_replica)
        yk_graph_destroy(model->graph);
    free(model);
}

void yk_model_train(yk_model *model)
{
    model->training = true;
}

void yk_model_eval(yk_model *model)
{
    model->training = false;
}

const char *yk_model_device_description(const yk_model *model)
{
    return model->device->description;
}

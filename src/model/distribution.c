/* See model_hooks.h. */
#include "model/distribution.h"

#include <math.h>

#include "base/fork.h"
#include "model/choices.h"
#include "model/model.h"

yk_status yki_model_attach(yk_model *model, const yki_model_hooks *hooks, const char *who)
{
    YK_TRY(yki_model_check_trained(model, who));
    if (yki_model_is_distributed(model))
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "%s: the model is distributed already (DDP or data parallel)", who);
    model->distribution.hooks = *hooks;
    model->distribution.changes++;
    model->distribution.stream = (uint64_t)hooks->stream;
    if (hooks->run_forward)
        yki_executor_forget(&model->executor);
    yk_status status = yki_model_share_choices(model);
    if (status != YK_OK)
        yki_model_detach(model);
    return status;
}

void yki_model_detach(yk_model *model)
{
    if (yki_model_is_replicated(model))
        yki_executor_forget(&model->executor); /* it may have been a part of the batch */
    yki_plans_drop_recordings(&model->executor.plans);
    yki_model_device(model)->choices.agree = NULL;
    model->distribution.hooks = (yki_model_hooks){0};
    model->distribution.changes++;
    model->distribution.stream = 0;
}

void yki_model_hooks_changed(yk_model *model)
{
    model->distribution.changes++;
}

yk_status yki_model_check_shared_step(const yk_model *model, const char *who)
{
    const yki_model_hooks *hooks = &model->distribution.hooks;
    return hooks->check_shared_step ? hooks->check_shared_step(hooks->context, who) : YK_OK;
}

bool yki_model_is_distributed(const yk_model *model)
{
    return model->distribution.hooks.context != NULL;
}

bool yki_model_is_replicated(const yk_model *model)
{
    return model->distribution.hooks.run_forward != NULL;
}

int yki_model_sharers(const yk_model *model)
{
    return 1 + model->distribution.hooks.replica_count;
}

yk_model *yki_model_sharer(yk_model *model, int index)
{
    return index > 0 ? model->distribution.hooks.replicas[index - 1] : model;
}

int64_t yki_share_of(int64_t samples, int sharers)
{
    return (samples + sharers - 1) / sharers;
}

void yki_model_begin_micro_step(yk_model *model, int stream, bool first)
{
    model->distribution.stream = (uint64_t)stream;
    if (!first)
        model->step--;
}

void yki_model_set_sync(yk_model *model, yki_sync *sync)
{
    if (model->distribution.sync)
        model->distribution.sync->destroy(model->distribution.sync);
    model->distribution.sync = sync;
    model->distribution.changes++;
}

void yki_model_set_exchange(yk_model *model, yki_exchange *exchange)
{
    if (model->distribution.exchange)
        model->distribution.exchange->destroy(model->distribution.exchange);
    model->distribution.exchange = exchange;
    model->distribution.changes++;
}

yki_gathering yki_model_gathering(const yk_model *model)
{
    yki_gathering most = {.ranks = 0};
    for (size_t n = 0; n < model->graph->node_count; n++) {
        const yki_node *node = model->graph->nodes[n];
        if (node->op != &yki_op_all_gather_batch)
            continue;
        const yk_value *y = node->out[YKI_ALL_GATHER_BATCH_Y];
        size_t bytes = yk_dtype_size(y->dtype);
        for (int d = 0; d < y->ndim; d++)
            bytes *= (size_t)y->dims[d];
        most.bytes = bytes > most.bytes ? bytes : most.bytes;
        most.ranks = node->attrs.ranks > most.ranks ? node->attrs.ranks : most.ranks;
    }
    return most;
}

bool yki_model_is_synced(const yk_model *model)
{
    return model->distribution.sync != NULL;
}

int64_t yki_model_norm_channels(const yk_model *model)
{
    int64_t widest = 0;
    for (size_t n = 0; n < model->graph->node_count; n++) {
        const yki_node *node = model->graph->nodes[n];
        if (node->op == &yki_op_batch_norm && node->in[0]->dims[1] > widest)
            widest = node->in[0]->dims[1];
    }
    return widest;
}

/* In backward there are none. */
static bool moves_statistics(const yki_node *node)
{
    return node->op == &yki_op_batch_norm && !node->attrs.evaluates;
}

const yki_node *yki_model_flat_norm(const yk_model *model)
{
    for (size_t n = 0; n < model->graph->node_count; n++) {
        const yki_node *node = model->graph->nodes[n];
        if (!moves_statistics(node))
            continue;
        const yk_value *x = node->in[YKI_BATCH_NORM_X];
        int64_t values = 1;
        for (int d = 2; d < x->ndim; d++)
            values *= x->dims[d];
        if (values == 1)
            return node;
    }
    return NULL;
}

double yki_model_running_share(const yk_model *model, size_t buffer)
{
    const yk_value *value = model->variables.buffers[buffer].value;
    double kept = 1;
    for (size_t n = 0; n < model->graph->node_count; n++) {
        const yki_node *node = model->graph->nodes[n];
        if (moves_statistics(node) && (node->in[YKI_BATCH_NORM_RUNNING_MEAN] == value ||
                                       node->in[YKI_BATCH_NORM_RUNNING_VAR] == value))
            kept *= 1 - node->attrs.momentum;
    }
    return 1 - kept;
}

bool yki_model_counts_batches(const yk_model *model, size_t buffer)
{
    const yk_value *value = model->variables.buffers[buffer].value;
    for (size_t n = 0; n < model->graph->node_count; n++) {
        const yki_node *node = model->graph->nodes[n];
        if (moves_statistics(node) && node->in[YKI_BATCH_NORM_NUM_BATCHES_TRACKED] == value)
            return true;
    }
    return false;
}

bool yki_model_is_constant(const yk_model *model, size_t buffer)
{
    return model->variables.buffers[buffer].value->given &&
           yki_model_running_share(model, buffer) <= 0 && !yki_model_counts_batches(model, buffer);
}

/* ---- the calls that run a model: by itself, or by the hooks that have taken it over --------- */

static yk_status check_threads(const yk_model *model)
{
    bool several = model->options.threads > 1 || model->distribution.hooks.run_forward;
    return several ? yki_check_not_forked() : YK_OK;
}

yk_status yk_model_forward(yk_model *model, const yk_batch *batch)
{
    YKI_NOT_NULL(model);
    YKI_NOT_NULL(batch);
    YK_TRY(check_threads(model));
    const yki_model_hooks *hooks = &model->distribution.hooks;
    return hooks->run_forward ? hooks->run_forward(hooks->context, batch)
                              : yki_model_forward(model, batch);
}

yk_status yki_model_forward_apart(yk_model *model, const yk_batch *batch, int64_t number,
                                  int stream)
{
    const yki_distribution kept = model->distribution;
    const uint64_t step = model->step;
    const bool training = model->training;
    model->distribution.hooks.forward_begin = NULL;
    model->distribution.stream = (uint64_t)stream;
    model->step = (uint64_t)number - 1;
    model->training = true;
    yk_status status = batch ? yk_model_forward(model, batch) : yki_model_forward_empty(model);
    model->training = training;
    model->step = step;
    model->distribution = kept;
    yki_executor_forget(&model->executor);
    return status;
}

yk_status yk_model_backward(yk_model *model)
{
    YKI_NOT_NULL(model);
    YK_TRY(check_threads(model));
    const yki_model_hooks *hooks = &model->distribution.hooks;
    return hooks->run_backward ? hooks->run_backward(hooks->context) : yki_model_backward(model);
}

double yk_model_loss(const yk_model *model)
{
    if (!model)
        return NAN;
    const yki_model_hooks *hooks = &model->distribution.hooks;
    return hooks->loss ? hooks->loss(hooks->context) : yki_model_loss(model);
}

static yk_status output_of(yk_model *model, size_t index, yk_tensor *output)
{
    const yki_model_hooks *hooks = &model->distribution.hooks;
    return hooks->output ? hooks->output(hooks->context, index, output)
                         : yki_model_output(model, index, output);
}

yk_status yk_model_output(yk_model *model, yk_tensor *output)
{
    YKI_NOT_NULL(model);
    YKI_NOT_NULL(output);
    return output_of(model, 0, output);
}

yk_status yk_model_output_at(yk_model *model, size_t index, yk_tensor *output)
{
    YKI_NOT_NULL(model);
    YKI_NOT_NULL(output);
    size_t further = yki_model_outputs(model) - 1;
    if (index >= further)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "there is no output %zu: the model was created with %zu options.outputs",
                         index, further);
    return output_of(model, 1 + index, output);
}

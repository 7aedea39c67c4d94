/* See steps.h. */
#include "model/steps.h"

#include "base/trace.h"
#include "compile/arena.h"

/* ---- where things are ------------------------------------------------------------------------ */

yki_scalars *yki_steps_scalars(const yk_model *model)
{
    return model->executor.scalars.memory;
}

void *yki_step_address(const yk_model *model, const yki_plan *plan, const yki_place *place)
{
    const yki_executor *executor = &model->executor;
    const yki_variables *variables = &model->variables;
    switch (place->kind) {
    case YKI_PLACE_ARENA:
        return (char *)executor->plans.arena + plan->slots[place->index].offset;
    case YKI_PLACE_INPUT:
        return (void *)(uintptr_t)executor->inputs.list[place->index].data;
    case YKI_PLACE_PARAMETER:
        return variables->parameters[place->index].data;
    case YKI_PLACE_GRADIENT:
        return yki_accumulation_target(&model->accumulation, &variables->parameters[place->index]);
    case YKI_PLACE_BUFFER:
        return variables->buffers[place->index].data;
    case YKI_PLACE_LOSS_GRADIENT:
        return &yki_steps_scalars(model)->loss_gradient[place->index];
    case YKI_PLACE_NONE:
        break;
    }
    return NULL;
}

uint64_t yki_steps_moves(const yk_model *model)
{
    const yki_executor *executor = &model->executor;
    return executor->plans.moves + executor->inputs.moves + model->variables.moves +
           model->distribution.changes;
}

/* ---- exchanges of synchronised kernels ------------------------------------------------------- */

static yk_status exchange(void *context, int64_t channels)
{
    const yk_model *model = context;
    const yki_sync *sync = model->distribution.sync;
    return sync->gather(sync, channels, yki_device_stream(model->executor.source.device));
}

static yk_status exchange_on_host(const yki_sync *sync, int64_t channels, yki_stream *stream)
{
    yk_model *model = ((const yki_recorded_sync *)sync)->model;
    (void)stream; /* the device's */
    return yki_tape_call(model->executor.tape, exchange, model, channels, true);
}

static const yki_sync *sync_of(yk_model *model, const yki_step *step)
{
    yki_executor *executor = &model->executor;
    const yki_sync *sync = model->distribution.sync;
    bool in_training =
        executor->running->plan->mode.training && !(step->node && step->node->attrs.evaluates);
    if (!in_training || !sync || !yki_device_records(executor->source.device))
        return in_training ? sync : NULL;
    executor->sync = (yki_recorded_sync){.base = *sync, .model = model};
    executor->sync.base.gather = exchange_on_host;
    return &executor->sync.base;
}

/* ---- steps ----------------------------------------------------------------------------------- */

static yk_status refresh_pack(yk_model *model, const yki_step *step, yki_stream *stream,
                              void **weight)
{
    return yki_packs_refresh(&model->executor.plans.packs, step, model->variables.version, stream,
                             weight);
}

static yk_status run_step(yk_model *model, const yki_step *step, yki_stream *stream)
{
    yki_executor *executor = &model->executor;
    const yki_plan *plan = executor->running->plan;
    void *in[YKI_MAX_IN] = {NULL}, *out[YKI_MAX_OUT] = {NULL};
    YK_TRY(yki_profile_enter(&executor->profile));
    for (int i = 0; i < step->in_count; i++)
        in[i] = yki_step_address(model, plan, &step->in[i]);
    for (int i = 0; i < step->out_count; i++)
        out[i] = yki_step_address(model, plan, &step->out[i]);
    if (step->pack >= 0)
        YK_TRY(refresh_pack(model, step, stream, &in[step->kernel->pack_input]));
    yki_kernel_args args = {.in = in,
                            .out = out,
                            .scratch = yki_plans_scratch(&executor->plans, plan, step),
                            .stream = stream,
                            .scalars = yki_steps_scalars(model),
                            .sync = sync_of(model, step),
                            .exchange = model->distribution.exchange};
    double begin = plan->mode.training ? yki_trace_begin() : 0;
    yk_status status = step->kernel->impl->run(step->kernel, &args);
    if (status == YK_OK)
        status = yki_profile_leave(&executor->profile, &plan->profiles[step - plan->steps]);
    if (step->node)
        YKI_TRACE_END(begin, YKI_NO_ARGS, "%s%s", step->node->scope, step->node->op->name);
    else
        YKI_TRACE_END(begin, YKI_NO_ARGS, "reorder of an input");
    if (status != YK_OK && step->node)
        return yki_error_context(status, "%s%s", step->node->scope, step->node->op->name);
    return status;
}

static yk_status run_on_host(void *context, int64_t index)
{
    yk_model *model = context;
    const yki_executor *executor = &model->executor;
    return run_step(model, &executor->running->plan->steps[index],
                    yki_device_stream(executor->source.device));
}

static yk_status enter_pair(yk_model *model, const yki_step *step)
{
    yki_fan *pair = &model->executor.pair;
    YK_TRY(yki_fan_open(pair));
    yk_status status = run_step(model, step, yki_fan_stream(pair));
    if (status == YK_OK)
        status = run_step(model, step + 1, yki_fan_stream(pair));
    return yki_fan_close(pair, status);
}

yk_status yki_steps_enter(yk_model *model, size_t *index)
{
    const yki_executor *executor = &model->executor;
    size_t at = (*index)++;
    const yki_step *step = &executor->running->plan->steps[at];
    if (step->kernel->impl->on_host)
        return yki_tape_call(executor->tape, run_on_host, model, (int64_t)at, true);
    if (!step->beside || executor->profile.on) /* steps that are timed have the device alone */
        return run_step(model, step, yki_device_stream(executor->source.device));
    (*index)++;
    return enter_pair(model, step);
}

yk_status yki_steps_pack(void *context)
{
    yk_model *model = context;
    const yki_plan *plan = model->executor.running->plan;
    yki_fan *fan = &model->executor.plans.packs.fan;
    YK_TRY(yki_fan_open(fan));
    yk_status status = YK_OK;
    for (size_t i = 0; status == YK_OK && i < plan->step_count; i++) {
        const yki_step *step = &plan->steps[i];
        if (step->pack < 0 || step->in[step->kernel->pack_input].kind != YKI_PLACE_PARAMETER)
            continue;
        void *weight = yki_step_address(model, plan, &step->in[step->kernel->pack_input]);
        status = refresh_pack(model, step, yki_fan_stream(fan), &weight);
    }
    return yki_fan_close(fan, status);
}

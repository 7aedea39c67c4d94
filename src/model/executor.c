/*
 * A model at work: forward and backward enter the steps of the plan for the batch's size and the
 * mode (steps.h). On a device that records, they are entered one by one in the first pass, recorded
 * in the second, and replayed from then on (device/tape.h), except while they are timed
 * (profile.h). Everything that changes from pass to pass is sent before it: the scalars, the batch,
 * and weights that are packed.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/trace.h"
#include "compile/arena.h"
#include "model/model.h"
#include "model/steps.h"

static_assert((int)YKI_SCALARS_LOSSES == (int)YKI_LOSS_KINDS, "a gradient for each kind of loss");

yk_status yki_executor_create(yki_executor *executor)
{
    yki_device *device = executor->source.device;
    YK_TRY(yki_fan_create(&executor->pair, device, 2));
    YK_TRY(yki_readback_create(&executor->readback, device));
    return yki_block_create(&executor->scalars, device, sizeof executor->values);
}

void yki_executor_destroy(yki_executor *executor)
{
    yki_profile_destroy(&executor->profile);
    yki_readback_destroy(executor->readback);
    yki_fan_destroy(&executor->pair);
    yki_block_destroy(&executor->scalars);
    yki_plans_destroy(&executor->plans, executor->source.device);
    yki_inputs_destroy(&executor->inputs);
    free(executor->source.fixed);
    free(executor->source.images);
    free(executor->source.for_outputs);
    yki_device_destroy(executor->source.device);
}

void yki_executor_enter(const yki_executor *executor)
{
    yki_device *device = executor->source.device;
    if (device->type->enter)
        device->type->enter(device);
}

void yki_executor_forget(yki_executor *executor)
{
    executor->current = executor->last = NULL;
}

/* While a program is made, its device has the arena's memory, unless that still holds the values of
 * a forward. */
static yk_status find_program(yk_model *model, int64_t batch, bool training, bool inference,
                              yki_program **program)
{
    yki_executor *executor = &model->executor;
    yki_plans *plans = &executor->plans;
    yki_plan_mode mode = {.training = training,
                          .backward = training || (executor->eval_backward && !inference),
                          .inference = inference};
    *program = yki_plans_find(plans, batch, mode);
    if (*program)
        return YK_OK;
    if (!executor->last)
        YK_TRY(yki_plans_release(plans, executor->source.device));
    return yki_plans_add(plans, &executor->source, batch, mode, program);
}

yk_status yk_model_memory_plan(yk_model *model, int64_t batch_size, yk_memory_plan *memory)
{
    yki_program *program = NULL;
    YKI_NOT_NULL(model);
    YKI_NOT_NULL(memory);
    if (batch_size < 1)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "batch_size is %lld, expected 1 or more",
                         (long long)batch_size);
    yki_executor_enter(&model->executor);
    bool trained = model->executor.source.loss != NULL;
    YK_TRY(find_program(model, batch_size, trained, !trained, &program));
    *memory = (yk_memory_plan){.parameters = model->variables.bytes,
                               .gradients = model->variables.gradient_bytes,
                               .activations = program->plan->value_bytes,
                               .scratch = program->plan->arena_bytes - program->plan->value_bytes,
                               .packed_weights = yki_packs_bytes(&model->executor.plans.packs)};
    return YK_OK;
}

/* ---- running --------------------------------------------------------------------------------- */

/* Kernels that are entered from now on read the values of this step, which they may have already:
 * backward often begins with those of the step before. */
static yk_status send_scalars(yki_executor *executor)
{
    void *room;
    YK_TRY(yki_block_open(&executor->scalars, &room));
    *(yki_scalars *)room = executor->values;
    return yki_block_send_if_new(&executor->scalars, yki_device_stream(executor->source.device));
}

/* Among ranks, one may have no samples left. */
static yk_status check_samples(const yk_model *model, int64_t samples)
{
    bool among_ranks = model->distribution.hooks.forward_begin || model->distribution.sync;
    if (samples >= (among_ranks ? 0 : 1))
        return yki_check_batch(&model->executor.source, samples);
    return yki_error(YK_ERROR_INVALID_ARGUMENT, "the batch has %lld samples, expected 1 or more",
                     (long long)samples);
}

static yk_status enter_forward(void *context)
{
    yk_model *model = context;
    const yki_plan *plan = model->executor.running->plan;
    for (size_t i = 0; i < plan->forward_count;)
        YK_TRY(yki_steps_enter(model, &i));
    return YK_OK;
}

/* Enters steps of the program by way of the tape, which walks, records or replays. Steps that are
 * timed are entered one by one, and recordings are kept for later. */
static yk_status run_tape(yk_model *model, yki_program *program, yki_tape *tape, uint64_t moves,
                          yki_tape_work enter)
{
    yki_executor *executor = &model->executor;
    executor->running = program;
    executor->tape = tape;
    return executor->profile.on ? enter(model)
                                : yki_tape_run(tape, executor->source.device, moves, enter, model);
}

/* Packs what has changed, on a device that records: the steps of its recordings pack no parameters,
 * because not all of their replays need it. */
static yk_status pack_parameters(yk_model *model, yki_program *program)
{
    yki_executor *executor = &model->executor;
    yki_packs *packs = &executor->plans.packs;
    uint64_t version = model->variables.version;
    if (!yki_device_records(executor->source.device) ||
        !yki_packs_expire(packs, program->plan, version))
        return YK_OK;
    YK_TRY(run_tape(model, program, &program->packing, yki_steps_moves(model), yki_steps_pack));
    yki_packs_renew(packs, program->plan, version);
    return YK_OK;
}

static yk_status run_forward_steps(yk_model *model, int64_t samples, bool training, bool inference)
{
    yki_executor *executor = &model->executor;
    yki_program *program;
    YK_TRY(find_program(model, samples, training, inference, &program));
    YK_TRY(yki_plans_reserve(&executor->plans, executor->source.device, program->plan));
    if (program->plan->draws) { /* else what was sent before serves this step too */
        executor->values.seed = model->options.seed;
        executor->values.step = model->step ^ model->distribution.stream << 48;
    }
    YK_TRY(send_scalars(executor));
    YK_TRY(pack_parameters(model, program));
    YK_TRY(run_tape(model, program, &program->forward, yki_steps_moves(model), enter_forward));
    YK_TRY(yki_readback_mark(executor->readback));
    executor->current = executor->last = program;
    return YK_OK;
}

static yki_trace_args trace_samples(int64_t samples)
{
    return (yki_trace_args){.key = {"samples"}, .value = {samples}};
}

yk_status yki_model_forward(yk_model *model, const yk_batch *batch)
{
    yki_executor *executor = &model->executor;
    const yki_model_hooks *hooks = &model->distribution.hooks;
    double begin = yki_trace_begin();
    yki_executor_forget(executor);
    YK_TRY(yki_readback_take_failure(executor->readback));
    YK_TRY(check_samples(model, batch->size));
    const bool *needed = model->training ? NULL : executor->source.for_outputs;
    bool inference;
    YK_TRY(yki_inputs_take(&executor->inputs, batch, needed, &inference));
    inference |= !executor->source.loss;
    yki_executor_enter(executor);
    if (model->training) {
        model->step++;
        if (hooks->forward_begin)
            YK_TRY(hooks->forward_begin(hooks->context, batch->size));
    }
    yk_status status = run_forward_steps(model, batch->size, model->training, inference);
    YKI_TRACE_END(begin, trace_samples(batch->size), "forward%s",
                  model->training ? "" : " (evaluation)");
    return status;
}

yk_status yki_model_forward_empty(yk_model *model)
{
    yk_batch batch;
    bool training = model->training;
    YK_TRY(yki_inputs_empty_batch(&model->executor.inputs, &batch));
    model->training = true;
    yk_status status = yki_model_forward(model, &batch);
    model->training = training;
    yki_inputs_free_batch(&batch);
    return status;
}

static yk_status tell_ready(void *context, int64_t parameter)
{
    const yk_model *model = context;
    const yki_model_hooks *hooks = &model->distribution.hooks;
    hooks->grad_ready(hooks->context, (size_t)parameter);
    return YK_OK;
}

/* The gradient of this parameter has been written. */
static yk_status finish_gradient(yk_model *model, size_t parameter)
{
    const yki_model_hooks *hooks = &model->distribution.hooks;
    YK_TRY(yki_accumulation_add(&model->accumulation, &model->variables, parameter,
                                yki_steps_scalars(model)->kept_weight));
    if (!hooks->grad_ready)
        return YK_OK;
    if (model->executor.in_streams)
        return tell_ready(model, (int64_t)parameter);
    return yki_tape_call(model->executor.tape, tell_ready, model, (int64_t)parameter,
                         hooks->grad_needs_host &&
                             hooks->grad_needs_host(hooks->context, parameter));
}

/* The loss does not depend on the parameters after the first `finished` in grad_order, or they are
 * frozen, and their gradients are never written. */
static yk_status finish_unreached(yk_model *model, size_t finished)
{
    const yki_variables *variables = &model->variables;
    yki_device *device = variables->device;
    for (size_t i = finished; i < variables->parameter_count; i++) {
        const yki_variable *parameter = &variables->parameters[variables->grad_order[i]];
        if (parameter->value->frozen)
            continue;
        YK_TRY(yki_device_fill(device, yki_accumulation_target(&model->accumulation, parameter), 0,
                               yki_variable_bytes(parameter), yki_device_stream(device)));
        YK_TRY(finish_gradient(model, variables->grad_order[i]));
    }
    return YK_OK;
}

static void start_gradient(yk_model *model, yki_loss_kind kind, double weight)
{
    yki_executor *executor = &model->executor;
    const yk_value *term = executor->source.terms[kind];
    double start = weight * model->loss_scale.weight * model->loss_scale.factor;
    if (term && term->dtype == YK_F64)
        executor->values.loss_gradient[kind].f64 = start;
    else
        executor->values.loss_gradient[kind].f32 = (float)start;
}

static yk_status enter_backward(void *context)
{
    yk_model *model = context;
    const yki_plan *plan = model->executor.running->plan;
    size_t finished = 0;
    for (size_t i = plan->forward_count, next = i; i < plan->step_count;) {
        YK_TRY(yki_steps_enter(model, &next));
        for (; i < next; i++)
            for (int g = 0; g < plan->steps[i].gradients; g++, finished++)
                YK_TRY(finish_gradient(model, plan->steps[i].parameter[g]));
    }
    return finish_unreached(model, finished);
}

/* Lets ranks replay the exchanges that they have recorded together, and no others: where one of
 * them cannot, because its batch has another size or its arena has moved, all walk. */
static yk_status match_tape(yk_model *model, yki_tape *tape, uint64_t moves)
{
    yki_executor *executor = &model->executor;
    const yki_model_hooks *hooks = &model->distribution.hooks;
    bool same = true;
    if (!executor->in_streams || !hooks->is_same || !yki_device_records(executor->source.device))
        return YK_OK;
    uint64_t next = executor->profile.on ? 0 : yki_tape_next(tape, moves);
    uint64_t number = 2 + executor->matched++;
    YK_TRY(hooks->is_same(hooks->context, next, &same));
    if (!same)
        return yki_tape_drop(tape);
    if (next == 1)
        tape->number = number;
    return YK_OK;
}

static yk_status run_backward_steps(yk_model *model, const yki_backward *backward)
{
    yki_executor *executor = &model->executor;
    yki_program *program = executor->current;
    YK_TRY(yki_accumulation_begin(&model->accumulation, &model->variables, backward));
    YK_TRY(yki_model_settle_loss_scale(model));
    model->loss_scale.in_gradients = model->loss_scale.taken || yki_model_is_scaled(model);
    start_gradient(model, YKI_LOSS_MEANS, backward->mean_weight);
    start_gradient(model, YKI_LOSS_SUMS, backward->sum_weight);
    executor->values.kept_weight[0] = backward->kept_weight;
    YK_TRY(send_scalars(executor));
    YK_TRY(pack_parameters(model, program));
    executor->in_streams = backward->in_streams;
    yki_tape *tape = &program->backward[backward->adds][backward->in_streams];
    uint64_t moves = yki_steps_moves(model) + model->variables.gradient_moves;
    YK_TRY(match_tape(model, tape, moves));
    return run_tape(model, program, tape, moves, enter_backward);
}

/* After a failure too: what is in flight still uses the gradients. */
static yk_status end_backward(const yki_model_hooks *hooks, yk_status status)
{
    char line[YKI_ERROR_LINE];
    if (!hooks->backward_end)
        return status;
    if (status == YK_OK)
        return hooks->backward_end(hooks->context);
    yki_error_copy(line, sizeof line);
    hooks->backward_end(hooks->context);
    return yki_error_set_line(status, line);
}

/* The same on all ranks, whatever the sizes of their batches. */
static bool is_unbroken(const yk_model *model, const yki_plan *plan)
{
    if (plan->mode.training && model->distribution.sync)
        return false;
    for (size_t i = 0; i < plan->step_count; i++) {
        const yki_step *step = &plan->steps[i];
        if (step->kernel->impl->on_host || (step->node && step->node->op->custom))
            return false;
    }
    return true;
}

static yk_status check_backward(const yk_model *model)
{
    const yki_executor *executor = &model->executor;
    if (!executor->current)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "backward without a forward before it");
    YK_TRY(yki_model_check_trainable(model, "backward"));
    if (executor->current->plan->mode.inference)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "backward without a loss: the batch of this forward had no \"%s\"",
                         yki_inputs_absent(&executor->inputs));
    return YK_OK;
}

/* The first backward in evaluation mode repeats the forward by a plan that keeps what backward
 * needs, as such plans do from then on. */
static yk_status keep_for_backward(yk_model *model)
{
    yki_executor *executor = &model->executor;
    int64_t batch = executor->current->plan->batch;
    if (executor->current->plan->mode.backward)
        return YK_OK;
    executor->eval_backward = true;
    yki_executor_forget(executor);
    return run_forward_steps(model, batch, false, false);
}

yk_status yki_model_backward(yk_model *model)
{
    yki_executor *executor = &model->executor;
    const yki_model_hooks *hooks = &model->distribution.hooks;
    double begin = yki_trace_begin();
    YK_TRY(yki_readback_take_failure(executor->readback));
    YK_TRY(check_backward(model));
    yki_executor_enter(executor);
    YK_TRY(keep_for_backward(model));
    yki_backward backward = yki_gradients_weigh(model, executor->current->plan->batch);
    backward.training = executor->current->plan->mode.training;
    backward.unbroken = is_unbroken(model, executor->current->plan);
    YK_TRY(hooks->backward_begin ? hooks->backward_begin(hooks->context, &backward)
                                 : yki_backward_check(&backward));
    yk_status status = end_backward(hooks, run_backward_steps(model, &backward));
    YKI_TRACE_END(begin, trace_samples(executor->current->plan->batch), "backward");
    executor->current = NULL;
    if (status == YK_OK)
        yki_accumulation_end(&model->accumulation, &backward);
    return status;
}

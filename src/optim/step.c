/*
 * The optimizer's step: sweeps over the parameters, all at once or in parts (step.h), and the
 * rule's own work before and after them.
 *
 * A step allocates nothing, unless it needs more coefficients than any before. Gradients are looked
 * up at each step, since DDP may have moved them.
 */
#include "optim/step.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/trace.h"
#include "model/loss_scale.h"
#include "model/model_hooks.h"
#include "optim/optimizer.h"

enum { AT_VALUE, AT_GRADIENT, AT_STATE };

/* ---- parts ----------------------------------------------------------------------------------- */

static size_t norm_bytes(const yki_update_part *part)
{
    return part->count * 2 * sizeof *part->norms;
}

static void destroy_parts(const yk_optimizer *optimizer, yki_update_part *parts, size_t count)
{
    for (size_t p = 0; parts && p < count; p++) {
        yki_sweep_destroy(parts[p].update);
        yki_device_free(optimizer->device, parts[p].norms, norm_bytes(&parts[p]));
        free(parts[p].parameters);
    }
    free(parts);
}

void yki_optimizer_destroy_parts(yk_optimizer *optimizer)
{
    destroy_parts(optimizer, optimizer->parts, optimizer->part_count);
}

/* Fills part `number` with the chosen parameters that belong to it. */
static yk_status fill_part(const yk_optimizer *optimizer, yki_update_part *part, size_t number,
                           const size_t *part_of, const bool *chosen)
{
    size_t most = 0;
    for (size_t i = 0; i < optimizer->parameters; i++)
        most += chosen[i] && part_of[i] == number;
    part->parameters = yki_calloc(most, sizeof *part->parameters);
    yki_span *spans = yki_calloc(most, sizeof *spans);
    if (!part->parameters || !spans) {
        free(spans);
        return yki_error_memory(most * sizeof *spans, "the optimizer");
    }
    for (size_t i = 0; i < optimizer->parameters; i++) {
        const yk_tensor *value = &optimizer->views[i].value;
        if (!chosen[i] || part_of[i] != number)
            continue;
        spans[part->count] = (yki_span){.dtype = value->dtype, .count = yk_tensor_count(value)};
        part->parameters[part->count++] = i;
    }
    yk_status status = yki_sweep_create(&part->update, optimizer->device, spans, part->count);
    free(spans);
    void *norms = NULL;
    if (status == YK_OK && optimizer->rule->has_trust_ratios && part->count > 0)
        status = yki_device_alloc(optimizer->device, norm_bytes(part), &norms);
    part->norms = norms;
    return status;
}

/* Replaces the parts. On failure the old ones remain. */
static yk_status make_parts(yk_optimizer *optimizer, size_t count, const size_t *part_of,
                            const bool *chosen)
{
    yki_update_part *parts = yki_calloc(count, sizeof *parts);
    yk_status status = parts ? YK_OK : yki_error_memory(count * sizeof *parts, "the optimizer");
    for (size_t p = 0; status == YK_OK && p < count; p++)
        status = fill_part(optimizer, &parts[p], p, part_of, chosen);
    if (status == YK_OK)
        status = yki_tape_drop(&optimizer->update_tape);
    if (status != YK_OK) {
        destroy_parts(optimizer, parts, count);
        return status;
    }
    yki_optimizer_destroy_parts(optimizer);
    optimizer->parts = parts;
    optimizer->part_count = count;
    return YK_OK;
}

yk_status yki_optimizer_choose(yk_optimizer *optimizer, const bool *own)
{
    const bool *used = yki_model_used(optimizer->model);
    bool *chosen = yki_calloc(optimizer->parameters, sizeof *chosen);
    if (!chosen)
        return yki_error_memory(optimizer->parameters * sizeof *chosen, "the optimizer");
    for (size_t i = 0; i < optimizer->parameters; i++)
        chosen[i] = used[i] && own[i];
    yk_status status = make_parts(optimizer, optimizer->part_count, optimizer->part_of, chosen);
    if (status == YK_OK) {
        memmove(optimizer->own, own, optimizer->parameters * sizeof *own);
        memcpy(optimizer->updated, chosen, optimizer->parameters * sizeof *chosen);
    }
    free(chosen);
    return status;
}

/* DDP may have found that other ranks use more parameters than this one. */
static yk_status choose_newly_used(yk_optimizer *optimizer)
{
    const bool *used = yki_model_used(optimizer->model);
    for (size_t i = 0; i < optimizer->parameters; i++)
        if (used[i] && optimizer->own[i] && !optimizer->updated[i])
            return yki_optimizer_choose(optimizer, optimizer->own);
    return YK_OK;
}

yk_status yki_optimizer_partition(yk_optimizer *optimizer, const size_t *part_of, size_t parts)
{
    size_t *all = yki_calloc(optimizer->parameters, sizeof *all);
    if (!all)
        return yki_error_memory(optimizer->parameters * sizeof *all, "the optimizer");
    for (size_t i = 0; i < optimizer->parameters; i++)
        all[i] = part_of[i] < parts ? part_of[i] : parts;
    yk_status status = make_parts(optimizer, parts + 1, all, optimizer->updated);
    if (status == YK_OK)
        memcpy(optimizer->part_of, all, optimizer->parameters * sizeof *all);
    free(all);
    return status;
}

/* ---- before the first update ----------------------------------------------------------------- */

static bool shares_set(const yk_optimizer *optimizer, size_t a, size_t b)
{
    return optimizer->group_of[a] == optimizer->group_of[b] &&
           optimizer->ages[a].steps == optimizer->ages[b].steps &&
           optimizer->ages[a].product == optimizer->ages[b].product;
}

/* Parameters of one group share coefficients if their states have the same age. */
static yk_status choose_coefficients(yk_optimizer *optimizer)
{
    optimizer->set_count = 0;
    for (size_t i = 0; i < optimizer->parameters; i++) {
        size_t set = 0;
        if (!optimizer->updated[i])
            continue;
        while (set < optimizer->set_count && !shares_set(optimizer, optimizer->sets[set], i))
            set++;
        if (set == optimizer->set_count)
            optimizer->sets[optimizer->set_count++] = i;
        optimizer->set_of[i] = set;
    }
    return yki_optimizer_fit_coefficients(optimizer, optimizer->set_count);
}

static const double *hyperparameters_of(const yk_optimizer *optimizer, size_t parameter)
{
    return optimizer->groups[optimizer->group_of[parameter]].hyperparameters;
}

/* As in PyTorch, where only parameters with a gradient have state. */
static void count_step(yk_optimizer *optimizer)
{
    const yki_optimizer_rule *rule = optimizer->rule;
    const bool *used = yki_model_used(optimizer->model);
    optimizer->steps++;
    memcpy(optimizer->earlier, optimizer->ages, optimizer->parameters * sizeof *optimizer->ages);
    for (size_t i = 0; i < optimizer->parameters; i++) {
        const double *hyperparameters = hyperparameters_of(optimizer, i);
        yki_state_age *age = &optimizer->ages[i];
        if (!used[i] || rule->slots(hyperparameters) == 0)
            continue;
        age->steps++;
        if (rule->factor)
            age->product *= (float)rule->factor(hyperparameters, age->steps);
    }
}

/* Gives the part's sweep the present addresses. A group without momentum has no state in its step.
 */
static void place_part(yk_optimizer *optimizer, yki_update_part *part)
{
    part->done = false;
    for (size_t n = 0; n < part->count; n++) {
        size_t i = part->parameters[n];
        void *update = yki_muon_update(optimizer, i);
        yki_sweep_regroup(part->update, n, (int)optimizer->set_of[i]);
        yki_sweep_move(part->update, n, AT_VALUE, update ? update : optimizer->views[i].value.data);
        yki_sweep_move(part->update, n, AT_GRADIENT, optimizer->views[i].grad.data);
        for (int slot = 0; slot < optimizer->slots; slot++)
            yki_sweep_move(part->update, n, AT_STATE + optimizer->slot_of_rule[slot],
                           yki_optimizer_uses_slot(optimizer, i, slot) ? optimizer->state[slot][i]
                                                                       : NULL);
    }
}

/* skip: NULL, or a number in the device's memory by which it decides to leave the step out. */
static yk_status send_coefficients(yk_optimizer *optimizer, const double *skip, yki_stream *stream)
{
    void *values;
    double *coefficients = optimizer->coefficients.memory;
    YK_TRY(yki_block_open(&optimizer->coefficients, &values));
    memset(values, 0, optimizer->coefficients.bytes);
    for (size_t s = 0; s < optimizer->set_count; s++)
        optimizer->rule->prepare((double *)values + s * YKI_SWEEP_COEFFICIENTS,
                                 hyperparameters_of(optimizer, optimizer->sets[s]),
                                 &optimizer->ages[optimizer->sets[s]]);
    YK_TRY(optimizer->left_skip && !skip ? yki_block_send(&optimizer->coefficients, stream)
                                         : yki_block_send_if_new(&optimizer->coefficients, stream));
    optimizer->left_skip = skip != NULL;
    for (size_t s = 0; skip && s < optimizer->set_count; s++)
        YK_TRY(yki_device_copy(optimizer->device,
                               &coefficients[s * YKI_SWEEP_COEFFICIENTS + YKI_SWEEP_SKIP], skip,
                               sizeof *skip, YKI_WITHIN_DEVICE, stream));
    return YK_OK;
}

yk_status yki_optimizer_check_step(const yk_optimizer *optimizer)
{
    if (optimizer->averaged)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "cannot step on averaged weights: call yk_ema_swap first");
    if (optimizer->sharded && !optimizer->hooks.after)
        return yki_error(
            YK_ERROR_INVALID_ARGUMENT,
            "cannot step an optimizer whose sharding has ended: call yk_zero_destroy after the "
            "last step");
    if (yki_model_is_scaled(optimizer->model))
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "cannot step with gradients that a grad scaler has scaled: call "
                         "yk_grad_scaler_step instead");
    if (optimizer->stage == YKI_STEP_BROKEN)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "cannot step: the last step failed after it had updated some of the "
                         "weights; load a checkpoint first");
    return YK_OK;
}

static yk_status begin_step(yk_optimizer *optimizer, const double *skip)
{
    YK_TRY(yki_optimizer_check_step(optimizer));
    YK_TRY(yki_optimizer_settle(optimizer));
    if (optimizer->hooks.before)
        YK_TRY(optimizer->hooks.before(optimizer->hooks.context));
    yki_optimizer_refresh_views(optimizer);
    YK_TRY(choose_newly_used(optimizer));
    YK_TRY(choose_coefficients(optimizer));
    for (size_t p = 0; p < optimizer->part_count; p++)
        place_part(optimizer, &optimizer->parts[p]);
    count_step(optimizer);
    yki_stream *stream = yki_device_stream(optimizer->device);
    YK_TRY(send_coefficients(optimizer, skip, stream));
    return optimizer->rule->begin ? optimizer->rule->begin(optimizer, stream) : YK_OK;
}

/* ---- updates --------------------------------------------------------------------------------- */

static yk_status enter_update(const yk_optimizer *optimizer, const yki_update_part *part)
{
    const yki_optimizer_rule *rule = optimizer->rule;
    const double *coefficients = optimizer->coefficients.memory;
    yki_stream *stream = yki_device_stream(optimizer->device);
    if (part->done || part->count == 0)
        return YK_OK;
    if (rule->has_trust_ratios)
        YK_TRY(yki_sweep_run(part->update, rule->find_norms, coefficients, part->norms, stream));
    return yki_sweep_run(part->update, rule->update, coefficients, part->norms, stream);
}

static yk_status finish_update(yk_optimizer *optimizer, yki_update_part *part)
{
    yki_stream *stream = yki_device_stream(optimizer->device);
    for (size_t n = 0; optimizer->rule->finish && !part->done && n < part->count; n++)
        YK_TRY(optimizer->rule->finish(optimizer, part->parameters[n], stream));
    part->done = true;
    return YK_OK;
}

yk_status yki_optimizer_update_part(yk_optimizer *optimizer, size_t part)
{
    if (optimizer->stage != YKI_STEP_BEGUN)
        YK_TRY(begin_step(optimizer, NULL));
    optimizer->stage = YKI_STEP_BEGUN;
    yki_model_set_torn(optimizer->model, true);
    YK_TRY(enter_update(optimizer, &optimizer->parts[part]));
    return finish_update(optimizer, &optimizer->parts[part]);
}

void yki_optimizer_break_step(yk_optimizer *optimizer)
{
    if (optimizer->stage == YKI_STEP_BEGUN)
        optimizer->stage = YKI_STEP_BROKEN;
}

/* ---- the step -------------------------------------------------------------------------------- */

static uint64_t count_moves(const yk_optimizer *optimizer)
{
    uint64_t moves = 0;
    for (size_t p = 0; p < optimizer->part_count; p++)
        moves += yki_sweep_moves(optimizer->parts[p].update);
    return moves;
}

static yk_status enter_updates(void *context)
{
    const yk_optimizer *optimizer = context;
    for (size_t p = 0; p < optimizer->part_count; p++)
        YK_TRY(enter_update(optimizer, &optimizer->parts[p]));
    return YK_OK;
}

/* Updates what no part has updated. Until hooks have exchanged what they have to, only some of the
 * weights are new. */
static yk_status complete_step(yk_optimizer *optimizer)
{
    YK_TRY(yki_tape_run(&optimizer->update_tape, optimizer->device, count_moves(optimizer),
                        enter_updates, optimizer));
    for (size_t p = 0; p < optimizer->part_count; p++)
        YK_TRY(finish_update(optimizer, &optimizer->parts[p]));
    return optimizer->hooks.after ? optimizer->hooks.after(optimizer->hooks.context) : YK_OK;
}

/* skip is NULL if the step has begun with a part. */
static yk_status take_step(yk_optimizer *optimizer, const double *skip)
{
    double begin = yki_trace_begin();
    if (optimizer->stage != YKI_STEP_BEGUN)
        YK_TRY(begin_step(optimizer, skip));
    optimizer->stage = YKI_STEP_BEGUN;
    yki_model_set_torn(optimizer->model, true);
    yk_status status = complete_step(optimizer);
    yk_model_parameters_changed(optimizer->model);
    if (status != YK_OK) {
        yki_optimizer_break_step(optimizer);
        return status;
    }
    optimizer->stage = YKI_STEP_NONE;
    yki_model_set_torn(optimizer->model, false);
    yk_model_zero_grad(optimizer->model);
    YKI_TRACE_END(begin, YKI_NO_ARGS, "optimizer step");
    return YK_OK;
}

yk_status yk_optimizer_step(yk_optimizer *optimizer)
{
    YKI_NOT_NULL(optimizer);
    return take_step(optimizer, NULL);
}

yk_status yki_optimizer_step_unless(yk_optimizer *optimizer, const double *skip,
                                    yk_status (*settle)(void *context), void *context)
{
    YK_TRY(take_step(optimizer, skip));
    optimizer->settle = settle;
    optimizer->settle_context = context;
    return YK_OK;
}

void yki_optimizer_end_step(yk_optimizer *optimizer, bool taken)
{
    optimizer->settle = NULL;
    if (taken)
        return;
    optimizer->steps--;
    memcpy(optimizer->ages, optimizer->earlier, optimizer->parameters * sizeof *optimizer->ages);
}

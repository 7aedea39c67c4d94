/* A profile: each plan keeps the times of its steps, and the last forward's plan is shown. */
#include <yoke/profile.h>

#include <stdlib.h>

#include "base/clock.h"
#include "base/memory.h"
#include "model/model.h"

enum { TIMINGS = 1024 }; /* steps that the host may be ahead of the device */

/* ---- measuring ------------------------------------------------------------------------------- */

static yk_status create_timings(yki_profile *profile)
{
    profile->timings = yki_calloc(TIMINGS, sizeof *profile->timings);
    if (!profile->timings)
        return yki_error_memory(TIMINGS * sizeof *profile->timings, "a profile");
    for (size_t i = 0; i < TIMINGS; i++) {
        YK_TRY(yki_event_create_timed(profile->device, &profile->timings[i].begin));
        YK_TRY(yki_event_create_timed(profile->device, &profile->timings[i].end));
    }
    return YK_OK;
}

yk_status yki_profile_begin(yki_profile *profile, yki_device *device)
{
    *profile = (yki_profile){.on = true, .device = device};
    yk_status status = yki_device_is_host(device) ? YK_OK : create_timings(profile);
    if (status != YK_OK)
        yki_profile_destroy(profile);
    return status;
}

void yki_profile_destroy(yki_profile *profile)
{
    for (size_t i = 0; profile->timings && i < TIMINGS; i++) {
        yki_event_destroy(profile->device, profile->timings[i].begin);
        yki_event_destroy(profile->device, profile->timings[i].end);
    }
    free(profile->timings);
    *profile = (yki_profile){0};
}

static yk_status add(yki_step_profile *of, double seconds)
{
    if (!of->times)
        of->times = yki_calloc(YKI_PROFILE_TIMES, sizeof *of->times);
    if (!of->times)
        return yki_error_memory(YKI_PROFILE_TIMES * sizeof *of->times, "a profile");
    of->times[of->runs++ % YKI_PROFILE_TIMES] = seconds;
    of->seconds += seconds;
    return YK_OK;
}

/* Waits for the oldest of the runs that are not read yet. */
static yk_status read_first(yki_profile *profile)
{
    const yki_timing *timing = &profile->timings[profile->first];
    double seconds;
    profile->first = (profile->first + 1) % TIMINGS;
    profile->count--;
    YK_TRY(yki_event_wait(profile->device, timing->end));
    YK_TRY(yki_event_between(profile->device, timing->begin, timing->end, &seconds));
    return add(timing->of, seconds);
}

yk_status yki_profile_settle(yki_profile *profile)
{
    while (profile->count > 0)
        YK_TRY(read_first(profile));
    return YK_OK;
}

yk_status yki_profile_end(yki_profile *profile)
{
    yk_status status = yki_profile_settle(profile);
    yki_profile_destroy(profile);
    return status;
}

static yki_timing *next_timing(const yki_profile *profile)
{
    return &profile->timings[(profile->first + profile->count) % TIMINGS];
}

static yk_status mark(const yki_profile *profile, yki_event *event)
{
    return yki_event_mark(profile->device, event, yki_device_stream(profile->device));
}

yk_status yki_profile_enter(yki_profile *profile)
{
    if (profile->on && !profile->timings)
        profile->begin = yki_now();
    if (!profile->timings)
        return YK_OK;
    if (profile->count == TIMINGS)
        YK_TRY(read_first(profile));
    return mark(profile, next_timing(profile)->begin);
}

yk_status yki_profile_leave(yki_profile *profile, yki_step_profile *of)
{
    if (!profile->on)
        return YK_OK;
    if (!profile->timings)
        return add(of, yki_now() - profile->begin);
    yki_timing *timing = next_timing(profile);
    YK_TRY(mark(profile, timing->end));
    timing->of = of;
    profile->count++;
    return YK_OK;
}

/* ---- what users see -------------------------------------------------------------------------- */

yk_status yk_model_profile_begin(yk_model *model)
{
    YKI_NOT_NULL(model);
    yki_executor *executor = &model->executor;
    const yki_plans *plans = &executor->plans;
    YK_TRY(yki_profile_end(&executor->profile));
    for (size_t i = 0; i < plans->count; i++)
        for (size_t s = 0; s < plans->list[i]->plan->step_count; s++) {
            plans->list[i]->plan->profiles[s].runs = 0;
            plans->list[i]->plan->profiles[s].seconds = 0;
        }
    return yki_profile_begin(&executor->profile, executor->source.device);
}

yk_status yk_model_profile_end(yk_model *model)
{
    YKI_NOT_NULL(model);
    return yki_profile_end(&model->executor.profile);
}

static const yki_plan *shown_plan(const yk_model *model)
{
    return model && model->executor.last ? model->executor.last->plan : NULL;
}

size_t yk_model_profile_count(const yk_model *model)
{
    const yki_plan *plan = shown_plan(model);
    return plan ? plan->step_count : 0;
}

yk_kernel_profile yk_model_profile_kernel(const yk_model *model, size_t index)
{
    if (index >= yk_model_profile_count(model))
        return (yk_kernel_profile){.scope = NULL};
    const yki_plan *plan = shown_plan(model);
    const yki_node *node = plan->steps[index].node;
    const yki_step_profile *profile = &plan->profiles[index];
    return (yk_kernel_profile){
        .scope = node ? node->scope : "",
        .op = node ? node->op->name : yki_op_reorder.name,
        .shape = profile->work.shape,
        .runs = profile->runs,
        .seconds = profile->seconds,
        .times = profile->times,
        .time_count = profile->runs < YKI_PROFILE_TIMES ? (size_t)profile->runs : YKI_PROFILE_TIMES,
        .flop = profile->work.flop,
        .computed = profile->work.computed,
        .bytes = profile->work.bytes,
        .matrix_unit = profile->work.matrix_unit};
}

yk_status yk_model_measure_limits(yk_model *model, yk_device_limits *limits)
{
    YKI_NOT_NULL(model);
    YKI_NOT_NULL(limits);
    yki_device *device = model->executor.source.device;
    yki_limits measured = {.flop_s = 0};
    *limits = (yk_device_limits){.flop_s = 0};
    if (!device->type->measure)
        return yki_error(YK_ERROR_UNSUPPORTED, "the limits of the device \"%s\" cannot be measured",
                         device->name);
    yki_executor_enter(&model->executor);
    YK_TRY(device->type->measure(device, &measured));
    *limits = (yk_device_limits){.flop_s = measured.flop_s,
                                 .bytes_s = measured.bytes_s,
                                 .matrix_flop_s = measured.matrix_flop_s};
    return YK_OK;
}

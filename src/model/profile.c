/* A profile: each plan keeps the times of its steps, and the last forward's plan is shown. */
#include <yoke/profile.h>

#include "model/model.h"

void yki_profile_add(const yki_plan *plan, const yki_step *step, double seconds)
{
    yki_step_profile *profile = &plan->profiles[step - plan->steps];
    profile->runs++;
    profile->seconds += seconds;
}

yk_status yk_model_profile_begin(yk_model *model)
{
    YKI_NOT_NULL(model);
    const yki_device *device = model->executor.source.device;
    if (!yki_device_is_host(device))
        return yki_error(YK_ERROR_UNSUPPORTED,
                         "profile: the device \"%s\" computes asynchronously, so its kernels "
                         "cannot be timed on the host",
                         device->name);
    const yki_plans *plans = &model->executor.plans;
    for (size_t i = 0; i < plans->count; i++)
        for (size_t s = 0; s < plans->list[i]->plan->step_count; s++) {
            plans->list[i]->plan->profiles[s].runs = 0;
            plans->list[i]->plan->profiles[s].seconds = 0;
        }
    model->executor.profiled = true;
    return YK_OK;
}

yk_status yk_model_profile_end(yk_model *model)
{
    YKI_NOT_NULL(model);
    model->executor.profiled = false;
    return YK_OK;
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
    return (yk_kernel_profile){.scope = node ? node->scope : "",
                               .op = node ? node->op->name : yki_op_reorder.name,
                               .shape = profile->work.shape,
                               .runs = profile->runs,
                               .seconds = profile->seconds,
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
    yki_limits measured = {0, 0, 0};
    *limits = (yk_device_limits){0, 0, 0};
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

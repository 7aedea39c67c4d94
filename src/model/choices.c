/* See choices.h. */
#include "model/choices.h"

#include <string.h>

#include "model/model.h"

const yki_choices *yki_model_choices(const yk_model *model)
{
    return &yki_model_device(model)->choices;
}

/* Drops all plans, which may use other kernels. */
static yk_status plan_again(yk_model *model)
{
    yki_device *device = yki_model_device(model);
    YK_TRY(yki_stream_wait(device, yki_device_stream(device)));
    YK_TRY(yki_profile_settle(&model->executor.profile));
    yki_executor_forget(&model->executor);
    yki_plans_clear(&model->executor.plans, device);
    return YK_OK;
}

yk_status yki_model_adopt_choices(yk_model *model, const yki_choices *choices)
{
    yki_choices *own = &yki_model_device(model)->choices;
    bool changed = false;
    for (size_t i = 0; i < choices->count; i++) {
        const yki_choice *choice = &choices->list[i];
        const yki_choice *known = yki_choices_find(own, choice->problem);
        changed |= !known || strcmp(known->kernel, choice->kernel) != 0;
        YK_TRY(yki_choices_set(own, choice->problem, choice->kernel));
    }
    return changed ? plan_again(model) : YK_OK;
}

yk_status yki_model_share_choices(yk_model *model)
{
    const yki_model_hooks *hooks = &model->distribution.hooks;
    yki_choices *choices = &yki_model_device(model)->choices;
    bool changed;
    choices->context = hooks->context;
    choices->agree = hooks->agree;
    YK_TRY(yki_choices_agree(choices, &changed));
    return changed ? plan_again(model) : YK_OK;
}

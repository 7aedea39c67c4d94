/* See loss_scale.h. */
#include "model/loss_scale.h"

#include "model/model.h"

yk_status yki_model_take_loss_scale(yk_model *model)
{
    YK_TRY(yki_model_check_trained(model, "grad scaler"));
    if (model->loss_scale.taken)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "grad scaler: the model has one already");
    model->loss_scale.taken = true;
    return YK_OK;
}

void yki_model_release_loss_scale(yk_model *model)
{
    model->loss_scale.factor = 1;
    model->loss_scale.taken = false;
}

void yki_model_set_loss_scale(yk_model *model, double scale)
{
    model->loss_scale.factor = scale;
}

void yk_model_set_loss_weight(yk_model *model, double weight)
{
    if (model)
        model->loss_scale.weight = weight;
}

yk_status yki_model_reduce_maximum(yk_model *model, double *value)
{
    const yki_model_hooks *hooks = &model->distribution.hooks;
    return hooks->reduce_maximum ? hooks->reduce_maximum(hooks->context, value) : YK_OK;
}

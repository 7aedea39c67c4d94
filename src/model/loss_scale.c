/* See loss_scale.h. */
#include "model/loss_scale.h"

#include "model/model.h"

yk_status yki_model_take_loss_scale(yk_model *model, yk_status (*settle)(void *context),
                                    void *context)
{
    YK_TRY(yki_model_check_trainable(model, "grad scaler"));
    if (model->loss_scale.taken)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "grad scaler: the model has one already");
    model->loss_scale.taken = true;
    model->loss_scale.settle = settle;
    model->loss_scale.context = context;
    return YK_OK;
}

void yki_model_release_loss_scale(yk_model *model)
{
    model->loss_scale.factor = 1;
    model->loss_scale.taken = false;
    model->loss_scale.settle = NULL;
}

void yki_model_set_loss_scale(yk_model *model, double scale)
{
    model->loss_scale.factor = scale;
}

void yki_model_note_unscaled(yk_model *model)
{
    model->loss_scale.in_gradients = false;
}

bool yki_model_is_scaled(const yk_model *model)
{
    return model->loss_scale.in_gradients && !model->accumulation.spent;
}

yk_status yki_model_settle_loss_scale(const yk_model *model)
{
    const yki_loss_scale *scale = &model->loss_scale;
    return scale->settle ? scale->settle(scale->context) : YK_OK;
}

void yk_model_set_loss_weight(yk_model *model, double weight)
{
    if (model)
        model->loss_scale.weight = weight;
}

double yki_model_loss_weight(const yk_model *model)
{
    return model->loss_scale.weight;
}

bool yki_model_reduces_maximum(const yk_model *model)
{
    return model->distribution.hooks.reduce_maximum;
}

yk_status yki_model_reduce_maximum(yk_model *model, double *value)
{
    const yki_model_hooks *hooks = &model->distribution.hooks;
    return hooks->reduce_maximum ? hooks->reduce_maximum(hooks->context, value) : YK_OK;
}

yk_status yki_model_reduce_maximum_in_stream(yk_model *model, double *value, bool *done)
{
    const yki_model_hooks *hooks = &model->distribution.hooks;
    *done = false;
    return hooks->reduce_maximum_in_stream
               ? hooks->reduce_maximum_in_stream(hooks->context, value, done)
               : YK_OK;
}

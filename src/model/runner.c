/* The four calls that run a model: by itself, or by who has taken that over. */
#include "model/model.h"

void yki_model_set_runner(yk_model *model, const yki_model_runner *runner)
{
    model->runner = runner ? *runner : (yki_model_runner){0};
    model->current = model->last = NULL; /* of a part of the batch, perhaps */
}

bool yki_model_has_runner(const yk_model *model)
{
    return model->runner.context != NULL;
}

yk_status yk_model_forward(yk_model *model, const yk_batch *batch)
{
    const yki_model_runner *runner = &model->runner;
    return runner->forward ? runner->forward(runner->context, batch)
                           : yki_model_forward(model, batch);
}

yk_status yk_model_backward(yk_model *model)
{
    const yki_model_runner *runner = &model->runner;
    return runner->backward ? runner->backward(runner->context) : yki_model_backward(model);
}

double yk_model_loss(const yk_model *model)
{
    const yki_model_runner *runner = &model->runner;
    return runner->loss ? runner->loss(runner->context) : yki_model_loss(model);
}

yk_status yk_model_output(yk_model *model, yk_tensor *output)
{
    const yki_model_runner *runner = &model->runner;
    return runner->output ? runner->output(runner->context, output)
                          : yki_model_output(model, output);
}

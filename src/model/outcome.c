/* What the last forward has computed, for the host: now or, with an outcome, later. */
#include "model/outcome.h"

#include <math.h>
#include <string.h>

#include "model/model.h"
#include "model/steps.h"
#include "tensor/element.h"

/* ---- now ------------------------------------------------------------------------------------- */

static double read_scalar(const yk_model *model, const yk_value *value, const yki_place *place)
{
    yki_readback *readback = model->executor.readback;
    const void *data;
    yk_status status = yki_readback_show(readback, YKI_WINDOW_LOSS,
                                         yki_step_address(model, model->executor.last->plan, place),
                                         yk_dtype_size(value->dtype), &data);
    if (status != YK_OK) {
        yki_readback_keep_failure(readback, status); /* for the next forward or backward */
        return NAN;
    }
    return yki_element_get(value->dtype, data, 0);
}

double yki_model_loss(const yk_model *model)
{
    const yki_executor *executor = &model->executor;
    bool known = executor->last && !executor->last->plan->mode.inference;
    return known ? read_scalar(model, executor->source.loss, &executor->last->plan->loss) : NAN;
}

double yki_model_loss_terms(const yk_model *model, yki_loss_kind kind)
{
    const yki_executor *executor = &model->executor;
    const yk_value *term = executor->source.terms[kind];
    bool known = executor->last && !executor->last->plan->mode.inference;
    if (!known)
        return NAN;
    return term ? read_scalar(model, term, &executor->last->plan->terms[kind]) : 0;
}

yk_dtype yki_model_loss_dtype(const yk_model *model)
{
    const yk_value *loss = model->executor.source.loss;
    return loss ? loss->dtype : YK_F32;
}

yk_status yki_model_copy_loss(const yk_model *model, void *to)
{
    const yki_executor *executor = &model->executor;
    yki_device *device = executor->source.device;
    const yki_plan *plan = executor->last->plan;
    return yki_device_copy(device, to, yki_step_address(model, plan, &plan->loss),
                           yk_dtype_size(yki_model_loss_dtype(model)), YKI_WITHIN_DEVICE,
                           yki_device_stream(device));
}

/* An output of the last forward as the host sees it, without data: by the shape that the program
 * knows, and as the plan keeps it. */
static yk_status describe_output(const yk_model *model, size_t index, yk_tensor *tensor)
{
    const yki_output *output = &model->executor.source.outputs.list[index];
    const yki_program *program = model->executor.last;
    if (!output->made)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "the model was created without options.logits");
    if (!program)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "there is no output before a forward");
    *tensor = (yk_tensor){.dtype = output->read->dtype, .ndim = output->made->ndim};
    memcpy(tensor->dims, output->made->dims, sizeof tensor->dims);
    if (tensor->ndim && tensor->dims[0] == YK_BATCH)
        tensor->dims[0] = program->plan->batch;
    return YK_OK;
}

static void *output_address(const yk_model *model, size_t index)
{
    const yki_plan *plan = model->executor.last->plan;
    return yki_step_address(model, plan, &plan->outputs[index]);
}

yk_status yki_model_output(yk_model *model, size_t index, yk_tensor *output)
{
    const void *data;
    YK_TRY(describe_output(model, index, output));
    YK_TRY(yki_readback_show(model->executor.readback, YKI_WINDOW_OUTPUT + index,
                             output_address(model, index), yk_tensor_bytes(output), &data));
    output->data = (void *)(uintptr_t)data;
    return YK_OK;
}

static const yki_input *find_labels(const yki_inputs *inputs)
{
    for (size_t i = 0; i < inputs->count; i++)
        if (strcmp(inputs->list[i].value->name, "labels") == 0)
            return &inputs->list[i];
    return NULL;
}

yki_label_rules yki_model_label_rules(const yk_model *model)
{
    const yki_input *labels = find_labels(&model->executor.inputs);
    const yk_cross_entropy_options usual = YK_CROSS_ENTROPY_OPTIONS_INIT;
    if (!labels || labels->classes == 0)
        return (yki_label_rules){.ignored = usual.ignore_index};
    return (yki_label_rules){.ignored = labels->ignored, .classes_last = labels->last};
}

int yki_class_dim(const yki_label_rules *rules, int ndim)
{
    return rules->classes_last ? ndim - 1 : 1;
}

bool yki_labels_fit(const yki_label_rules *rules, int label_ndim, const int64_t *labels,
                    int logit_ndim, const int64_t *logits)
{
    if (logit_ndim < 2 || logit_ndim != label_ndim + 1)
        return false;
    for (int d = 1; d < label_ndim; d++)
        if (labels[d] != logits[d < yki_class_dim(rules, logit_ndim) ? d : d + 1])
            return false;
    return true;
}

bool yki_model_classifies(const yk_model *model)
{
    const yki_executor *executor = &model->executor;
    const yk_value *logits = executor->source.outputs.list[0].made;
    const yki_input *input = find_labels(&executor->inputs);
    if (!executor->source.loss || !input)
        return !executor->source.loss;
    const yk_value *labels = input->value;
    const yki_label_rules rules = yki_model_label_rules(model);
    if (yki_is_index(labels->dtype) && labels->ndim == 1)
        return true;
    if (!logits)
        return false;
    if (yki_is_index(labels->dtype))
        return yki_labels_fit(&rules, labels->ndim, labels->dims, logits->ndim, logits->dims);
    return labels->ndim == 2 && labels->dims[1] > 1 && logits->ndim == 2 &&
           logits->dims[1] == labels->dims[1];
}

/* ---- later ----------------------------------------------------------------------------------- */

yk_status yki_model_take_loss(const yk_model *model, yki_late *late)
{
    const yki_program *program = model->executor.last;
    if (!program || program->plan->mode.inference)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "there is no loss before a forward that computes one");
    return yki_late_take_part(late, yki_step_address(model, program->plan, &program->plan->loss),
                              yk_dtype_size(yki_model_loss_dtype(model)),
                              yki_device_stream(late->device));
}

yk_status yki_loss_read(yki_late *late, yk_dtype dtype, double *loss)
{
    const void *number;
    *loss = NAN;
    YK_TRY(yki_late_read(late, &number));
    *loss = yki_element_get(dtype, number, 0);
    return YK_OK;
}

yk_status yki_outcome_create(yki_outcome *outcome, const yk_model *model)
{
    *outcome = (yki_outcome){.device = yki_model_device(model)};
    return yki_late_create(&outcome->loss, outcome->device, sizeof(double));
}

void yki_outcome_destroy(yki_outcome *outcome)
{
    if (!outcome->device)
        return;
    yki_stream_wait(outcome->device, yki_device_stream(outcome->device)); /* for copies */
    yki_late_destroy(&outcome->loss);
    yki_late_destroy(&outcome->logits);
    *outcome = (yki_outcome){0};
}

static yk_status reserve_logits(yki_outcome *outcome, size_t bytes)
{
    if (bytes <= outcome->logits.bytes)
        return YK_OK;
    YK_TRY(yki_stream_wait(outcome->device, yki_device_stream(outcome->device)));
    yki_late_destroy(&outcome->logits);
    return yki_late_create(&outcome->logits, outcome->device, bytes);
}

yk_status yki_outcome_take(yki_outcome *outcome, const yk_model *model)
{
    yki_stream *stream = yki_device_stream(outcome->device);
    yk_tensor *shape = &outcome->shape;
    YK_TRY(describe_output(model, 0, shape));
    size_t bytes = yk_tensor_bytes(shape);
    YK_TRY(reserve_logits(outcome, bytes));
    outcome->has_loss = model->executor.source.loss && !model->executor.last->plan->mode.inference;
    outcome->loss_dtype = yki_model_loss_dtype(model);
    if (outcome->has_loss)
        YK_TRY(yki_model_take_loss(model, &outcome->loss));
    return yki_late_take_part(&outcome->logits, output_address(model, 0), bytes, stream);
}

yk_status yki_outcome_read(yki_outcome *outcome, double *loss, yk_tensor *logits)
{
    const void *values;
    *loss = NAN;
    YK_TRY(yki_late_read(&outcome->logits, &values));
    if (outcome->has_loss)
        YK_TRY(yki_loss_read(&outcome->loss, outcome->loss_dtype, loss));
    *logits = outcome->shape;
    logits->data = (void *)(uintptr_t)values;
    return YK_OK;
}

/*
 * The exponential moving average of weights (Polyak and Juditsky, 1992; as used by Tarvainen and
 * Valpola, "Mean teachers are better role models", 2017) or their mean (Izmailov et al., "Averaging
 * Weights Leads to Wider Optima and Better Generalization", 2018), with torch.optim.swa_utils'
 * arithmetic: a linear interpolation, average += share * (value - average).
 *
 * Parameters and, where asked for, floating-point buffers are one list. ZeRO moves the model's
 * parameters, and moves them back in the end, so a sweep looks their addresses up.
 */
#include "optim/optimizer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/options.h"
#include "model/model_hooks.h"
#include "optim/average.h"
#include "tensor/tensor.h"

enum { AT_AVERAGE, AT_VALUE };

struct yk_ema {
    yki_reference reference;
    yk_optimizer *optimizer;
    yk_ema_options options;
    int64_t updates;
    yk_parameter_view *views; /* (count) what is averaged, in the model; parameters come first */
    char **average;           /* (count), into memory */
    size_t count;
    size_t *buffer_at; /* (buffers): its view, or SIZE_MAX when it is not averaged */
    char *memory;      /* the device's */
    size_t memory_bytes;
    yki_sweep *averages; /* over averages and values */
    yki_block share;     /* of the value in a new average: 1 - decay, or 1 / updates */
    double last_share;   /* that was sent there */
};

/* ---- creation -------------------------------------------------------------------------------- */

static bool can_average(const yk_tensor *tensor)
{
    return tensor->dtype == YK_F32 || tensor->dtype == YK_F64;
}

static yk_status collect_views(yk_ema *ema)
{
    const yk_model *model = ema->optimizer->model;
    size_t parameters = yk_model_parameter_count(model), buffers = yk_model_buffer_count(model);
    ema->views = yki_calloc(parameters + buffers, sizeof *ema->views);
    ema->average = yki_calloc(parameters + buffers, sizeof *ema->average);
    ema->buffer_at = yki_calloc(buffers, sizeof *ema->buffer_at);
    if (!ema->views || !ema->average || !ema->buffer_at)
        return yki_error_memory((parameters + buffers) * sizeof *ema->views, "averaged weights");
    for (size_t i = 0; i < parameters; i++)
        ema->views[ema->count++] = yk_model_parameter(model, i);
    for (size_t i = 0; i < buffers; i++) {
        yk_parameter_view view = yk_model_buffer(model, i);
        bool averaged = ema->options.use_buffers && can_average(&view.value) &&
                        !yki_model_is_constant(model, i);
        ema->buffer_at[i] = averaged ? ema->count : SIZE_MAX;
        if (averaged)
            ema->views[ema->count++] = view;
    }
    return YK_OK;
}

static yk_status prepare_averages(yk_ema *ema)
{
    yki_span *spans = yki_calloc(ema->count, sizeof *spans);
    if (!spans)
        return yki_error_memory(ema->count * sizeof *spans, "averaged weights");
    for (size_t i = 0; i < ema->count; i++) {
        const yk_tensor *value = &ema->views[i].value;
        spans[i] = (yki_span){.at = {[AT_AVERAGE] = ema->average[i], [AT_VALUE] = value->data},
                              .dtype = value->dtype,
                              .count = yk_tensor_count(value)};
    }
    yk_status status = yki_sweep_create(&ema->averages, ema->optimizer->device, spans, ema->count);
    free(spans);
    return status;
}

static yk_status send_share(yk_ema *ema, double share)
{
    void *values;
    YK_TRY(yki_block_open(&ema->share, &values));
    memset(values, 0, ema->share.bytes);
    *(double *)values = ema->last_share = share;
    return yki_block_send(&ema->share, yki_device_stream(ema->optimizer->device));
}

static yk_status make_ema_parts(yk_ema *ema)
{
    YK_TRY(collect_views(ema));
    yki_device *device = ema->optimizer->device;
    for (size_t i = 0; i < ema->count; i++)
        ema->memory_bytes += yki_tensor_padded_bytes(&ema->views[i].value);
    void *memory;
    YK_TRY(yki_device_alloc(device, ema->memory_bytes, &memory));
    ema->memory = memory;
    char *at = ema->memory;
    for (size_t i = 0; i < ema->count; i++) {
        ema->average[i] = at;
        at += yki_tensor_padded_bytes(&ema->views[i].value);
    }
    YK_TRY(prepare_averages(ema));
    YK_TRY(yki_block_create(&ema->share, device, YKI_SWEEP_COEFFICIENTS * sizeof(double)));
    return send_share(ema, 1 - ema->options.decay);
}

yk_status yki_average_create(yk_ema **ema, yk_optimizer *optimizer, const yk_ema_options *options)
{
    *ema = NULL;
    yk_ema *made = yki_calloc(1, sizeof *made);
    if (!made)
        return yki_error_memory(sizeof *made, "averaged weights");
    yki_reference_init(&made->reference);
    yki_optimizer_retain(optimizer);
    made->optimizer = optimizer;
    made->options = *options;
    yk_status status = make_ema_parts(made);
    if (status != YK_OK) {
        yk_ema_destroy(made);
        return status;
    }
    *ema = made;
    return YK_OK;
}

yk_status yk_ema_create(yk_ema **ema, yk_optimizer *optimizer, const yk_ema_options *options)
{
    YKI_NOT_NULL(ema);
    *ema = NULL;
    YKI_NOT_NULL(optimizer);
    yk_ema_options chosen;
    YK_TRY(YKI_READ_OPTIONS(&chosen, options, yk_ema_options, YK_EMA_OPTIONS_INIT));
    YK_TRY(yki_check_option("ema", "decay", chosen.decay, 0, 1));
    if (optimizer->ema)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "the optimizer has averaged weights already");
    YK_TRY(yki_average_create(ema, optimizer, &chosen));
    optimizer->ema = *ema;
    return YK_OK;
}

void yki_ema_retain(yk_ema *ema)
{
    yki_reference_retain(&ema->reference);
}

void yk_ema_destroy(yk_ema *ema)
{
    if (!ema || !yki_reference_release(&ema->reference))
        return;
    if (ema->optimizer->ema == ema) {
        ema->optimizer->ema = NULL;
        ema->optimizer->averaged = false;
    }
    yki_device *device = ema->optimizer->device;
    yki_stream_wait(device, yki_device_stream(device)); /* for updates that have been entered */
    yki_sweep_destroy(ema->averages);
    yki_block_destroy(&ema->share);
    yki_device_free(device, ema->memory, ema->memory_bytes);
    free(ema->buffer_at);
    free(ema->average);
    free(ema->views);
    yk_optimizer_destroy(ema->optimizer);
    free(ema);
}

/* ---- update and swap ------------------------------------------------------------------------- */

static yk_status sweep(yk_ema *ema, yki_sweep_op op)
{
    yki_device *device = ema->optimizer->device;
    const yk_model *model = ema->optimizer->model;
    for (size_t i = 0; i < yk_model_parameter_count(model); i++) {
        ema->views[i] = yk_model_parameter(model, i);
        yki_sweep_move(ema->averages, i, AT_VALUE, ema->views[i].value.data);
    }
    return yki_sweep_run(ema->averages, op, ema->share.memory, NULL, yki_device_stream(device));
}

/* What is swept from now on is left out with an update, until another share is sent. */
static yk_status guard(yk_ema *ema, const double *skip)
{
    yki_device *device = ema->optimizer->device;
    double *place = (double *)ema->share.memory + YKI_SWEEP_SKIP;
    return skip ? yki_device_copy(device, place, skip, sizeof *skip, YKI_WITHIN_DEVICE,
                                  yki_device_stream(device))
                : YK_OK;
}

yk_status yki_average_copy(yk_ema *average)
{
    return sweep(average, YKI_SWEEP_COPY);
}

yk_status yki_average_clear(yk_ema *average)
{
    yki_device *device = average->optimizer->device;
    return yki_device_fill(device, average->memory, 0, average->memory_bytes,
                           yki_device_stream(device));
}

yk_status yki_average_approach(yk_ema *average, double share, const double *skip)
{
    YK_TRY(send_share(average, share));
    YK_TRY(guard(average, skip));
    return sweep(average, YKI_SWEEP_APPROACH);
}

yk_status yki_average_end(yk_ema *average, bool taken)
{
    return taken ? YK_OK : send_share(average, average->last_share);
}

yk_status yki_average_restore(yk_ema *average, const double *skip)
{
    YK_TRY(guard(average, skip));
    YK_TRY(sweep(average, YKI_SWEEP_SWAP));
    yk_model_parameters_changed(average->optimizer->model);
    return sweep(average, YKI_SWEEP_COPY);
}

yk_status yki_ema_update_unless(yk_ema *ema, const double *skip)
{
    if (ema->optimizer->averaged)
        return yki_error(
            YK_ERROR_INVALID_ARGUMENT,
            "cannot update averaged weights while they are swapped in: call yk_ema_swap first");
    if (ema->options.equal)
        YK_TRY(send_share(ema, 1 / ((double)ema->updates + 1)));
    YK_TRY(guard(ema, skip));
    YK_TRY(sweep(ema, ema->updates == 0 ? YKI_SWEEP_COPY : YKI_SWEEP_APPROACH));
    ema->updates++;
    return YK_OK;
}

yk_status yki_ema_end_update(yk_ema *ema, bool taken)
{
    ema->updates -= !taken;
    return yki_average_end(ema, taken);
}

yk_status yk_ema_update(yk_ema *ema)
{
    YKI_NOT_NULL(ema);
    return yki_ema_update_unless(ema, NULL);
}

yk_status yk_ema_swap(yk_ema *ema)
{
    YKI_NOT_NULL(ema);
    if (ema->updates == 0)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "no weights have been averaged yet");
    YK_TRY(sweep(ema, YKI_SWEEP_SWAP));
    ema->optimizer->averaged = !ema->optimizer->averaged;
    yk_model_parameters_changed(ema->optimizer->model);
    return YK_OK;
}

bool yki_ema_is_swapped(const yk_ema *ema)
{
    return ema->optimizer->averaged;
}

/* ---- what can be seen and set ---------------------------------------------------------------- */

yk_tensor yki_ema_n_averaged(yk_ema *ema)
{
    return (yk_tensor){.data = &ema->updates, .dtype = YK_I64};
}

double yk_ema_decay(const yk_ema *ema)
{
    return ema ? ema->options.decay : NAN;
}

int64_t yk_ema_updates(const yk_ema *ema)
{
    return ema ? ema->updates : 0;
}

void yk_ema_set_updates(yk_ema *ema, int64_t updates)
{
    if (ema)
        ema->updates = updates;
}

yk_tensor yk_ema_value(const yk_ema *ema, size_t index)
{
    if (!ema)
        return (yk_tensor){.data = NULL};
    const yk_model *model = ema->optimizer->model;
    size_t parameters = yk_model_parameter_count(model);
    if (index >= parameters) {
        size_t buffer = index - parameters;
        if (buffer >= yk_model_buffer_count(model))
            return (yk_tensor){.data = NULL};
        index = ema->buffer_at[buffer];
        if (index == SIZE_MAX)
            return yk_model_buffer(model, buffer).value;
    }
    yk_tensor tensor = ema->views[index].value;
    tensor.data = ema->average[index];
    return tensor;
}

/* See accumulation.h. */
#include "model/accumulation.h"

#include <stdlib.h>

#include "base/memory.h"

void yki_accumulation_destroy(yki_accumulation *accumulation, yki_device *device)
{
    for (size_t i = 0; i < accumulation->count; i++)
        yki_sweep_destroy(accumulation->sweeps[i]);
    free(accumulation->sweeps);
    yki_device_free(device, accumulation->memory, accumulation->bytes);
    accumulation->sweeps = NULL;
    accumulation->memory = NULL;
    accumulation->count = 0;
}

yki_backward yki_accumulation_weigh(const yki_accumulation *accumulation, int64_t samples,
                                    bool has_means, bool has_sums)
{
    yki_backward backward = {.samples = samples,
                             .adds = !accumulation->spent,
                             .kept_samples = accumulation->spent ? 0 : accumulation->kept_samples,
                             .mean = accumulation->mode == YK_ACCUMULATION_MEAN && has_means,
                             .mixed = has_means && has_sums,
                             .mean_weight = 1,
                             .sum_weight = 1,
                             .kept_weight = 1};
    if (backward.mean && backward.adds && !backward.mixed) {
        double all = (double)(backward.kept_samples + samples);
        if (all == 0)
            return backward; /* empty batches so far */
        backward.mean_weight = (double)samples / all;
        backward.kept_weight = (double)backward.kept_samples / all;
    }
    return backward;
}

yk_status yki_backward_check(const yki_backward *backward)
{
    if (!backward->adds || !backward->mean || !backward->mixed)
        return YK_OK;
    return yki_error(YK_ERROR_UNSUPPORTED,
                     "accumulation: a loss of means and sums over samples cannot be accumulated as "
                     "a mean; use YK_ACCUMULATION_SUM, or one reduction for all losses");
}

static yk_status create_sweeps(yki_accumulation *accumulation, const yki_variables *variables)
{
    size_t count = variables->parameter_count;
    accumulation->sweeps = yki_calloc(count, sizeof(yki_sweep *));
    if (!accumulation->sweeps)
        return yki_error_memory(count * sizeof(yki_sweep *), "accumulated gradients");
    accumulation->count = count;
    for (size_t i = 0; i < count; i++) {
        const yki_variable *parameter = &variables->parameters[i];
        yk_tensor grad = yki_variable_tensor(variables, parameter, parameter->grad);
        yki_span span = {.at = {grad.data, parameter->increment},
                         .count = yk_tensor_count(&grad),
                         .dtype = grad.dtype};
        YK_TRY(yki_sweep_create(&accumulation->sweeps[i], variables->device, &span, 1));
    }
    return YK_OK;
}

static yk_status create_increments(yki_accumulation *accumulation, yki_variables *variables)
{
    yki_device *device = variables->device;
    YK_TRY(yki_device_alloc(device, variables->gradient_bytes, &accumulation->memory));
    accumulation->bytes = variables->gradient_bytes;
    char *at = accumulation->memory;
    for (size_t i = 0; i < variables->parameter_count; i++) {
        variables->parameters[i].increment = at;
        at += yki_variable_bytes(&variables->parameters[i]);
    }
    yk_status status = create_sweeps(accumulation, variables);
    if (status != YK_OK)
        yki_accumulation_destroy(accumulation, device);
    return status;
}

yk_status yki_accumulation_begin(yki_accumulation *accumulation, yki_variables *variables,
                                 const yki_backward *backward)
{
    accumulation->adding = backward->adds;
    return backward->adds && !accumulation->memory ? create_increments(accumulation, variables)
                                                   : YK_OK;
}

void *yki_accumulation_target(const yki_accumulation *accumulation, const yki_variable *parameter)
{
    return accumulation->adding ? parameter->increment : parameter->grad;
}

yk_status yki_accumulation_add(const yki_accumulation *accumulation, const yki_variables *variables,
                               size_t parameter, const double *kept_weight)
{
    if (!accumulation->adding)
        return YK_OK;
    yki_sweep *sweep = accumulation->sweeps[parameter];
    yki_sweep_move(sweep, 0, 0, variables->parameters[parameter].grad);
    return yki_sweep_run(sweep, YKI_SWEEP_ADD, kept_weight, NULL,
                         yki_device_stream(variables->device));
}

void yki_accumulation_end(yki_accumulation *accumulation, const yki_backward *backward)
{
    accumulation->kept_samples = backward->kept_samples + backward->samples;
    accumulation->spent = false;
}

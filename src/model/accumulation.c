/* See accumulation.h. */
#include "model/accumulation.h"

#include "tensor/tensor.h"

enum { CHUNK_ELEMENTS = 16384 }; /* one thread adds them up before a second one has woken up */

void yki_accumulation_destroy(yki_accumulation *accumulation, yki_device *device)
{
    yki_device_free(device, accumulation->memory, accumulation->bytes);
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

static yk_status create_increments(yki_accumulation *accumulation, yki_variables *variables)
{
    YK_TRY(yki_device_alloc(variables->device, variables->gradient_bytes, &accumulation->memory));
    accumulation->bytes = variables->gradient_bytes;
    char *at = accumulation->memory;
    for (size_t i = 0; i < variables->parameter_count; i++) {
        variables->parameters[i].increment = at;
        at += yki_variable_bytes(&variables->parameters[i]);
    }
    return YK_OK;
}

yk_status yki_accumulation_begin(yki_accumulation *accumulation, yki_variables *variables,
                                 const yki_backward *backward)
{
    accumulation->adding = backward->adds;
    accumulation->kept_weight = backward->kept_weight;
    return backward->adds && !accumulation->memory ? create_increments(accumulation, variables)
                                                   : YK_OK;
}

void *yki_accumulation_target(const yki_accumulation *accumulation, const yki_variable *parameter)
{
    return accumulation->adding ? parameter->increment : parameter->grad;
}

static void add_on_host(void *gradient, double kept_weight, const char *increment, yk_dtype dtype,
                        int64_t count)
{
    size_t size = yk_dtype_size(dtype);
#pragma omp parallel for schedule(static) if (count >= CHUNK_ELEMENTS)
    for (int64_t begin = 0; begin < count; begin += CHUNK_ELEMENTS) {
        int64_t rest = count - begin, part = rest < CHUNK_ELEMENTS ? rest : CHUNK_ELEMENTS;
        size_t offset = (size_t)begin * size;
        char *sum = (char *)gradient + offset;
        yki_add_scaled(dtype, sum, kept_weight, sum, increment + offset, part);
    }
}

yk_status yki_accumulation_add(const yki_accumulation *accumulation, const yki_variables *variables,
                               const yki_variable *parameter)
{
    yk_tensor grad = yki_variable_tensor(variables, parameter, parameter->grad);
    yk_tensor more = yki_variable_tensor(variables, parameter, parameter->increment);
    yki_host_view sum, increment;
    if (!accumulation->adding)
        return YK_OK;
    YK_TRY(yki_host_view_open(&sum, &grad, YKI_READ_WRITE));
    yk_status status = yki_host_view_open(&increment, &more, YKI_READ);
    if (status == YK_OK) {
        add_on_host(sum.data, accumulation->kept_weight, increment.data, grad.dtype,
                    yk_tensor_count(&grad));
        status = yki_host_view_close(&increment);
    }
    yk_status closed = yki_host_view_close(&sum);
    return status == YK_OK ? closed : status;
}

void yki_accumulation_end(yki_accumulation *accumulation, const yki_backward *backward)
{
    accumulation->kept_samples = backward->kept_samples + backward->samples;
    accumulation->spent = false;
}

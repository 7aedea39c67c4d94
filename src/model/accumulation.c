/* See accumulation.h. */
#include "model/accumulation.h"

#include "base/memory.h"
#include "tensor/tensor.h"

enum { CHUNK_ELEMENTS = 16384 }; /* one thread adds them up before a second one has woken up */

void yki_accumulation_destroy(yki_accumulation *accumulation)
{
    yki_unmap(accumulation->memory, accumulation->bytes);
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
    accumulation->memory = yki_map(variables->gradient_bytes);
    if (!accumulation->memory)
        return yki_error_memory(variables->gradient_bytes, "accumulated gradients");
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

void yki_accumulation_add(const yki_accumulation *accumulation, const yki_variable *parameter)
{
    if (!accumulation->adding)
        return;
    yk_tensor grad = yki_variable_tensor(parameter, parameter->grad);
    const char *increment = parameter->increment;
    double kept_weight = accumulation->kept_weight;
    int64_t count = yk_tensor_count(&grad);
    size_t size = yk_dtype_size(grad.dtype);
#pragma omp parallel for schedule(static) if (count >= CHUNK_ELEMENTS)
    for (int64_t begin = 0; begin < count; begin += CHUNK_ELEMENTS) {
        int64_t rest = count - begin, part = rest < CHUNK_ELEMENTS ? rest : CHUNK_ELEMENTS;
        size_t offset = (size_t)begin * size;
        char *sum = (char *)grad.data + offset;
        yki_add_scaled(grad.dtype, sum, kept_weight, sum, increment + offset, part);
    }
}

void yki_accumulation_end(yki_accumulation *accumulation, const yki_backward *backward)
{
    accumulation->kept_samples = backward->kept_samples + backward->samples;
    accumulation->spent = false;
}

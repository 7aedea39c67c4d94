/* See losses.h. */
#include "train/losses.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "model/loss_scale.h"
#include "model/model_hooks.h"
#include "model/outcome.h"
#include "tensor/element.h"

enum { LOSSES = YKI_ALIGNMENT /* where they begin in the memory, after the search's result */ };

/* ---- life ------------------------------------------------------------------------------------ */

/* The search goes over the losses that are there and, in a shorter step, over those of the step
 * before, which were finite, or zeros. */
static yk_status create_search(yki_losses *losses)
{
    const yki_span all = {.dtype = losses->dtype, .count = losses->most};
    void *values;
    YK_TRY(yki_sweep_create(&losses->search, losses->device, &all, 1));
    yki_sweep_move(losses->search, 0, 0, losses->memory + LOSSES);
    YK_TRY(
        yki_block_create(&losses->factor, losses->device, YKI_SWEEP_COEFFICIENTS * sizeof(double)));
    YK_TRY(yki_block_open(&losses->factor, &values));
    memset(values, 0, losses->factor.bytes);
    *(double *)values = 1;
    return yki_block_send(&losses->factor, yki_device_stream(losses->device));
}

static yk_status create_memory(yki_losses *losses)
{
    void *memory;
    losses->device = yki_model_device(losses->model);
    losses->dtype = yki_model_loss_dtype(losses->model);
    losses->bytes = LOSSES + (size_t)losses->most * yk_dtype_size(losses->dtype);
    YK_TRY(yki_device_alloc(losses->device, losses->bytes, &memory));
    losses->memory = memory;
    YK_TRY(yki_late_create(&losses->arrived, losses->device, losses->bytes));
    return create_search(losses);
}

yk_status yki_losses_create(yki_losses *losses, yk_model *model, int64_t most)
{
    *losses = (yki_losses){.model = model, .most = most};
    losses->added = yki_calloc((size_t)most, sizeof *losses->added);
    losses->taken = yki_calloc((size_t)most, sizeof *losses->taken);
    yk_status status = YK_OK;
    if (!losses->added || !losses->taken)
        status = yki_error_memory((size_t)most * sizeof *losses->added, "a trainer");
    else if (!yki_device_is_host(yki_model_device(model)) && !yki_model_is_replicated(model))
        status = create_memory(losses);
    if (status != YK_OK)
        yki_losses_destroy(losses);
    return status;
}

void yki_losses_destroy(yki_losses *losses)
{
    if (losses->device) {
        yki_stream_wait(losses->device, yki_device_stream(losses->device));
        yki_sweep_destroy(losses->search);
        yki_block_destroy(&losses->factor);
        yki_late_destroy(&losses->arrived);
        yki_device_free(losses->device, losses->memory, losses->bytes);
    }
    free(losses->added);
    free(losses->taken);
    *losses = (yki_losses){.model = NULL};
}

/* ---- a step ---------------------------------------------------------------------------------- */

yk_status yki_losses_clear(yki_losses *losses)
{
    return yki_device_fill(losses->device, losses->memory, 0, losses->bytes,
                           yki_device_stream(losses->device));
}

void yki_losses_begin(yki_losses *losses)
{
    losses->added_count = 0;
}

yk_status yki_losses_add(yki_losses *losses, int64_t samples)
{
    int64_t at = losses->added_count++;
    yki_batch_loss *one = &losses->added[at];
    *one = (yki_batch_loss){.samples = (double)samples};
    if (losses->late)
        return yki_model_copy_loss(losses->model, losses->memory + LOSSES +
                                                      (size_t)at * yk_dtype_size(losses->dtype));
    one->loss = yk_model_loss(losses->model);
    return YK_OK;
}

yk_status yki_losses_take(yki_losses *losses)
{
    yki_batch_loss *spare = losses->taken;
    losses->taken = losses->added;
    losses->taken_count = losses->added_count;
    losses->added = spare;
    losses->unread = losses->late;
    if (!losses->late)
        return YK_OK;
    return yki_late_take(&losses->arrived, losses->memory, yki_device_stream(losses->device));
}

yk_status yki_losses_take_guarded(yki_losses *losses, int ranks, const double **skip)
{
    double *found = (double *)(void *)losses->memory;
    bool agreed;
    *skip = NULL;
    YK_TRY(yki_sweep_run(losses->search, YKI_SWEEP_UNSCALE, losses->factor.memory, found,
                         yki_device_stream(losses->device)));
    YK_TRY(yki_model_reduce_maximum_in_stream(losses->model, found, &agreed));
    if (agreed || ranks == 1)
        *skip = found;
    return yki_losses_take(losses);
}

yk_status yki_losses_read(yki_losses *losses)
{
    const void *arrived;
    if (!losses->unread)
        return YK_OK;
    losses->unread = false;
    YK_TRY(yki_late_read(&losses->arrived, &arrived));
    for (int64_t i = 0; i < losses->taken_count; i++)
        losses->taken[i].loss = yki_element_get(losses->dtype, (const char *)arrived + LOSSES, i);
    return YK_OK;
}

bool yki_losses_are_bad(const yki_losses *losses)
{
    return *(const double *)losses->arrived.values != 0;
}

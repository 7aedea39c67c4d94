/*
 * Running statistics for weights that no training step has had, such as averages: what
 * torch.optim.swa_utils.update_bn computes. PyTorch sets the momentum of batch norms to None for
 * the pass, which makes their statistics means over batches. Here kernels keep their momentum: the
 * statistics are 0 before each batch, so that they are those of the batch, times the momentum,
 * after it, and the host adds them up.
 */
#include <stdlib.h>

#include <yoke/train.h>

#include "base/memory.h"
#include "base/options.h"
#include "device/memory.h"
#include "model/model_hooks.h"
#include "tensor/element.h"
#include "train/rounds.h"
#include "train/sums.h"

/* A buffer that training moves, and where its numbers are in those of all. */
typedef struct moved_buffer {
    yk_tensor tensor;
    double share; /* of its value that is the batch's */
    bool counts;  /* num_batches_tracked, with a share of 1 */
    int64_t first;
} moved_buffer;

typedef struct update_run {
    yk_model *model;
    yk_update_bn_options options;
    moved_buffer *list;
    size_t count;
    int64_t numbers;   /* of all buffers */
    int virtual_ranks; /* that take turns on this rank */
    int rank;
    double *before; /* (numbers) */
    double *sums;   /* (virtual_ranks, numbers + 1), with batches at the end of a row, then room for
                       those of all ranks */
} update_run;

static int64_t row_length(const update_run *run)
{
    return run->numbers + 1;
}

static void list_buffer(update_run *run, size_t index)
{
    double share = yki_model_running_share(run->model, index);
    bool counts = yki_model_counts_batches(run->model, index);
    if (share <= 0 && !counts)
        return;
    moved_buffer *buffer = &run->list[run->count++];
    *buffer = (moved_buffer){.tensor = yk_model_buffer(run->model, index).value,
                             .share = counts ? 1 : share,
                             .counts = counts,
                             .first = run->numbers};
    run->numbers += yk_tensor_count(&buffer->tensor);
}

static yk_status create_run(update_run *run)
{
    size_t buffers = yk_model_buffer_count(run->model);
    run->list = yki_calloc(buffers + 1, sizeof *run->list);
    if (!run->list)
        return yki_error_memory(buffers * sizeof *run->list, "running statistics");
    for (size_t i = 0; i < buffers; i++)
        list_buffer(run, i);
    size_t rows = (size_t)run->virtual_ranks * ((size_t)yki_ranks_of(run->options.group) + 1);
    size_t numbers = (rows + 1) * (size_t)row_length(run);
    run->before = yki_calloc(numbers, sizeof *run->before);
    run->sums = run->before + row_length(run);
    return run->before ? YK_OK : yki_error_memory(numbers * sizeof(double), "running statistics");
}

/* Adds what is in the buffers to numbers. */
static yk_status add_buffers(const update_run *run, double *numbers, bool of_batch)
{
    for (size_t i = 0; i < run->count; i++) {
        const moved_buffer *buffer = &run->list[i];
        double share = of_batch ? buffer->share : 1;
        yki_host_view view;
        YK_TRY(yki_host_view_open(&view, &buffer->tensor, YKI_READ));
        for (int64_t k = 0; k < yk_tensor_count(&buffer->tensor); k++)
            numbers[buffer->first + k] +=
                yki_element_get(buffer->tensor.dtype, view.data, k) / share;
        YK_TRY(yki_host_view_close(&view));
    }
    return YK_OK;
}

static yk_status write_buffers(const update_run *run, const double *numbers)
{
    for (size_t i = 0; i < run->count; i++) {
        const moved_buffer *buffer = &run->list[i];
        yki_host_view view;
        YK_TRY(yki_host_view_open(&view, &buffer->tensor, YKI_WRITE));
        for (int64_t k = 0; k < yk_tensor_count(&buffer->tensor); k++)
            yki_element_set(buffer->tensor.dtype, view.data, k, numbers[buffer->first + k]);
        YK_TRY(yki_host_view_close(&view));
    }
    yk_model_parameters_changed(run->model);
    return YK_OK;
}

static yk_status clear_buffers(const update_run *run)
{
    yki_device *device = yki_model_device(run->model);
    for (size_t i = 0; i < run->count; i++) {
        const yk_tensor *tensor = &run->list[i].tensor;
        YK_TRY(yki_device_fill(device, tensor->data, 0, yk_tensor_bytes(tensor),
                               yki_device_stream(device)));
    }
    return YK_OK;
}

/* Synchronised batch norms have the same statistics on all ranks, which need those of each. */
static yk_status measure_batch(void *context, int64_t round, const yk_batch *batch)
{
    const update_run *run = context;
    bool synced = yki_model_is_synced(run->model);
    int turn = (int)(round % run->virtual_ranks);
    double *sums = run->sums + turn * row_length(run);
    if (!batch && !synced)
        return YK_OK;
    YK_TRY(clear_buffers(run));
    YK_TRY(yki_model_forward_apart(run->model, batch,
                                   yk_model_forwards(run->model) + 1 + round / run->virtual_ranks,
                                   run->rank * run->virtual_ranks + turn));
    if (synced && run->rank > 0)
        return YK_OK; /* all ranks have the same */
    sums[run->numbers]++;
    return add_buffers(run, sums, true);
}

/* Statistics become means over the batches of all ranks; counts are those of all. */
static yk_status finish(const update_run *run)
{
    double *sums = run->sums;
    YK_TRY(yki_sum_over_ranks(run->options.group, sums, run->virtual_ranks, (int)row_length(run),
                              sums + run->virtual_ranks * row_length(run)));
    double batches = sums[run->numbers];
    if (!(batches > 0))
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "yk_update_bn: the loader has no batches");
    for (size_t i = 0; i < run->count; i++) {
        const moved_buffer *buffer = &run->list[i];
        for (int64_t k = 0; k < yk_tensor_count(&buffer->tensor) && !buffer->counts; k++)
            sums[buffer->first + k] /= batches;
    }
    return write_buffers(run, sums);
}

static yk_status update(update_run *run, yk_loader *loader, bool *stopped)
{
    char line[YKI_ERROR_LINE];
    const yki_rounds rounds = {.loader = loader,
                               .group = run->options.group,
                               .should_stop = run->options.should_stop,
                               .on_batch = run->options.on_batch,
                               .context = run->options.context};
    YK_TRY(add_buffers(run, run->before, false));
    yk_status status = yki_rounds_run(&rounds, measure_batch, run, stopped);
    if (status == YK_OK && !*stopped)
        status = finish(run);
    if (status == YK_OK)
        return *stopped ? write_buffers(run, run->before) : YK_OK;
    yki_error_copy(line, sizeof line);
    write_buffers(run, run->before);
    return yki_error_set_line(status, line);
}

yk_status yk_update_bn(yk_model *model, yk_loader *loader, const yk_update_bn_options *options,
                       bool *stopped)
{
    bool unused;
    YKI_NOT_NULL(model);
    YKI_NOT_NULL(loader);
    YK_TRY(yki_model_check_trained(model, "yk_update_bn"));
    update_run run = {.model = model, .virtual_ranks = yk_loader_virtual_ranks(loader)};
    YK_TRY(
        YKI_READ_OPTIONS(&run.options, options, yk_update_bn_options, YK_UPDATE_BN_OPTIONS_INIT));
    run.rank = run.options.group ? yk_group_rank(run.options.group) : 0;
    stopped = stopped ? stopped : &unused;
    *stopped = false;
    yk_status status = create_run(&run);
    if (status == YK_OK && run.count > 0)
        status = update(&run, loader, stopped);
    free(run.before);
    free(run.list);
    return status;
}

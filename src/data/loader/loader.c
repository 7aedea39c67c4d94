/*
 * The loader's life, and its consumer, who takes the batches that worker threads have prepared
 * (state.h).
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/options.h"
#include "base/trace.h"
#include "data/loader/state.h"
#include "data/sampler.h"
#include "device/device.h"
#include "model/model_hooks.h"

static const int64_t MAX_EPOCH = (int64_t)1 << 53; /* exact as a double, in every file */

/* ---- life ------------------------------------------------------------------------------------ */

/* The devices that make batches for the model and its replicas, which are of one kind. */
static yk_status find_devices(yk_loader *loader, yk_model *model)
{
    const yki_device *own = model ? yki_model_device(model) : NULL;
    if (!own || yki_device_is_host(own) || !own->type->pictures)
        return YK_OK;
    size_t count = (size_t)yki_model_sharers(model);
    loader->devices = yki_calloc(count, sizeof *loader->devices);
    loader->sharers = yki_calloc(count, sizeof *loader->sharers);
    if (!loader->devices || !loader->sharers)
        return yki_error_memory(count * sizeof *loader->devices, "a loader");
    for (size_t i = 0; i < count; i++) {
        yk_model *sharer = yki_model_sharer(model, (int)i);
        yki_model_retain(sharer);
        loader->sharers[i] = sharer;
        loader->devices[i] = yki_model_device(sharer);
    }
    loader->device_count = (int)count;
    return YK_OK;
}

static void set_up(yk_loader *loader, const yk_dataset *dataset, const yk_loader_options *options)
{
    yki_reference_init(&loader->reference);
    yki_dataset_retain(dataset);
    loader->dataset = dataset;
    loader->options = *options;
    if (options->model)
        yki_model_retain(options->model);
    loader->slot_count = loader->options.workers * loader->options.prefetch + 1;
    int ranks = options->group ? yk_group_size(options->group) : 1;
    int rank = options->group ? yk_group_rank(options->group) : 0;
    loader->virtual_ranks = options->virtual_ranks ? options->virtual_ranks / ranks : 1;
    loader->sampler = (yk_sampler_options){
        .size = sizeof(yk_sampler_options),
        .samples = yk_dataset_size(dataset),
        .world_size = loader->virtual_ranks * ranks,
        .rank = loader->virtual_ranks * rank,
        .shuffle = options->shuffle,
        .drop_last = options->drop_last,
        .seed = options->seed,
        .exact = options->exact,
        .weights = options->weights,
    };
    loader->indices_epoch = -1;
    loader->process = getpid();
    pthread_mutex_init(&loader->mutex, NULL);
    pthread_cond_init(&loader->space, NULL);
    pthread_cond_init(&loader->ready, NULL);
}

/* Everything that may fail; the caller destroys the loader then. */
static yk_status start_loader(yk_loader *self)
{
    YK_TRY(yki_sampler_validate(&self->sampler));
    YK_TRY(yk_transforms_parse(&self->transforms, self->options.transforms));
    self->options.transforms = yk_transforms_text(self->transforms);
    YK_TRY(find_devices(self, self->options.model));
    YK_TRY(yki_loader_plan(self));
    return yki_loader_start_workers(self);
}

yk_status yk_loader_create(yk_loader **loader, const yk_dataset *dataset,
                           const yk_loader_options *options)
{
    YKI_NOT_NULL(loader);
    *loader = NULL;
    YKI_NOT_NULL(dataset);
    yk_loader_options chosen;
    YK_TRY(YKI_READ_OPTIONS(&chosen, options, yk_loader_options, YK_LOADER_OPTIONS_INIT));
    YK_TRY(yki_loader_check_options(&chosen));
    yk_loader *self = yki_calloc(1, sizeof *self);
    if (!self)
        return yki_error_memory(sizeof *self, "a loader");
    set_up(self, dataset, &chosen);
    yk_status status = start_loader(self);
    if (status != YK_OK) {
        yk_loader_destroy(self);
        return status;
    }
    *loader = self;
    return YK_OK;
}

void yki_loader_retain(yk_loader *loader)
{
    yki_reference_retain(&loader->reference);
}

/* Once the devices have done what reads the loader's memory. */
static void free_memory(yk_loader *loader)
{
    for (int i = 0; loader->columns && i < loader->fields; i++)
        yki_crossing_destroy(&loader->columns[i].crossing);
    if (loader->device_count > 0)
        yki_device_free_pinned(loader->devices[0], loader->memory, loader->memory_bytes);
    else
        yki_unmap(loader->memory, loader->memory_bytes);
    for (int i = loader->device_count - 1; i >= 0; i--)
        yk_model_destroy(loader->sharers[i]);
    free(loader->sharers);
    free(loader->devices);
}

static void free_loader(yk_loader *loader)
{
    for (int i = 0; loader->workers && i < loader->options.workers; i++) {
        yki_worker_close(&loader->workers[i].reading);
        yki_pipeline_memory_free(&loader->workers[i].memory);
        yki_room_free(&loader->workers[i].unmixed);
    }
    free_memory(loader);
    for (int i = 0; loader->columns && i < loader->fields; i++)
        yki_pipeline_destroy(&loader->columns[i].pipeline);
    yk_transforms_destroy(loader->transforms);
    free(loader->slots);
    free(loader->tensors);
    free(loader->rows);
    free(loader->columns);
    free(loader->workers);
    free(loader->reported);
    free(loader->weights);
    free(loader->drawn);
    free(loader->indices);
    free(loader->starts);
    yk_dataset_destroy((yk_dataset *)(uintptr_t)loader->dataset);
    yk_model_destroy(loader->options.model);
    free(loader);
}

void yk_loader_destroy(yk_loader *loader)
{
    if (!loader || !yki_reference_release(&loader->reference))
        return;
    if (loader->process != getpid()) /* a child cannot end its parent's threads */
        return;
    pthread_mutex_lock(&loader->mutex);
    loader->stopping = true;
    pthread_cond_broadcast(&loader->space);
    pthread_mutex_unlock(&loader->mutex);
    for (int i = 0; i < loader->started; i++)
        pthread_join(loader->workers[i].thread, NULL);
    pthread_cond_destroy(&loader->ready);
    pthread_cond_destroy(&loader->space);
    pthread_mutex_destroy(&loader->mutex);
    free_loader(loader);
}

/* ---- the consumer --------------------------------------------------------------------------- */

/* Returns the consumer's slot to the workers; the mutex is held. */
static void release(yk_loader *loader)
{
    if (loader->holding) {
        loader->taken++;
        pthread_cond_signal(&loader->space);
    }
    loader->holding = false;
}

/* Waits for the consumer's next batch and takes it; the mutex is held. */
static const yk_batch *take(yk_loader *loader)
{
    yki_loader_slot *next = &loader->slots[loader->taken % loader->slot_count];
    while (loader->claimed <= loader->taken || !next->ready)
        pthread_cond_wait(&loader->ready, &loader->mutex);
    if (next->status != YK_OK) {
        loader->status = yki_error_set_line(next->status, next->error);
        return NULL;
    }
    loader->holding = true;
    loader->skipped += next->skipped;
    loader->batch++;
    return &next->batch;
}

/* Waits until devices have read the slot that the consumer holds. */
static yk_status wait_for_copies(const yk_loader *loader)
{
    for (int i = 0; loader->holding && i < loader->fields; i++)
        YK_TRY(yki_crossing_wait(&loader->columns[i].crossing));
    return YK_OK;
}

/* Enters the work that makes the tensors of the batch that the consumer has taken. */
static yk_status send_batch(const yk_loader *loader)
{
    const yki_loader_slot *held = &loader->slots[loader->taken % loader->slot_count];
    for (int i = 0; i < loader->fields; i++)
        YK_TRY(yki_crossing_send(&loader->columns[i].crossing, held->rows[i], held->batch.size));
    return YK_OK;
}

/* The workers are threads of the process that made the loader. */
static yk_status check_process(yk_loader *loader)
{
    if (loader->process == getpid())
        return YK_OK;
    loader->status = yki_error(YK_ERROR_UNSUPPORTED,
                               "loader: made by process %d, whose worker threads do not exist in "
                               "process %d, its child: make one after fork()",
                               (int)loader->process, (int)getpid());
    return loader->status;
}

const yk_batch *yk_loader_next(yk_loader *loader)
{
    const yk_batch *batch = NULL;
    double start = yki_now();
    if (!loader || check_process(loader) != YK_OK)
        return NULL;
    yk_status copied = wait_for_copies(loader);
    pthread_mutex_lock(&loader->mutex);
    release(loader);
    if (loader->ended) {
        loader->epoch++;
        loader->batch = 0;
        loader->skipped = 0;
        loader->ended = false;
    }
    if (loader->status == YK_OK)
        loader->status = copied;
    if (loader->batch == loader->batches)
        loader->ended = true;
    else if (loader->status == YK_OK)
        batch = take(loader);
    pthread_mutex_unlock(&loader->mutex);
    if (batch)
        loader->status = send_batch(loader);
    if (loader->status != YK_OK)
        batch = NULL;
    loader->wait_s = yki_now() - start;
    YKI_TRACE_END(start, YKI_NO_ARGS, "data wait");
    return batch;
}

yk_status yk_loader_seek(yk_loader *loader, int64_t epoch, int64_t batch)
{
    YKI_NOT_NULL(loader);
    YK_TRY(check_process(loader));
    if (epoch < 0 || epoch > MAX_EPOCH || batch < 0 || batch > loader->batches)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "loader: cannot go to batch %lld of epoch %lld: an epoch has %lld, and "
                         "there are at most %lld epochs",
                         (long long)batch, (long long)epoch, (long long)loader->batches,
                         (long long)MAX_EPOCH);
    YK_TRY(wait_for_copies(loader));
    pthread_mutex_lock(&loader->mutex);
    loader->paused = true;
    while (loader->busy) /* each finishes the batch that it is preparing */
        pthread_cond_wait(&loader->ready, &loader->mutex);
    loader->claimed = loader->taken = 0;
    loader->holding = loader->ended = false;
    loader->status = YK_OK;
    loader->skipped = 0;
    loader->epoch = epoch;
    loader->batch = batch;
    bool at_end = batch == loader->batches;
    loader->claim_epoch = at_end ? epoch + 1 : epoch;
    loader->claim_batch = at_end ? 0 : batch;
    loader->paused = false;
    pthread_cond_broadcast(&loader->space);
    pthread_mutex_unlock(&loader->mutex);
    return YK_OK;
}

int64_t yki_loader_next_epoch(const yk_loader *loader)
{
    return loader->epoch + loader->ended;
}

yk_status yki_loader_go_to(yk_loader *loader, int64_t epoch, int64_t batch)
{
    int64_t next = loader->ended ? 0 : loader->batch;
    if (loader->status == YK_OK && yki_loader_next_epoch(loader) == epoch && next == batch)
        return YK_OK;
    return yk_loader_seek(loader, epoch, batch);
}

yk_status yk_loader_status(const yk_loader *loader)
{
    YKI_NOT_NULL(loader);
    return loader->status;
}

const yk_loader_options *yki_loader_options(const yk_loader *loader)
{
    return &loader->options;
}

int yki_loader_world_size(const yk_loader *loader)
{
    return loader->sampler.world_size / loader->virtual_ranks;
}

const yk_dataset *yki_loader_dataset(const yk_loader *loader)
{
    return loader->dataset;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

int64_t yki_loader_samples(const yk_loader *loader, int64_t first, int64_t end)
{
    yk_sampler_options sampler = loader->sampler;
    int64_t size = loader->options.batch_size, samples = 0;
    for (sampler.rank = 0; sampler.rank < sampler.world_size; sampler.rank++) {
        int64_t count = yki_sampler_count(&sampler);
        if (loader->options.drop_last)
            count -= count % size;
        samples += least(end * size, count) - least(first * size, count);
    }
    return samples;
}

int yk_loader_virtual_ranks(const yk_loader *loader)
{
    return loader ? loader->virtual_ranks : 0;
}

int64_t yk_loader_batches(const yk_loader *loader)
{
    return loader ? loader->batches : 0;
}

int64_t yk_loader_epoch(const yk_loader *loader)
{
    return loader ? loader->epoch : 0;
}

int64_t yk_loader_skipped(const yk_loader *loader)
{
    return loader ? loader->skipped : 0;
}

double yk_loader_wait_s(const yk_loader *loader)
{
    return loader ? loader->wait_s : 0;
}

/*
 * The loader: worker threads fill a ring of batches, in order of claim; the consumer takes them in
 * order of number. Numbering continues from one epoch to the next, so that the workers prepare
 * the next epoch while the consumer evaluates after this one.
 *
 * Invariants, all under one mutex: taken <= claimed <= taken + slots. Batch b lives in slot
 * b % slots; a worker writes to it from its claim until `ready`, the consumer reads it from then
 * until `taken` passes it. Workers sleep while the ring is full and end as soon as `stopping` is
 * set. Nothing is allocated after creation.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/options.h"
#include "base/thread.h"
#include "base/trace.h"
#include "data/loader.h"
#include "data/mixing.h"
#include "data/pipeline.h"
#include "data/sampler.h"

enum {
    MAX_WORKERS = 256,
    MAX_SLOTS = 4096,
    MAX_DAMAGED = 1000 /* samples in a row: more are not damage, but data of another kind */
};
static const int64_t MAX_EPOCH = (int64_t)1 << 53; /* exact as a double, in every file */

typedef struct slot {
    bool ready;
    int64_t epoch;
    yk_tensor *tensors; /* (fields) of batch_size rows, in the loader's memory */
    int64_t *indices;   /* (batch_size) */
    int32_t *labels;    /* (batch_size) where the batch has probabilities */
    int64_t skipped;    /* damaged samples that others have replaced */
    yk_batch batch;
    yk_status status;
    char error[YKI_ERROR_LINE];
} slot;

/* A thread with what it needs for itself. */
typedef struct worker {
    yk_loader *loader;
    pthread_t thread;
    yki_worker reading;
    yki_pipeline_memory memory;
    yki_room unmixed; /* a picture */
} worker;

/* One field of the data set in a batch. */
typedef struct column {
    bool is_picture;
    yki_pipeline pipeline; /* of a picture */
    yk_tensor row;         /* one sample, without data */
    size_t row_bytes;
} column;

struct yk_loader {
    yki_reference reference;
    const yk_dataset *dataset;
    yk_loader_options options;
    yk_sampler_options sampler; /* of this rank's first virtual rank */
    int virtual_ranks;          /* that take turns here, batch by batch; 1 without virtual ranks */
    int64_t *starts;            /* (virtual_ranks + 1): where the indices of each begin */
    yk_transforms *transforms;
    yki_mixing mixing;
    int mixed_labels; /* the field that becomes probabilities, or -1 */
    column *columns;  /* (fields) */
    int fields;
    int64_t count, batches; /* samples and batches of an epoch on this rank */

    slot *slots;
    int slot_count;
    void *memory;       /* of all slots' rows and indices */
    yk_tensor *tensors; /* of all slots */
    size_t memory_bytes;
    int64_t *permutation; /* scratch (size) */
    int64_t *indices;     /* (count) of the epoch that is being claimed */
    int64_t indices_epoch;
    uint8_t *reported; /* (size) with skip_damaged: samples that were found damaged */

    pthread_mutex_t mutex;
    pthread_cond_t space, ready; /* workers wait for space, the consumer for ready */
    worker *workers;             /* (options.workers) */
    int started, busy;           /* workers running; workers between claim and ready */
    bool stopping, paused;
    pid_t process;          /* whose threads they are; a forked child has none */
    int64_t claimed, taken; /* batches since the last seek */
    int64_t claim_epoch, claim_batch;

    int64_t epoch, batch; /* the consumer's position: its next batch */
    bool holding, ended;  /* the consumer has a batch; its last answer was NULL */
    yk_status status;
    int64_t skipped; /* of the consumer's epoch */
    double wait_s;
};

/* ---- workers -----------------------------------------------------------------------------------
 */

/* Computes the indices of the epoch that is being claimed. */
static void fill_indices(yk_loader *loader)
{
    yk_sampler_options sampler = loader->sampler;
    for (int v = 0; v < loader->virtual_ranks; v++, sampler.rank++)
        yki_sampler_fill(&sampler, loader->claim_epoch, loader->permutation,
                         loader->indices + loader->starts[v]);
}

/* Gives the next batch to a worker; the mutex is held. */
static slot *claim(yk_loader *loader)
{
    if (loader->indices_epoch != loader->claim_epoch) {
        fill_indices(loader);
        loader->indices_epoch = loader->claim_epoch;
    }
    slot *claimed = &loader->slots[loader->claimed++ % loader->slot_count];
    int64_t v = loader->claim_batch % loader->virtual_ranks;
    int64_t first = loader->starts[v] +
                    loader->claim_batch / loader->virtual_ranks * loader->options.batch_size;
    int64_t left = loader->starts[v + 1] - first;
    int64_t size = left < loader->options.batch_size ? left : loader->options.batch_size;
    claimed->ready = false;
    claimed->epoch = loader->claim_epoch;
    claimed->skipped = 0;
    claimed->batch.size = size;
    for (int i = 0; i < loader->fields; i++)
        claimed->tensors[i].dims[0] = size;
    memcpy(claimed->indices, loader->indices + first, (size_t)size * sizeof *claimed->indices);
    if (++loader->claim_batch == loader->batches) {
        loader->claim_batch = 0;
        loader->claim_epoch++;
    }
    return claimed;
}

/* Where row number `row` of a field begins. */
static void *place(const slot *claimed, const column *columns, int field, int64_t row)
{
    return (char *)claimed->tensors[field].data + (size_t)row * columns[field].row_bytes;
}

/* Writes one row of the batch. */
static yk_status prepare_sample(worker *self, const slot *claimed, int64_t row)
{
    const yk_loader *loader = self->loader;
    yki_pipeline_draw draw = {loader->options.seed, claimed->epoch, claimed->indices[row]};
    yk_field_buffer *buffers = self->reading.buffers;
    for (int i = 0; i < loader->fields; i++)
        if (!loader->columns[i].is_picture)
            buffers[i].data = i == loader->mixed_labels ? (void *)&claimed->labels[row]
                                                        : place(claimed, loader->columns, i, row);
    YK_TRY(yki_worker_read(&self->reading, draw.index));
    yk_status status = YK_OK;
    for (int i = 0; i < loader->fields && status == YK_OK; i++)
        if (loader->columns[i].is_picture)
            status =
                yki_pipeline_run(&loader->columns[i].pipeline, &self->memory, self->reading.decoder,
                                 &buffers[i], draw, place(claimed, loader->columns, i, row));
    return status == YK_OK ? YK_OK : yki_worker_name_sample(&self->reading, draw.index, status);
}

/* Warns of a damaged sample, whose error is this thread's last, once. */
static void report_damaged(yk_loader *loader, int64_t index)
{
    pthread_mutex_lock(&loader->mutex);
    bool known = loader->reported[index];
    loader->reported[index] = true;
    pthread_mutex_unlock(&loader->mutex);
    if (!known)
        YKI_WARN("%s: skipped", yki_error_text());
}

/* Writes one row of the batch: its sample or, in place of a damaged one, the next that is not. */
static yk_status prepare_row(worker *self, slot *claimed, int64_t row)
{
    yk_loader *loader = self->loader;
    int64_t samples = loader->sampler.samples, *index = &claimed->indices[row];
    int64_t most = samples < MAX_DAMAGED ? samples : MAX_DAMAGED, damaged = 0;
    yk_status status = prepare_sample(self, claimed, row);
    while (status == YK_ERROR_FORMAT && loader->options.skip_damaged) {
        report_damaged(loader, *index);
        if (++damaged == most)
            return yki_error_context(status, "%lld damaged samples in a row", (long long)most);
        *index = (*index + 1) % samples;
        status = prepare_sample(self, claimed, row);
    }
    claimed->skipped += damaged > 0;
    return status;
}

/* One picture or more of a batch whose rows are there, and their labels. */
static yk_status mix(worker *self, const slot *claimed)
{
    const yk_loader *loader = self->loader;
    uint64_t word =
        yki_hash3(loader->options.seed, (uint64_t)claimed->epoch, (uint64_t)claimed->indices[0]);
    yki_mix mix = {.share = 1};
    for (int i = 0; i < loader->fields; i++) {
        const column *pictures = &loader->columns[i];
        if (!pictures->is_picture)
            continue;
        void *unmixed = yki_room_reserve(&self->unmixed, pictures->row_bytes);
        if (!unmixed)
            return yki_error_memory(pictures->row_bytes, "a picture");
        mix = yki_draw_mix(&loader->mixing, word, pictures->row.dims[1], pictures->row.dims[2]);
        yki_mix_images(&mix, &claimed->tensors[i], unmixed);
    }
    yk_tensor *probabilities = &claimed->tensors[loader->mixed_labels];
    int64_t classes = probabilities->dims[1];
    for (int64_t row = 0; row < claimed->batch.size; row++)
        if (claimed->labels[row] < 0 || claimed->labels[row] >= classes)
            return yki_worker_name_sample(&self->reading, claimed->indices[row],
                                          yki_error(YK_ERROR_INVALID_ARGUMENT,
                                                    "label %d: expected 0 to %lld",
                                                    claimed->labels[row], (long long)classes - 1));
    yki_mix_labels(&mix, claimed->labels, claimed->batch.size, classes, probabilities->data);
    return YK_OK;
}

/* Writes the claimed batch; no lock is held. */
static yk_status prepare(worker *self, slot *claimed)
{
    for (int64_t row = 0; row < claimed->batch.size; row++)
        YK_TRY(prepare_row(self, claimed, row));
    return self->loader->mixed_labels >= 0 ? mix(self, claimed) : YK_OK;
}

static yki_trace_args trace_batch(const slot *claimed)
{
    return (yki_trace_args){.key = {"epoch", "samples"},
                            .value = {claimed->epoch + 1, claimed->batch.size}};
}

static bool may_claim(const yk_loader *loader)
{
    return !loader->paused && loader->batches > 0 &&
           loader->claimed - loader->taken < loader->slot_count;
}

static void *work(void *argument)
{
    worker *self = argument;
    yk_loader *loader = self->loader;
    yki_trace_name_thread("data loading", YKI_TRACE_DATA);
    pthread_mutex_lock(&loader->mutex);
    while (!loader->stopping) {
        if (!may_claim(loader)) {
            pthread_cond_wait(&loader->space, &loader->mutex);
            continue;
        }
        slot *claimed = claim(loader);
        loader->busy++;
        pthread_mutex_unlock(&loader->mutex);

        double begin = yki_trace_begin();
        claimed->status = prepare(self, claimed);
        YKI_TRACE_END(begin, trace_batch(claimed), "prepare batch");
        if (claimed->status != YK_OK) {
            yki_error_context(claimed->status, "loader worker: epoch %lld",
                              (long long)claimed->epoch);
            yki_error_copy(claimed->error, sizeof claimed->error);
        }

        pthread_mutex_lock(&loader->mutex);
        claimed->ready = true;
        loader->busy--;
        pthread_cond_signal(&loader->ready); /* only the consumer waits there */
    }
    pthread_mutex_unlock(&loader->mutex);
    return NULL;
}

static yk_status start_workers(yk_loader *loader)
{
    for (int i = 0; i < loader->options.workers; i++) {
        loader->workers[i].loader = loader;
        YK_TRY(yki_worker_open(&loader->workers[i].reading, loader->dataset));
    }
    for (; loader->started < loader->options.workers; loader->started++) {
        worker *self = &loader->workers[loader->started];
        int error = yki_thread_create(&self->thread, "yoke-loader", NULL, work, self);
        if (error)
            return yki_error(YK_ERROR_INTERNAL, "loader: cannot start worker %d of %d: %s",
                             loader->started + 1, loader->options.workers, strerror(error));
    }
    return YK_OK;
}

/* ---- creation ----------------------------------------------------------------------------------
 */

static yk_status check_options(const yk_loader_options *options)
{
    if (options->batch_size < 1 || options->batch_size > INT32_MAX)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "loader: batch size %lld: expected at least 1",
                         (long long)options->batch_size);
    int ranks = options->group ? yk_group_size(options->group) : 1;
    if (options->virtual_ranks < 0 || options->virtual_ranks % ranks)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "loader: %d virtual ranks cannot be shared equally by %d ranks",
                         options->virtual_ranks, ranks);
    if (options->workers < 1 || options->workers > MAX_WORKERS)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "loader: %d workers: expected 1 to %d",
                         options->workers, MAX_WORKERS);
    if (options->prefetch < 1 || options->prefetch > MAX_SLOTS / MAX_WORKERS)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "loader: prefetch %d: expected 1 to %d",
                         options->prefetch, MAX_SLOTS / MAX_WORKERS);
    if (options->dtype != YK_F32 && options->dtype != YK_F64)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "loader: pictures become float32 or float64, not %s",
                         yk_dtype_name(options->dtype));
    return YK_OK;
}

/* Finds the field that becomes probabilities, where the transforms want them. */
static yk_status plan_mixing(yk_loader *loader)
{
    loader->mixing = yki_mixing_of(loader->transforms);
    loader->mixed_labels = -1;
    for (int i = 0; loader->mixing.probabilities && i < loader->fields; i++) {
        const yk_field *field = yk_dataset_field(loader->dataset, i);
        if (strcmp(field->name, "labels") == 0 && field->dtype == YK_I32 && field->ndim == 0 &&
            yk_dataset_classes(loader->dataset) > 0)
            loader->mixed_labels = i;
    }
    if (loader->mixing.probabilities && loader->mixed_labels < 0)
        return yki_error(
            YK_ERROR_INVALID_ARGUMENT,
            "loader: MixUp, CutMix and OneHot need a data set with classes and a field "
            "\"labels\" of int32 numbers");
    return YK_OK;
}

/* What each field becomes in a batch. */
static yk_status plan_columns(yk_loader *loader)
{
    loader->fields = yk_dataset_field_count(loader->dataset);
    loader->columns = yki_calloc((size_t)loader->fields, sizeof *loader->columns);
    if (!loader->columns)
        return yki_error_memory((size_t)loader->fields * sizeof *loader->columns, "a loader");
    YK_TRY(plan_mixing(loader));
    for (int i = 0; i < loader->fields; i++) {
        const yk_field *field = yk_dataset_field(loader->dataset, i);
        column *made = &loader->columns[i];
        const int64_t *dims = field->dims;
        made->is_picture = field->kind != YK_FIELD_TENSOR;
        made->row.dtype = made->is_picture ? loader->options.dtype : field->dtype;
        made->row.ndim = field->ndim;
        if (made->is_picture) {
            YK_TRY(yki_pipeline_prepare(&made->pipeline, field, loader->transforms,
                                        loader->options.dtype));
            dims = made->pipeline.dims;
        }
        int64_t classes = yk_dataset_classes(loader->dataset);
        if (i == loader->mixed_labels) {
            made->row.dtype = YK_F32;
            made->row.ndim = 1;
            dims = &classes;
        }
        memcpy(made->row.dims, dims, (size_t)made->row.ndim * sizeof *dims);
        made->row_bytes = yk_tensor_bytes(&made->row);
    }
    return YK_OK;
}

/* Points a slot to its part of the memory: the rows of each field, then the indices. */
static void describe(const yk_loader *loader, slot *one, char *memory, size_t rows)
{
    for (int i = 0; i < loader->fields; i++) {
        const column *from = &loader->columns[i];
        yk_tensor *tensor = &one->tensors[i];
        tensor->data = memory;
        tensor->dtype = from->row.dtype;
        tensor->ndim = from->row.ndim + 1;
        memcpy(tensor->dims + 1, from->row.dims, (size_t)from->row.ndim * sizeof *tensor->dims);
        memory += yki_align(rows * from->row_bytes, YKI_ALIGNMENT);
    }
    one->indices = (int64_t *)(void *)memory;
    one->labels = (int32_t *)(void *)(memory + yki_align(rows * sizeof(int64_t), YKI_ALIGNMENT));
    one->batch = (yk_batch){.count = loader->fields,
                            .names = loader->dataset->names,
                            .tensors = one->tensors,
                            .indices = one->indices};
}

/* Bytes of a slot; 0 if they do not fit a size_t. */
static size_t slot_bytes(const yk_loader *loader, size_t rows)
{
    size_t total = yki_align(rows * sizeof(int64_t), YKI_ALIGNMENT), bytes;
    if (loader->mixed_labels >= 0)
        total += yki_align(rows * sizeof(int32_t), YKI_ALIGNMENT);
    for (int i = 0; i < loader->fields; i++) {
        if (__builtin_mul_overflow(rows, loader->columns[i].row_bytes, &bytes) ||
            __builtin_add_overflow(total, yki_align(bytes, YKI_ALIGNMENT), &total))
            return 0;
    }
    return __builtin_mul_overflow(total, (size_t)loader->slot_count, &bytes) ? 0 : total;
}

/* One block for the rows and indices of all slots, each part on a cache line. */
static yk_status allocate_slots(yk_loader *loader)
{
    /* A batch never holds more than an epoch. */
    int64_t epoch = loader->count > 0 ? loader->count : 1;
    size_t rows = (size_t)(loader->options.batch_size < epoch ? loader->options.batch_size : epoch);
    size_t bytes = slot_bytes(loader, rows), slots = (size_t)loader->slot_count;
    if (bytes == 0)
        return yki_error_memory(SIZE_MAX, "the loader's batches");
    loader->memory_bytes = bytes * slots;
    loader->memory = yki_map(loader->memory_bytes);
    loader->slots = yki_calloc(slots, sizeof *loader->slots);
    loader->tensors = yki_calloc(slots * (size_t)loader->fields, sizeof *loader->tensors);
    if (!loader->memory || !loader->slots || !loader->tensors)
        return yki_error_memory(loader->memory_bytes, "the loader's batches");
    for (size_t i = 0; i < slots; i++) {
        loader->slots[i].tensors = loader->tensors + i * (size_t)loader->fields;
        describe(loader, &loader->slots[i], (char *)loader->memory + i * bytes, rows);
    }
    return YK_OK;
}

/* Divides the indices and batches. Virtual ranks with one batch more come first, so that the turns
 * add up. */
static yk_status plan_virtual_ranks(yk_loader *loader)
{
    loader->starts = yki_calloc((size_t)loader->virtual_ranks + 1, sizeof *loader->starts);
    if (!loader->starts)
        return yki_error_memory((size_t)loader->virtual_ranks * sizeof *loader->starts, "a loader");
    yk_sampler_options sampler = loader->sampler;
    int64_t size = loader->options.batch_size;
    for (int v = 0; v < loader->virtual_ranks; v++, sampler.rank++) {
        int64_t count = yki_sampler_count(&sampler);
        loader->starts[v + 1] = loader->starts[v] + count;
        loader->batches += loader->options.drop_last ? count / size : (count + size - 1) / size;
    }
    loader->count = loader->starts[loader->virtual_ranks];
    return YK_OK;
}

static yk_status allocate(yk_loader *loader)
{
    size_t size = loader->options.shuffle ? (size_t)loader->sampler.samples : 0;
    YK_TRY(plan_virtual_ranks(loader));
    loader->permutation = yki_calloc(size, sizeof *loader->permutation);
    loader->indices = yki_calloc((size_t)loader->count, sizeof *loader->indices);
    loader->workers = yki_calloc((size_t)loader->options.workers, sizeof *loader->workers);
    loader->reported =
        yki_calloc(loader->options.skip_damaged ? (size_t)loader->sampler.samples : 0,
                   sizeof *loader->reported);
    if (!loader->permutation || !loader->indices || !loader->workers || !loader->reported)
        return yki_error_memory((size_t)loader->count * sizeof *loader->indices,
                                "the loader's indices");
    return allocate_slots(loader);
}

static void set_up(yk_loader *loader, const yk_dataset *dataset, const yk_loader_options *options)
{
    yki_reference_init(&loader->reference);
    yki_dataset_retain(dataset);
    loader->dataset = dataset;
    loader->options = *options;
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
    YK_TRY(plan_columns(self));
    YK_TRY(allocate(self));
    return start_workers(self);
}

yk_status yk_loader_create(yk_loader **loader, const yk_dataset *dataset,
                           const yk_loader_options *options)
{
    YKI_NOT_NULL(loader);
    *loader = NULL;
    YKI_NOT_NULL(dataset);
    yk_loader_options chosen;
    YK_TRY(YKI_READ_OPTIONS(&chosen, options, yk_loader_options, YK_LOADER_OPTIONS_INIT));
    YK_TRY(check_options(&chosen));
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

static void free_loader(yk_loader *loader)
{
    for (int i = 0; loader->workers && i < loader->options.workers; i++) {
        yki_worker_close(&loader->workers[i].reading);
        yki_pipeline_memory_free(&loader->workers[i].memory);
        yki_room_free(&loader->workers[i].unmixed);
    }
    for (int i = 0; loader->columns && i < loader->fields; i++)
        yki_pipeline_destroy(&loader->columns[i].pipeline);
    yki_unmap(loader->memory, loader->memory_bytes);
    yk_transforms_destroy(loader->transforms);
    free(loader->slots);
    free(loader->tensors);
    free(loader->columns);
    free(loader->workers);
    free(loader->reported);
    free(loader->permutation);
    free(loader->indices);
    free(loader->starts);
    yk_dataset_destroy((yk_dataset *)(uintptr_t)loader->dataset);
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

/* ---- the consumer ------------------------------------------------------------------------------
 */

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
    slot *next = &loader->slots[loader->taken % loader->slot_count];
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
    pthread_mutex_lock(&loader->mutex);
    release(loader);
    if (loader->ended) {
        loader->epoch++;
        loader->batch = 0;
        loader->skipped = 0;
        loader->ended = false;
    }
    if (loader->batch == loader->batches)
        loader->ended = true;
    else if (loader->status == YK_OK)
        batch = take(loader);
    pthread_mutex_unlock(&loader->mutex);
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

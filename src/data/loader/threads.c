/*
 * The loader's threads: each claims a batch, writes its rows without a lock and says that it is
 * ready. See state.h.
 */
#include <pthread.h>
#include <string.h>

#include "base/log.h"
#include "base/random.h"
#include "base/thread.h"
#include "base/trace.h"
#include "data/loader/state.h"
#include "data/sampler.h"

enum { MAX_DAMAGED = 1000 /* samples in a row: more are not damage, but data of another kind */ };

/* Computes the indices of the epoch that is being claimed. */
static void fill_indices(yk_loader *loader)
{
    yk_sampler_options sampler = loader->sampler;
    yki_sampler_draw(&sampler, loader->claim_epoch, loader->drawn);
    for (int v = 0; v < loader->virtual_ranks; v++, sampler.rank++)
        yki_sampler_take(&sampler, loader->drawn, loader->indices + loader->starts[v]);
}

/* Gives the next batch to a worker; the mutex is held. */
static yki_loader_slot *claim(yk_loader *loader)
{
    if (loader->indices_epoch != loader->claim_epoch) {
        fill_indices(loader);
        loader->indices_epoch = loader->claim_epoch;
    }
    yki_loader_slot *claimed = &loader->slots[loader->claimed++ % loader->slot_count];
    int64_t v = loader->claim_batch % loader->virtual_ranks;
    int64_t first = loader->starts[v] +
                    loader->claim_batch / loader->virtual_ranks * loader->options.batch_size;
    int64_t left = loader->starts[v + 1] - first;
    int64_t size = left < loader->options.batch_size ? left : loader->options.batch_size;
    claimed->ready = false;
    claimed->epoch = loader->claim_epoch;
    claimed->skipped = 0;
    claimed->step = loader->sampler.world_size;
    claimed->first = loader->sampler.rank + v + (first - loader->starts[v]) * claimed->step;
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
static void *place(const yki_loader_slot *claimed, const yki_loader_column *columns, int field,
                   int64_t row)
{
    return (char *)claimed->rows[field] + (size_t)row * columns[field].row_bytes;
}

/* Writes a picture's row of the batch, or the host's part of it. */
static yk_status prepare_picture(yki_loader_worker *self, const yki_loader_slot *claimed, int field,
                                 int64_t row, yki_pipeline_draw draw)
{
    const yki_loader_column *columns = self->loader->columns;
    const yki_loader_column *column = &columns[field];
    const yk_field_buffer *picture = &self->reading.buffers[field];
    if (column->crossing.lane_count > 0)
        return yki_crossing_write(&column->crossing, claimed->rows[field], claimed->batch.size, row,
                                  &self->memory, self->reading.decoder, picture, draw);
    return yki_pipeline_run(&column->pipeline, &self->memory, self->reading.decoder, picture, draw,
                            place(claimed, columns, field, row));
}

/* What the random choices for a row depend on, beside epoch and index. Draws by weight repeat
 * samples within an epoch, and each time the choices are others. */
static uint64_t seed_of(const yk_loader *loader, const yki_loader_slot *claimed, int64_t row)
{
    uint64_t place = (uint64_t)(claimed->first + row * claimed->step);
    return loader->weights ? yki_mix64(loader->options.seed + place) : loader->options.seed;
}

/* Writes one row of the batch. */
static yk_status prepare_sample(yki_loader_worker *self, const yki_loader_slot *claimed,
                                int64_t row)
{
    const yk_loader *loader = self->loader;
    yki_pipeline_draw draw = {seed_of(loader, claimed, row), claimed->epoch, claimed->indices[row]};
    yk_field_buffer *buffers = self->reading.buffers;
    for (int i = 0; i < loader->fields; i++)
        if (!loader->columns[i].is_picture)
            buffers[i].data = i == loader->mixed_labels ? (void *)&claimed->labels[row]
                                                        : place(claimed, loader->columns, i, row);
    YK_TRY(yki_worker_read(&self->reading, draw.index));
    yk_status status = YK_OK;
    for (int i = 0; i < loader->fields && status == YK_OK; i++)
        if (loader->columns[i].is_picture)
            status = prepare_picture(self, claimed, i, row, draw);
    return status == YK_OK ? YK_OK : yki_name_sample(self->reading.dataset, draw.index, status);
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
static yk_status prepare_row(yki_loader_worker *self, yki_loader_slot *claimed, int64_t row)
{
    yk_loader *loader = self->loader;
    int64_t samples = loader->sampler.samples, *index = &claimed->indices[row];
    int64_t most = samples < MAX_DAMAGED ? samples : MAX_DAMAGED, damaged = 0;
    yk_status status = prepare_sample(self, claimed, row);
    while (loader->options.skip_damaged && yk_sample_is_damaged(status)) {
        report_damaged(loader, *index);
        if (++damaged == most)
            return yki_error_context(status, "%lld damaged samples in a row", (long long)most);
        *index = (*index + 1) % samples;
        status = prepare_sample(self, claimed, row);
    }
    claimed->skipped += damaged > 0;
    return status;
}

/* Mixes a field of a batch whose rows are there, or says how devices are to mix it. */
static yk_status mix_field(yki_loader_worker *self, const yki_loader_slot *claimed, int field,
                           const yki_mix *mix)
{
    const yki_loader_column *column = &self->loader->columns[field];
    if (column->crossing.lane_count > 0) {
        bool is_alone = claimed->batch.size < 2; /* and mixed with nothing */
        const yki_picture_mix how = {.share = is_alone ? 1 : mix->share,
                                     .cut = mix->cut,
                                     .top = (int32_t)mix->top,
                                     .left = (int32_t)mix->left,
                                     .bottom = (int32_t)mix->bottom,
                                     .right = (int32_t)mix->right};
        yki_crossing_mix(&column->crossing, claimed->rows[field], claimed->batch.size, &how);
        return YK_OK;
    }
    void *unmixed = yki_room_reserve(&self->unmixed, column->row_bytes);
    if (!unmixed)
        return yki_error_memory(column->row_bytes, "a sample");
    yki_mix_samples(mix, &claimed->tensors[field], unmixed);
    return YK_OK;
}

/* One field or more of a batch whose rows are there, and their labels. */
static yk_status mix(yki_loader_worker *self, const yki_loader_slot *claimed)
{
    const yk_loader *loader = self->loader;
    uint64_t word =
        yki_hash3(loader->options.seed, (uint64_t)claimed->epoch, (uint64_t)claimed->indices[0]);
    yki_mix mix = {.share = 1};
    for (int i = 0; i < loader->fields; i++) {
        const yki_loader_column *column = &loader->columns[i];
        if (!column->is_mixed)
            continue;
        mix = yki_draw_mix(&loader->mixing, word, column->row.dims[1], column->row.dims[2]);
        YK_TRY(mix_field(self, claimed, i, &mix));
    }
    yk_tensor *probabilities = &claimed->tensors[loader->mixed_labels];
    int64_t classes = probabilities->dims[1];
    for (int64_t row = 0; row < claimed->batch.size; row++)
        if (claimed->labels[row] < 0 || claimed->labels[row] >= classes)
            return yki_name_sample(self->reading.dataset, claimed->indices[row],
                                   yki_error(YK_ERROR_INVALID_ARGUMENT,
                                             "label %d: expected 0 to %lld", claimed->labels[row],
                                             (long long)classes - 1));
    yki_mix_labels(&mix, claimed->labels, claimed->batch.size, classes, probabilities->data);
    return YK_OK;
}

/* Writes the claimed batch; no lock is held. */
static yk_status prepare(yki_loader_worker *self, yki_loader_slot *claimed)
{
    for (int64_t row = 0; row < claimed->batch.size; row++)
        YK_TRY(prepare_row(self, claimed, row));
    return self->loader->mixed_labels >= 0 ? mix(self, claimed) : YK_OK;
}

static yki_trace_args trace_batch(const yki_loader_slot *claimed)
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
    yki_loader_worker *self = argument;
    yk_loader *loader = self->loader;
    yki_trace_name_thread("data loading", YKI_TRACE_DATA);
    pthread_mutex_lock(&loader->mutex);
    while (!loader->stopping) {
        if (!may_claim(loader)) {
            pthread_cond_wait(&loader->space, &loader->mutex);
            continue;
        }
        yki_loader_slot *claimed = claim(loader);
        loader->busy++;
        pthread_mutex_unlock(&loader->mutex);

        double begin = yki_trace_begin();
        claimed->status = prepare(self, claimed);
        YKI_TRACE_END(begin, trace_batch(claimed), "prepare batch");
        if (claimed->status != YK_OK) {
            /* People count epochs from 1, as records and progress do. */
            yki_error_context(claimed->status, "loader worker: epoch %lld",
                              (long long)claimed->epoch + 1);
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

yk_status yki_loader_start_workers(yk_loader *loader)
{
    for (int i = 0; i < loader->options.workers; i++) {
        loader->workers[i].loader = loader;
        YK_TRY(yki_worker_open(&loader->workers[i].reading, loader->dataset));
    }
    for (; loader->started < loader->options.workers; loader->started++) {
        yki_loader_worker *self = &loader->workers[loader->started];
        int error = yki_thread_create(&self->thread, "yoke-loader", NULL, work, self);
        if (error)
            return yki_error(YK_ERROR_INTERNAL, "loader: cannot start worker %d of %d: %s",
                             loader->started + 1, loader->options.workers, yki_thread_error(error));
    }
    return YK_OK;
}

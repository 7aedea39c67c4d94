/*
 * The reducer: gradients live in buckets in memory that peers can read; a bucket's all-reduce is
 * handed to the group's thread at the moment its last gradient is written, strictly in bucket
 * order on every rank, and backward ends when the last has landed.
 *
 * Averaging costs no pass over memory: the gradient of the loss starts from this rank's share of
 * the samples, n_r / sum(n), so that a plain sum over the ranks is the mean over the joint batch,
 * also when the ranks' batches differ. The counts travel while forward computes.
 *
 * The order of buckets follows from the graph, so they are right from the first step on, unlike
 * in PyTorch (Li et al., "PyTorch Distributed: Experiences on Accelerating Data Parallel
 * Training", 2020), whose reducer must watch one step to learn it.
 */
#include <yoke/ddp.h>

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "ddp/agree.h"
#include "ddp/bucket.h"
#include "dist/queue.h"
#include "graph/model_hooks.h"

#define MEBIBYTE 1048576.0

typedef struct reduced_bucket {
    yki_bucket plan;
    void *data;
    size_t elements; /* with each gradient padded to 64 bytes */
    size_t pending;  /* gradients still missing */
    yk_work *work;
} reduced_bucket;

struct yk_ddp {
    yk_model *model;
    yk_group *group;
    yk_ddp_options options;

    reduced_bucket *buckets;
    size_t bucket_count, next; /* next to launch */
    size_t *bucket_of;         /* by parameter */

    int64_t samples, *all_samples; /* of this forward, by rank */
    yk_work *samples_work;
    void *flat_buffers; /* all buffers, packed for one broadcast */
    size_t flat_bytes;
    bool buffers_moved; /* since they were last made equal */

    bool no_sync;
    bool exchanging;  /* the running backward is synced */
    bool reduced;     /* the last one was: its gradients are the same on all ranks */
    yk_status status; /* of the launches in the running backward */
    char error[YKI_ERROR_LINE];
    yk_ddp_stats stats;
};

/* ---- making ---------------------------------------------------------------------------------- */

static size_t padded_bytes(const yk_model *model, size_t parameter)
{
    yk_tensor grad = yk_model_parameter(model, parameter).grad;
    return yki_align(yk_tensor_bytes(&grad), YKI_ALIGNMENT);
}

static yk_status plan_buckets(yk_ddp *ddp)
{
    size_t count = yk_model_parameter_count(ddp->model);
    yki_bucket *plan = yki_calloc(count, sizeof *plan);
    size_t *bytes = yki_calloc(count, sizeof *bytes);
    yk_dtype *dtypes = yki_calloc(count, sizeof *dtypes);
    ddp->buckets = yki_calloc(count, sizeof *ddp->buckets);
    ddp->bucket_of = yki_calloc(count, sizeof *ddp->bucket_of);
    yk_status status = YK_OK;
    if (!plan || !bytes || !dtypes || !ddp->buckets || !ddp->bucket_of)
        status = yki_error_memory(count * sizeof *ddp->buckets, "buckets");
    for (size_t i = 0; status == YK_OK && i < count; i++) {
        yk_tensor grad = yk_model_parameter(ddp->model, i).grad;
        bytes[i] = yk_tensor_bytes(&grad);
        dtypes[i] = grad.dtype;
    }
    if (status == YK_OK) {
        double cap = ddp->options.bucket_cap_mb, first = ddp->options.first_bucket_mb;
        first = first > 0 ? first : cap > 0 ? cap : 1;
        cap = cap > 0 ? cap : 25;
        const size_t *order = yki_model_grad_order(ddp->model);
        ddp->bucket_count = yki_bucket_plan(plan, order, bytes, dtypes, count,
                                            (size_t)(first * MEBIBYTE), (size_t)(cap * MEBIBYTE));
        for (size_t b = 0; b < ddp->bucket_count; b++) {
            ddp->buckets[b].plan = plan[b];
            for (size_t i = 0; i < plan[b].count; i++)
                ddp->bucket_of[order[plan[b].first + i]] = b;
        }
    }
    free(plan);
    free(bytes);
    free(dtypes);
    return status;
}

/* Moves the gradients into one block of shared memory, in bucket order. */
static yk_status place_gradients(yk_ddp *ddp)
{
    size_t count = yk_model_parameter_count(ddp->model), total = 0;
    const size_t *order = yki_model_grad_order(ddp->model);
    for (size_t i = 0; i < count; i++)
        total += padded_bytes(ddp->model, i);
    void *block;
    YK_TRY(yk_group_alloc(ddp->group, total, &block));
    void **memory = yki_calloc(count, sizeof *memory);
    if (!memory)
        return yki_error_memory(count * sizeof *memory, "buckets");
    char *at = block;
    for (size_t b = 0; b < ddp->bucket_count; b++) {
        reduced_bucket *bucket = &ddp->buckets[b];
        bucket->data = at;
        for (size_t i = 0; i < bucket->plan.count; i++) {
            size_t parameter = order[bucket->plan.first + i];
            memory[parameter] = at;
            at += padded_bytes(ddp->model, parameter);
        }
        bucket->elements = (size_t)(at - (char *)bucket->data) / yk_dtype_size(bucket->plan.dtype);
    }
    yk_status status = yki_model_place_gradients(ddp->model, memory);
    free(memory);
    return status;
}

static yk_status allocate_exchange(yk_ddp *ddp)
{
    void *samples;
    YK_TRY(
        yk_group_alloc(ddp->group, (size_t)yk_group_size(ddp->group) * sizeof(int64_t), &samples));
    ddp->all_samples = samples;
    for (size_t i = 0; i < yk_model_buffer_count(ddp->model); i++) {
        yk_tensor buffer = yk_model_buffer(ddp->model, i).value;
        ddp->flat_bytes += yk_tensor_bytes(&buffer);
    }
    if (ddp->flat_bytes == 0)
        return YK_OK;
    return yk_group_alloc(ddp->group, ddp->flat_bytes, &ddp->flat_buffers);
}

static yk_status build(yk_ddp *ddp)
{
    YK_TRY(yki_ddp_agree(ddp->model, ddp->group));
    YK_TRY(yki_ddp_broadcast_model(ddp->model, ddp->group));
    YK_TRY(plan_buckets(ddp));
    YK_TRY(place_gradients(ddp));
    return allocate_exchange(ddp);
}

/* ---- before forward: buffers and sample counts ----------------------------------------------- */

/* Copies all buffers into the flat block, or back. */
static void copy_buffers(yk_ddp *ddp, bool pack)
{
    char *at = ddp->flat_buffers;
    for (size_t i = 0; i < yk_model_buffer_count(ddp->model); i++) {
        yk_tensor buffer = yk_model_buffer(ddp->model, i).value;
        size_t bytes = yk_tensor_bytes(&buffer);
        memcpy(pack ? at : buffer.data, pack ? buffer.data : at, bytes);
        at += bytes;
    }
}

static yk_status broadcast_buffers(yk_ddp *ddp)
{
    bool root = yk_group_rank(ddp->group) == 0;
    if (root)
        copy_buffers(ddp, true);
    YK_TRY(yk_broadcast(ddp->group, ddp->flat_buffers, ddp->flat_bytes, YK_U8, 0, NULL));
    if (!root)
        copy_buffers(ddp, false);
    return YK_OK;
}

/* A forward whose backward never came leaves its exchange behind. */
static yk_status drop_samples_work(yk_ddp *ddp)
{
    yk_work *work = ddp->samples_work;
    ddp->samples_work = NULL;
    return work ? yk_work_wait(work) : YK_OK;
}

static yk_status start_samples_work(yk_ddp *ddp, int64_t samples)
{
    ddp->samples = samples;
    return yk_all_gather(ddp->group, ddp->all_samples, &ddp->samples, 1, YK_I64,
                         &ddp->samples_work);
}

static yk_status forward_begin(void *context, int64_t samples)
{
    yk_ddp *ddp = context;
    bool moved = ddp->buffers_moved;
    YK_TRY(drop_samples_work(ddp));
    ddp->buffers_moved = true;
    if (ddp->no_sync)
        return YK_OK;
    if (moved && ddp->flat_bytes && !ddp->options.no_broadcast_buffers)
        YK_TRY(broadcast_buffers(ddp));
    return start_samples_work(ddp, samples);
}

/* ---- backward -------------------------------------------------------------------------------- */

static yk_status backward_begin(void *context, int64_t samples, double *loss_weight,
                                double *kept_weight)
{
    yk_ddp *ddp = context;
    int size = yk_group_size(ddp->group);
    ddp->stats = (yk_ddp_stats){0};
    ddp->next = 0;
    ddp->status = YK_OK;
    ddp->exchanging = !ddp->no_sync;
    for (size_t b = 0; b < ddp->bucket_count; b++)
        ddp->buckets[b].pending = ddp->buckets[b].plan.count;
    *loss_weight = 1.0 / size;
    if (ddp->reduced)
        *kept_weight = 1.0 / size; /* every rank has it: the sum over the ranks is to leave it */
    ddp->reduced = ddp->exchanging;
    if (!ddp->samples_work && ddp->exchanging) /* after a forward in evaluation mode */
        YK_TRY(start_samples_work(ddp, samples));
    if (!ddp->samples_work)
        return YK_OK; /* no_sync: equal shares */
    YK_TRY(drop_samples_work(ddp));
    int64_t total = 0;
    for (int rank = 0; rank < size; rank++)
        total += ddp->all_samples[rank];
    *loss_weight = (double)ddp->samples / (double)total;
    return YK_OK;
}

static void launch(yk_ddp *ddp, reduced_bucket *bucket)
{
    ddp->status = yk_all_reduce(ddp->group, bucket->data, bucket->elements, bucket->plan.dtype,
                                YK_SUM, &bucket->work);
    if (ddp->status != YK_OK)
        yki_error_copy(ddp->error, sizeof ddp->error);
}

static void grad_ready(void *context, size_t parameter)
{
    yk_ddp *ddp = context;
    if (!ddp->exchanging)
        return;
    ddp->buckets[ddp->bucket_of[parameter]].pending--;
    while (ddp->next < ddp->bucket_count && ddp->buckets[ddp->next].pending == 0 &&
           ddp->status == YK_OK)
        launch(ddp, &ddp->buckets[ddp->next++]);
}

static yk_status backward_end(void *context)
{
    yk_ddp *ddp = context;
    double start = yki_now();
    for (size_t b = 0; b < ddp->bucket_count; b++) {
        yk_work *work = ddp->buckets[b].work;
        ddp->buckets[b].work = NULL;
        double seconds = 0;
        yk_status status = work ? yki_work_wait_timed(work, &seconds) : YK_OK;
        ddp->stats.communication_s += seconds;
        if (status != YK_OK && ddp->status == YK_OK) {
            ddp->status = status;
            yki_error_copy(ddp->error, sizeof ddp->error);
        }
    }
    if (ddp->exchanging)
        ddp->stats.exposed_s = yki_now() - start;
    return ddp->status == YK_OK ? YK_OK : yki_error_set_line(ddp->status, ddp->error);
}

/* ---- the public face ------------------------------------------------------------------------- */

yk_status yk_ddp_create(yk_ddp **ddp, yk_model *model, yk_group *group,
                        const yk_ddp_options *options)
{
    *ddp = NULL;
    yk_ddp *made = yki_calloc(1, sizeof *made);
    if (!made)
        return yki_error_memory(sizeof *made, "ddp");
    made->model = model;
    made->group = group;
    if (options)
        made->options = *options;
    yk_status status = build(made);
    if (status != YK_OK) {
        yk_ddp_destroy(made);
        return status;
    }
    yki_model_set_hooks(model, &(yki_model_hooks){.context = made,
                                                  .forward_begin = forward_begin,
                                                  .backward_begin = backward_begin,
                                                  .grad_ready = grad_ready,
                                                  .backward_end = backward_end});
    *ddp = made;
    return YK_OK;
}

void yk_ddp_destroy(yk_ddp *ddp)
{
    if (!ddp)
        return;
    drop_samples_work(ddp);
    yki_model_set_hooks(ddp->model, NULL);
    yki_model_place_gradients(ddp->model, NULL);
    free(ddp->buckets);
    free(ddp->bucket_of);
    free(ddp);
}

void yk_ddp_set_no_sync(yk_ddp *ddp, bool no_sync)
{
    ddp->no_sync = no_sync;
}

size_t yk_ddp_bucket_count(const yk_ddp *ddp)
{
    return ddp->bucket_count;
}

size_t yk_ddp_bucket_bytes(const yk_ddp *ddp, size_t bucket)
{
    return ddp->buckets[bucket].plan.bytes;
}

yk_ddp_stats yk_ddp_last_stats(const yk_ddp *ddp)
{
    return ddp->stats;
}

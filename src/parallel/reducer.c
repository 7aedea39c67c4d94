/*
 * The reducer. Gradients live in buckets in memory that ranks exchange (staging.h). As soon as the
 * last gradient of a bucket has been written or, on a device that works behind the host's back, has
 * been entered in its stream, the bucket's all-reduce is submitted to the group's thread or entered
 * in the plane's stream, in bucket order on every rank. Backward ends when all of them have
 * finished or, in a plane, when what comes next in the compute stream follows them. While it waits
 * for one bucket, it may update the parameters of the buckets before it (bucket_updates.h).
 *
 * Averaging needs no pass over memory: the gradient of the loss starts from this rank's fraction of
 * the samples, n_r / sum(n), so that a plain sum over the ranks is the mean over the joint batch,
 * also if the batches of the ranks differ in size. (Terms of the loss that are sums over samples
 * start from 1 / ranks instead: as in PyTorch, the result is the mean of the ranks' sums.)
 *
 * The order of the buckets follows from the graph, so it is right from the first step on, unlike
 * in PyTorch (Li et al., "PyTorch Distributed: Experiences on Accelerating Data Parallel
 * Training", 2020), whose reducer must watch one step to learn it.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/trace.h"
#include "comm/queue.h"
#include "parallel/ddp.h"

#define MEBIBYTE 1048576.0

/* ---- making ---------------------------------------------------------------------------------- */

/* Converts a cap that ddp.c has checked; one too large for size_t becomes PTRDIFF_MAX. */
static size_t bytes_of_mb(double mebibytes)
{
    double bytes = mebibytes * MEBIBYTE;
    return bytes < (double)PTRDIFF_MAX ? (size_t)bytes : PTRDIFF_MAX;
}

static yk_status plan_buckets(yk_ddp *ddp)
{
    size_t count = yk_model_parameter_count(ddp->model);
    const size_t *order = ddp->order;
    yki_bucket *plan = yki_calloc(count, sizeof *plan);
    size_t *bytes = yki_calloc(count, sizeof *bytes);
    yk_dtype *dtypes = yki_calloc(count, sizeof *dtypes);
    ddp->buckets = yki_calloc(count, sizeof *ddp->buckets);
    ddp->bucket_of = yki_calloc(count, sizeof *ddp->bucket_of);
    yk_status status = YK_OK;
    if (!plan || !bytes || !dtypes || !ddp->buckets || !ddp->bucket_of) {
        status = yki_error_memory(count * sizeof *ddp->buckets, "buckets");
        goto out;
    }
    for (size_t i = 0; i < count; i++) {
        yk_tensor grad = yk_model_parameter(ddp->model, i).grad;
        bytes[i] = yk_tensor_bytes(&grad);
        dtypes[i] = grad.dtype;
        ddp->bucket_of[i] = SIZE_MAX;
    }
    size_t cap = bytes_of_mb(ddp->options.bucket_cap_mb);
    size_t first = bytes_of_mb(ddp->options.first_bucket_mb);
    ddp->bucket_count =
        yki_bucket_plan(plan, order, bytes, dtypes, ddp->used, first < cap ? first : cap, cap);
    ddp->bucket_count = yki_bucket_split_last(plan, ddp->bucket_count, order, bytes,
                                              bytes_of_mb(ddp->options.last_bucket_mb));
    for (size_t b = 0; b < ddp->bucket_count; b++) {
        ddp->buckets[b].plan = plan[b];
        for (size_t i = 0; i < plan[b].count; i++)
            ddp->bucket_of[order[plan[b].first + i]] = b;
    }

out:
    free(plan);
    free(bytes);
    free(dtypes);
    return status;
}

/* Which gradients complete a bucket, in the order in which this rank's backward finishes them. */
static yk_status find_completing(yk_ddp *ddp)
{
    size_t count = yk_model_parameter_count(ddp->model);
    const size_t *order = yki_model_grad_order(ddp->model);
    bool *seen = yki_calloc(count, sizeof *seen); /* by bucket */
    ddp->completes = yki_calloc(count, sizeof *ddp->completes);
    if (!seen || !ddp->completes) {
        free(seen);
        return yki_error_memory(count * sizeof *seen, "buckets");
    }
    for (size_t i = count; i-- > 0;) {
        size_t bucket = ddp->bucket_of[order[i]];
        if (bucket == SIZE_MAX || seen[bucket])
            continue;
        ddp->completes[order[i]] = seen[bucket] = true;
    }
    free(seen);
    return YK_OK;
}

/* Moves the gradients into one block of shared memory, in bucket order. */
static yk_status place_gradients(yk_ddp *ddp)
{
    size_t count = yk_model_parameter_count(ddp->model), total = 0;
    for (size_t i = 0; i < ddp->used; i++)
        total += yki_model_padded_bytes(ddp->model, ddp->order[i]);
    YK_TRY(yki_staging_create(&ddp->gradients, ddp->group, yki_model_device(ddp->model), total));
    void **memory = yki_calloc(count, sizeof *memory);
    if (!memory)
        return yki_error_memory(count * sizeof *memory, "buckets");
    char *at = ddp->gradients.memory;
    yk_status status = YK_OK;
    for (size_t b = 0; status == YK_OK && b < ddp->bucket_count; b++) {
        yki_reduced_bucket *bucket = &ddp->buckets[b];
        const char *begin = at;
        for (size_t i = 0; i < bucket->plan.count; i++) {
            size_t parameter = ddp->order[bucket->plan.first + i];
            memory[parameter] = at;
            at += yki_model_padded_bytes(ddp->model, parameter);
        }
        status = yki_staged_part_create(&bucket->part, &ddp->gradients, begin,
                                        (size_t)(at - begin) / yk_dtype_size(bucket->plan.dtype),
                                        bucket->plan.dtype);
    }
    if (status == YK_OK)
        yki_model_place_gradients(ddp->model, memory);
    free(memory);
    return status;
}

yk_status yki_reducer_create(yk_ddp *ddp)
{
    YK_TRY(yki_ddp_find_used(ddp));
    YK_TRY(plan_buckets(ddp));
    YK_TRY(find_completing(ddp));
    YK_TRY(place_gradients(ddp));
    return ddp->gradients.plane ? yki_stream_times_create(ddp) : YK_OK;
}

void yki_reducer_destroy(yk_ddp *ddp)
{
    yki_model_return_gradients(ddp->model);
    for (size_t b = 0; b < ddp->bucket_count; b++)
        yki_staged_part_destroy(&ddp->buckets[b].part);
    yki_staging_destroy(&ddp->gradients);
    free(ddp->buckets);
    free(ddp->bucket_of);
    free(ddp->completes);
    free(ddp->order);
}

/* ---- weights --------------------------------------------------------------------------------- */

/* Samples of all ranks' batches, each of which counts as so many, and, where asked for, in the
 * gradients that they add to. */
static double joint_samples(const yk_ddp *ddp, double counts, bool with_kept)
{
    double all = 0;
    for (int rank = 0; rank < yk_group_size(ddp->group); rank++)
        all +=
            ddp->all_samples[rank].samples * counts + (with_kept ? ddp->all_samples[rank].kept : 0);
    return all;
}

/*
 * The mean over the joint batch: means over samples weigh n / sum(n), sums as much as any rank's.
 * Unsynced, means do so, too. A gradient that an earlier synced backward left is the same on all
 * ranks already, so the sum over the ranks is to leave it.
 */
static void weigh_sum(const yk_ddp *ddp, yki_backward *backward)
{
    double factor = yki_join_factor(ddp);
    backward->mean_weight = backward->sum_weight = factor * (1.0 / yki_join_active(ddp));
    if (ddp->exchanging)
        backward->mean_weight = factor * (ddp->samples.samples / joint_samples(ddp, 1, false));
    backward->kept_weight = ddp->reduced ? 1.0 / yk_group_size(ddp->group) : 1;
}

/* The mean over all samples of all ranks since the last optimizer step. Unsynced, the gradients are
 * this rank's own mean; `kept` says how many samples they stand for. Where a step is divided by all
 * ranks, though some have no data, the samples of those that have some stand for the others', too.
 */
static void weigh_mean(yk_ddp *ddp, yki_backward *backward)
{
    double samples = (double)backward->samples, counts = 1 / yki_join_factor(ddp);
    double all =
        ddp->exchanging ? joint_samples(ddp, counts, backward->adds) : ddp->kept + samples * counts;
    if (all == 0)
        return; /* all batches have been empty so far */
    backward->mean_weight = samples / all;
    backward->kept_weight = ddp->kept / all;
    ddp->kept = ddp->exchanging ? all / yk_group_size(ddp->group) : all;
}

/* ---- backward -------------------------------------------------------------------------------- */

/* Before backward, for all of its buckets, which do not differ between ranks. */
static yk_status agree_on_buckets(const yk_ddp *ddp)
{
    yk_dtype dtype = ddp->hook.enter ? ddp->hook.dtype : ddp->buckets[0].plan.dtype;
    yk_descriptor what = {
        .operation = YK_OPERATION_ALL_REDUCE, .dtype = (uint8_t)dtype, .reduce = YK_REDUCE_SUM};
    for (size_t b = 0; b < ddp->bucket_count; b++)
        what.count += ddp->buckets[b].part.elements;
    if (ddp->hook.elements)
        what.count = ddp->hook.elements(ddp->hook.state);
    return yki_plane_agree(ddp->gradients.plane, &what,
                           yki_device_stream(yki_model_device(ddp->model)));
}

static bool is_on_host(const yki_hook *hook)
{
    return hook->run && !hook->enter;
}

yk_status yki_reducer_backward_begin(void *context, yki_backward *backward)
{
    yk_ddp *ddp = context;
    YK_TRY(yki_backward_check(backward));
    ddp->stats = (yk_ddp_stats){0};
    ddp->next = 0;
    ddp->first_launch = 0;
    ddp->status = ddp->hook_status = YK_OK;
    ddp->exchanging = !ddp->no_sync;
    for (size_t b = 0; b < ddp->bucket_count; b++)
        ddp->buckets[b].pending = ddp->buckets[b].plan.count;
    if (!backward->adds)
        ddp->kept = 0;
    if (!backward->training) { /* the exchange belongs to a training forward that had no backward */
        YK_TRY(yki_samples_finish(ddp));
        ddp->samples_known = false;
    }
    if (!ddp->samples_work && !ddp->samples_known && ddp->exchanging)
        YK_TRY(yki_samples_start(ddp, backward->samples));
    YK_TRY(yki_samples_finish(ddp));
    ddp->samples_known = false;
    if (ddp->exchanging && joint_samples(ddp, 1, backward->adds) == 0)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "the batches of all %d ranks are empty",
                         yk_group_size(ddp->group));
    if (backward->mean && !backward->mixed)
        weigh_mean(ddp, backward);
    else
        weigh_sum(ddp, backward);
    ddp->reduced = ddp->exchanging;
    ddp->in_streams = backward->in_streams = ddp->exchanging && backward->unbroken &&
                                             ddp->bucket_count && !is_on_host(&ddp->hook) &&
                                             yki_staging_is_in_streams(&ddp->gradients);
    if (ddp->exchanging && ddp->hook.begin)
        YK_TRY(ddp->hook.begin(ddp->hook.state));
    if (ddp->in_streams && ddp->gradients.plane)
        YK_TRY(agree_on_buckets(ddp));
    return yki_bucket_updates_begin(ddp);
}

/* Everything that a recording of backward is to contain: what comes after the last bucket in the
 * compute stream follows all of them. One rank alone has nothing to follow, and a recording must
 * not follow an event that was never marked in it. */
static yk_status launch_in_stream(yk_ddp *ddp, yki_reduced_bucket *bucket)
{
    size_t index = (size_t)(bucket - ddp->buckets);
    bool last = index + 1 == ddp->bucket_count;
    if (ddp->hook.enter)
        YK_TRY(ddp->hook.enter(ddp->hook.state, index, true, &bucket->work));
    else
        YK_TRY(yki_staged_all_reduce_agreed(&bucket->part));
    if (!last)
        return YK_OK;
    YK_TRY(yki_stream_times_note(ddp, YKI_STREAM_COMPUTED));
    if (ddp->hook.enter)
        YK_TRY(ddp->hook.land(ddp->hook.state));
    else if (ddp->gradients.plane)
        YK_TRY(yki_staged_part_land(&bucket->part));
    return yki_stream_times_note(ddp, YKI_STREAM_LANDED);
}

static yk_status launch_bucket(yk_ddp *ddp, yki_reduced_bucket *bucket)
{
    size_t index = (size_t)(bucket - ddp->buckets);
    yki_group_label(ddp->group, "bucket %zu", index);
    if (index == 0)
        YK_TRY(yki_stream_times_note(ddp, YKI_STREAM_LAUNCHED));
    if (ddp->in_streams)
        return launch_in_stream(ddp, bucket);
    if (ddp->hook.enter)
        return ddp->hook.enter(ddp->hook.state, index, false, &bucket->work);
    return ddp->hook.run ? yki_hook_launch(bucket)
                         : yki_staged_all_reduce(&bucket->part, &bucket->work);
}

static void launch(yk_ddp *ddp, yki_reduced_bucket *bucket)
{
    if (ddp->first_launch == 0)
        ddp->first_launch = yki_now();
    ddp->status = launch_bucket(ddp, bucket);
    if (ddp->status != YK_OK)
        yki_error_copy(ddp->error, sizeof ddp->error);
}

yk_status yki_reducer_is_same(void *context, uint64_t number, bool *same)
{
    const yk_ddp *ddp = context;
    int64_t most[2] = {(int64_t)number, -(int64_t)number};
    YK_TRY(yk_all_reduce(ddp->group, most, 2, YK_I64, YK_REDUCE_MAX, NULL));
    *same = most[0] == -most[1];
    return YK_OK;
}

void yki_reducer_grad_ready(void *context, size_t parameter)
{
    yk_ddp *ddp = context;
    if (!ddp->exchanging || ddp->bucket_of[parameter] == SIZE_MAX)
        return;
    ddp->buckets[ddp->bucket_of[parameter]].pending--;
    while (ddp->next < ddp->bucket_count && ddp->buckets[ddp->next].pending == 0 &&
           ddp->status == YK_OK)
        launch(ddp, &ddp->buckets[ddp->next++]);
}

bool yki_reducer_needs_host(const void *context, size_t parameter)
{
    const yk_ddp *ddp = context;
    return ddp->completes[parameter];
}

/* The device is left to itself. */
static yk_status end_in_streams(yk_ddp *ddp)
{
    yki_stream *stream = yki_device_stream(yki_model_device(ddp->model));
    ddp->stats.waiting_s = ddp->waited_s;
    ddp->waited_s = 0;
    if (ddp->status != YK_OK)
        return yki_error_set_line(ddp->status, ddp->error);
    if (!ddp->gradients.plane)
        return YK_OK;
    YK_TRY(yki_plane_entered(ddp->gradients.plane, stream));
    return yki_stream_times_end(ddp);
}

/* Buckets land in the order of their launches. */
static yk_status land_bucket(yk_ddp *ddp, size_t bucket)
{
    bool last = bucket + 1 == ddp->bucket_count;
    if (!ddp->hook.enter)
        return yki_staged_part_land(&ddp->buckets[bucket].part);
    return last && ddp->status == YK_OK ? ddp->hook.land(ddp->hook.state) : YK_OK;
}

/* How long the end of a backward has waited, and for what. */
typedef struct waits {
    double since; /* the end of the last wait: what had finished by then costs nothing */
    double waiting, exposed, finished;
} waits;

static void keep_failure(yk_ddp *ddp, yk_status status)
{
    if (status == YK_OK || ddp->status != YK_OK)
        return;
    ddp->status = status;
    yki_error_copy(ddp->error, sizeof ddp->error);
}

static yk_status wait_for(yk_work **work, waits *w)
{
    yki_work_times times;
    yk_work *awaited = *work;
    *work = NULL;
    if (!awaited)
        return YK_OK;
    yk_status status = yki_work_wait_timed(awaited, &times);
    double waited = yki_work_waited(&times, w->since);
    w->waiting += waited;
    w->finished = times.finished;
    if (times.finished > w->since) {
        w->exposed += times.finished - w->since - waited;
        w->since = times.finished;
    }
    return status;
}

static void end_bucket(yk_ddp *ddp, size_t bucket, waits *w)
{
    yk_status status = wait_for(&ddp->buckets[bucket].work, w);
    if (ddp->exchanging && status == YK_OK)
        status = land_bucket(ddp, bucket);
    keep_failure(ddp, status);
}

/* A backward that has failed before it launched all buckets updates nothing. */
static void end_buckets(yk_ddp *ddp, waits *w)
{
    keep_failure(ddp, wait_for(&ddp->updates.agreement, w));
    bool updates = yki_bucket_updates_agreed(ddp) && ddp->next == ddp->bucket_count;
    for (size_t b = 0; b < ddp->bucket_count; b++) {
        end_bucket(ddp, b, w);
        if (!updates || ddp->status != YK_OK)
            continue;
        keep_failure(ddp, yki_bucket_updates_run(ddp, b));
        w->since = yki_now();
    }
    if (updates)
        yki_bucket_updates_end(ddp, ddp->status != YK_OK);
}

static yk_status end_in_plane(yk_ddp *ddp)
{
    YK_TRY(yki_stream_times_note(ddp, YKI_STREAM_LANDED));
    return yki_stream_times_end(ddp);
}

yk_status yki_reducer_backward_end(void *context)
{
    yk_ddp *ddp = context;
    if (ddp->in_streams)
        return end_in_streams(ddp);
    bool launched = ddp->exchanging && ddp->next == ddp->bucket_count && ddp->bucket_count;
    double start = yki_now();
    waits w = {.since = start};
    if (launched)
        keep_failure(ddp, yki_stream_times_note(ddp, YKI_STREAM_COMPUTED));
    end_buckets(ddp, &w);
    if (ddp->first_launch > 0 && w.finished > 0) /* buckets land in the order of their launches */
        ddp->stats = (yk_ddp_stats){.communication_s = w.finished - ddp->first_launch,
                                    .exposed_s = w.exposed,
                                    .waiting_s = ddp->waited_s + w.waiting};
    ddp->waited_s = 0;
    if (launched && ddp->status == YK_OK)
        keep_failure(ddp, end_in_plane(ddp));
    if (ddp->exchanging)
        YKI_TRACE_END(
            start, ((yki_trace_args){.key = {"waiting_us"}, .value = {(int64_t)(1e6 * w.waiting)}}),
            "exposed wait");
    return ddp->status == YK_OK ? YK_OK : yki_error_set_line(ddp->status, ddp->error);
}

/*
 * Groups: the only caller of a backend. The calls that collectives.c prepares are numbered here and
 * run on the caller's thread or, with a work object, on the group's own; never on both, because a
 * blocking call first waits until the queue is empty. A task on the group's own thread makes
 * blocking calls there, in its place in the queue.
 *
 * While a backend waits, it calls check_peers() from time to time, which detects deaths, departures
 * and timeouts. Each becomes the group's one failure, which all ranks report from then on. A
 * mismatch is different: no data has moved, all ranks know of it, and the group remains usable.
 */
#include <yoke/group.h>

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/options.h"
#include "base/trace.h"
#include "comm/describe.h"
#include "comm/failure.h"
#include "comm/group_internal.h"
#include "comm/queue.h"

#define LONGEST_LOOK_S 0.5

struct yk_group {
    yki_reference reference;
    yki_job job;
    yki_backend *backend;
    yki_queue queue;
    atomic_uint_fast64_t sequence;
    const yki_call *running;    /* NULL while the group is being created */
    double looked, waited;      /* of the running call: its last look, and how long it has waited */
    bool *late;                 /* [world], scratch of check_peers() */
    char label[YKI_CALL_LABEL]; /* of the next asynchronous call */
    yk_group *channel;          /* see comm/group_internal.h; NULL until first used */
    bool borrows_job;           /* this is a channel: job is a copy of its group's */
};

static yki_failure *failure_of(yk_group *group)
{
    return group->backend ? group->backend->table->failure(group->backend) : NULL;
}

/* ---- failures -------------------------------------------------------------------------------- */

/* Sets this thread's error line, which names the running operation. */
static yk_status set_group_error(const yk_group *group, yk_status status, const char *text)
{
    char words[YKI_WORDS];
    if (!group->running)
        return yki_error(status, "creating the group: %s", text);
    yki_describe(words, &group->running->what);
    return yki_error(status, "%s, operation %llu: %s", words,
                     (unsigned long long)group->running->sequence, text);
}

/* Returns the group's failure, if it has one, and sets this rank's error line. */
static yk_status known_failure(yk_group *group)
{
    yki_failure *failure = failure_of(group);
    char text[sizeof failure->text];
    yk_status status = failure ? yki_failure_read(failure, text, sizeof text) : YK_OK;
    return status == YK_OK ? YK_OK : set_group_error(group, status, text);
}

/*
 * Makes text the group's failure unless another rank has already reported one, which then counts.
 * culprit is the rank at fault, or -1.
 */
static yk_status fail_group(yk_group *group, int culprit, yk_status status, const char *text)
{
    yki_failure *failure = failure_of(group);
    if (!failure)
        return set_group_error(group, status, text);
    if (yki_failure_claim(failure)) {
        yki_failure_report(&group->job, culprit, status, text);
        yki_failure_write(failure, status, text);
    }
    return known_failure(group);
}

static yk_status fail_dead(yk_group *group, int rank)
{
    yki_failure *failure = failure_of(group);
    char text[sizeof failure->text];
    if (failure && !yki_failure_claim(failure))
        return known_failure(group);
    yki_death_words(&group->job, rank, text, sizeof text);
    yki_failure_report(&group->job, rank, YK_ERROR_PEER_FAILED, text);
    if (failure)
        yki_failure_write(failure, YK_ERROR_PEER_FAILED, text);
    return set_group_error(group, YK_ERROR_PEER_FAILED, text);
}

static yk_status fail_left(yk_group *group, int rank)
{
    char text[128];
    snprintf(text, sizeof text, "rank %d (pid %d) has left the group", rank,
             group->job.peers[rank].pid);
    return fail_group(group, rank, YK_ERROR_PEER_FAILED, text);
}

static yk_status fail_late(yk_group *group, const bool *late)
{
    char list[128], text[320];
    yki_rank_list(list, sizeof list, late, group->job.world);
    int one = 0;
    while (!late[one])
        one++;
    snprintf(text, sizeof text, "timed out after %g s: rank %s did not take part (pid %d is %s)",
             group->job.timeout_s, list, group->job.peers[one].pid,
             yki_job_doing(&group->job, one));
    return fail_group(group, -1, YK_ERROR_TIMEOUT, text);
}

/*
 * Backends call check_peers() about every 20 ms. If much more time has passed, this process itself
 * was stopped, for example with the whole job; that time does not count as a peer's delay.
 */
static void count_wait(yk_group *group)
{
    double now = yki_now(), since = group->looked > 0 ? now - group->looked : 0;
    group->looked = now;
    group->waited += since < LONGEST_LOOK_S ? since : LONGEST_LOOK_S;
}

/* See yki_watch. A peer may have arrived just before it ended, so missing() is called again last.
 */
static yk_status check_peers(void *context, bool (*missing)(const void *wait, int rank),
                             const void *wait)
{
    yk_group *group = context;
    const yki_job *job = &group->job;
    yki_failure *failure = failure_of(group);
    if (failure && atomic_load(&failure->state) != YKI_FAILURE_NONE)
        return known_failure(group);
    bool any = false, *late = group->late;
    for (int r = 0; r < job->world; r++) {
        late[r] = r != job->rank && missing(wait, r);
        if (late[r] && yki_job_gone(job, r) && (late[r] = missing(wait, r)))
            return fail_dead(group, r);
        if (late[r] && failure && group->backend->table->left(group->backend, r) &&
            (late[r] = missing(wait, r)))
            return fail_left(group, r);
        any = any || late[r];
    }
    count_wait(group);
    return any && group->waited >= job->timeout_s ? fail_late(group, late) : YK_OK;
}

/* ---- running a call -------------------------------------------------------------------------- */

static yk_status mismatch(yk_group *group, const yki_call *call)
{
    char a[YKI_WORDS], b[YKI_WORDS], text[384];
    if (call->memory_freed) {
        snprintf(text, sizeof text,
                 "rank %d passed memory of yk_group_alloc that rank %d has already freed: free it "
                 "on every rank after its last use",
                 call->rank_a, call->rank_b);
        return fail_group(group, -1, YK_ERROR_MISMATCH, text);
    }
    yki_describe(a, &call->what_a);
    yki_describe(b, &call->what_b);
    snprintf(text, sizeof text, "ranks disagree in %s: rank %d called %s%s, rank %d called %s%s",
             yki_difference(&call->what_a, &call->what_b), call->rank_a, a,
             call->what_a.invalid ? " with invalid arguments" : "", call->rank_b, b,
             call->what_b.invalid ? " with invalid arguments" : "");
    return call->out_of_step ? fail_group(group, -1, YK_ERROR_MISMATCH, text)
                             : set_group_error(group, YK_ERROR_MISMATCH, text);
}

static yk_status dispatch(yk_group *group, yki_call *call)
{
    const yki_backend_table *table = group->backend->table;
    if (call->what.operation == YKI_ALLOC)
        return table->alloc(group->backend, call, call->out);
    if (call->what.operation == YKI_SEND || call->what.operation == YKI_RECV)
        return table->transfer(group->backend, call);
    return table->collective(group->backend, call);
}

static yk_status run_now(yk_group *group, yki_call *call, const char *refusal)
{
    group->running = call;
    group->looked = group->waited = 0;
    const yki_failure *failure = failure_of(group);
    if (failure && atomic_load_explicit(&failure->state, memory_order_relaxed) != YKI_FAILURE_NONE)
        return known_failure(group);
    yk_status status = dispatch(group, call);
    if (status == YK_ERROR_MISMATCH && !refusal && call->rank_a != call->rank_b)
        return mismatch(group, call);
    if (refusal && (status == YK_OK || status == YK_ERROR_MISMATCH))
        return yki_error_set_line(YK_ERROR_INVALID_ARGUMENT, refusal);
    return status;
}

/* Records the call on the thread that ran it and, if it is labelled, from its submission to its
 * end. */
static void trace_call(const yki_call *call, double begin)
{
    char words[YKI_WORDS];
    yki_describe(words, &call->what);
    size_t width = call->what.operation == YKI_ALLOC ? 1 : yk_dtype_size(call->what.dtype);
    yki_trace_args args = {.key = {"bytes", "sequence"},
                           .value = {(int64_t)(call->what.count * width), (int64_t)call->sequence}};
    double end = yki_now();
    yki_trace_record(YKI_TRACE_SPAN, begin, end, args, "%s", call->label[0] ? call->label : words);
    if (call->label[0] && call->launched > 0)
        yki_trace_record(YKI_TRACE_ASYNC, call->launched, end, args, "%s", call->label);
}

/* The run function of yki_queue; also called directly, on the caller's thread. */
static yk_status run_call(void *context, yki_call *call, const char *refusal)
{
    double begin = yki_trace_begin();
    yk_status status =
        call->task ? call->task(call->task_context) : run_now(context, call, refusal);
    if (begin > 0 && yki_trace_on())
        trace_call(call, begin);
    return status;
}

void yki_group_label(yk_group *group, const char *format, ...)
{
    if (!yki_trace_on())
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(group->label, sizeof group->label, format, arguments);
    va_end(arguments);
}

yk_status yki_group_submit(yk_group *group, yki_call *call, yk_status checked, yk_work **work)
{
    char refusal[YKI_ERROR_LINE];
    call->what.invalid = checked != YK_OK;
    if (checked != YK_OK)
        yki_error_copy(refusal, sizeof refusal);
    bool in_task = yki_queue_is_current(&group->queue);
    call->sequence = atomic_fetch_add(&group->sequence, 1) + 1;
    call->yields_cpu = work != NULL || in_task;
    if (work)
        *work = NULL;
    if (work && in_task)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "collectives in a comm hook must block: "
                                                    "pass NULL for work");
    if (work) {
        call->launched = yki_trace_begin();
        memcpy(call->label, group->label, sizeof call->label);
        group->label[0] = '\0';
        yki_group_retain(group);
        yk_status status =
            yki_queue_submit(&group->queue, call, checked != YK_OK ? refusal : NULL, work);
        if (status != YK_OK)
            yki_group_release(group);
        return status;
    }
    if (!in_task)
        yki_queue_drain(&group->queue);
    return run_call(group, call, checked != YK_OK ? refusal : NULL);
}

yk_status yk_work_wait(yk_work *work)
{
    double finished;
    YKI_NOT_NULL(work);
    return yki_work_wait_timed(work, &finished);
}

yk_status yki_work_wait_timed(yk_work *work, double *finished)
{
    yk_group *group = work->queue->context;
    yk_status status = yki_queue_wait(work, finished);
    yki_group_release(group);
    return status;
}

bool yk_work_done(const yk_work *work)
{
    return !work || yki_queue_is_done(work);
}

yk_status yk_group_free(yk_group *group, void *memory)
{
    YKI_NOT_NULL(group);
    if (!memory)
        return YK_OK;
    if (!yki_queue_is_current(&group->queue))
        yki_queue_drain(&group->queue);
    return group->backend->table->free(group->backend, memory);
}

yk_status yki_group_run(yk_group *group, yk_status (*task)(void *context), void *context,
                        yk_work **work)
{
    yki_call call = {.task = task, .task_context = context};
    return yki_group_submit(group, &call, YK_OK, work);
}

/* ---- the group ------------------------------------------------------------------------------- */

static yk_status choose_backend(const yki_backend_table **table, const yki_job *job,
                                const char *name)
{
    static const char *const modules[] = {"mpi", "gloo", "nccl"};
    *table = job->world == 1 ? &yki_backend_self : &yki_backend_shm;
    if (!name || strcmp(name, (*table)->name) == 0)
        return YK_OK;
    for (size_t i = 0; i < sizeof modules / sizeof *modules; i++)
        if (strcmp(name, modules[i]) == 0)
            return yki_error(YK_ERROR_UNSUPPORTED, "this build has no backend \"%s\"", name);
    if (strcmp(name, "shm") == 0 || strcmp(name, "self") == 0)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "backend \"%s\" does not support %d rank%s",
                         name, job->world, job->world == 1 ? "" : "s");
    return yki_error(YK_ERROR_INVALID_ARGUMENT, "unknown backend \"%s\"", name);
}

/* Opens the backend of a joined job; then the group can run calls. */
static yk_status open_backend(yk_group *group, const yki_backend_table *table)
{
    group->late = yki_calloc((size_t)group->job.world, sizeof *group->late);
    if (!group->late)
        return yki_error_memory((size_t)group->job.world, "a group");
    YK_TRY(table->open(&group->backend, &group->job, &(yki_watch){group, check_peers}));
    yki_queue_init(&group->queue, group, run_call);
    return YK_OK;
}

yk_status yk_group_init(yk_group **out, const yk_group_options *given)
{
    const yki_backend_table *table;
    yk_group_options options;
    YKI_NOT_NULL(out);
    *out = NULL;
    YK_TRY(YKI_READ_OPTIONS(&options, given, yk_group_options, YK_GROUP_OPTIONS_INIT));
    yk_group *group = yki_calloc(1, sizeof *group);
    if (!group)
        return yki_error_memory(sizeof *group, "a group");
    yk_status status = yki_job_join(&group->job, &options);
    if (status != YK_OK)
        goto out_group;
    if ((status = choose_backend(&table, &group->job, options.backend)) != YK_OK ||
        (status = open_backend(group, table)) != YK_OK)
        goto out_job;
    yki_reference_init(&group->reference);
    YKI_INFO("rank %d of %d, backend %s, pid %d", group->job.rank, group->job.world, table->name,
             group->job.peers[group->job.rank].pid);
    *out = group;
    return YK_OK;

out_job:
    free(group->late);
    yki_job_leave(&group->job);
out_group:
    free(group);
    return status;
}

yk_status yki_group_channel(yk_group **out, yk_group *group)
{
    *out = group->channel;
    if (*out)
        return YK_OK;
    yk_group *channel = yki_calloc(1, sizeof *channel);
    if (!channel)
        return yki_error_memory(sizeof *channel, "a channel");
    yki_reference_init(&channel->reference);
    channel->job = group->job;
    channel->borrows_job = true;
    snprintf(channel->job.prefix, sizeof channel->job.prefix, "%.20s/channel", group->job.prefix);
    yk_status status = open_backend(channel, group->backend->table);
    if (status != YK_OK) {
        free(channel->late);
        free(channel);
        return status;
    }
    *out = group->channel = channel;
    return YK_OK;
}

void yki_group_retain(yk_group *group)
{
    yki_reference_retain(&group->reference);
}

void yki_group_release(yk_group *group)
{
    if (!yki_reference_release(&group->reference))
        return;
    yk_group_destroy(group->channel);
    yki_queue_fini(&group->queue);
    group->backend->table->destroy(group->backend);
    if (!group->borrows_job)
        yki_job_leave(&group->job);
    free(group->late);
    free(group);
}

void yk_group_destroy(yk_group *group)
{
    if (group)
        yki_group_release(group);
}

int yk_group_rank(const yk_group *group)
{
    return group ? group->job.rank : -1;
}

int yk_group_size(const yk_group *group)
{
    return group ? group->job.world : 0;
}

int yk_group_local_rank(const yk_group *group)
{
    return group ? group->job.local_rank : -1;
}

int yk_group_local_size(const yk_group *group)
{
    return group ? group->job.local_world : 0;
}

const char *yk_group_backend(const yk_group *group)
{
    return group ? group->backend->table->name : "";
}

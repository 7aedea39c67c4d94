/*
 * Running calls: those that collectives.c has prepared are posted to the backend and waited for, on
 * the caller's thread or, with a work object, on the group's own; never on both, because a blocking
 * call first waits until the queue is empty. A task on the group's own thread makes blocking calls
 * there, in its place in the queue.
 *
 * A call is numbered when it is posted, because all ranks post their calls in the same order; a
 * task's calls and those that are submitted meanwhile have no common order before that.
 *
 * A mismatch is no failure: no data has moved, all ranks know of it, and the group remains usable.
 */
#include <assert.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/trace.h"
#include "comm/group_state.h"
#include "comm/job/callers.h"
#include "comm/job/describe.h"

#define WAIT_S 0.02

/* ---- one call -------------------------------------------------------------------------------- */

static yk_status report_mismatch(yk_group *group, const yk_mismatch *m, const char *text)
{
    return m->out_of_step ? yki_group_fail(group, -1, YK_ERROR_MISMATCH, text)
                          : yki_group_error(group, YK_ERROR_MISMATCH, text);
}

/* One rank's arguments were refused, or what it does together with the others (joint.c). */
static yk_status refused(yk_group *group, const yki_call *call)
{
    const yk_mismatch *m = &call->base.mismatch;
    bool first = m->what_a.invalid;
    int rank = first ? m->rank_a : m->rank_b;
    char words[YKI_WORDS], why[256], text[384];
    if (!yki_refusal_read(group, rank, call->base.sequence, why, sizeof why)) {
        yki_describe(words, &group->job, first ? &m->what_a : &m->what_b);
        snprintf(why, sizeof why, "see the error of that rank, which called %s", words);
    }
    snprintf(text, sizeof text, "rank %d cannot take part: %s", group->members[rank].job_rank, why);
    return report_mismatch(group, m, text);
}

static yk_status mismatch(yk_group *group, const yki_call *call)
{
    const yk_mismatch *m = &call->base.mismatch;
    char a[YKI_WORDS], b[YKI_WORDS], text[384];
    if (m->memory_freed) {
        snprintf(text, sizeof text,
                 "rank %d passed memory of yk_group_alloc that rank %d has already freed: free it "
                 "on every rank after its last use",
                 group->members[m->rank_a].job_rank, group->members[m->rank_b].job_rank);
        return yki_group_fail(group, -1, YK_ERROR_MISMATCH, text);
    }
    if (m->what_a.invalid || m->what_b.invalid)
        return refused(group, call);
    yki_describe(a, &group->job, &m->what_a);
    yki_describe(b, &group->job, &m->what_b);
    snprintf(text, sizeof text, "ranks disagree in %s: rank %d called %s, rank %d called %s",
             yki_difference(&m->what_a, &m->what_b), group->members[m->rank_a].job_rank, a,
             group->members[m->rank_b].job_rank, b);
    return report_mismatch(group, m, text);
}

yk_status yki_call_make_messages(yki_call *call, size_t count, yk_backend_message **messages)
{
    *messages = &call->message;
    call->base.message_count = count;
    if (count <= 1)
        return YK_OK;
    *messages = call->list = yki_calloc(count, sizeof *call->list);
    return call->list ? YK_OK : yki_error_memory(count * sizeof *call->list, "messages");
}

/* A call is copied on its way here, so that only now it is known where its message is. */
static void number_messages(yk_group *group, yki_call *call)
{
    yk_backend_message *messages = call->list ? call->list : &call->message;
    _Atomic uint64_t *sent = group->watched->messages, *received = sent + group->job.world;
    call->base.messages = messages;
    for (size_t i = 0; i < call->base.message_count; i++) {
        const yk_descriptor *what = &messages[i].what;
        bool sends = what->operation == YK_OPERATION_SEND;
        messages[i].sequence = 1 + atomic_fetch_add(&(sends ? sent : received)[what->root], 1);
    }
}

static void number_call(yk_group *group, yki_call *call)
{
    bool collective = yki_flight_is_collective(&call->base.what);
    if (call->base.message_count > 0)
        number_messages(group, call);
    else if (collective)
        group->collectives++; /* messages of a collective belong to the last one */
    if (collective)
        call->base.sequence = group->collectives;
    else if (call->base.what.operation == YK_OPERATION_BATCH)
        call->base.sequence = ++group->batches;
    else
        call->base.sequence = call->base.messages[0].sequence;
}

/* Starts a call; refusal as for yki_queue_submit. Afterwards call->work is NULL if it is over, with
 * this status. */
static yk_status post_call(yk_group *group, yki_call *call, const char *refusal)
{
    yk_backend *backend = group->backend;
    group->running = call;
    call->posted = true;
    number_call(group, call);
    yki_flight_begin(&group->flight, call);
    YK_TRY(yki_group_known_failure(group));
    if (refusal)
        yki_refusal_tell(group, call->base.sequence, refusal);
    if (call->base.what.operation == YK_OPERATION_BATCH && call->base.message_count == 0)
        return YK_OK;
    bool registered = backend->ops->capabilities & YK_BACKEND_REGISTERED_MEMORY;
    if (call->base.what.operation == YK_OPERATION_ALLOC && registered)
        return backend->ops->alloc(backend, &call->base, call->memory);
    return backend->ops->post(backend, &call->base, &call->work);
}

/* Afterwards the backend may only be closed: works behind this one are cancelled, too. */
static yk_status cancel_call(yk_group *group, yki_call *call, yk_status status)
{
    assert(status != YK_OK);
    group->backend->ops->cancel(group->backend, call->work);
    group->broken = true;
    call->work = NULL;
    return status;
}

/* Waits for a posted call at most wait_s seconds, and looks at the other ranks. */
static yk_status test_call(yk_group *group, yki_call *call, double wait_s, bool *done)
{
    yk_backend *backend = group->backend;
    group->running = call;
    if (group->broken) {
        *done = true;
        return cancel_call(group, call, yki_group_known_failure(group));
    }
    yk_status status = backend->ops->test(backend, call->work, wait_s, done);
    if (*done) {
        call->work = NULL;
        return status;
    }
    status = yki_group_look_at_all(group);
    if (status == YK_OK)
        return YK_OK;
    *done = true;
    return cancel_call(group, call, status);
}

/* Turns what the backend returned into what the caller gets. */
static yk_status judge(yk_group *group, yki_call *call, const char *refusal, yk_status status)
{
    const yk_mismatch *m = &call->base.mismatch;
    group->running = call;
    group->broken = group->broken || status == YK_ERROR_NETWORK;
    if (status != YK_OK && atomic_load(&group->watched->failed))
        return yki_group_known_failure(group);
    if (status == YK_ERROR_NETWORK)
        return yki_group_find_cause(group, status);
    if (status == YK_ERROR_OUT_OF_MEMORY && call->base.what.operation != YK_OPERATION_ALLOC) {
        yki_group_fail_alone(group, status);
        return yki_group_known_failure(group);
    }
    if (status == YK_ERROR_MISMATCH && !refusal && (m->rank_a != m->rank_b))
        return mismatch(group, call);
    if (refusal && status == YK_ERROR_MISMATCH && m->rank_a != m->rank_b)
        yki_refusal_linger(group);
    if (refusal && (status == YK_OK || status == YK_ERROR_MISMATCH))
        return yki_error_set_line(YK_ERROR_INVALID_ARGUMENT, refusal);
    if (status == YK_OK && call->base.what.operation == YK_OPERATION_ALLOC && !*call->memory)
        return yki_group_allocate_block(group, call->base.what.count, call->memory);
    return status;
}

/* The end of a call: what the caller gets. */
static yk_status conclude(yk_group *group, yki_call *call, const char *refusal, yk_status status)
{
    status = judge(group, call, refusal, status);
    if (yki_flight_is_collective(&call->base.what))
        group->last = status;
    group->running = NULL;
    call->posted = false;
    yki_watch_rest(group->watched);
    yki_flight_end(&group->flight, call, status);
    bool failed = status != YK_OK && atomic_load(&group->watched->failed);
    return failed ? yki_flight_write(&group->job, status) : status;
}

static int64_t bytes_of(const yk_backend_call *call)
{
    const yk_descriptor *what = &call->what;
    size_t bytes = 0;
    if (what->operation == YK_OPERATION_ALLOC)
        return (int64_t)what->count;
    for (size_t i = 0; i < call->message_count; i++)
        bytes += yki_descriptor_bytes(&call->messages[i].what);
    return (int64_t)(call->message_count > 0 ? bytes : yki_descriptor_bytes(what));
}

/* Records the call on the thread that ran it and, if it is labelled, from its submission to its
 * end. */
static void trace_call(const yk_group *group, const yki_call *call)
{
    if (!(call->begun > 0) || !yki_trace_on())
        return;
    char words[YKI_WORDS];
    const yk_descriptor *what = &call->base.what;
    yki_describe(words, &group->job, what);
    yki_trace_args args = {.key = {"bytes", "sequence"},
                           .value = {bytes_of(&call->base), (int64_t)call->base.sequence}};
    double end = yki_now();
    yki_trace_record(YKI_TRACE_SPAN, call->begun, end, args, "%s",
                     call->label[0] ? call->label : words);
    if (call->label[0] && call->launched > 0)
        yki_trace_record(YKI_TRACE_ASYNC, call->launched, end, args, "%s", call->label);
}

static yk_status run_blocking(yk_group *group, yki_call *call, const char *refusal)
{
    call->begun = yki_trace_begin();
    yk_status status = post_call(group, call, refusal);
    for (bool done = false; call->work && !done;)
        status = test_call(group, call, WAIT_S, &done);
    status = conclude(group, call, refusal, status);
    group->met_s = call->base.met_s;
    trace_call(group, call);
    free(call->list);
    return status;
}

double yki_group_waited(const yk_group *group, double since)
{
    return group->met_s > since ? group->met_s - since : 0;
}

/* ---- calls with a work object ---------------------------------------------------------------- */

static bool finish_work(const yk_group *group, yk_work *work, yk_status status)
{
    work->status = status;
    if (status != YK_OK)
        yki_error_copy(work->line, sizeof work->line);
    else if (work->call.after)
        work->call.after(work->call.task_context);
    trace_call(group, &work->call);
    free(work->call.list);
    yki_work_times *times = &work->times;
    times->finished = yki_now();
    times->met = work->call.base.met_s > times->started ? work->call.base.met_s : times->started;
    return true;
}

bool yki_group_start(void *context, yk_work *work)
{
    yk_group *group = context;
    yki_call *call = &work->call;
    work->times.started = yki_now();
    call->begun = yki_trace_on() ? work->times.started : 0;
    if (call->task)
        return finish_work(group, work, call->task(call->task_context));
    if (call->before)
        call->before(call->task_context);
    const char *refusal = work->refused ? work->line : NULL;
    yk_status status = post_call(group, call, refusal);
    if (call->work)
        return false;
    return finish_work(group, work, conclude(group, call, refusal, status));
}

bool yki_group_advance(void *context, yk_work *work, double wait_s)
{
    yk_group *group = context;
    bool done = false;
    yk_status status = test_call(group, &work->call, wait_s, &done);
    if (!done)
        return false;
    return finish_work(group, work,
                       conclude(group, &work->call, work->refused ? work->line : NULL, status));
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

static yk_status submit_work(yk_group *group, yki_call *call, const char *refusal, yk_work **work)
{
    call->launched = yki_trace_begin();
    call->submitted = yki_ticks();
    memcpy(call->label, group->label, sizeof call->label);
    group->label[0] = '\0';
    yki_group_retain(group);
    yk_status status = yki_queue_submit(&group->queue, call, refusal, work);
    if (status == YK_OK)
        return YK_OK;
    free(call->list);
    status = yki_group_fail_alone(group, status);
    yki_group_release(group);
    return status;
}

yk_status yki_group_submit(yk_group *group, yki_call *call, yk_status checked, yk_work **work)
{
    char refusal[YKI_ERROR_LINE];
    call->base.what.invalid = checked != YK_OK;
    if (checked != YK_OK)
        yki_error_copy(refusal, sizeof refusal);
    yki_caller_note();
    bool in_task = yki_queue_is_current(&group->queue);
    call->base.background = work != NULL || in_task || group->background;
    if (work)
        *work = NULL;
    if (work && in_task) {
        free(call->list);
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "collectives in a comm hook must block: "
                                                    "pass NULL for work");
    }
    if (work)
        return submit_work(group, call, checked != YK_OK ? refusal : NULL, work);
    if (!in_task)
        yki_queue_drain(&group->queue);
    return run_blocking(group, call, checked != YK_OK ? refusal : NULL);
}

yk_status yki_group_run(yk_group *group, yk_status (*task)(void *context), void *context,
                        yk_work **work)
{
    yki_call call = {.task = task, .task_context = context};
    return yki_group_submit(group, &call, YK_OK, work);
}

yk_status yk_work_wait(yk_work *work)
{
    yki_work_times times;
    YKI_NOT_NULL(work);
    return yki_work_wait_timed(work, &times);
}

yk_status yki_work_wait_timed(yk_work *work, yki_work_times *times)
{
    yk_group *group = work->queue->context;
    yk_status status = yki_queue_wait(work, times);
    yki_group_release(group);
    return status;
}

bool yk_work_done(const yk_work *work)
{
    return !work || yki_queue_is_done(work);
}

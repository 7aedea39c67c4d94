/*
 * The simulated device's streams: a stream is a list of operations, numbered from 1, and an event
 * the number of one. Whoever waits for an event runs what has to be done before it, and no more:
 * operations are wanted up to a number, and one that follows an event makes those before
 * the event wanted in the stream where it was marked. Of the streams whose next operation is wanted
 * and may run, one is drawn.
 *
 * The lock is not held while an operation runs, so that several threads can wait at once.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/random.h"
#include "device/sim/stream.h"

enum { MOST_IN_A_STREAM = 1 << 16 };

/* Set while this thread runs an operation, which cannot wait for others. */
static _Thread_local bool inside_operation;

static bool has_failed(const yki_sim_failure *f, uint64_t number)
{
    return f->status != YK_OK && f->first <= number && number <= f->last;
}

static void fail(yki_stream *stream, uint64_t number, yk_status status, const char *line)
{
    stream->failure = (yki_sim_failure){.first = number, .last = UINT64_MAX, .status = status};
    snprintf(stream->failure.line, sizeof stream->failure.line, "%s", line);
}

/* ---- entering -------------------------------------------------------------------------------- */

yki_sim_operation *yki_sim_new_operation(const yki_sim_work *kind, const void *work)
{
    size_t bytes = kind ? kind->bytes : 0;
    yki_sim_operation *made = yki_calloc(1, sizeof *made + bytes);
    if (!made)
        return NULL;
    made->kind = kind;
    if (bytes)
        memcpy(made->work, work, bytes);
    if (kind && kind->retain)
        kind->retain(made->work);
    return made;
}

void yki_sim_release(yki_sim_operation *operation)
{
    if (operation->kind && operation->kind->release)
        operation->kind->release(operation->work);
    free(operation);
}

/* Whether the operation is done before the last one of the stream can begin: it is in the same
 * stream, or some of those in between follow others. */
static bool precedes(yki_sim *sim, const yki_stream *before, uint64_t number, yki_stream *stream)
{
    for (yki_stream *s = sim->streams; s; s = s->next)
        s->ancestors = s->done;
    stream->ancestors = stream->entered;
    for (bool more = true; more && before->ancestors < number;) {
        more = false;
        for (yki_stream *s = sim->streams; s; s = s->next) {
            const yki_sim_operation *o = s->head;
            for (uint64_t at = s->done + 1; at <= s->ancestors && o; at++, o = o->next)
                if (o->after && o->after->ancestors < o->after_count) {
                    o->after->ancestors = o->after_count;
                    more = true;
                }
        }
    }
    return before->ancestors >= number;
}

/* After the last operation of the stream has been entered, which is of an exclusive kind. */
static void check_exclusive(yki_sim *sim, yki_stream *stream)
{
    if (sim->exclusive && !precedes(sim, sim->exclusive, sim->exclusive_number, stream) &&
        !has_failed(&stream->failure, stream->entered))
        fail(stream, stream->entered, YK_ERROR_INTERNAL,
             "device sim: two collectives are entered that no event orders: on a GPU, each could "
             "keep the other from running");
    sim->exclusive = stream;
    sim->exclusive_number = stream->entered;
}

void yki_sim_append(yki_stream *stream, yki_sim_operation *operation)
{
    if (stream->recording) {
        yki_sim_record(stream, operation);
        return;
    }
    if (stream->tail)
        stream->tail->next = operation;
    else
        stream->head = operation;
    stream->tail = operation;
    stream->entered++;
    if (operation->kind && operation->kind->exclusive)
        check_exclusive(stream->sim, stream);
}

/* A device takes so much work and no more; then the host waits until there is room. */
static yk_status make_room(yki_sim *sim, yki_stream *stream)
{
    return stream->entered - stream->done < MOST_IN_A_STREAM
               ? YK_OK
               : yki_sim_reach(sim, stream, stream->done + MOST_IN_A_STREAM / 2);
}

yk_status yki_sim_enter(yki_sim *sim, yki_stream *stream, const yki_sim_work *kind,
                        const void *work)
{
    if (!stream)
        return yki_error(YK_ERROR_INTERNAL, "device sim: work is entered in no stream");
    yki_sim_operation *made = yki_sim_new_operation(kind, work);
    if (!made)
        return yki_error_memory(sizeof *made + kind->bytes, "an operation of the sim device");
    pthread_mutex_lock(&sim->lock);
    yk_status status = make_room(sim, stream);
    if (status == YK_OK)
        yki_sim_append(stream, made);
    pthread_mutex_unlock(&sim->lock);
    if (status != YK_OK)
        yki_sim_release(made);
    return status;
}

/* ---- running --------------------------------------------------------------------------------- */

static uint64_t draw(yki_sim *sim, uint64_t below)
{
    return yki_mix64(sim->draws++) % below;
}

/* What the wanted operations follow is wanted as well. */
void yki_sim_want(yki_sim *sim, yki_stream *stream, uint64_t number)
{
    if (stream->wanted >= number)
        return;
    stream->wanted = number;
    for (bool more = true; more;) {
        more = false;
        for (yki_stream *s = sim->streams; s; s = s->next) {
            const yki_sim_operation *o = s->head;
            for (uint64_t at = s->done + 1; at <= s->wanted && o; at++, o = o->next)
                if (o->after && o->after->wanted < o->after_count) {
                    o->after->wanted = o->after_count;
                    more = true;
                }
        }
    }
}

/* Whether the stream's next operation is wanted, and what it follows is done. */
static bool has_come(const yki_stream *stream)
{
    const yki_sim_operation *o = stream->head;
    return stream->done < stream->wanted && !stream->busy &&
           (!o->after || o->after->done >= o->after_count);
}

/* What has failed already is not to wait for other processes. */
static bool is_ready(yki_stream *stream)
{
    yki_sim_operation *o = stream->head;
    return !o->kind || !o->kind->ready || has_failed(&stream->failure, stream->done + 1) ||
           o->kind->ready(stream->sim, o->work);
}

static yki_stream *draw_ready(yki_sim *sim, bool *busy)
{
    yki_stream *drawn = NULL;
    uint64_t ready = 0;
    *busy = false;
    for (yki_stream *s = sim->streams; s; s = s->next) {
        *busy = *busy || s->busy;
        if (!has_come(s))
            continue;
        if (!is_ready(s))
            *busy = true; /* another process is */
        else if (draw(sim, ++ready) == 0)
            drawn = s;
    }
    return drawn;
}

/* A stream that follows a point after a failure has failed with it. */
static void inherit_failure(yki_stream *stream, const yki_sim_operation *o)
{
    uint64_t number = stream->done + 1;
    if (o->after && has_failed(&o->after->failure, o->after_count) &&
        !has_failed(&stream->failure, number))
        fail(stream, number, o->after->failure.status, o->after->failure.line);
}

/* Runs the head of a stream; called and returns with the lock held. */
static void run_head(yki_sim *sim, yki_stream *stream)
{
    yki_sim_operation *o = stream->head;
    inherit_failure(stream, o);
    if (o->kind && !has_failed(&stream->failure, stream->done + 1)) {
        stream->busy = true;
        pthread_mutex_unlock(&sim->lock);
        inside_operation = true;
        yk_status status = o->kind->run(sim, o->work);
        inside_operation = false;
        char line[YKI_ERROR_LINE];
        if (status != YK_OK)
            yki_error_copy(line, sizeof line);
        pthread_mutex_lock(&sim->lock);
        stream->busy = false;
        if (status != YK_OK)
            fail(stream, stream->done + 1, status, line);
    }
    stream->head = o->next;
    if (!stream->head)
        stream->tail = NULL;
    stream->done++;
    yki_sim_release(o);
    pthread_cond_broadcast(&sim->progress);
}

bool yki_sim_run_one(yki_sim *sim, bool *busy)
{
    yki_stream *ready = draw_ready(sim, busy);
    if (ready)
        run_head(sim, ready);
    return ready;
}

/* Runs one operation, or waits for a thread or another process that does. */
static yk_status step(yki_sim *sim, const struct timespec *until)
{
    bool busy;
    if (yki_sim_run_one(sim, &busy))
        return YK_OK;
    if (!busy)
        return yki_error(YK_ERROR_INTERNAL, "device sim: no operation can run");
    if (until)
        pthread_cond_timedwait(&sim->progress, &sim->lock, until);
    else
        pthread_cond_wait(&sim->progress, &sim->lock);
    return YK_OK;
}

/* What a wait for the operation reports. What has been entered by now is not done any more if it
 * comes after a failure; what is entered from now on is. */
yk_status yki_sim_report(yki_stream *stream, uint64_t number)
{
    yki_sim_failure *f = &stream->failure;
    if (!has_failed(f, number))
        return YK_OK;
    if (f->last == UINT64_MAX)
        f->last = stream->entered;
    return yki_error_set_line(f->status, f->line);
}

yk_status yki_sim_check_outside(void)
{
    return inside_operation
               ? yki_error(YK_ERROR_INTERNAL, "device sim: an operation waits for the device")
               : YK_OK;
}

yk_status yki_sim_reach(yki_sim *sim, yki_stream *stream, uint64_t number)
{
    YK_TRY(yki_sim_check_outside());
    yki_sim_want(sim, stream, number);
    while (stream->done < number)
        YK_TRY(step(sim, NULL));
    return yki_sim_report(stream, number);
}

yk_status yki_sim_reach_by(yki_sim *sim, yki_stream *stream, uint64_t number, double deadline,
                           bool *reached)
{
    struct timespec until = {.tv_sec = (time_t)deadline};
    until.tv_nsec = (long)(1e9 * (deadline - (double)until.tv_sec));
    YK_TRY(yki_sim_check_outside());
    yki_sim_want(sim, stream, number);
    while (stream->done < number && yki_now() < deadline)
        YK_TRY(step(sim, &until));
    *reached = stream->done >= number;
    return *reached ? yki_sim_report(stream, number) : YK_OK;
}

yki_sim_operation *yki_sim_find_work(yki_sim *sim, const yki_sim_work *kind, const void *owner,
                                     yki_stream **stream, uint64_t *number)
{
    for (yki_stream *s = sim->streams; s; s = s->next) {
        *stream = s;
        *number = s->done + 1;
        for (yki_sim_operation *o = s->head; o; o = o->next, ++*number)
            if (o->kind == kind && memcmp(o->work, &owner, sizeof owner) == 0)
                return o;
    }
    return NULL;
}

/* ---- streams --------------------------------------------------------------------------------- */

static yki_stream *find_destroyed(yki_sim *sim)
{
    yki_stream *s = sim->streams;
    while (s && !s->destroyed)
        s = s->next;
    return s;
}

yk_status yki_sim_create_stream(yki_device *device, yki_stream **stream)
{
    yki_sim *sim = (yki_sim *)device;
    pthread_mutex_lock(&sim->lock);
    yki_stream *made = find_destroyed(sim);
    if (made) {
        made->destroyed = false;
    } else {
        made = yki_calloc(1, sizeof *made);
        if (made) {
            made->sim = made->end.sim = sim;
            made->next = sim->streams;
            sim->streams = made;
        }
    }
    pthread_mutex_unlock(&sim->lock);
    *stream = made;
    return made ? YK_OK : yki_error_memory(sizeof *made, "a stream of the sim device");
}

void yki_sim_destroy_stream(yki_stream *stream)
{
    yki_sim *sim = stream->sim;
    pthread_mutex_lock(&sim->lock);
    (void)yki_sim_reach(sim, stream, stream->entered);
    stream->recording = NULL;
    stream->failure.status = YK_OK;
    stream->destroyed = true;
    pthread_mutex_unlock(&sim->lock);
}

yki_event *yki_sim_end_of_stream(yki_stream *stream)
{
    return &stream->end;
}

void yki_sim_streams_close(yki_sim *sim)
{
    while (sim->streams) {
        yki_stream *s = sim->streams;
        sim->streams = s->next;
        while (s->head) {
            yki_sim_operation *o = s->head;
            s->head = o->next;
            yki_sim_release(o);
        }
        free(s);
    }
}

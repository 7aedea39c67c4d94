/*
 * The simulated device's streams and events: a stream is a list of operations, numbered from 1; an
 * event is the number of one. Whoever waits for an event runs what has to be done before it, and
 * no more: operations are wanted up to a number, and one that follows an event makes those before
 * the event wanted in the stream where it was marked. Of the streams whose next operation is wanted
 * and may run, one is drawn.
 *
 * The lock is not held while an operation runs, so that several threads can wait at once.
 */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "device/sim/sim.h"

enum { MOST_IN_A_STREAM = 1 << 16 };

typedef struct operation {
    struct operation *next;
    yki_stream *after; /* or NULL: waits until this stream has done so many operations */
    uint64_t after_count;
    const yki_sim_work *kind; /* NULL if it does nothing but wait */
    max_align_t work[];
} operation;

/* The operations from first to last are not done, because the first of them has failed or follows
 * one that did. */
typedef struct failure {
    uint64_t first, last;
    yk_status status; /* YK_OK: there was none */
    char line[YKI_ERROR_LINE];
} failure;

struct yki_stream {
    yki_sim *sim;
    yki_stream *next;
    bool destroyed;
    operation *head, *tail;
    uint64_t entered, done, wanted; /* numbers of operations */
    bool busy;                      /* a thread is running the head */
    failure failure;
};

struct yki_event {
    yki_sim *sim;
    yki_stream *stream; /* NULL before the first mark */
    uint64_t number;
};

/* Set while this thread runs an operation, which cannot wait for others. */
static _Thread_local bool inside_operation;

/* ---- entering -------------------------------------------------------------------------------- */

static operation *new_operation(const yki_sim_work *kind, const void *work)
{
    size_t bytes = kind ? kind->bytes : 0;
    operation *made = yki_calloc(1, sizeof *made + bytes);
    if (!made)
        return NULL;
    made->kind = kind;
    if (bytes)
        memcpy(made->work, work, bytes);
    return made;
}

static void release(operation *o)
{
    if (o->kind && o->kind->release)
        o->kind->release(o->work);
    free(o);
}

static void append(yki_stream *stream, operation *o)
{
    if (stream->tail)
        stream->tail->next = o;
    else
        stream->head = o;
    stream->tail = o;
    stream->entered++;
}

static yk_status reach(yki_sim *sim, yki_stream *stream, uint64_t number);

/* A device takes so much work and no more; then the host waits until there is room. */
static yk_status make_room(yki_sim *sim, yki_stream *stream)
{
    return stream->entered - stream->done < MOST_IN_A_STREAM
               ? YK_OK
               : reach(sim, stream, stream->done + MOST_IN_A_STREAM / 2);
}

yk_status yki_sim_enter(yki_sim *sim, yki_stream *stream, const yki_sim_work *kind,
                        const void *work)
{
    if (!stream)
        return yki_error(YK_ERROR_INTERNAL, "device sim: work is entered in no stream");
    operation *made = new_operation(kind, work);
    if (!made)
        return yki_error_memory(sizeof *made + kind->bytes, "an operation of the sim device");
    pthread_mutex_lock(&sim->lock);
    yk_status status = make_room(sim, stream);
    if (status == YK_OK)
        append(stream, made);
    pthread_mutex_unlock(&sim->lock);
    if (status != YK_OK)
        free(made); /* work remains the caller's */
    return status;
}

/* ---- running --------------------------------------------------------------------------------- */

static uint64_t draw(yki_sim *sim, uint64_t below)
{
    return yki_mix64(sim->draws++) % below;
}

static bool has_failed(const failure *f, uint64_t number)
{
    return f->status != YK_OK && f->first <= number && number <= f->last;
}

static void fail(yki_stream *stream, uint64_t number, yk_status status, const char *line)
{
    stream->failure = (failure){.first = number, .last = UINT64_MAX, .status = status};
    snprintf(stream->failure.line, sizeof stream->failure.line, "%s", line);
}

/* Makes what the wanted operations follow wanted as well. */
static void want(yki_sim *sim, yki_stream *stream, uint64_t number)
{
    if (stream->wanted >= number)
        return;
    stream->wanted = number;
    for (bool more = true; more;) {
        more = false;
        for (yki_stream *s = sim->streams; s; s = s->next) {
            const operation *o = s->head;
            for (uint64_t at = s->done + 1; at <= s->wanted && o; at++, o = o->next)
                if (o->after && o->after->wanted < o->after_count) {
                    o->after->wanted = o->after_count;
                    more = true;
                }
        }
    }
}

static bool is_ready(const yki_stream *stream)
{
    const operation *o = stream->head;
    return stream->done < stream->wanted && !stream->busy &&
           (!o->after || o->after->done >= o->after_count);
}

static yki_stream *draw_ready(yki_sim *sim, bool *busy)
{
    yki_stream *drawn = NULL;
    uint64_t ready = 0;
    *busy = false;
    for (yki_stream *s = sim->streams; s; s = s->next) {
        *busy = *busy || s->busy;
        if (is_ready(s) && draw(sim, ++ready) == 0)
            drawn = s;
    }
    return drawn;
}

/* A stream that follows a point after a failure has failed with it. */
static void inherit_failure(yki_stream *stream, const operation *o)
{
    uint64_t number = stream->done + 1;
    if (o->after && has_failed(&o->after->failure, o->after_count) &&
        !has_failed(&stream->failure, number))
        fail(stream, number, o->after->failure.status, o->after->failure.line);
}

/* Runs the head of a stream; called and returns with the lock held. */
static void run_head(yki_sim *sim, yki_stream *stream)
{
    operation *o = stream->head;
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
    release(o);
    pthread_cond_broadcast(&sim->progress);
}

/* Runs one operation that is wanted, or waits for a thread that does; with the lock held. */
static yk_status step(yki_sim *sim)
{
    bool busy;
    yki_stream *ready = draw_ready(sim, &busy);
    if (ready)
        run_head(sim, ready);
    else if (busy)
        pthread_cond_wait(&sim->progress, &sim->lock);
    else
        return yki_error(YK_ERROR_INTERNAL, "device sim: no operation can run");
    return YK_OK;
}

/* What a wait for the operation reports. What has been entered by now is not done any more if it
 * comes after a failure; what is entered from now on is. */
static yk_status report(yki_stream *stream, uint64_t number)
{
    failure *f = &stream->failure;
    if (!has_failed(f, number))
        return YK_OK;
    if (f->last == UINT64_MAX)
        f->last = stream->entered;
    return yki_error_set_line(f->status, f->line);
}

static yk_status check_outside(void)
{
    return inside_operation
               ? yki_error(YK_ERROR_INTERNAL, "device sim: an operation waits for the device")
               : YK_OK;
}

static yk_status reach(yki_sim *sim, yki_stream *stream, uint64_t number)
{
    YK_TRY(check_outside());
    want(sim, stream, number);
    while (stream->done < number)
        YK_TRY(step(sim));
    return report(stream, number);
}

/* ---- streams --------------------------------------------------------------------------------- */

static yki_stream *find_destroyed(yki_sim *sim)
{
    yki_stream *s = sim->streams;
    while (s && !s->destroyed)
        s = s->next;
    return s;
}

static yk_status create_stream(yki_device *device, yki_stream **stream)
{
    yki_sim *sim = (yki_sim *)device;
    pthread_mutex_lock(&sim->lock);
    yki_stream *made = find_destroyed(sim);
    if (made) {
        made->destroyed = false;
    } else {
        made = yki_calloc(1, sizeof *made);
        if (made) {
            made->sim = sim;
            made->next = sim->streams;
            sim->streams = made;
        }
    }
    pthread_mutex_unlock(&sim->lock);
    *stream = made;
    return made ? YK_OK : yki_error_memory(sizeof *made, "a stream of the sim device");
}

static void destroy_stream(yki_stream *stream)
{
    yki_sim *sim = stream->sim;
    pthread_mutex_lock(&sim->lock);
    (void)reach(sim, stream, stream->entered);
    stream->failure.status = YK_OK;
    stream->destroyed = true;
    pthread_mutex_unlock(&sim->lock);
}

void yki_sim_streams_close(yki_sim *sim)
{
    while (sim->streams) {
        yki_stream *s = sim->streams;
        sim->streams = s->next;
        while (s->head) {
            operation *o = s->head;
            s->head = o->next;
            release(o);
        }
        free(s);
    }
}

/* ---- events ---------------------------------------------------------------------------------- */

static yk_status create_event(yki_device *device, yki_event **event)
{
    *event = yki_calloc(1, sizeof **event);
    if (!*event)
        return yki_error_memory(sizeof **event, "an event of the sim device");
    (*event)->sim = (yki_sim *)device;
    return YK_OK;
}

static void destroy_event(yki_event *event)
{
    free(event);
}

static yk_status mark(yki_event *event, yki_stream *stream)
{
    if (!stream)
        return yki_error(YK_ERROR_INTERNAL, "device sim: an event is marked in no stream");
    pthread_mutex_lock(&event->sim->lock);
    event->stream = stream;
    event->number = stream->entered;
    pthread_mutex_unlock(&event->sim->lock);
    return YK_OK;
}

static yk_status follow(yki_event *event, yki_stream *stream)
{
    if (!stream)
        return yki_error(YK_ERROR_INTERNAL, "device sim: no stream follows an event");
    if (!event->stream || event->stream == stream)
        return YK_OK;
    operation *made = new_operation(NULL, NULL);
    if (!made)
        return yki_error_memory(sizeof *made, "an operation of the sim device");
    made->after = event->stream;
    made->after_count = event->number;
    pthread_mutex_lock(&event->sim->lock);
    append(stream, made);
    pthread_mutex_unlock(&event->sim->lock);
    return YK_OK;
}

/* Whoever asks often enough gets there: each question runs one operation. */
static yk_status query(yki_event *event, bool *reached)
{
    yki_sim *sim = event->sim;
    yki_stream *stream = event->stream;
    *reached = true;
    if (!stream)
        return YK_OK;
    YK_TRY(check_outside());
    pthread_mutex_lock(&sim->lock);
    want(sim, stream, event->number);
    bool busy;
    yki_stream *ready = stream->done < event->number ? draw_ready(sim, &busy) : NULL;
    if (ready)
        run_head(sim, ready);
    *reached = stream->done >= event->number;
    yk_status status = *reached ? report(stream, event->number) : YK_OK;
    pthread_mutex_unlock(&sim->lock);
    return status;
}

static yk_status wait(yki_event *event)
{
    if (!event->stream)
        return YK_OK;
    pthread_mutex_lock(&event->sim->lock);
    yk_status status = reach(event->sim, event->stream, event->number);
    pthread_mutex_unlock(&event->sim->lock);
    return status;
}

const yki_stream_ops yki_sim_stream_ops = {.create = create_stream,
                                           .destroy = destroy_stream,
                                           .create_event = create_event,
                                           .destroy_event = destroy_event,
                                           .mark = mark,
                                           .follow = follow,
                                           .query = query,
                                           .wait = wait};

/* The simulated device's events; an event is the number of an operation of a stream. Marking
 * a timed event enters an operation that notes the time. */
#include <stdlib.h>

#include "base/clock.h"
#include "base/memory.h"
#include "device/sim/stream.h"

yk_status yki_sim_create_event(yki_device *device, bool timed, yki_event **event)
{
    *event = yki_calloc(1, sizeof **event);
    if (!*event)
        return yki_error_memory(sizeof **event, "an event of the sim device");
    (*event)->sim = (yki_sim *)device;
    (*event)->timed = timed;
    return YK_OK;
}

/* What is entered to keep the time needs the event. */
void yki_sim_destroy_event(yki_event *event)
{
    if (event->timed)
        (void)yki_sim_wait(event);
    free(event);
}

static yk_status run_keep_time(yki_sim *sim, void *work)
{
    (void)sim;
    (*(yki_event **)work)->time = yki_now();
    return YK_OK;
}

static yk_status enter_keep_time(yki_event *event, yki_stream *stream)
{
    static const yki_sim_work kind = {.run = run_keep_time, .bytes = sizeof event};
    if (stream->recording)
        return yki_error(YK_ERROR_INTERNAL, "device sim: a timed event is marked in a recording");
    return yki_sim_enter(event->sim, stream, &kind, &event);
}

yk_status yki_sim_mark(yki_event *event, yki_stream *stream)
{
    if (!stream)
        return yki_error(YK_ERROR_INTERNAL, "device sim: an event is marked in no stream");
    if (event->timed)
        YK_TRY(enter_keep_time(event, stream));
    pthread_mutex_lock(&event->sim->lock);
    event->stream = stream;
    event->recording = 0;
    event->number = stream->entered;
    if (stream->recording)
        yki_sim_mark_recorded(event, stream);
    pthread_mutex_unlock(&event->sim->lock);
    return YK_OK;
}

static yk_status enter_follow(yki_stream *stream, const yki_event *event)
{
    if (event->recording || stream->recording)
        return yki_sim_follow_recorded(event, stream);
    yki_sim_operation *made = yki_sim_new_operation(NULL, NULL);
    if (!made)
        return yki_error_memory(sizeof *made, "an operation of the sim device");
    made->after = event->stream;
    made->after_count = event->number;
    yki_sim_append(stream, made);
    return YK_OK;
}

/* Whether the stream comes after the event anyhow: it is the event's own, and the recording that it
 * is in, if any, is too. */
static bool is_in_order(const yki_event *event, const yki_stream *stream)
{
    return event->stream == stream &&
           (stream->recording ? yki_sim_is_of(event, stream) : event->recording == 0);
}

yk_status yki_sim_follow(yki_event *event, yki_stream *stream)
{
    if (!stream)
        return yki_error(YK_ERROR_INTERNAL, "device sim: no stream follows an event");
    if (!event->stream)
        return YK_OK;
    pthread_mutex_lock(&event->sim->lock);
    yk_status status = is_in_order(event, stream) ? YK_OK : enter_follow(stream, event);
    pthread_mutex_unlock(&event->sim->lock);
    return status;
}

static yk_status check_wait(const yki_event *event)
{
    return event->recording ? yki_error(YK_ERROR_INTERNAL,
                                        "device sim: the host waits for an event that was marked "
                                        "in a recording")
                            : yki_sim_check_outside();
}

/* Each query runs one operation, so that repeated queries reach the event. */
yk_status yki_sim_query(yki_event *event, bool *reached)
{
    yki_sim *sim = event->sim;
    yki_stream *stream = event->stream;
    *reached = true;
    if (!stream)
        return YK_OK;
    YK_TRY(check_wait(event));
    pthread_mutex_lock(&sim->lock);
    yki_sim_want(sim, stream, event->number);
    bool busy;
    if (stream->done < event->number)
        yki_sim_run_one(sim, &busy);
    *reached = stream->done >= event->number;
    yk_status status = *reached ? yki_sim_report(stream, event->number) : YK_OK;
    pthread_mutex_unlock(&sim->lock);
    return status;
}

yk_status yki_sim_wait(yki_event *event)
{
    if (!event->stream)
        return YK_OK;
    YK_TRY(check_wait(event));
    pthread_mutex_lock(&event->sim->lock);
    yk_status status = yki_sim_reach(event->sim, event->stream, event->number);
    pthread_mutex_unlock(&event->sim->lock);
    return status;
}

yk_status yki_sim_wait_for(yki_event *event, double seconds, bool *reached)
{
    *reached = true;
    if (!event->stream)
        return YK_OK;
    YK_TRY(check_wait(event));
    pthread_mutex_lock(&event->sim->lock);
    yk_status status =
        yki_sim_reach_by(event->sim, event->stream, event->number, yki_now() + seconds, reached);
    pthread_mutex_unlock(&event->sim->lock);
    return status;
}

static bool has_time(const yki_event *event)
{
    return event->timed && event->stream && event->stream->done >= event->number;
}

yk_status yki_sim_between(yki_event *first, yki_event *second, double *seconds)
{
    pthread_mutex_lock(&first->sim->lock);
    bool known = has_time(first) && has_time(second);
    if (known)
        *seconds = second->time - first->time;
    pthread_mutex_unlock(&first->sim->lock);
    return known ? YK_OK
                 : yki_error(YK_ERROR_INTERNAL, "device sim: the time between events that are not "
                                                "timed, or have not been reached");
}

/* The simulated device's events; an event is the number of an operation of a stream. */
#include <stdlib.h>

#include "base/clock.h"
#include "base/memory.h"
#include "device/sim/stream.h"

yk_status yki_sim_create_event(yki_device *device, yki_event **event)
{
    *event = yki_calloc(1, sizeof **event);
    if (!*event)
        return yki_error_memory(sizeof **event, "an event of the sim device");
    (*event)->sim = (yki_sim *)device;
    return YK_OK;
}

void yki_sim_destroy_event(yki_event *event)
{
    free(event);
}

yk_status yki_sim_mark(yki_event *event, yki_stream *stream)
{
    if (!stream)
        return yki_error(YK_ERROR_INTERNAL, "device sim: an event is marked in no stream");
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

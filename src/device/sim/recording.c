/*
 * The simulated device's recordings. While a stream is recorded, its operations go to the end of
 * the recording's list instead of the stream's, each with its lane: 0 for the stream that began,
 * more for those that joined. A replay enters copies of them: lane 0 in the stream that it is
 * given, the other lanes in streams of the recording's own, so that what was not ordered when it
 * was recorded comes in any order in each replay, too.
 */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "device/sim/stream.h"

enum { LANES = 16 };

struct yki_recording {
    yki_sim *sim;
    uint64_t number; /* of the recordings of this device, from 1 */
    yki_sim_operation *head, *tail;
    int lanes;
    uint64_t entered[LANES];    /* operations in each lane */
    yki_stream *joined[LANES];  /* while it is recorded */
    yki_stream *streams[LANES]; /* in which replays run lanes; the first is NULL */
};

/* ---- recording ------------------------------------------------------------------------------- */

yk_status yki_sim_record_begin(yki_stream *stream)
{
    yki_recording *made = yki_calloc(1, sizeof *made);
    if (!made)
        return yki_error_memory(sizeof *made, "a recording of the sim device");
    made->sim = stream->sim;
    made->lanes = 1;
    made->joined[0] = stream;
    pthread_mutex_lock(&stream->sim->lock);
    bool already = stream->recording;
    if (!already) {
        made->number = ++stream->sim->recordings;
        stream->recording = made;
        stream->lane = 0;
    }
    pthread_mutex_unlock(&stream->sim->lock);
    if (!already)
        return YK_OK;
    free(made);
    return yki_error(YK_ERROR_INTERNAL, "device sim: this stream is being recorded already");
}

void yki_sim_record(yki_stream *stream, yki_sim_operation *operation)
{
    yki_recording *recording = stream->recording;
    operation->lane = stream->lane;
    if (recording->tail)
        recording->tail->next = operation;
    else
        recording->head = operation;
    recording->tail = operation;
    recording->entered[stream->lane]++;
}

void yki_sim_mark_recorded(yki_event *event, const yki_stream *stream)
{
    event->recording = stream->recording->number;
    event->lane = stream->lane;
    event->number = stream->recording->entered[stream->lane];
}

bool yki_sim_is_of(const yki_event *event, const yki_stream *stream)
{
    return event->recording == stream->recording->number;
}

static yk_status join(yki_stream *stream, yki_recording *recording)
{
    if (recording->lanes == LANES)
        return yki_error(YK_ERROR_INTERNAL, "device sim: more than %d streams in a recording",
                         LANES);
    stream->recording = recording;
    stream->lane = recording->lanes++;
    recording->joined[stream->lane] = stream;
    return YK_OK;
}

yk_status yki_sim_follow_recorded(const yki_event *event, yki_stream *stream)
{
    yki_recording *recording = event->stream->recording;
    if (event->recording == 0)
        return yki_error(YK_ERROR_INTERNAL,
                         "device sim: a stream that is recorded follows an event that was marked "
                         "outside the recording");
    if (!recording || recording->number != event->recording ||
        (stream->recording && stream->recording != recording))
        return yki_error(YK_ERROR_INTERNAL,
                         "device sim: a stream follows an event that was marked in another "
                         "recording");
    yki_sim_operation *made = yki_sim_new_operation(NULL, NULL);
    if (!made)
        return yki_error_memory(sizeof *made, "an operation of the sim device");
    yk_status status = stream->recording ? YK_OK : join(stream, recording);
    if (status != YK_OK) {
        free(made);
        return status;
    }
    made->follows = true;
    made->after_lane = event->lane;
    made->after_count = event->number;
    yki_sim_record(stream, made);
    return YK_OK;
}

/* Whether lane 0 follows the last operation of every other, through others if need be. */
static bool is_joined(const yki_recording *recording)
{
    uint64_t reached[LANES] = {recording->entered[0]};
    for (bool more = true; more;) {
        uint64_t at[LANES] = {0};
        more = false;
        for (const yki_sim_operation *o = recording->head; o; o = o->next)
            if (++at[o->lane] <= reached[o->lane] && o->follows &&
                reached[o->after_lane] < o->after_count) {
                reached[o->after_lane] = o->after_count;
                more = true;
            }
    }
    return memcmp(reached, recording->entered, sizeof reached) == 0;
}

static yk_status create_lanes(yki_recording *recording)
{
    for (int lane = 1; lane < recording->lanes; lane++)
        YK_TRY(yki_sim_create_stream(&recording->sim->base, &recording->streams[lane]));
    return YK_OK;
}

yk_status yki_sim_record_end(yki_stream *stream, yki_recording **recording)
{
    yki_recording *made = stream->recording;
    *recording = NULL;
    if (!made || stream->lane != 0)
        return yki_error(YK_ERROR_INTERNAL, "device sim: no recording began in this stream");
    pthread_mutex_lock(&made->sim->lock);
    for (int lane = 0; lane < made->lanes; lane++)
        made->joined[lane]->recording = NULL;
    pthread_mutex_unlock(&made->sim->lock);
    yk_status status =
        is_joined(made)
            ? create_lanes(made)
            : yki_error(YK_ERROR_INTERNAL, "device sim: a stream that joined the recording is not "
                                           "followed by the one that began it");
    if (status != YK_OK)
        yki_sim_destroy_recording(made);
    else
        *recording = made;
    return status;
}

void yki_sim_destroy_recording(yki_recording *recording)
{
    for (int lane = 1; lane < recording->lanes; lane++)
        if (recording->streams[lane])
            yki_sim_destroy_stream(recording->streams[lane]);
    while (recording->head) {
        yki_sim_operation *o = recording->head;
        recording->head = o->next;
        yki_sim_release(o);
    }
    free(recording);
}

/* ---- replaying ------------------------------------------------------------------------------- */

static yk_status enter_copies(const yki_recording *recording, yki_stream *const *streams)
{
    uint64_t base[LANES];
    for (int lane = 0; lane < recording->lanes; lane++)
        base[lane] = streams[lane]->entered;
    for (const yki_sim_operation *o = recording->head; o; o = o->next) {
        yki_sim_operation *copy = yki_sim_new_operation(o->kind, o->work);
        if (!copy)
            return yki_error_memory(sizeof *copy, "an operation of the sim device");
        if (o->follows) {
            copy->after = streams[o->after_lane];
            copy->after_count = base[o->after_lane] + o->after_count;
        }
        yki_sim_append(streams[o->lane], copy);
    }
    return YK_OK;
}

yki_sim_operation *yki_sim_recorded(yki_recording *recording)
{
    return recording->head;
}

yk_status yki_sim_replay(yki_recording *recording, yki_stream *stream)
{
    yki_stream *streams[LANES];
    memcpy(streams, recording->streams, sizeof streams);
    streams[0] = stream;
    if (stream->recording)
        return yki_error(YK_ERROR_INTERNAL, "device sim: a replay cannot be recorded");
    pthread_mutex_lock(&recording->sim->lock);
    yk_status status = enter_copies(recording, streams);
    pthread_mutex_unlock(&recording->sim->lock);
    return status;
}

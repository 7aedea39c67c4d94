/* See tape.h. */
#include "device/tape.h"

#include <stdlib.h>

#include "base/memory.h"
#include "base/trace.h"
#include "device/device.h"

/* A recording or, if host is set, a call. */
struct yki_tape_item {
    yki_recording *recording;
    yki_tape_host host;
    void *context;
    int64_t subject;
};

static yk_status append(yki_tape *tape, yki_tape_item item)
{
    if (!yki_grow(&tape->items, tape->count, &tape->room, sizeof item))
        return yki_error_memory(2 * tape->room * sizeof item, "a recording");
    tape->items[tape->count++] = item;
    return YK_OK;
}

/* Does what is on the tape from item `first` on. */
static yk_status play(const yki_tape *tape, size_t first)
{
    yki_device *device = tape->device;
    for (size_t i = first; i < tape->count; i++) {
        const yki_tape_item *item = &tape->items[i];
        YK_TRY(item->host ? item->host(item->context, item->subject)
                          : yki_replay(device, item->recording, yki_device_stream(device)));
    }
    return YK_OK;
}

static yk_status begin_part(yki_tape *tape)
{
    yki_device *device = tape->device;
    YK_TRY(append(tape, (yki_tape_item){.recording = NULL}));
    tape->part = tape->count - 1;
    YK_TRY(yki_record_begin(device, yki_device_stream(device)));
    tape->open = true;
    return YK_OK;
}

static yk_status end_part(yki_tape *tape)
{
    yki_device *device = tape->device;
    tape->open = false;
    return yki_record_end(device, yki_device_stream(device), &tape->items[tape->part].recording);
}

/* What was recorded has yet to be done, and the calls after it. */
static yk_status finish_part(yki_tape *tape)
{
    YK_TRY(end_part(tape));
    return play(tape, tape->part);
}

static yk_status record_parts(yki_tape *tape, yki_tape_work enter, void *context)
{
    YK_TRY(begin_part(tape));
    YK_TRY(enter(context));
    return finish_part(tape);
}

static yk_status record(yki_tape *tape, yki_tape_work enter, void *context)
{
    char line[YKI_ERROR_LINE];
    yk_status status = record_parts(tape, enter, context);
    if (status == YK_OK) {
        tape->state = YKI_TAPE_RECORDED;
        return YK_OK;
    }
    yki_error_copy(line, sizeof line);
    if (tape->open)
        end_part(tape);
    yki_tape_drop(tape);
    yki_error_set_line(status, line);
    return status == YK_ERROR_INTERNAL ? yki_error_context(status, "recording a pass") : status;
}

uint64_t yki_tape_next(const yki_tape *tape, uint64_t moves)
{
    if (tape->state == YKI_TAPE_FRESH || tape->moves != moves || yki_trace_on())
        return 0;
    return tape->state == YKI_TAPE_WALKED ? 1 : tape->number;
}

yk_status yki_tape_run(yki_tape *tape, yki_device *device, uint64_t moves, yki_tape_work enter,
                       void *context)
{
    if (!yki_device_records(device))
        return enter(context);
    if (tape->state != YKI_TAPE_FRESH && tape->moves != moves)
        YK_TRY(yki_tape_drop(tape));
    tape->device = device;
    tape->moves = moves;
    if (tape->state == YKI_TAPE_FRESH || yki_trace_on()) {
        YK_TRY(enter(context));
        if (tape->state == YKI_TAPE_FRESH)
            tape->state = YKI_TAPE_WALKED;
        return YK_OK;
    }
    return tape->state == YKI_TAPE_WALKED ? record(tape, enter, context) : play(tape, 0);
}

yk_status yki_tape_call(yki_tape *tape, yki_tape_host host, void *context, int64_t subject,
                        bool at_once)
{
    if (!tape->open)
        return host(context, subject);
    YK_TRY(append(tape, (yki_tape_item){.host = host, .context = context, .subject = subject}));
    if (!at_once)
        return YK_OK;
    YK_TRY(finish_part(tape));
    return begin_part(tape);
}

yk_status yki_tape_drop(yki_tape *tape)
{
    yki_device *device = tape->device;
    yk_status status = tape->count > 0 ? yki_stream_wait(device, yki_device_stream(device)) : YK_OK;
    for (size_t i = 0; i < tape->count; i++)
        yki_recording_destroy(device, tape->items[i].recording);
    free(tape->items);
    *tape = (yki_tape){.device = device};
    return status;
}

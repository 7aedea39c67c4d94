/* See sweep.h: cutting spans into chunks, and bringing both to the device. */
#include "device/sweep.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "device/device.h"

enum { CHUNK_ELEMENTS = 16384 };

/* Spans, chunks and partial results lie one after the other in the device's memory. */
struct yki_sweep {
    yki_device *device;
    yki_sweep_args args; /* all but what a run adds */
    char *memory;
    size_t bytes;
    yki_span *spans; /* as the host sees them: on a host device those that sweeps read */
    bool moved;      /* they differ from the device's */
    uint64_t moves;
    yki_event *copied;
    yk_status status; /* for the next run to report, with its line */
    char error[YKI_ERROR_LINE];
};

static size_t chunks_of(const yki_span *spans, size_t count)
{
    size_t chunks = 0;
    for (size_t i = 0; i < count; i++)
        chunks += (size_t)((spans[i].count + CHUNK_ELEMENTS - 1) / CHUNK_ELEMENTS);
    return chunks;
}

static void cut_chunks(yki_sweep_chunk *chunks, const yki_span *spans, size_t count)
{
    for (size_t i = 0; i < count; i++)
        for (int64_t begin = 0; begin < spans[i].count; begin += CHUNK_ELEMENTS) {
            int64_t rest = spans[i].count - begin;
            int32_t elements = rest < CHUNK_ELEMENTS ? (int32_t)rest : CHUNK_ELEMENTS;
            *chunks++ = (yki_sweep_chunk){begin, elements, (int32_t)i};
        }
}

static yk_status upload_chunks(const yki_sweep *sweep, size_t bytes)
{
    yki_device *device = sweep->device;
    yki_stream *stream = yki_device_stream(device);
    void *chunks;
    YK_TRY(yki_device_alloc_pinned(device, bytes, &chunks));
    cut_chunks(chunks, sweep->spans, sweep->args.span_count);
    yk_status status = yki_device_copy(device, (void *)(uintptr_t)sweep->args.chunks, chunks, bytes,
                                       YKI_TO_DEVICE, stream);
    yk_status waited = yki_stream_wait(device, stream);
    yki_device_free_pinned(device, chunks, bytes);
    return status != YK_OK ? status : waited;
}

static yk_status build_sweep(yki_sweep *sweep, const yki_span *spans, size_t count)
{
    yki_device *device = sweep->device;
    size_t chunks = chunks_of(spans, count);
    size_t span_bytes = yki_align(count * sizeof *spans, YKI_ALIGNMENT);
    size_t chunk_bytes = yki_align(chunks * sizeof(yki_sweep_chunk), YKI_ALIGNMENT);
    void *memory;
    sweep->bytes = span_bytes + chunk_bytes + chunks * 2 * sizeof(double);
    YK_TRY(yki_device_alloc(device, sweep->bytes, &memory));
    sweep->memory = memory;
    sweep->args = (yki_sweep_args){.spans = memory,
                                   .span_count = count,
                                   .chunks = (void *)(sweep->memory + span_bytes),
                                   .chunk_count = chunks,
                                   .partial = sweep->memory + span_bytes + chunk_bytes};
    if (yki_device_is_host(device)) {
        sweep->spans = memory;
    } else {
        void *pinned;
        YK_TRY(yki_device_alloc_pinned(device, count * sizeof *spans, &pinned));
        sweep->spans = pinned;
        sweep->moved = true;
        YK_TRY(yki_event_create(device, &sweep->copied));
    }
    if (count)
        memcpy(sweep->spans, spans, count * sizeof *spans);
    if (chunks && !yki_device_is_host(device))
        return upload_chunks(sweep, chunk_bytes);
    cut_chunks((yki_sweep_chunk *)(uintptr_t)sweep->args.chunks, spans, count);
    return YK_OK;
}

yk_status yki_sweep_create(yki_sweep **sweep, yki_device *device, const yki_span *spans,
                           size_t count)
{
    *sweep = NULL;
    yki_sweep *made = yki_calloc(1, sizeof *made);
    if (!made)
        return yki_error_memory(sizeof *made, "a sweep");
    made->device = device;
    yk_status status = build_sweep(made, spans, count);
    if (status != YK_OK) {
        yki_sweep_destroy(made);
        return status;
    }
    *sweep = made;
    return YK_OK;
}

void yki_sweep_destroy(yki_sweep *sweep)
{
    if (!sweep)
        return;
    yki_event_destroy(sweep->device, sweep->copied);
    if (!yki_device_is_host(sweep->device))
        yki_device_free_pinned(sweep->device, sweep->spans,
                               sweep->args.span_count * sizeof *sweep->spans);
    yki_device_free(sweep->device, sweep->memory, sweep->bytes);
    free(sweep);
}

/* The device may still be copying the spans. What the wait learns of, such as a mistake that only
 * the device could find, is reported by the next run. */
static void change_spans(yki_sweep *sweep)
{
    sweep->moves++;
    if (!sweep->copied || sweep->moved)
        return;
    sweep->status = yki_event_wait(sweep->device, sweep->copied);
    if (sweep->status != YK_OK)
        yki_error_copy(sweep->error, sizeof sweep->error);
    sweep->moved = true;
}

void yki_sweep_move(yki_sweep *sweep, size_t span, int tensor, void *memory)
{
    if (sweep->spans[span].at[tensor] == memory)
        return;
    change_spans(sweep);
    sweep->spans[span].at[tensor] = memory;
}

void yki_sweep_regroup(yki_sweep *sweep, size_t span, int group)
{
    if (sweep->spans[span].group == group)
        return;
    change_spans(sweep);
    sweep->spans[span].group = group;
}

uint64_t yki_sweep_moves(const yki_sweep *sweep)
{
    return sweep->moves;
}

static yk_status upload_spans(yki_sweep *sweep, yki_stream *stream)
{
    yki_device *device = sweep->device;
    YK_TRY(yki_device_copy(device, sweep->memory, sweep->spans,
                           sweep->args.span_count * sizeof *sweep->spans, YKI_TO_DEVICE, stream));
    sweep->moved = false;
    return yki_event_mark(device, sweep->copied, stream);
}

yk_status yki_sweep_run(yki_sweep *sweep, yki_sweep_op op, const double *coefficients, void *result,
                        yki_stream *stream)
{
    if (sweep->status != YK_OK) {
        yk_status status = sweep->status;
        sweep->status = YK_OK;
        return yki_error_set_line(status, sweep->error);
    }
    if (sweep->moved)
        YK_TRY(upload_spans(sweep, stream));
    yki_sweep_args args = sweep->args;
    args.op = op;
    args.coefficients = coefficients;
    args.result = result;
    args.stream = stream;
    return sweep->device->type->sweep(sweep->device, &args);
}

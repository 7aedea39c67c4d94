/* The GPU's streams and events, and recordings, which are CUDA graphs. */
#include <stdlib.h>

#include "base/memory.h"
#include "gpu/gpu.h"

struct yki_recording {
    yki_cuda_gpu *gpu;
    yki_cu_graph_exec exec;
};

/* ---- streams --------------------------------------------------------------------------------- */

static yk_status create_stream(yki_device *device, yki_stream **stream)
{
    yki_cuda_gpu *gpu = yki_cuda_gpu_of(device);
    YK_TRY(yki_cuda_gpu_enter(gpu));
    yki_stream *made = yki_calloc(1, sizeof *made);
    if (!made)
        return yki_error_memory(sizeof *made, "a stream of the cuda device");
    made->gpu = made->end.gpu = gpu;
    yk_status status = yki_cuda_call(EventCreate, &made->end.handle, YKI_CU_EVENT_DISABLE_TIMING);
    if (status == YK_OK)
        status = yki_cuda_call(StreamCreate, &made->handle, YKI_CU_STREAM_NON_BLOCKING);
    if (status == YK_OK) {
        *stream = made;
        return YK_OK;
    }
    if (made->end.handle)
        (void)yki_cu.EventDestroy(made->end.handle);
    free(made);
    return status;
}

static void destroy_stream(yki_stream *stream)
{
    if (yki_cuda_gpu_enter(stream->gpu) == YK_OK) {
        (void)yki_cu.StreamSynchronize(stream->handle);
        (void)yki_cu.StreamDestroy(stream->handle);
        (void)yki_cu.EventDestroy(stream->end.handle);
    }
    free(stream);
}

static yki_event *end_of_stream(yki_stream *stream)
{
    return &stream->end;
}

static void *native(yki_stream *stream)
{
    return stream->handle;
}

/* ---- events ---------------------------------------------------------------------------------- */

static yk_status create_event(yki_device *device, bool timed, yki_event **event)
{
    yki_cuda_gpu *gpu = yki_cuda_gpu_of(device);
    YK_TRY(yki_cuda_gpu_enter(gpu));
    yki_event *made = yki_calloc(1, sizeof *made);
    if (!made)
        return yki_error_memory(sizeof *made, "an event of the cuda device");
    made->gpu = gpu;
    yk_status status = yki_cuda_call(EventCreate, &made->handle,
                                     timed ? YKI_CU_EVENT_DEFAULT : YKI_CU_EVENT_DISABLE_TIMING);
    if (status == YK_OK)
        *event = made;
    else
        free(made);
    return status;
}

static void destroy_event(yki_event *event)
{
    if (yki_cuda_gpu_enter(event->gpu) == YK_OK)
        (void)yki_cu.EventDestroy(event->handle);
    free(event);
}

static yk_status mark(yki_event *event, yki_stream *stream)
{
    YK_TRY(yki_cuda_gpu_enter(event->gpu));
    return yki_cuda_call(EventRecord, event->handle, stream->handle);
}

static yk_status follow(yki_event *event, yki_stream *stream)
{
    YK_TRY(yki_cuda_gpu_enter(stream->gpu));
    return yki_cuda_call(StreamWaitEvent, stream->handle, event->handle, 0);
}

static yk_status query(yki_event *event, bool *reached)
{
    YK_TRY(yki_cuda_gpu_enter(event->gpu));
    yki_cu_result result = yki_cu.EventQuery(event->handle);
    *reached = result != YKI_CU_NOT_READY;
    if (!*reached)
        return YK_OK;
    YK_TRY(yki_cuda_check(result, "the work before this event (cuEventQuery)"));
    return yki_cuda_gpu_report(event->gpu);
}

static yk_status wait(yki_event *event)
{
    YK_TRY(yki_cuda_gpu_enter(event->gpu));
    YK_TRY(yki_cuda_check(yki_cu.EventSynchronize(event->handle),
                          "the work before this event (cuEventSynchronize)"));
    return yki_cuda_gpu_report(event->gpu);
}

static yk_status between(yki_event *first, yki_event *second, double *seconds)
{
    float milliseconds;
    YK_TRY(yki_cuda_gpu_enter(first->gpu));
    YK_TRY(yki_cuda_call(EventElapsedTime, &milliseconds, first->handle, second->handle));
    *seconds = 1e-3 * (double)milliseconds;
    return YK_OK;
}

/* ---- recordings ------------------------------------------------------------------------------ */

/* Relaxed, because memory.h lets the host allocate, and wait for what is not recorded, meanwhile.
 */
static yk_status record_begin(yki_stream *stream)
{
    YK_TRY(yki_cuda_gpu_enter(stream->gpu));
    return yki_cuda_call(StreamBeginCapture, stream->handle, YKI_CU_CAPTURE_RELAXED);
}

static yk_status record_end(yki_stream *stream, yki_recording **recording)
{
    yki_cu_graph graph = NULL;
    *recording = NULL;
    YK_TRY(yki_cuda_gpu_enter(stream->gpu));
    YK_TRY(yki_cuda_call(StreamEndCapture, stream->handle, &graph));
    yki_cuda_graph_replace_fills(stream->gpu, graph);
    yki_recording *made = yki_calloc(1, sizeof *made);
    yk_status status = made ? yki_cuda_call(GraphInstantiateWithFlags, &made->exec, graph, 0)
                            : yki_error_memory(sizeof *made, "a recording of the cuda device");
    (void)yki_cu.GraphDestroy(graph);
    if (status != YK_OK) {
        free(made);
        return status;
    }
    made->gpu = stream->gpu;
    *recording = made;
    return YK_OK;
}

static yk_status replay(yki_recording *recording, yki_stream *stream)
{
    YK_TRY(yki_cuda_gpu_enter(stream->gpu));
    return yki_cuda_call(GraphLaunch, recording->exec, stream->handle);
}

static void destroy_recording(yki_recording *recording)
{
    if (yki_cuda_gpu_enter(recording->gpu) == YK_OK)
        (void)yki_cu.GraphExecDestroy(recording->exec);
    free(recording);
}

const yki_stream_ops yki_cuda_stream_ops = {.create = create_stream,
                                            .destroy = destroy_stream,
                                            .end = end_of_stream,
                                            .create_event = create_event,
                                            .destroy_event = destroy_event,
                                            .mark = mark,
                                            .follow = follow,
                                            .query = query,
                                            .wait = wait,
                                            .between = between,
                                            .record_begin = record_begin,
                                            .record_end = record_end,
                                            .replay = replay,
                                            .destroy_recording = destroy_recording,
                                            .native = native};

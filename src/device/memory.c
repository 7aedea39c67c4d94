/* See memory.h: host memory, and the calls that are the same on every device. */
#define _GNU_SOURCE
#include "device/memory.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/memory.h"
#include "device/device.h"

#define LOOK_S     0.02 /* between two looks of the watchers */
#define PATIENT_S  5e-5 /* how long a wait asks without a pause */
#define LONGEST_NS 200000L

/* ---- host devices ---------------------------------------------------------------------------- */

static yk_status host_alloc(yki_device *device, size_t bytes, void **memory)
{
    (void)device;
    *memory = yki_map(bytes);
    return *memory ? YK_OK : yki_error_memory(bytes, "tensors");
}

static void host_free(yki_device *device, void *memory, size_t bytes)
{
    (void)device;
    yki_unmap(memory, bytes);
}

static yk_status host_copy(yki_device *device, void *to, const void *from, size_t bytes,
                           yki_direction direction, yki_stream *stream)
{
    (void)device, (void)direction, (void)stream;
    memcpy(to, from, bytes);
    return YK_OK;
}

static yk_status host_fill(yki_device *device, void *to, int byte, size_t bytes, yki_stream *stream)
{
    (void)device, (void)stream;
    memset(to, byte, bytes);
    return YK_OK;
}

static void host_unuse(yki_device *device, void *memory, size_t bytes)
{
    (void)device;
    yki_unuse(memory, bytes);
}

const yki_memory_ops yki_host_memory = {.alloc = host_alloc,
                                        .free = host_free,
                                        .alloc_pinned = host_alloc,
                                        .free_pinned = host_free,
                                        .copy = host_copy,
                                        .fill = host_fill,
                                        .unuse = host_unuse};

/* ---- memory ---------------------------------------------------------------------------------- */

bool yki_device_is_host(const yki_device *device)
{
    return !device->type->streams;
}

yk_status yki_device_alloc(yki_device *device, size_t bytes, void **memory)
{
    *memory = NULL;
    return bytes ? device->type->memory->alloc(device, bytes, memory) : YK_OK;
}

void yki_device_free(yki_device *device, void *memory, size_t bytes)
{
    if (memory)
        device->type->memory->free(device, memory, bytes);
}

size_t yki_device_available(yki_device *device)
{
    const yki_memory_ops *memory = device->type->memory;
    size_t bytes = 0;
    return memory->available && memory->available(device, &bytes) == YK_OK ? bytes : 0;
}

yk_status yki_device_alloc_pinned(yki_device *device, size_t bytes, void **memory)
{
    *memory = NULL;
    return bytes ? device->type->memory->alloc_pinned(device, bytes, memory) : YK_OK;
}

void yki_device_free_pinned(yki_device *device, void *memory, size_t bytes)
{
    if (memory)
        device->type->memory->free_pinned(device, memory, bytes);
}

yk_status yki_device_copy(yki_device *device, void *to, const void *from, size_t bytes,
                          yki_direction direction, yki_stream *stream)
{
    return bytes ? device->type->memory->copy(device, to, from, bytes, direction, stream) : YK_OK;
}

yk_status yki_device_fill(yki_device *device, void *to, int byte, size_t bytes, yki_stream *stream)
{
    return bytes ? device->type->memory->fill(device, to, byte, bytes, stream) : YK_OK;
}

void yki_device_unuse(yki_device *device, void *memory, size_t bytes)
{
    if (device->type->memory->unuse)
        device->type->memory->unuse(device, memory, bytes);
}

/* ---- streams and events ---------------------------------------------------------------------- */

yki_stream *yki_device_stream(const yki_device *device)
{
    return device->stream;
}

yk_status yki_stream_create(yki_device *device, yki_stream **stream)
{
    *stream = NULL;
    return yki_device_is_host(device) ? YK_OK : device->type->streams->create(device, stream);
}

void yki_stream_destroy(yki_device *device, yki_stream *stream)
{
    if (stream)
        device->type->streams->destroy(stream);
}

yk_status yki_stream_wait(yki_device *device, yki_stream *stream)
{
    if (yki_device_is_host(device))
        return YK_OK;
    yki_event *end = device->type->streams->end(stream);
    YK_TRY(yki_event_mark(device, end, stream));
    return yki_event_wait(device, end);
}

static yk_status create_event(yki_device *device, bool timed, yki_event **event)
{
    const yki_stream_ops *streams = device->type->streams;
    *event = NULL;
    return streams ? streams->create_event(device, timed, event) : YK_OK;
}

yk_status yki_event_create(yki_device *device, yki_event **event)
{
    return create_event(device, false, event);
}

yk_status yki_event_create_timed(yki_device *device, yki_event **event)
{
    return create_event(device, true, event);
}

void yki_event_destroy(yki_device *device, yki_event *event)
{
    if (event)
        device->type->streams->destroy_event(event);
}

yk_status yki_event_mark(yki_device *device, yki_event *event, yki_stream *stream)
{
    return event ? device->type->streams->mark(event, stream) : YK_OK;
}

yk_status yki_event_follow(yki_device *device, yki_event *event, yki_stream *stream)
{
    return event ? device->type->streams->follow(event, stream) : YK_OK;
}

yk_status yki_event_query(yki_device *device, yki_event *event, bool *reached)
{
    *reached = true;
    return event ? device->type->streams->query(event, reached) : YK_OK;
}

yk_status yki_event_between(yki_device *device, yki_event *first, yki_event *second,
                            double *seconds)
{
    *seconds = 0;
    return first ? device->type->streams->between(first, second, seconds) : YK_OK;
}

void *yki_stream_native(yki_device *device, yki_stream *stream)
{
    void *(*native)(yki_stream *) = device->type->streams->native;
    return native ? native(stream) : stream;
}

/* ---- waiting --------------------------------------------------------------------------------- */

void yki_device_add_watcher(yki_device *device, yki_watcher *watcher)
{
    watcher->next = device->watchers;
    device->watchers = watcher;
}

void yki_device_remove_watcher(yki_device *device, yki_watcher *watcher)
{
    yki_watcher **at = &device->watchers;
    while (*at && *at != watcher)
        at = &(*at)->next;
    if (*at)
        *at = watcher->next;
}

static yk_status ask_watchers(const yki_device *device)
{
    for (yki_watcher *watcher = device->watchers; watcher; watcher = watcher->next)
        YK_TRY(watcher->look(watcher->context));
    return YK_OK;
}

/* Asks for the event in ever longer intervals. */
static yk_status poll_event(yki_device *device, yki_event *event, double seconds, bool *reached)
{
    double begin = yki_now();
    for (long pause = 1000;;) {
        YK_TRY(yki_event_query(device, event, reached));
        double waited = yki_now() - begin;
        if (*reached || waited >= seconds)
            return YK_OK;
        if (waited < PATIENT_S)
            continue;
        nanosleep(&(struct timespec){.tv_nsec = pause}, NULL);
        pause = pause < LONGEST_NS ? 2 * pause : LONGEST_NS;
    }
}

/*
 * The device reports a mistake only once, to whoever asks first, and that may be a watcher. The
 * event is still waited for then, because the caller may free memory that the device uses until it.
 * If the watcher reports a failure again, the device has failed for good, and the wait ends.
 */
static yk_status wait_watched(yki_device *device, yki_event *event)
{
    const yki_stream_ops *streams = device->type->streams;
    yk_status reported = YK_OK;
    char line[YKI_ERROR_LINE] = "";
    for (bool reached;;) {
        if (streams->wait_for)
            YK_TRY(streams->wait_for(event, LOOK_S, &reached));
        else
            YK_TRY(poll_event(device, event, LOOK_S, &reached));
        if (reached)
            return reported == YK_OK ? YK_OK : yki_error_set_line(reported, line);
        yk_status status = ask_watchers(device);
        if (status == YK_OK)
            continue;
        yki_error_copy(line, sizeof line);
        reported = status;
        YK_TRY(ask_watchers(device));
    }
}

yk_status yki_event_wait(yki_device *device, yki_event *event)
{
    if (!event)
        return YK_OK;
    return device->watchers ? wait_watched(device, event) : device->type->streams->wait(event);
}

/* ---- recordings ------------------------------------------------------------------------------ */

bool yki_device_records(const yki_device *device)
{
    return device->type->streams && device->type->streams->record_begin && !device->walks;
}

yk_status yki_record_begin(yki_device *device, yki_stream *stream)
{
    return device->type->streams->record_begin(stream);
}

yk_status yki_record_end(yki_device *device, yki_stream *stream, yki_recording **recording)
{
    return device->type->streams->record_end(stream, recording);
}

yk_status yki_replay(yki_device *device, yki_recording *recording, yki_stream *stream)
{
    return device->type->streams->replay(recording, stream);
}

void yki_recording_destroy(yki_device *device, yki_recording *recording)
{
    if (recording)
        device->type->streams->destroy_recording(recording);
}

/* ---- what the host sees of a tensor ---------------------------------------------------------- */

static bool is_on_host(const yk_tensor *tensor)
{
    return !tensor->device || yki_device_is_host(tensor->device);
}

/* The first bytes of a tensor that is in one device's memory. */
static yk_status copy_bytes(const yk_tensor *tensor, size_t bytes, void *host,
                            yki_direction direction)
{
    yki_device *device = tensor->device;
    bool reading = direction == YKI_TO_HOST;
    YK_TRY(yki_device_copy(device, reading ? host : tensor->data, reading ? tensor->data : host,
                           bytes, direction, yki_device_stream(device)));
    return yki_stream_wait(device, yki_device_stream(device));
}

static yk_status copy_tensor(const yk_tensor *tensor, void *host, yki_direction direction)
{
    size_t left = yk_tensor_bytes(tensor);
    if (!tensor->parts)
        return copy_bytes(tensor, left, host, direction);
    for (int i = 0; i < tensor->parts->count; i++) {
        const yk_tensor *part = &tensor->parts->tensors[i];
        size_t all = yk_tensor_bytes(part), bytes = all < left ? all : left;
        YK_TRY(copy_bytes(part, bytes, host, direction));
        host = (char *)host + bytes;
        left -= bytes;
    }
    return YK_OK;
}

/* Views may have no data, such as the gradient of a buffer; those of no elements need none. */
static yk_status expect_data(const yk_tensor *tensor, const char *who)
{
    if (tensor->data || tensor->parts || yk_tensor_bytes(tensor) == 0)
        return YK_OK;
    return yki_error(YK_ERROR_INVALID_ARGUMENT, "%s: the tensor has no data: NULL", who);
}

yk_status yk_tensor_read(const yk_tensor *tensor, void *host)
{
    YKI_NOT_NULL(tensor);
    YKI_NOT_NULL(host);
    YK_TRY(expect_data(tensor, "yk_tensor_read"));
    if (!is_on_host(tensor))
        return copy_tensor(tensor, host, YKI_TO_HOST);
    if (tensor->data)
        memcpy(host, tensor->data, yk_tensor_bytes(tensor));
    return YK_OK;
}

yk_status yk_tensor_write(const yk_tensor *tensor, const void *host)
{
    YKI_NOT_NULL(tensor);
    YKI_NOT_NULL(host);
    YK_TRY(expect_data(tensor, "yk_tensor_write"));
    if (!is_on_host(tensor))
        return copy_tensor(tensor, (void *)(uintptr_t)host, YKI_TO_DEVICE);
    if (tensor->data)
        memcpy(tensor->data, host, yk_tensor_bytes(tensor));
    return YK_OK;
}

yk_status yki_host_view_open(yki_host_view *view, const yk_tensor *tensor, yki_access access)
{
    *view = (yki_host_view){.data = tensor->data, .tensor = *tensor, .access = access};
    size_t bytes = yk_tensor_bytes(tensor);
    if (is_on_host(tensor) || bytes == 0)
        return YK_OK;
    YK_TRY(yki_device_alloc_pinned(tensor->device, bytes, &view->data));
    yk_status status = access & YKI_READ ? copy_tensor(tensor, view->data, YKI_TO_HOST) : YK_OK;
    if (status != YK_OK)
        yki_device_free_pinned(tensor->device, view->data, bytes);
    return status;
}

yk_status yki_host_view_close(yki_host_view *view)
{
    const yk_tensor *tensor = &view->tensor;
    if (view->data == tensor->data)
        return YK_OK;
    yk_status status =
        view->access & YKI_WRITE ? copy_tensor(tensor, view->data, YKI_TO_DEVICE) : YK_OK;
    yki_device_free_pinned(tensor->device, view->data, yk_tensor_bytes(tensor));
    view->data = tensor->data;
    return status;
}

yk_status yki_host_view_end(yki_host_view *view, yk_status status)
{
    char line[YKI_ERROR_LINE];
    if (status == YK_OK)
        return yki_host_view_close(view);
    yki_error_copy(line, sizeof line);
    view->access = YKI_READ; /* what there is of the new values stays here */
    yki_host_view_close(view);
    return yki_error_set_line(status, line);
}

/* See readback.h. */
#include "model/readback.h"

#include <stdlib.h>

#include "base/memory.h"

struct yki_readback {
    yki_device *device;
    yki_stream *stream;
    yki_event *forwarded, *copied;
    struct window {
        void *pinned;
        size_t bytes;
    } * windows;
    size_t window_count, window_capacity;
    yk_status failure;
    char line[YKI_ERROR_LINE];
};

yk_status yki_readback_create(yki_readback **readback, yki_device *device)
{
    *readback = NULL;
    yki_readback *made = yki_calloc(1, sizeof *made);
    if (!made)
        return yki_error_memory(sizeof *made, "the model");
    made->device = device;
    yk_status status = yki_stream_create(device, &made->stream);
    if (status == YK_OK)
        status = yki_event_create(device, &made->forwarded);
    if (status == YK_OK)
        status = yki_event_create(device, &made->copied);
    if (status != YK_OK) {
        yki_readback_destroy(made);
        return status;
    }
    *readback = made;
    return YK_OK;
}

void yki_readback_destroy(yki_readback *readback)
{
    if (!readback)
        return;
    yki_device *device = readback->device;
    for (size_t i = 0; i < readback->window_count; i++)
        yki_device_free_pinned(device, readback->windows[i].pinned, readback->windows[i].bytes);
    free(readback->windows);
    yki_event_destroy(device, readback->copied);
    yki_event_destroy(device, readback->forwarded);
    yki_stream_destroy(device, readback->stream);
    free(readback);
}

yk_status yki_readback_mark(yki_readback *readback)
{
    yki_device *device = readback->device;
    return yki_event_mark(device, readback->forwarded, yki_device_stream(device));
}

static yk_status reserve_window(yki_readback *readback, size_t window, size_t bytes)
{
    yki_device *device = readback->device;
    while (readback->window_count <= window) {
        if (!yki_grow(&readback->windows, readback->window_count, &readback->window_capacity,
                      sizeof *readback->windows))
            return yki_error_memory(sizeof *readback->windows, "the model's outputs");
        readback->windows[readback->window_count++] = (struct window){0};
    }
    void **pinned = &readback->windows[window].pinned;
    size_t *room = &readback->windows[window].bytes;
    if (bytes <= *room)
        return YK_OK;
    yki_device_free_pinned(device, *pinned, *room);
    *room = 0;
    YK_TRY(yki_device_alloc_pinned(device, bytes, pinned));
    *room = bytes;
    return YK_OK;
}

yk_status yki_readback_show(yki_readback *readback, size_t window, const void *from, size_t bytes,
                            const void **shown)
{
    yki_device *device = readback->device;
    *shown = from;
    if (yki_device_is_host(device))
        return YK_OK;
    YK_TRY(reserve_window(readback, window, bytes));
    void *to = readback->windows[window].pinned;
    *shown = to;
    YK_TRY(yki_event_follow(device, readback->forwarded, readback->stream));
    YK_TRY(yki_device_copy(device, to, from, bytes, YKI_TO_HOST, readback->stream));
    YK_TRY(yki_event_mark(device, readback->copied, readback->stream));
    return yki_event_wait(device, readback->copied);
}

void yki_readback_keep_failure(yki_readback *readback, yk_status status)
{
    readback->failure = status;
    yki_error_copy(readback->line, sizeof readback->line);
}

yk_status yki_readback_take_failure(yki_readback *readback)
{
    yk_status status = readback->failure;
    readback->failure = YK_OK;
    return status == YK_OK ? YK_OK : yki_error_set_line(status, readback->line);
}

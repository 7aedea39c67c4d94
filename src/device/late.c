/* See late.h. */
#include "device/late.h"

yk_status yki_late_create(yki_late *late, yki_device *device, size_t bytes)
{
    *late = (yki_late){.device = device, .bytes = bytes};
    yk_status status = yki_device_alloc_pinned(device, bytes, &late->values);
    if (status == YK_OK)
        status = yki_event_create(device, &late->taken);
    if (status != YK_OK)
        yki_late_destroy(late);
    return status;
}

void yki_late_destroy(yki_late *late)
{
    if (!late->device)
        return;
    yki_event_destroy(late->device, late->taken);
    yki_device_free_pinned(late->device, late->values, late->bytes);
    *late = (yki_late){0};
}

yk_status yki_late_take(yki_late *late, const void *from, yki_stream *stream)
{
    return yki_late_take_part(late, from, late->bytes, stream);
}

yk_status yki_late_take_part(yki_late *late, const void *from, size_t bytes, yki_stream *stream)
{
    YK_TRY(yki_device_copy(late->device, late->values, from, bytes, YKI_TO_HOST, stream));
    return yki_event_mark(late->device, late->taken, stream);
}

yk_status yki_late_read(yki_late *late, const void **values)
{
    *values = late->values;
    return yki_event_wait(late->device, late->taken);
}

/* See fan.h. */
#include "device/fan.h"

static yk_status create_streams(yki_fan *fan)
{
    yki_device *device = fan->device;
    fan->streams[0] = yki_device_stream(device);
    YK_TRY(yki_event_create(device, &fan->opened));
    for (int i = 1; i < fan->count; i++) {
        YK_TRY(yki_stream_create(device, &fan->streams[i]));
        YK_TRY(yki_event_create(device, &fan->done[i]));
    }
    return YK_OK;
}

yk_status yki_fan_create(yki_fan *fan, yki_device *device, int streams)
{
    *fan = (yki_fan){.device = device, .count = streams};
    yk_status status = create_streams(fan);
    if (status != YK_OK)
        yki_fan_destroy(fan);
    return status;
}

void yki_fan_destroy(yki_fan *fan)
{
    yki_device *device = fan->device;
    if (!device)
        return;
    yki_event_destroy(device, fan->opened);
    for (int i = 1; i < fan->count; i++) {
        yki_event_destroy(device, fan->done[i]);
        yki_stream_destroy(device, fan->streams[i]);
    }
    *fan = (yki_fan){0};
}

yk_status yki_fan_open(yki_fan *fan)
{
    fan->next = 0;
    YK_TRY(yki_event_mark(fan->device, fan->opened, fan->streams[0]));
    for (int i = 1; i < fan->count; i++)
        YK_TRY(yki_event_follow(fan->device, fan->opened, fan->streams[i]));
    return YK_OK;
}

yki_stream *yki_fan_stream(yki_fan *fan)
{
    return fan->streams[fan->next++ % fan->count];
}

static yk_status join(yki_fan *fan, int i)
{
    YK_TRY(yki_event_mark(fan->device, fan->done[i], fan->streams[i]));
    return yki_event_follow(fan->device, fan->done[i], fan->streams[0]);
}

yk_status yki_fan_close(yki_fan *fan, yk_status status)
{
    char line[YKI_ERROR_LINE];
    if (status != YK_OK)
        yki_error_copy(line, sizeof line);
    for (int i = 1; i < fan->count; i++) {
        yk_status joined = join(fan, i);
        if (status != YK_OK || joined == YK_OK)
            continue;
        status = joined;
        yki_error_copy(line, sizeof line);
    }
    return status == YK_OK ? YK_OK : yki_error_set_line(status, line);
}

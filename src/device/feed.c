/* See feed.h. */
#include "device/feed.h"

yk_status yki_feed_create(yki_feed *feed, yki_device *device, size_t bytes)
{
    *feed = (yki_feed){.device = device, .bytes = bytes};
    yk_status status = yki_device_alloc(device, bytes, &feed->memory);
    for (int i = 0; i < YKI_STAGES && status == YK_OK; i++)
        status = yki_device_alloc_pinned(device, bytes, &feed->pinned[i]);
    if (status == YK_OK)
        status = yki_stages_create(&feed->stages, device, bytes);
    if (status != YK_OK)
        yki_feed_destroy(feed);
    return status;
}

void yki_feed_destroy(yki_feed *feed)
{
    yki_device *device = feed->device;
    if (!device)
        return;
    yki_stages_destroy(&feed->stages);
    for (int i = 0; i < YKI_STAGES; i++)
        yki_device_free_pinned(device, feed->pinned[i], feed->bytes);
    yki_device_free(device, feed->memory, feed->bytes);
    *feed = (yki_feed){0};
}

yk_status yki_feed_open(yki_feed *feed, void **room)
{
    *room = feed->pinned[feed->stages.next];
    return yki_stages_wait_next(&feed->stages);
}

yk_status yki_feed_send(yki_feed *feed, size_t bytes, yki_stream *copies)
{
    yki_device *device = feed->device;
    const void *pinned = feed->pinned[feed->stages.next];
    void *staged;
    YK_TRY(yki_stages_send(&feed->stages, pinned, bytes, copies, &staged));
    YK_TRY(yki_device_copy(device, feed->memory, staged, bytes, YKI_WITHIN_DEVICE,
                           yki_device_stream(device)));
    return yki_stages_taken(&feed->stages);
}

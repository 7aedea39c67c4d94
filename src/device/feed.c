/* See feed.h. */
#include "device/feed.h"

static yk_status create_slot(yki_feed *feed, yki_feed_slot *slot)
{
    yki_device *device = feed->device;
    YK_TRY(yki_device_alloc_pinned(device, feed->bytes, &slot->pinned));
    YK_TRY(yki_device_alloc(device, feed->bytes, &slot->staged));
    YK_TRY(yki_event_create(device, &slot->arrived));
    return yki_event_create(device, &slot->taken);
}

yk_status yki_feed_create(yki_feed *feed, yki_device *device, size_t bytes)
{
    *feed = (yki_feed){.device = device, .bytes = bytes};
    yk_status status = yki_device_alloc(device, bytes, &feed->memory);
    for (int i = 0; i < YKI_FEED_SLOTS && status == YK_OK; i++)
        status = create_slot(feed, &feed->slots[i]);
    if (status != YK_OK)
        yki_feed_destroy(feed);
    return status;
}

void yki_feed_destroy(yki_feed *feed)
{
    yki_device *device = feed->device;
    if (!device)
        return;
    for (int i = 0; i < YKI_FEED_SLOTS; i++) {
        yki_feed_slot *slot = &feed->slots[i];
        yki_event_destroy(device, slot->arrived);
        yki_event_destroy(device, slot->taken);
        yki_device_free(device, slot->staged, feed->bytes);
        yki_device_free_pinned(device, slot->pinned, feed->bytes);
    }
    yki_device_free(device, feed->memory, feed->bytes);
    *feed = (yki_feed){0};
}

yk_status yki_feed_open(yki_feed *feed, void **room)
{
    const yki_feed_slot *slot = &feed->slots[feed->next];
    *room = slot->pinned;
    return yki_event_wait(feed->device, slot->arrived);
}

yk_status yki_feed_send(yki_feed *feed, size_t bytes, yki_stream *copies)
{
    yki_device *device = feed->device;
    yki_stream *stream = yki_device_stream(device);
    const yki_feed_slot *slot = &feed->slots[feed->next];
    feed->next = (feed->next + 1) % YKI_FEED_SLOTS;
    YK_TRY(yki_event_follow(device, slot->taken, copies));
    YK_TRY(yki_device_copy(device, slot->staged, slot->pinned, bytes, YKI_TO_DEVICE, copies));
    YK_TRY(yki_event_mark(device, slot->arrived, copies));
    YK_TRY(yki_event_follow(device, slot->arrived, stream));
    YK_TRY(yki_device_copy(device, feed->memory, slot->staged, bytes, YKI_WITHIN_DEVICE, stream));
    return yki_event_mark(device, slot->taken, stream);
}

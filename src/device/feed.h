/*
 * Data of the host that a device reads anew in each step, always at the same address, so that it
 * can be read by recordings. It arrives beside what the device computes, in a stream of copies:
 *
 *     yki_feed_open(&feed, &room);          pinned memory, which the host fills
 *     yki_feed_send(&feed, bytes, copies);  what is entered in the compute stream from now on finds
 *                                           the first bytes at feed.memory
 *
 * The host is a step ahead, so the bytes cross to the device while the step before still reads its
 * own. Then they are copied within the device, which takes little time.
 */
#ifndef YKI_FEED_H
#define YKI_FEED_H

#include "device/memory.h"

enum { YKI_FEED_SLOTS = 2 };

typedef struct yki_feed_slot {
    void *pinned, *staged; /* the host's, and the device's */
    yki_event *arrived;    /* staged has been written: pinned is free */
    yki_event *taken;      /* staged is free */
} yki_feed_slot;

typedef struct yki_feed {
    yki_device *device;
    void *memory;
    size_t bytes;
    yki_feed_slot slots[YKI_FEED_SLOTS];
    int next; /* slot to be opened */
} yki_feed;

yk_status yki_feed_create(yki_feed *feed, yki_device *device, size_t bytes);
/* After all work that has been entered. Accepts one that was never created. */
void yki_feed_destroy(yki_feed *feed);

yk_status yki_feed_open(yki_feed *feed, void **room);
yk_status yki_feed_send(yki_feed *feed, size_t bytes, yki_stream *copies);

#endif

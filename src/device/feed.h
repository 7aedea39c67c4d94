/*
 * Host data that a device reads in every step from the same address, so that recordings can read
 * it. It is transferred in a stream of copies while the device computes:
 *
 *     yki_feed_open(&feed, &room);          pinned memory, which the host fills
 *     yki_feed_send(&feed, bytes, copies);  work entered in the compute stream from now on finds
 *                                           the first bytes at feed.memory
 *
 * The host runs one step ahead, so the next step's bytes are transferred while the device still
 * reads those of the current step. They are then copied within the device, which takes little time.
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

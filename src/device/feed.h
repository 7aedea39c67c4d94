/*
 * Host data that a device reads in every step from the same address, so that recordings can read
 * it. It is transferred while the device computes (stages.h):
 *
 *     yki_feed_open(&feed, &room);          pinned memory, which the host fills
 *     yki_feed_send(&feed, bytes, copies);  work entered in the compute stream from now on finds
 *                                           the first bytes at feed.memory
 *
 * From where they arrive they are copied within the device, which takes little time.
 */
#ifndef YKI_FEED_H
#define YKI_FEED_H

#include "device/stages.h"

typedef struct yki_feed {
    yki_device *device;
    void *memory;
    size_t bytes;
    void *pinned[YKI_STAGES]; /* what is sent from each stage */
    yki_stages stages;
} yki_feed;

yk_status yki_feed_create(yki_feed *feed, yki_device *device, size_t bytes);
/* After all work that has been entered. Accepts one that was never created. */
void yki_feed_destroy(yki_feed *feed);

yk_status yki_feed_open(yki_feed *feed, void **room);
yk_status yki_feed_send(yki_feed *feed, size_t bytes, yki_stream *copies);

#endif

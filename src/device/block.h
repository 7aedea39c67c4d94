/*
 * A few values that the host changes from step to step, in a device's memory, where kernels and
 * sweeps read them: never as arguments, because a recording repeats the arguments that it was made
 * with.
 *
 *     yki_block_open(&block, &values);     room for all the values, which the host then writes
 *     yki_block_send(&block, stream);      what is entered in the stream from now on reads them
 *
 * On a host device the room is the block itself. Elsewhere it is a slot of a ring that the device
 * copies from, so that the host can write the next values while earlier ones are still to be read.
 */
#ifndef YKI_BLOCK_H
#define YKI_BLOCK_H

#include "device/memory.h"

enum { YKI_BLOCK_SLOTS = 4 };

typedef struct yki_block {
    yki_device *device;
    void *memory; /* the device's */
    size_t bytes;
    char *slots;                        /* (YKI_BLOCK_SLOTS, bytes), pinned; NULL on the host */
    yki_event *copied[YKI_BLOCK_SLOTS]; /* when the device no longer needs a slot */
    int slot;                           /* to be opened next */
    int sent;                           /* the one sent last, or -1 */
} yki_block;

yk_status yki_block_create(yki_block *block, yki_device *device, size_t bytes);
/* After all work that reads the block. */
void yki_block_destroy(yki_block *block);

/* The values are undefined and must all be written. */
yk_status yki_block_open(yki_block *block, void **values);
yk_status yki_block_send(yki_block *block, yki_stream *stream);
/* The same, but values that were sent last are not sent again: where the device has not written
 * into the block since. */
yk_status yki_block_send_if_new(yki_block *block, yki_stream *stream);

#endif

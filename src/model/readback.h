/*
 * How the host sees what a forward has computed. On a host device it looks at the place itself. On
 * any other, a stream beside the one that computes copies it once the forward is done, without
 * waiting for the backward that may have been entered after it.
 */
#ifndef YKI_READBACK_H
#define YKI_READBACK_H

#include "device/memory.h"

typedef struct yki_readback yki_readback;

/* Windows are numbers: one for the loss, and from YKI_WINDOW_OUTPUT on those of the outputs. */
enum { YKI_WINDOW_LOSS, YKI_WINDOW_OUTPUT };

yk_status yki_readback_create(yki_readback **readback, yki_device *device);
/* Accepts NULL. */
void yki_readback_destroy(yki_readback *readback);

/* The forward that is looked at from now on ends at this point of the device's stream. */
yk_status yki_readback_mark(yki_readback *readback);
/* Shows bytes of the device's memory to the host, until the window shows something else. Blocks
 * until the forward is done. */
yk_status yki_readback_show(yki_readback *readback, size_t window, const void *from, size_t bytes,
                            const void **shown);
/* Keeps the failure that is this thread's last error for a caller who can report it ... */
void yki_readback_keep_failure(yki_readback *readback, yk_status status);
/* ... and gives it to the first who asks. */
yk_status yki_readback_take_failure(yki_readback *readback);

#endif

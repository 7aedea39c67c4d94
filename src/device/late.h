/*
 * A few values that a device computes and the host reads some time later, without waiting for what
 * is entered in the meantime:
 *
 *     yki_late_take(&late, from, stream);     the values that are at `from` at this point
 *     yki_late_read(&late, &values);          waits for that point, if it has not been reached yet
 */
#ifndef YKI_LATE_H
#define YKI_LATE_H

#include "device/memory.h"

typedef struct yki_late {
    yki_device *device;
    void *values; /* pinned */
    size_t bytes;
    yki_event *taken;
} yki_late;

yk_status yki_late_create(yki_late *late, yki_device *device, size_t bytes);
/* After all work that has been entered. Accepts one that was never created. */
void yki_late_destroy(yki_late *late);

/* The values taken before are gone. */
yk_status yki_late_take(yki_late *late, const void *from, yki_stream *stream);
/* The first bytes only; the others are undefined. */
yk_status yki_late_take_part(yki_late *late, const void *from, size_t bytes, yki_stream *stream);
/* *values: those taken last, until more are taken. */
yk_status yki_late_read(yki_late *late, const void **values);

#endif

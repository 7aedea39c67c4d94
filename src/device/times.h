/*
 * When a stream comes to certain points, which the host learns some time later, without waiting:
 *
 *     yki_times_note(&times, point, stream);    may be recorded, and is done in each replay
 *     yki_times_take(&times, stream);           after the last of them: these are to be known
 *     yki_times_read(&times, &seconds);         those that were taken last among those there are
 *
 * Only the differences between points mean something.
 */
#ifndef YKI_TIMES_H
#define YKI_TIMES_H

#include "device/late.h"

enum { YKI_TIMES = 4, YKI_TIMES_SLOTS = 4 };

typedef struct yki_times {
    yki_device *device;
    int64_t *noted; /* (YKI_TIMES) nanoseconds, the device's */
    yki_late slots[YKI_TIMES_SLOTS];
    int first, pending; /* slots that have been taken and not read */
    double seconds[YKI_TIMES];
} yki_times;

yk_status yki_times_create(yki_times *times, yki_device *device);
/* After all work that has been entered. Accepts those that were never created. */
void yki_times_destroy(yki_times *times);

yk_status yki_times_note(yki_times *times, int point, yki_stream *stream);
/* Takes nothing while the host is so far ahead that all slots are in use. */
yk_status yki_times_take(yki_times *times, yki_stream *stream);
/* *seconds is (YKI_TIMES), or NULL where no more have become known. */
yk_status yki_times_read(yki_times *times, const double **seconds);

#endif

/*
 * Work of a device whose parts do not depend on each other, and which are too small to keep it busy
 * one after the other. Several streams share it:
 *
 *     yki_fan_open(&fan);
 *     enter(..., yki_fan_stream(&fan));    for each part
 *     yki_fan_close(&fan, status);
 *
 * It comes after what was entered in the device's stream before, and before what comes next. On a
 * host device, all of it is done at once.
 */
#ifndef YKI_FAN_H
#define YKI_FAN_H

#include "device/memory.h"

#pragma GCC visibility push(default) /* shared with modules, see device/module.h */

enum { YKI_FAN = 4 };

typedef struct yki_fan {
    yki_device *device;
    int count;
    yki_stream *streams[YKI_FAN]; /* the first is the device's own */
    yki_event *opened, *done[YKI_FAN];
    int next;
} yki_fan;

/* Of at most YKI_FAN streams. */
yk_status yki_fan_create(yki_fan *fan, yki_device *device, int streams);
/* After all work that has been entered. Accepts one that was never created. */
void yki_fan_destroy(yki_fan *fan);

yk_status yki_fan_open(yki_fan *fan);
yki_stream *yki_fan_stream(yki_fan *fan);
/*
 * Joins the streams also where a part could not be entered, with whose status it is called then:
 * the other parts may still run, and what waits for the device's stream waits for them, too.
 * Returns the first failure.
 */
yk_status yki_fan_close(yki_fan *fan, yk_status status);

#pragma GCC visibility pop

#endif

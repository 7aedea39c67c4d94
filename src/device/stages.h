/*
 * Bytes that cross to a device while it computes. They are transferred in a stream of copies to one
 * of two places in the device's memory, in turn, so that the next step's bytes arrive while the
 * device still reads those of the current step:
 *
 *     yki_stages_send(&stages, pinned, bytes, copies, &staged);
 *         work entered in the compute stream from now on finds the bytes at `staged`
 *     yki_stages_taken(&stages);
 *         what has been entered by now is the last that reads them
 *     yki_stages_wait(&stages);
 *         the host may write to `pinned` again
 */
#ifndef YKI_STAGES_H
#define YKI_STAGES_H

#include "device/memory.h"

enum { YKI_STAGES = 2 };

typedef struct yki_stage {
    void *staged;
    yki_event *arrived; /* staged has been written: what it was copied from is free */
    yki_event *taken;   /* staged is free */
} yki_stage;

typedef struct yki_stages {
    yki_device *device;
    size_t bytes;
    yki_stage list[YKI_STAGES];
    int next; /* the stage that is sent next */
} yki_stages;

yk_status yki_stages_create(yki_stages *stages, yki_device *device, size_t bytes);
/* After all work that has been entered. Accepts those that were never created. */
void yki_stages_destroy(yki_stages *stages);

yk_status yki_stages_send(yki_stages *stages, const void *pinned, size_t bytes, yki_stream *copies,
                          void **staged);
yk_status yki_stages_taken(yki_stages *stages);
/* For what was sent last ... */
yk_status yki_stages_wait(yki_stages *stages);
/* ... and for what was sent last from the stage that is next. */
yk_status yki_stages_wait_next(yki_stages *stages);

#endif

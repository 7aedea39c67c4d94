/*
 * What <yoke/profile.h> shows: the times of a plan's steps. A host device's are the host's. On any
 * other, timed events are marked in the compute stream before and after each step. The host reads
 * them some time later, so that it stays ahead of the device, and its own time does not count.
 *
 *     yki_profile_enter(&profile);                  before a step is entered
 *     yki_profile_leave(&profile, &step_profile);   after it
 */
#ifndef YKI_PROFILE_H
#define YKI_PROFILE_H

#include "compile/plan.h"

/* The run of a step on a device with streams. */
typedef struct yki_timing {
    yki_event *begin, *end;
    yki_step_profile *of;
} yki_timing;

/* Zeroed before its first begin. */
typedef struct yki_profile {
    bool on;
    yki_device *device;
    double begin;        /* of the step that runs on a host device */
    yki_timing *timings; /* a ring; NULL on a host device */
    size_t first, count; /* those that are not read yet */
} yki_profile;

yk_status yki_profile_begin(yki_profile *profile, yki_device *device);
/* Reads all times; may wait for the device. */
yk_status yki_profile_settle(yki_profile *profile);
/* The same, and measures no more. */
yk_status yki_profile_end(yki_profile *profile);
/* Forgets what is not read yet. */
void yki_profile_destroy(yki_profile *profile);

/* Both do nothing unless the profile is on. */
yk_status yki_profile_enter(yki_profile *profile);
yk_status yki_profile_leave(yki_profile *profile, yki_step_profile *of);

#endif

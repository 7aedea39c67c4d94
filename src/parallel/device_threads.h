/*
 * A thread for each device, bound to its cores; the OpenMP team that it starts inherits the
 * binding. One thread at a time hands out a phase, which the devices' threads run side by side.
 */
#ifndef YKI_DEVICE_THREADS_H
#define YKI_DEVICE_THREADS_H

#include "parallel/device_list.h"

typedef struct yki_device_threads yki_device_threads;
/* One device's part of a phase. */
typedef yk_status (*yki_phase)(void *context, int device);

/* devices and context must outlive the threads. */
yk_status yki_device_threads_create(yki_device_threads **threads, const yki_device_list *devices,
                                    void *context);
void yki_device_threads_destroy(yki_device_threads *threads);

/*
 * Runs the phase on the first `active` devices and waits for all of them; *seconds is how long that
 * took. The first failure in the order of devices counts, with the device's name before its line.
 */
yk_status yki_device_threads_run(yki_device_threads *threads, yki_phase phase, int active,
                                 double *seconds);

#endif

/*
 * Where a device keeps its tensors, and in which order it works on them.
 *
 * A host device (cpu, ref) computes on the calling thread, in memory that the host can use: each
 * call below is done when it returns, and its streams and events are NULL. Any other device has
 * memory that the host must never touch, and works asynchronously: kernels, copies and fills are
 * entered in a stream, which runs them in order, some time later. Streams do not wait for
 * each other unless an event makes them:
 *
 *     yki_event_mark(event, a);     the point that stream a has reached when all that is in it now
 *                                   is done
 *     yki_event_follow(event, b);   what is entered in b from now on waits for that point
 *     yki_event_wait(event);        the host waits for it
 *
 * A timed event also keeps when its point was reached, by the device's clock:
 *
 *     yki_event_between(first, second, &seconds);     once both points have been reached
 *
 * A recording is work that can be entered again at once, with the addresses and arguments that it
 * was recorded with:
 *
 *     yki_record_begin(device, a);              what is entered in a is noted, not done
 *     yki_record_end(device, a, &recording);
 *     yki_replay(device, recording, a);         all of it is entered, each time
 *
 * Between the first two, a stream that follows an event which was marked in a, or in one that has
 * joined, joins the recording; a must follow the end of each before the recording ends. Nothing
 * waits, on the host or in a stream, for what is in a recording, nor is a recorded stream to follow
 * an event from outside. Timed events are not marked in a recording.
 *
 * Work may depend on other processes, which may die. Code that enters such work adds a watcher to
 * the device, and every wait of the host then asks it regularly whether to keep waiting.
 *
 * What is entered must stay valid until it is done: memory, and the host's memory that is copied
 * from or to. Functions that take a device may be called from any thread; one thread at a time uses
 * a stream or an event.
 */
#ifndef YKI_DEVICE_MEMORY_H
#define YKI_DEVICE_MEMORY_H

#include <stdbool.h>

#include <yoke/tensor.h>

#include "base/error.h"

#pragma GCC visibility push(default) /* shared with modules, see device/module.h */

typedef struct yk_device yki_device;
typedef struct yki_stream yki_stream;
typedef struct yki_event yki_event;
typedef struct yki_recording yki_recording;

/* Where scratch memory begins in a block of a device's memory, because some libraries want their
 * workspaces so (cuBLASLt). */
enum { YKI_SCRATCH_ALIGNMENT = 256 };

/* What the addresses of kernels' operands are multiples of on a device with streams, except for
 * those of single numbers. A program's tensor may begin anywhere, and is copied where it does not
 * begin so. */
enum { YKI_OPERAND_ALIGNMENT = 16 };

typedef enum yki_direction { YKI_TO_DEVICE, YKI_TO_HOST, YKI_WITHIN_DEVICE } yki_direction;

/* What a device does with its memory. */
typedef struct yki_memory_ops {
    /* Zeroed, and aligned to 64 bytes or more. YK_ERROR_OUT_OF_MEMORY names the size that was asked
     * for. */
    yk_status (*alloc)(yki_device *device, size_t bytes, void **memory);
    void (*free)(yki_device *device, void *memory, size_t bytes);
    /* Host memory that the device copies from and to while the host continues. */
    yk_status (*alloc_pinned)(yki_device *device, size_t bytes, void **memory);
    void (*free_pinned)(yki_device *device, void *memory, size_t bytes);
    yk_status (*copy)(yki_device *device, void *to, const void *from, size_t bytes,
                      yki_direction direction, yki_stream *stream);
    yk_status (*fill)(yki_device *device, void *to, int byte, size_t bytes, yki_stream *stream);
    /* How many bytes can be allocated now; NULL where a device does not know. */
    yk_status (*available)(yki_device *device, size_t *bytes);
    /* Gives what lies wholly within back to the system until it is written again; its contents are
     * lost. NULL where a device cannot. */
    void (*unuse)(yki_device *device, void *memory, size_t bytes);
} yki_memory_ops;

/* How a device orders its work; a host device has none of it. */
typedef struct yki_stream_ops {
    yk_status (*create)(yki_device *device, yki_stream **stream);
    void (*destroy)(yki_stream *stream); /* after all that is in it is done */
    /* An event of the stream's own, by which the host waits for all that is in it. What follows a
     * wait is often freed, so a wait must not fail because memory is short. */
    yki_event *(*end)(yki_stream *stream);
    yk_status (*create_event)(yki_device *device, bool timed, yki_event **event);
    void (*destroy_event)(yki_event *event);
    yk_status (*mark)(yki_event *event, yki_stream *stream);
    yk_status (*follow)(yki_event *event, yki_stream *stream);
    /* Whether the point has been reached; true for an event that was never marked. Reports the
     * first failure of the work before it. */
    yk_status (*query)(yki_event *event, bool *reached);
    yk_status (*wait)(yki_event *event);
    /* The same, for at most about this many seconds. NULL: callers with other things to check
     * meanwhile poll with query. */
    yk_status (*wait_for)(yki_event *event, double seconds, bool *reached);
    yk_status (*between)(yki_event *first, yki_event *second, double *seconds);
    /* NULL on a device that records nothing. A recording that fails to end is gone. */
    yk_status (*record_begin)(yki_stream *stream);
    yk_status (*record_end)(yki_stream *stream, yki_recording **recording);
    yk_status (*replay)(yki_recording *recording, yki_stream *stream);
    void (*destroy_recording)(yki_recording *recording); /* after its replays are done */
    /* The stream as the device's own libraries know it; NULL: they know it by its address. */
    void *(*native)(yki_stream *stream);
} yki_stream_ops;

/* ---- for the layers above: the same calls on every device ------------------------------------ */

/* Whether the host can use the device's memory, and work is done when a call returns. */
bool yki_device_is_host(const yki_device *device);

/* bytes may be 0, which gives NULL. */
yk_status yki_device_alloc(yki_device *device, size_t bytes, void **memory);
void yki_device_free(yki_device *device, void *memory, size_t bytes);
/* How much can be allocated now; 0 where the device does not know. */
size_t yki_device_available(yki_device *device);
yk_status yki_device_alloc_pinned(yki_device *device, size_t bytes, void **memory);
void yki_device_free_pinned(yki_device *device, void *memory, size_t bytes);
yk_status yki_device_copy(yki_device *device, void *to, const void *from, size_t bytes,
                          yki_direction direction, yki_stream *stream);
yk_status yki_device_fill(yki_device *device, void *to, int byte, size_t bytes, yki_stream *stream);
/* For memory that is not needed for a while: its contents are undefined until it is written. */
void yki_device_unuse(yki_device *device, void *memory, size_t bytes);

/* The stream in which the device's models compute; NULL on a host device. */
yki_stream *yki_device_stream(const yki_device *device);
/* Blocks until all that is in the stream is done. */
yk_status yki_stream_wait(yki_device *device, yki_stream *stream);

yk_status yki_stream_create(yki_device *device, yki_stream **stream);
void yki_stream_destroy(yki_device *device, yki_stream *stream);
yk_status yki_event_create(yki_device *device, yki_event **event);
yk_status yki_event_create_timed(yki_device *device, yki_event **event);
void yki_event_destroy(yki_device *device, yki_event *event);
yk_status yki_event_mark(yki_device *device, yki_event *event, yki_stream *stream);
yk_status yki_event_follow(yki_device *device, yki_event *event, yki_stream *stream);
yk_status yki_event_query(yki_device *device, yki_event *event, bool *reached);
yk_status yki_event_wait(yki_device *device, yki_event *event);
/* 0 on a host device. */
yk_status yki_event_between(yki_device *device, yki_event *first, yki_event *second,
                            double *seconds);

/* What other libraries of the device take as the stream: a CUstream for cuda. */
void *yki_stream_native(yki_device *device, yki_stream *stream);

/*
 * Looks after work that depends on other processes. look is called about every 20 ms by any thread
 * that waits for the device; when its result is not YK_OK, it has seen to it that the work ends,
 * and the wait ends with that result. Watchers are added and removed while no thread waits for the
 * device.
 */
typedef struct yki_watcher {
    struct yki_watcher *next;
    yk_status (*look)(void *context);
    void *context;
} yki_watcher;

void yki_device_add_watcher(yki_device *device, yki_watcher *watcher);
void yki_device_remove_watcher(yki_device *device, yki_watcher *watcher);

/* Whether there are recordings; if not, no other of these is to be called, except for the last. */
bool yki_device_records(const yki_device *device);
yk_status yki_record_begin(yki_device *device, yki_stream *stream);
yk_status yki_record_end(yki_device *device, yki_stream *stream, yki_recording **recording);
yk_status yki_replay(yki_device *device, yki_recording *recording, yki_stream *stream);
void yki_recording_destroy(yki_device *device, yki_recording *recording); /* accepts NULL */

/* Where the rows of a tensor are that several devices share: tensors with the same dimensions but
 * the first, each in the memory of one device. */
struct yk_tensor_parts {
    int count;
    const yk_tensor *tensors;
};

/*
 * A tensor's elements as the host can use them: its own memory on a host device, else a copy, which
 * is made when the view is opened for reading and written back when one opened for writing is
 * closed. Opening waits for all work in the device's compute stream; closing blocks until the copy
 * has been made. A view that has failed to open need not be closed.
 */
typedef enum yki_access { YKI_READ = 1, YKI_WRITE = 2, YKI_READ_WRITE = 3 } yki_access;

typedef struct yki_host_view {
    void *data; /* row-major */
    yk_tensor tensor;
    yki_access access;
} yki_host_view;

yk_status yki_host_view_open(yki_host_view *view, const yk_tensor *tensor, yki_access access);
yk_status yki_host_view_close(yki_host_view *view);
/* Closes a view after what was done with it, and returns the first failure of the two. A copy is
 * only written back if nothing has failed before: it may have no values yet. */
yk_status yki_host_view_end(yki_host_view *view, yk_status status);

#pragma GCC visibility pop

#endif

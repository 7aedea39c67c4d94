/*
 * A plane: the ranks of a group exchange a device's memory, in order with the device's streams,
 * through a backend with YK_BACKEND_DEVICE_MEMORY. The ranks compare every collective on the group
 * before they enter it, in order with the group's own calls. A duplicate of the group notices
 * deaths and timeouts while a thread waits for the device. Then the plane ends what has been
 * entered, and every thread that waits gets the failure (yki_watcher).
 *
 * A group has one plane of a device, whose collectives come one after the other, as in PyTorch, in
 * the order in which they are entered. So do those of all planes of a GPU: see plane_order.h.
 *
 * One thread at a time uses a plane, the one that uses its group.
 */
#ifndef YKI_PLANE_H
#define YKI_PLANE_H

#include <yoke/backend.h>

#include "device/memory.h"

typedef struct yki_plane yki_plane;

/*
 * Collective. Opens the group's plane of this device, or takes another hold on it. *plane is NULL
 * where the device's memory must be staged through the host's: on a host device, where the group
 * was told to use a certain backend for the host's memory, and where no backend can move the
 * device's, which is reported; that is an error if the group was told to use this backend.
 */
yk_status yki_plane_open(yki_plane **plane, yk_group *group, yki_device *device);
/* Gives it up; the last holder closes it, after the device's streams have come to their ends.
 * Accepts NULL. */
void yki_plane_close(yki_plane *plane);

/*
 * Collective. Zeroed memory for what the plane exchanges: the backend's, which it may exchange
 * without copies, where all ranks can have that; otherwise the device's.
 */
yk_status yki_plane_alloc(yki_plane *plane, size_t bytes, void **memory);
/* Once no stream uses it any more. Accepts NULL. */
void yki_plane_free(yki_plane *plane, void *memory, size_t bytes);

/*
 * Enters a collective that begins after `ready`, and marks `landed` after it. Returns once all
 * ranks have come to the same call: YK_ERROR_MISMATCH otherwise, and nothing is entered. Buffers
 * are the device's, as for the collective of yoke/group.h.
 */
yk_status yki_plane_start(yki_plane *plane, const yk_descriptor *what, const void *in, void *out,
                          yki_event *ready, yki_event *landed);
/*
 * The same for several collectives that are always entered together, which may be recorded: before
 * them, the ranks compare `what`, which stands for all of them; whoever makes them sees to it that
 * they are the same on all ranks, and begin in the stream after this point. After the last one, or
 * after the recording was replayed, yki_plane_entered marks their end, to which the stream has come
 * by then.
 */
yk_status yki_plane_agree(yki_plane *plane, const yk_descriptor *what, yki_stream *stream);
yk_status yki_plane_enter(yki_plane *plane, const yk_descriptor *what, const void *in, void *out,
                          yki_event *ready, yki_event *landed);
yk_status yki_plane_entered(yki_plane *plane, yki_stream *stream);
/* One collective, in order with a stream: after what is in it, and before what is entered next. */
yk_status yki_plane_run(yki_plane *plane, const yk_descriptor *what, const void *in, void *out,
                        yki_stream *stream);

#endif

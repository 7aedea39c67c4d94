/*
 * Memory of a model's device that the ranks of a group exchange: gradients, buffers, shards. It is
 * exchanged in one of four ways, in order with the device's compute stream, and callers do not
 * know in which.
 *
 *   - The memory of a host device is the group's own, which peers read where it lies. Each call
 *     below is the collective of the same name.
 *   - Where the group has a plane for the device (comm/plane.h), collectives are entered in the
 *     plane's stream, between events. The host waits for none of them.
 *   - One rank alone has nothing to exchange.
 *
 *   - Otherwise the memory is staged: what is exchanged is copied to a block of the group's memory,
 *     exchanged there, and copied back.
 */
#ifndef YKI_STAGING_H
#define YKI_STAGING_H

#include <yoke/group.h>

#include "comm/plane.h"
#include "device/memory.h"

typedef struct yki_staging {
    yk_group *group;
    yki_device *device;
    size_t bytes;
    void *memory;        /* the device's */
    yki_plane *plane;    /* NULL: there is none */
    char *host;          /* what ranks exchange; on a host device the same. With a plane and for one
                            rank alone it is NULL until it is needed */
    yki_stream *copies;  /* of parts, used by the group's thread; NULL on a host device */
    yki_event *returned; /* what was copied back in the compute stream has been read */
} yki_staging;

/* Zeroed. Collective. */
yk_status yki_staging_create(yki_staging *staging, yk_group *group, yki_device *device,
                             size_t bytes);
/* Waits for what is in the compute stream. Accepts one that was never created. */
void yki_staging_destroy(yki_staging *staging);

/* Whether exchanges are no more than work in streams. */
bool yki_staging_is_in_streams(const yki_staging *staging);

/* Before yki_staging_host and yki_staged_run are used. Collective. */
yk_status yki_staging_open_host(yki_staging *staging);
/* Where the ranks exchange what is at `address` in the device's memory. */
void *yki_staging_host(const yki_staging *staging, const void *address);

/* ---- all of it, blocking --------------------------------------------------------------------- */

/* Gives every rank root's bytes. */
yk_status yki_staging_broadcast(yki_staging *staging, int root);
/* Brings every rank the others' shares: the memory is (ranks, bytes / ranks). */
yk_status yki_staging_all_gather(yki_staging *staging);

/* ---- parts of it, while the device computes -------------------------------------------------- */

typedef struct yki_staged_part {
    yki_staging *staging;
    size_t offset, elements;
    yk_dtype dtype;
    yki_stream *stream; /* the device's compute stream; another may take its place before the first
                           exchange of what is in streams */
    yki_event *ready, *landed;
    yk_status (*exchange)(void *context);
    void *context;
} yki_staged_part;

yk_status yki_staged_part_create(yki_staged_part *part, yki_staging *staging, const void *address,
                                 size_t elements, yk_dtype dtype);
void yki_staged_part_destroy(yki_staged_part *part);

/*
 * Sums the part over the ranks, as it is at this point of the compute stream, on the group's thread
 * or in the plane's stream; then *work is NULL. Once the work has been waited for,
 * yki_staged_part_land makes what is entered in the compute stream from then on follow the result.
 */
yk_status yki_staged_all_reduce(yki_staged_part *part, yk_work **work);
/* The same in the plane, without a word to the other ranks: they have agreed before, see
 * yki_plane_agree. May be recorded. */
yk_status yki_staged_all_reduce_agreed(yki_staged_part *part);
/* The same with exchange(context) in place of the sum. It runs on the group's thread and finds the
 * part at yki_staging_host. */
yk_status yki_staged_run(yki_staged_part *part, yk_status (*exchange)(void *context), void *context,
                         yk_work **work);
yk_status yki_staged_part_land(yki_staged_part *part);

#endif

/*
 * Memory of a model's device that the ranks of a group exchange: gradients, buffers, shards.
 *
 * The memory of a host device is the group's own, which peers read where it lies, and each call
 * below is the collective of the same name. Memory of any other device cannot be read by peers:
 * what is exchanged is copied to a block of the group's memory, exchanged there, and copied back,
 * in order with the device's compute stream. Callers do not know which of the two they use, and a
 * group whose backend takes a device's memory would be a third.
 */
#ifndef YKI_STAGING_H
#define YKI_STAGING_H

#include <yoke/group.h>

#include "device/memory.h"

typedef struct yki_staging {
    yk_group *group;
    yki_device *device;
    size_t bytes;
    void *memory;        /* the device's */
    char *host;          /* what ranks exchange; on a host device the same */
    yki_stream *copies;  /* of parts, used by the group's thread; NULL on a host device */
    yki_event *returned; /* what was copied back in the compute stream has been read */
} yki_staging;

/* Zeroed. Collective. */
yk_status yki_staging_create(yki_staging *staging, yk_group *group, yki_device *device,
                             size_t bytes);
/* Waits for what is in the compute stream. Accepts one that was never created. */
void yki_staging_destroy(yki_staging *staging);

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
    yki_event *ready, *landed;
    yk_status (*exchange)(void *context);
    void *context;
} yki_staged_part;

yk_status yki_staged_part_create(yki_staged_part *part, yki_staging *staging, const void *address,
                                 size_t elements, yk_dtype dtype);
void yki_staged_part_destroy(yki_staged_part *part);

/*
 * Sums the part over the ranks, as it is at this point of the compute stream, on the group's
 * thread. Once the work has been waited for, yki_staged_part_land makes what is entered in the
 * compute stream from then on follow the result.
 */
yk_status yki_staged_all_reduce(yki_staged_part *part, yk_work **work);
/* The same with exchange(context) in place of the sum. It runs on the group's thread and finds the
 * part at yki_staging_host. */
yk_status yki_staged_run(yki_staged_part *part, yk_status (*exchange)(void *context), void *context,
                         yk_work **work);
yk_status yki_staged_part_land(yki_staged_part *part);

#endif

/*
 * Collectives between simulated devices of several processes on one machine. They are entered in a
 * stream like any work, begin when the streams of all ranks have come to them, and do not block the
 * host. For the backend of the simulated device, and for stand-ins of libraries that do the same.
 *
 * A simulated device runs an operation only when something waits for it. A thread of the link makes
 * sure that this includes what another rank waits for.
 */
#ifndef YKI_DEVICE_SIM_LINK_H
#define YKI_DEVICE_SIM_LINK_H

#include <yoke/backend.h>

#include "device/memory.h"

#pragma GCC visibility push(default)

enum { YKI_SIM_LINK_NAME = 48 };

typedef struct yki_sim_link yki_sim_link;

/* Combines from[0 .. ranks - 1], in this order, to each of to[0 .. copies - 1]. */
typedef void yki_sim_reduce(void *const *to, int copies, const void *const *from, int ranks,
                            size_t count, yk_dtype dtype, yk_reduce_op op);

/* This rank's end of a link, and the name by which the others attach it. */
yk_status yki_sim_link_create(yki_sim_link **link, int rank, int ranks, yki_sim_reduce *reduce);
void yki_sim_link_name(const yki_sim_link *link, char name[YKI_SIM_LINK_NAME]);
/* For each of the other ranks, before the first collective. */
yk_status yki_sim_link_attach(yki_sim_link *link, int rank, const char *name);
/* Whether collectives are entered that are not done, or are in a recording. */
bool yki_sim_link_is_used(const yki_sim_link *link);
/* Ends what has been entered, too. Accepts NULL. */
void yki_sim_link_destroy(yki_sim_link *link);

/* Any collective with buffers; see yk_backend_ops.enqueue. The streams are those of one device. */
yk_status yki_sim_link_enter(yki_sim_link *link, const yk_backend_call *call, yki_stream *stream);
/* What has been entered fails with this, unless it is over. */
void yki_sim_link_abort(yki_sim_link *link, yk_status status, const char *line);

#pragma GCC visibility pop

#endif

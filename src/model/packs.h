/*
 * Packed copies: a weight in the layout that some kernels want, written once for each change of the
 * parameters. Kernels of one parameter may share a copy. What is no parameter (a buffer, something
 * computed) may change at any time and is packed at every run.
 */
#ifndef YKI_PACKS_H
#define YKI_PACKS_H

#include "compile/plan.h"
#include "device/fan.h"

typedef struct yki_pack {
    yki_place source;
    const yki_kernel *kernel; /* the first that asked for it */
    void *memory;
    uint64_t version; /* of the parameters (variables.h) when it was written */
} yki_pack;

typedef struct yki_packs {
    yki_pack *list;
    size_t count;
    yki_fan fan; /* in which all of them are written at once */
} yki_packs;

/* Finds or makes the copies that a new plan's kernels want. Adds none when it fails. */
yk_status yki_packs_add(yki_packs *packs, yki_device *device, yki_plan *plan);
void yki_packs_destroy(yki_packs *packs, yki_device *device);

size_t yki_packs_bytes(const yki_packs *packs);

/* Whether a copy of a parameter that the plan's kernels want is out of date. If so, all of the
 * plan's are from now on, until they are refreshed ... */
bool yki_packs_expire(yki_packs *packs, const yki_plan *plan, uint64_t version);
/* ... or a replay has brought them up to date. */
void yki_packs_renew(yki_packs *packs, const yki_plan *plan, uint64_t version);

/* Brings the step's copy up to date with *weight, and points *weight at it. */
yk_status yki_packs_refresh(yki_packs *packs, const yki_step *step, uint64_t version,
                            yki_stream *stream, void **weight);

#endif

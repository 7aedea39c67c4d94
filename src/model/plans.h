/*
 * The plans of a model, one for each batch size and mode that has come by, with what they share:
 * packed weights, and one arena, since one plan runs at a time.
 */
#ifndef YKI_PLANS_H
#define YKI_PLANS_H

#include "model/packs.h"

typedef struct yki_plans {
    yki_plan **list;
    size_t count;
    yki_packs packs;
    void *arena; /* in the device's memory */
    size_t arena_bytes;
} yki_plans;

/* The plan for this batch size and mode, made where there is none. */
yk_status yki_plans_find(yki_plans *plans, const yki_plan_source *source, int64_t batch,
                         yki_plan_mode mode, yki_plan **plan);
/* Makes the arena large enough for the plan; waits for the device where it must grow. */
yk_status yki_plans_reserve(yki_plans *plans, yki_device *device, const yki_plan *plan);
/* Once the device has done all that was entered. */
void yki_plans_destroy(yki_plans *plans, yki_device *device);

/* Where the plan's scratch memory lies in the arena. */
void *yki_plans_scratch(const yki_plans *plans, const yki_plan *plan);

#endif

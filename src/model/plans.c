/* See plans.h. */
#include "model/plans.h"

#include <stdlib.h>

#include "base/memory.h"

static size_t scratch_offset(const yki_plan *plan)
{
    return yki_align(plan->arena_bytes, 4096);
}

void *yki_plans_scratch(const yki_plans *plans, const yki_plan *plan)
{
    return (char *)plans->arena + scratch_offset(plan);
}

/* The arena is as large as the largest plan so far needs. */
yk_status yki_plans_reserve(yki_plans *plans, yki_device *device, const yki_plan *plan)
{
    size_t bytes = scratch_offset(plan) + plan->scratch_bytes;
    if (bytes <= plans->arena_bytes)
        return YK_OK;
    YK_TRY(yki_stream_wait(device, yki_device_stream(device)));
    yki_device_free(device, plans->arena, plans->arena_bytes);
    plans->arena_bytes = 0;
    YK_TRY(yki_device_alloc(device, bytes, &plans->arena));
    plans->arena_bytes = bytes;
    return YK_OK;
}

/* A plan enters the list when it is whole: what fails on the way leaves nothing behind. */
static yk_status add_plan(yki_plans *plans, const yki_plan_source *source, int64_t batch,
                          yki_plan_mode mode, yki_plan **plan)
{
    yki_plan **larger = realloc(plans->list, (plans->count + 1) * sizeof *larger), *made;
    if (!larger)
        return yki_error_memory(sizeof *larger, "a plan");
    plans->list = larger;
    YK_TRY(yki_plan_create(&made, source, batch, mode));
    yk_status status = yki_packs_add(&plans->packs, source->device, made);
    if (status != YK_OK) {
        yki_plan_destroy(made);
        return status;
    }
    *plan = plans->list[plans->count++] = made;
    return YK_OK;
}

static bool same_mode(yki_plan_mode a, yki_plan_mode b)
{
    return a.training == b.training && a.backward == b.backward && a.inference == b.inference;
}

yk_status yki_plans_find(yki_plans *plans, const yki_plan_source *source, int64_t batch,
                         yki_plan_mode mode, yki_plan **plan)
{
    for (size_t i = 0; i < plans->count; i++) {
        yki_plan *known = plans->list[i];
        if (known->batch == batch && same_mode(known->mode, mode)) {
            *plan = known;
            return YK_OK;
        }
    }
    return add_plan(plans, source, batch, mode, plan);
}

void yki_plans_destroy(yki_plans *plans, yki_device *device)
{
    yki_packs_destroy(&plans->packs, device); /* they look at the plans' kernels */
    for (size_t i = 0; i < plans->count; i++)
        yki_plan_destroy(plans->list[i]);
    free(plans->list);
    yki_device_free(device, plans->arena, plans->arena_bytes);
}

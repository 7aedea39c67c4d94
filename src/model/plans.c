/* See plans.h. */
#include "model/plans.h"

#include <stdlib.h>

#include "base/memory.h"
#include "compile/arena.h"

void *yki_plans_scratch(const yki_plans *plans, const yki_plan *plan, const yki_step *step)
{
    return step->scratch >= 0 ? (char *)plans->arena + plan->slots[step->scratch].offset : NULL;
}

/* What a plan needs grows with its batch: the error says how much that is, or which batch would do.
 * The allocation that has failed may be a small one. */
static yk_status too_large(yki_device *device, const yki_plan *plan, yk_status status)
{
    char line[YKI_ERROR_LINE];
    if (status != YK_ERROR_OUT_OF_MEMORY)
        return status;
    snprintf(line, sizeof line, "%s", yki_error_text());
    size_t available = yki_device_available(device);
    if (available == 0 || available >= plan->arena_bytes)
        return yki_error(status,
                         "%s; with a batch of %lld samples, a step needs %zu MiB besides "
                         "parameters, gradients and packed weights: try a smaller batch",
                         line, (long long)plan->batch, (plan->arena_bytes >> 20) + 1);
    int64_t fits = (int64_t)((double)plan->batch * (double)available / (double)plan->arena_bytes);
    if (fits < 1)
        return yki_error(status, "%s; not even a batch of 1 sample fits", line);
    return yki_error(status, "%s; a batch of %lld samples would fit, instead of %lld", line,
                     (long long)fits, (long long)plan->batch);
}

static yk_status free_arena(yki_plans *plans, yki_device *device)
{
    YK_TRY(yki_stream_wait(device, yki_device_stream(device)));
    yki_device_free(device, plans->arena, plans->arena_bytes);
    plans->arena = NULL;
    plans->moves++;
    return YK_OK;
}

yk_status yki_plans_release(yki_plans *plans, yki_device *device)
{
    return plans->arena && !yki_device_is_host(device) ? free_arena(plans, device) : YK_OK;
}

/* The arena is as large as the largest plan so far needs. */
yk_status yki_plans_reserve(yki_plans *plans, yki_device *device, const yki_plan *plan)
{
    bool grows = plan->arena_bytes > plans->arena_bytes;
    size_t bytes = grows ? plan->arena_bytes : plans->arena_bytes;
    if (bytes == 0 || (plans->arena && !grows))
        return YK_OK;
    YK_TRY(free_arena(plans, device));
    yk_status status = yki_device_alloc(device, bytes, &plans->arena);
    if (status != YK_OK)
        return too_large(device, plan, status);
    plans->arena_bytes = bytes;
    return YK_OK;
}

static void drop_recordings(yki_program *program)
{
    yki_tape_drop(&program->packing);
    yki_tape_drop(&program->forward);
    for (int i = 0; i < 4; i++)
        yki_tape_drop(&program->backward[i / 2][i % 2]);
}

void yki_plans_drop_recordings(yki_plans *plans)
{
    for (size_t i = 0; i < plans->count; i++)
        drop_recordings(plans->list[i]);
}

static void destroy_program(yki_program *program)
{
    drop_recordings(program);
    yki_plan_destroy(program->plan);
    free(program);
}

static yk_status build_program(yki_program *program, yki_plans *plans,
                               const yki_plan_source *source, int64_t batch, yki_plan_mode mode)
{
    YK_TRY(yki_plan_create(&program->plan, source, batch, mode));
    yk_status status = yki_packs_add(&plans->packs, source->device, program->plan);
    return status == YK_OK ? YK_OK : too_large(source->device, program->plan, status);
}

/* A program is added to the list once it is complete; a failure before that leaves no trace. */
yk_status yki_plans_add(yki_plans *plans, const yki_plan_source *source, int64_t batch,
                        yki_plan_mode mode, yki_program **program)
{
    yki_program **larger = realloc(plans->list, (plans->count + 1) * sizeof *larger);
    if (!larger)
        return yki_error_memory(sizeof *larger, "a plan");
    plans->list = larger;
    yki_program *made = yki_calloc(1, sizeof *made);
    if (!made)
        return yki_error_memory(sizeof *made, "a plan");
    yk_status status = build_program(made, plans, source, batch, mode);
    if (status != YK_OK) {
        destroy_program(made);
        return status;
    }
    *program = plans->list[plans->count++] = made;
    return YK_OK;
}

static bool same_mode(yki_plan_mode a, yki_plan_mode b)
{
    return a.training == b.training && a.backward == b.backward && a.inference == b.inference;
}

yki_program *yki_plans_find(const yki_plans *plans, int64_t batch, yki_plan_mode mode)
{
    for (size_t i = 0; i < plans->count; i++) {
        const yki_plan *known = plans->list[i]->plan;
        if (known->batch == batch && same_mode(known->mode, mode))
            return plans->list[i];
    }
    return NULL;
}

void yki_plans_clear(yki_plans *plans, yki_device *device)
{
    yki_packs_destroy(&plans->packs, device); /* they look at the plans' kernels */
    plans->packs = (yki_packs){NULL};
    for (size_t i = 0; i < plans->count; i++)
        destroy_program(plans->list[i]);
    plans->count = 0;
}

void yki_plans_destroy(yki_plans *plans, yki_device *device)
{
    yki_plans_clear(plans, device);
    free(plans->list);
    yki_device_free(device, plans->arena, plans->arena_bytes);
}

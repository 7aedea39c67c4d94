/* See packs.h. */
#include "model/packs.h"

#include <stdlib.h>

static bool can_share(const yki_pack *pack, const yki_kernel *kernel, const yki_place *source)
{
    return source->kind == YKI_PLACE_PARAMETER && pack->source.kind == YKI_PLACE_PARAMETER &&
           pack->source.index == source->index && yki_kernels_share_pack(kernel, pack->kernel);
}

static yk_status find_pack(yki_packs *packs, yki_device *device, const yki_kernel *kernel,
                           const yki_place *source, int *index)
{
    for (size_t i = 0; i < packs->count; i++) {
        if (can_share(&packs->list[i], kernel, source)) {
            *index = (int)i;
            return YK_OK;
        }
    }
    yki_pack *larger = realloc(packs->list, (packs->count + 1) * sizeof *larger);
    void *memory;
    if (!larger)
        return yki_error_memory(sizeof *larger, "a packed weight");
    packs->list = larger;
    YK_TRY(yki_device_alloc(device, kernel->pack_bytes, &memory));
    *index = (int)packs->count;
    packs->list[packs->count++] = (yki_pack){.source = *source, .kernel = kernel, .memory = memory};
    return YK_OK;
}

static void remove_last(yki_packs *packs, yki_device *device, size_t kept)
{
    while (packs->count > kept) {
        const yki_pack *pack = &packs->list[--packs->count];
        yki_device_free(device, pack->memory, pack->kernel->pack_bytes);
    }
}

yk_status yki_packs_add(yki_packs *packs, yki_device *device, yki_plan *plan)
{
    size_t before = packs->count;
    if (!packs->fan.device)
        YK_TRY(yki_fan_create(&packs->fan, device, YKI_FAN));
    for (size_t i = 0; i < plan->step_count; i++) {
        yki_step *step = &plan->steps[i];
        const yki_kernel *kernel = step->kernel;
        if (!kernel->pack_bytes)
            continue;
        yk_status status =
            find_pack(packs, device, kernel, &step->in[kernel->pack_input], &step->pack);
        if (status != YK_OK) {
            remove_last(packs, device, before);
            return status;
        }
    }
    return YK_OK;
}

void yki_packs_destroy(yki_packs *packs, yki_device *device)
{
    remove_last(packs, device, 0);
    yki_fan_destroy(&packs->fan);
    free(packs->list);
}

size_t yki_packs_bytes(const yki_packs *packs)
{
    size_t bytes = 0;
    for (size_t i = 0; i < packs->count; i++)
        bytes += packs->list[i].kernel->pack_bytes;
    return bytes;
}

/* NULL where the step's kernel wants none. */
static yki_pack *parameter_pack(yki_packs *packs, const yki_step *step)
{
    yki_pack *pack = step->pack >= 0 ? &packs->list[step->pack] : NULL;
    return pack && pack->source.kind == YKI_PLACE_PARAMETER ? pack : NULL;
}

void yki_packs_renew(yki_packs *packs, const yki_plan *plan, uint64_t version)
{
    for (size_t i = 0; i < plan->step_count; i++) {
        yki_pack *pack = parameter_pack(packs, &plan->steps[i]);
        if (pack)
            pack->version = version;
    }
}

bool yki_packs_expire(yki_packs *packs, const yki_plan *plan, uint64_t version)
{
    bool any = false;
    for (size_t i = 0; i < plan->step_count; i++) {
        const yki_pack *pack = parameter_pack(packs, &plan->steps[i]);
        any = any || (pack && pack->version != version);
    }
    if (any)
        yki_packs_renew(packs, plan, 0);
    return any;
}

yk_status yki_packs_refresh(yki_packs *packs, const yki_step *step, uint64_t version,
                            yki_stream *stream, void **weight)
{
    yki_pack *pack = &packs->list[step->pack];
    const void *canonical = *weight;
    *weight = pack->memory;
    if (pack->source.kind == YKI_PLACE_PARAMETER && pack->version == version)
        return YK_OK;
    YK_TRY(step->kernel->impl->pack(step->kernel, canonical, pack->memory, stream));
    pack->version = version;
    return YK_OK;
}

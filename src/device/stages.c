/* See stages.h. */
#include "device/stages.h"

static yk_status create_stage(const yki_stages *stages, yki_stage *stage)
{
    yki_device *device = stages->device;
    YK_TRY(yki_device_alloc(device, stages->bytes, &stage->staged));
    YK_TRY(yki_event_create(device, &stage->arrived));
    return yki_event_create(device, &stage->taken);
}

yk_status yki_stages_create(yki_stages *stages, yki_device *device, size_t bytes)
{
    *stages = (yki_stages){.device = device, .bytes = bytes};
    for (int i = 0; i < YKI_STAGES; i++) {
        yk_status status = create_stage(stages, &stages->list[i]);
        if (status != YK_OK) {
            yki_stages_destroy(stages);
            return status;
        }
    }
    return YK_OK;
}

void yki_stages_destroy(yki_stages *stages)
{
    yki_device *device = stages->device;
    if (!device)
        return;
    for (int i = 0; i < YKI_STAGES; i++) {
        yki_event_destroy(device, stages->list[i].arrived);
        yki_event_destroy(device, stages->list[i].taken);
        yki_device_free(device, stages->list[i].staged, stages->bytes);
    }
    *stages = (yki_stages){0};
}

static const yki_stage *last_of(const yki_stages *stages)
{
    return &stages->list[(stages->next + YKI_STAGES - 1) % YKI_STAGES];
}

yk_status yki_stages_send(yki_stages *stages, const void *pinned, size_t bytes, yki_stream *copies,
                          void **staged)
{
    yki_device *device = stages->device;
    const yki_stage *stage = &stages->list[stages->next];
    stages->next = (stages->next + 1) % YKI_STAGES;
    *staged = stage->staged;
    YK_TRY(yki_event_follow(device, stage->taken, copies));
    YK_TRY(yki_device_copy(device, stage->staged, pinned, bytes, YKI_TO_DEVICE, copies));
    YK_TRY(yki_event_mark(device, stage->arrived, copies));
    return yki_event_follow(device, stage->arrived, yki_device_stream(device));
}

yk_status yki_stages_taken(yki_stages *stages)
{
    return yki_event_mark(stages->device, last_of(stages)->taken,
                          yki_device_stream(stages->device));
}

yk_status yki_stages_wait(yki_stages *stages)
{
    return yki_event_wait(stages->device, last_of(stages)->arrived);
}

yk_status yki_stages_wait_next(yki_stages *stages)
{
    return yki_event_wait(stages->device, stages->list[stages->next].arrived);
}

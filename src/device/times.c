/* See times.h. */
#include "device/times.h"

#include "device/device.h"

yk_status yki_times_create(yki_times *times, yki_device *device)
{
    void *noted = NULL;
    *times = (yki_times){.device = device};
    yk_status status = yki_device_alloc(device, YKI_TIMES * sizeof *times->noted, &noted);
    times->noted = noted;
    for (int i = 0; status == YK_OK && i < YKI_TIMES_SLOTS; i++)
        status = yki_late_create(&times->slots[i], device, YKI_TIMES * sizeof *times->noted);
    if (status != YK_OK)
        yki_times_destroy(times);
    return status;
}

void yki_times_destroy(yki_times *times)
{
    if (!times->device)
        return;
    for (int i = 0; i < YKI_TIMES_SLOTS; i++)
        yki_late_destroy(&times->slots[i]);
    yki_device_free(times->device, times->noted, YKI_TIMES * sizeof *times->noted);
    *times = (yki_times){0};
}

yk_status yki_times_note(yki_times *times, int point, yki_stream *stream)
{
    return times->device->type->note_time(times->device, &times->noted[point], stream);
}

yk_status yki_times_take(yki_times *times, yki_stream *stream)
{
    if (times->pending == YKI_TIMES_SLOTS)
        return YK_OK;
    int slot = (times->first + times->pending) % YKI_TIMES_SLOTS;
    YK_TRY(yki_late_take(&times->slots[slot], times->noted, stream));
    times->pending++;
    return YK_OK;
}

yk_status yki_times_read(yki_times *times, const double **seconds)
{
    *seconds = NULL;
    while (times->pending > 0) {
        const yki_late *slot = &times->slots[times->first];
        const int64_t *noted = slot->values;
        bool reached;
        YK_TRY(yki_event_query(times->device, slot->taken, &reached));
        if (!reached)
            break;
        for (int i = 0; i < YKI_TIMES; i++)
            times->seconds[i] = 1e-9 * (double)(noted[i] - noted[0]);
        *seconds = times->seconds;
        times->first = (times->first + 1) % YKI_TIMES_SLOTS;
        times->pending--;
    }
    return YK_OK;
}
